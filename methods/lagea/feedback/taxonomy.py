"""What feedback on an episode may say: codes of errors and successes, and the schema of a reply."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

ERRORS: Mapping[str, str] = {
    "wrong_object": "the arm acted on something other than the object of the task",
    "bad_approach_direction": "the gripper came to the object from the wrong side, or never reached it",
    "failed_grasp": "the gripper touched the object but did not hold it: it closed too early or too late, or slipped",
    "insufficient_force": "the right object was reached, but the motion was too weak or of the wrong kind",
    "drift_from_goal": "the arm or the object moved away from the goal, and nothing corrected it",
}
"""Code -> meaning, in our words (LaGEA, table 6)."""
SUCCESSES: Mapping[str, str] = {
    "good_grasp": "the gripper held the object firmly and brought it to the goal",
    "good_contact": "the gripper pushed, pulled or pressed the object to the goal without holding it",
    "reached_goal": "the gripper itself arrived where the task wants it",
}
"""Code -> meaning (LaGEA, figures 10 and 11: good_grasp; the others: choice, for tasks without a grasp)."""
CODES: Mapping[str, str] = {**SUCCESSES, **ERRORS}
NO_FIX = "n/a"
"""Suggested fix of a success (LaGEA, figure 9)."""
MOST_FACTORS, MOST_FRAMES = 5, 8
"""Largest numbers of secondary factors and of cited frames (choice: all errors; as many as the paper's key frames)."""
LONGEST_FIELD = 600
"""Most characters of one textual field (choice: three long sentences)."""


def _text(about: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": LONGEST_FIELD, "description": about}


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "task", "outcome", "primary_error", "secondary_factors", "key_frame_indices", "suggested_fix", "confidence",
        "summary",
    ],
    "properties": {
        "task": _text("the task, repeated"),
        "outcome": {"type": "string", "enum": ["success", "failure"]},
        "primary_error": {
            "type": "object",
            "additionalProperties": False,
            "required": ["code", "explanation"],
            "properties": {
                "code": {"type": "string", "enum": [*CODES]},
                "explanation": _text("one sentence: what in the frames shows it"),
            },
        },
        "secondary_factors": {
            "type": "array", "maxItems": MOST_FACTORS, "items": {"type": "string", "enum": [*ERRORS]},
        },
        "key_frame_indices": {
            "type": "array", "minItems": 1, "maxItems": MOST_FRAMES, "items": {"type": "integer", "minimum": 0},
            "description": "numbers of the frames that decided the outcome",
        },
        "suggested_fix": _text(f"one sentence: what to do differently; {NO_FIX} after a success"),
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "summary": _text("one sentence: what happened and why"),
    },
}  # fmt: skip
"""JSON schema of a reply (LaGEA, figure 9); the code of a success stands in `primary_error`, as in the paper."""


def schema(frame_count: int, stated_outcome: bool | None = None) -> dict[str, Any]:
    """Return `SCHEMA` as a model writes under it: with codes that fit the outcome, frames that it was shown, and a
    confidence in tenths, since a number may have any digits, and a model might go on with them. Where the outcome is
    open, the object of either outcome is the field `feedback` of another one, since servers refuse alternatives at the
    root.

    `frame_count`: frames in the prompt; `stated_outcome`: whether the episode succeeded, if the prompt stated it."""
    variants = []
    for outcome, codes in (("success", SUCCESSES), ("failure", ERRORS)):
        if stated_outcome is None or stated_outcome == (outcome == "success"):
            variant = copy.deepcopy(dict(SCHEMA))
            fields = variant["properties"]
            fields["outcome"]["enum"] = [outcome]
            fields["primary_error"]["properties"]["code"]["enum"] = [*codes]
            fields["confidence"] = {"enum": [tenths / 10 for tenths in range(11)]}
            fields["key_frame_indices"]["items"]["maximum"] = frame_count - 1
            fields["key_frame_indices"]["maxItems"] = min(MOST_FRAMES, frame_count)
            variants.append(variant)
    if len(variants) == 1:
        return variants[0]
    return {
        "type": "object", "additionalProperties": False, "required": ["feedback"],
        "properties": {"feedback": {"anyOf": variants}},
    }  # fmt: skip
