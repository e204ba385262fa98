"""What the prompt for feedback says and shows, and what it leaves out."""

import json
from typing import Any

import numpy as np

from guidebench.methods.lagea.feedback import prompts, reading
from guidebench.methods.lagea.feedback.taxonomy import CODES, SCHEMA
from tests.methods.lagea.feedback.replies import FRAMES, STEPS

HISTORY = [
    {"outcome": "failure", "code": "drift_from_goal", "fix": "Stop at the goal."},
    {"outcome": "success", "code": "good_contact", "fix": "n/a"},
    {"outcome": "", "code": "", "fix": ""},
]


def content(structured: bool = True, succeeded: bool | None = None, history: Any = HISTORY) -> tuple[Any, ...]:
    return prompts.message("push the puck", FRAMES, STEPS, 50, history, structured, succeeded).content


def words(**more: Any) -> str:
    return "\n".join(part for part in content(**more) if isinstance(part, str))


def test_each_frame_stands_below_its_number_and_its_step() -> None:
    parts = content()
    for index, step in enumerate(STEPS):
        assert parts[1 + 2 * index] == f"Frame {index} (step {step}):"
        assert np.array_equal(parts[2 + 2 * index], FRAMES[index])
    assert len(parts) == 12
    opening = str(parts[0])
    assert "The task: push the puck\n" in opening and "The attempt took 50 steps." in opening
    assert "5 frames of it, numbered 0 to 4" in opening and "step 50 the last state" in opening


def test_it_lists_the_codes_the_schema_two_examples_and_earlier_attempts() -> None:
    text = words()
    assert all(f"- {code}: {meaning}\n" in text for code, meaning in CODES.items())
    assert json.dumps(SCHEMA) in text and "numbers of frames from 0 to 4" in text
    assert all(json.dumps(reply) in text for _, reply in prompts.EXAMPLES)
    earlier = "- failure (drift_from_goal); suggested: Stop at the goal.\n- success (good_contact)"
    assert prompts.earlier_attempts(HISTORY) == earlier and earlier in text
    assert "earlier" not in words(history=[]), "without any, there is no heading"


def test_the_examples_are_a_success_and_a_failure_that_would_be_accepted() -> None:
    read = [reading.structured(json.dumps(reply), 12) for _, reply in prompts.EXAMPLES]
    assert [reply["outcome"] for reply in read] == ["success", "failure"]


def test_free_text_is_asked_for_without_codes_examples_and_schema_and_the_outcome_stated_if_told() -> None:
    assert not any(sentence in words() for sentence in prompts.OUTCOMES.values())
    assert "The attempt succeeded." in words(succeeded=True) and "The attempt failed." in words(succeeded=False)
    text = words(structured=False)
    assert "as plain text" in text and "Frame 4 (step 50):" in text
    assert "JSON" not in text and not any(f"- {code}:" in text for code in CODES)


def test_braces_of_an_instruction_or_a_fix_are_kept() -> None:
    strange = [{"outcome": "failure", "code": "", "fix": "Use {instruction}."}]
    parts = prompts.message("push {steps}", FRAMES, STEPS, 50, strange, True, None).content
    assert "The task: push {steps}\n" in str(parts[0]) and "suggested: Use {instruction}." in str(parts[0])
