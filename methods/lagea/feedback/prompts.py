"""The prompts for feedback on an episode, in our words: structured (LaGEA, §3.1.1 and A.7) and in free text (table 3).

A prompt consists of texts and frames: what the task is and what is shown, then for a structured reply the codes, two
examples and earlier attempts, then each frame below its number and step, and at the end what to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.lagea.feedback.taxonomy import ERRORS, NO_FIX, SCHEMA, SUCCESSES

OPENING = """\
You review one attempt of a robot arm at a task, as a camera saw it, so that the next attempts can be better.

The task: {instruction}

The attempt took {steps} steps. You are shown {count} frames of it, numbered 0 to {last}, in the order of time. Above \
each frame stand its number and its step; step 0 is the state before the first action, step {steps} the last state."""
OUTCOMES = {True: "The attempt succeeded.", False: "The attempt failed."}
"""Sentence of the prompt that states the outcome, if it does."""
TAXONOMY = """\
Code of an attempt that failed:
{errors}
Code of an attempt that succeeded:
{successes}"""
EXAMPLES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (
        "press the doorbell",
        {
            "task": "press the doorbell",
            "outcome": "success",
            "primary_error": {
                "code": "good_contact",
                "explanation": "The gripper came to the bell from the front and pushed it all the way in.",
            },
            "secondary_factors": [],
            "key_frame_indices": [6, 9],
            "suggested_fix": NO_FIX,
            "confidence": 0.9,
            "summary": "The bell was pressed because the gripper was in line with it before it pushed.",
        },
    ),
    (
        "lift the cup onto the shelf",
        {
            "task": "lift the cup onto the shelf",
            "outcome": "failure",
            "primary_error": {
                "code": "failed_grasp",
                "explanation": "The fingers closed above the rim, so the cup stayed on the table when the arm rose.",
            },
            "secondary_factors": ["drift_from_goal"],
            "key_frame_indices": [4, 5, 11],
            "suggested_fix": "Lower the open gripper around the cup, and close it before the arm rises.",
            "confidence": 0.8,
            "summary": "The arm went to the shelf with an empty gripper, and the cup was never lifted.",
        },
    ),
)
"""One success and one failure (§3.1.1): task and reply, of tasks that no suite has."""
EARLIER = "Feedback on earlier attempts, the oldest first:\n{attempts}"
REQUEST = """\
Judge by what the frames show. Reply with a single JSON object and no other text, in English, valid under this JSON \
schema:
{schema}
The key_frame_indices are numbers of frames from 0 to {last}, each once."""
FREE_REQUEST = """\
Judge by what the frames show. Write feedback on this attempt in two to four English sentences, as plain text: what \
happened, whether and why it succeeded or failed, and what the next attempt should do differently."""
FRAME = "Frame {index} (step {step}):"
"""Text above a frame."""
REMINDER = (
    "I cannot use this reply: {fault}. Reply again with the whole JSON object, corrected, and no other text; it has to "
    "be valid under the schema above."
)
FREE_REMINDER = "I cannot use this reply: {fault}. Write two to four English sentences of plain text about the attempt."


def message(
    instruction: str,
    frames: Array,
    steps: Sequence[int],
    length: int,
    history: Sequence[Mapping[str, str]],
    structured: bool,
    succeeded: bool | None,
) -> Message:
    """Return the message that asks for feedback. `frames`: uint8 [N, height, width, 3], taken after the environment
    steps `steps` [N]; `length`: steps of the episode; `history`: outcome, code and fix of earlier attempts, the oldest
    first, and its summary where it is free text; `succeeded`: the outcome, if it is to be stated."""
    count = len(frames)
    opening = OPENING.format(instruction=instruction, steps=length, count=count, last=count - 1)
    parts = [opening if succeeded is None else f"{opening} {OUTCOMES[succeeded]}"]
    if structured:
        parts.append(TAXONOMY.format(errors=_listed(ERRORS), successes=_listed(SUCCESSES)))
        parts += [f"Example of a reply, about another task ({task}):\n{json.dumps(reply)}" for task, reply in EXAMPLES]
    if earlier := earlier_attempts(history):
        parts.append(EARLIER.format(attempts=earlier))
    content: list[str | Array] = ["\n\n".join(parts) + "\n\n"]
    for index, (frame, step) in enumerate(zip(frames, steps, strict=True)):
        content += [FRAME.format(index=index, step=step), frame]
    content.append(REQUEST.format(schema=json.dumps(SCHEMA), last=count - 1) if structured else FREE_REQUEST)
    return Message("user", tuple(content))


def earlier_attempts(history: Sequence[Mapping[str, str]]) -> str:
    """Return a line for each earlier attempt that has an outcome, a fix or a summary; "" without any."""
    lines = []
    for attempt in history:
        outcome = attempt["outcome"] + (f" ({attempt['code']})" if attempt["code"] else "")
        fix = "" if attempt["fix"] in ("", NO_FIX) else f"suggested: {attempt['fix']}"
        if line := "; ".join(filter(None, (outcome, fix))) or attempt.get("summary", ""):
            lines.append(f"- {line}")
    return "\n".join(lines)


def reminder(fault: Misread) -> str:
    """Return the reminder that follows an invalid structured reply."""
    return REMINDER.format(fault=fault)


def free_reminder(fault: Misread) -> str:
    """Return the reminder that follows unusable free text."""
    return FREE_REMINDER.format(fault=fault)


def _listed(codes: Mapping[str, str]) -> str:
    return "\n".join(f"- {code}: {meaning}" for code, meaning in codes.items())
