"""Replies and questions about an attempt that was shown in five frames."""

import asyncio
import json
from typing import Any

import numpy as np

from guidebench.methods.lagea.feedback.dialogue import ReflectionDialogue
from tests.baselines.teachers.llm.conversations import Ask
from tests.harness.models.dialogues import unwrap_answer

STEPS = [0, 7, 30, 31, 50]
FRAMES = np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3)
REPLY: dict[str, Any] = {
    "task": "push the puck",
    "outcome": "failure",
    "primary_error": {"code": "failed_grasp", "explanation": "The fingers closed\n above the puck."},
    "secondary_factors": ["insufficient_force", "insufficient_force"],
    "key_frame_indices": [3, 1],
    "suggested_fix": "Close the gripper later.",
    "confidence": 0.75,
    "summary": "The puck stayed where it was, since it was not held.",
}


def content(**more: Any) -> dict[str, Any]:
    return {"history": [], "frames": STEPS, "steps": 50, "succeeded": False, **more}


def changed(**fields: Any) -> str:
    return json.dumps(REPLY | fields)


def talk(
    ask: Ask, structured: bool = True, tell: bool = False, retries: int = 3, embedded: str = "all", **more: Any
) -> dict[str, Any] | None:
    """Return what the guide receives, after a round trip through JSON; an empty reflection counts as unanswered."""
    dialogue = ReflectionDialogue(structured, tell, retries, embedded, "push the puck to the goal")
    assert dialogue.calls == 1 + retries
    reflection, answered = unwrap_answer(asyncio.run(dialogue(content(**more), FRAMES, ask)))
    assert answered == (reflection is not None and not reflection["empty"])
    return json.loads(json.dumps(reflection))  # type: ignore[no-any-return]
