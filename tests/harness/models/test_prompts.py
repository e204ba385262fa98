"""A judging prompt ends with the form of its answer; the request for one contains all that its writer must know."""

import pytest

from guidebench.harness import registry
from guidebench.harness.models import prompts
from guidebench.harness.settings import Cited


@pytest.mark.parametrize("suite", ["minigrid_doorkey", "ogbench_scene"])
@pytest.mark.parametrize("judge", ["transformers", "openai"])
def test_the_suites_own_prompts_have_the_form_and_name_their_source(suite: str, judge: str) -> None:
    prompt = registry.get("suite", suite).defaults[f"judge.{judge}.prompt"]
    assert isinstance(prompt, Cited) and prompt.source.startswith("VLM-RB, app. C")
    assert prompts.misfit(prompt.value) == "" and prompt.value.endswith(prompts.CLOSING)


@pytest.mark.parametrize(
    "end",
    [
        prompts.CLOSING,
        "Write exactly Answer: Yes or Answer: No.",
        "write exactly “Answer: Yes” or “Answer: No”",
        "exactly:\nAnswer: Yes\nor\nAnswer: No\n",
    ],
)
def test_a_prompt_that_asks_for_the_form_fits(end: str) -> None:
    assert prompts.misfit(f"Is it seen? Do not guess. {end}") == ""


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (" \n", "empty"),
        ("Is it seen?", "does not end"),
        (f"{prompts.CLOSING} Then explain yourself.", "does not end"),
        ("Reply with exactly Answer: No or Answer: Yes.", "does not end"),
        ("Reply with exactly answer: yes or answer: no.", "does not end"),
        ("x" * prompts.LONGEST + prompts.CLOSING, "4,049 characters"),
        (f"\x1b[2J{prompts.CLOSING}", "cannot be printed"),
    ],
)
def test_a_prompt_without_the_form_is_told_why(prompt: str, reason: str) -> None:
    assert reason in prompts.misfit(prompt)


def test_a_request_holds_title_tasks_examples_and_the_closing_sentence() -> None:
    tasks = {"a": "open the {door}", "b": "open the  {door}\n", "c": "close it"}
    text = prompts.request("Doors", tasks, {"Keys": "Is it {seen}?"})
    assert "The suite: Doors\n" in text and prompts.CLOSING in text
    assert "- a, b: open the {door}\n- c: close it" in text and "For Keys:\n  Is it {seen}?" in text
