"""The conversation in which a model reflects on an episode (LaGEA, §3.1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import ObjectDialogue, converse, unlike
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import AskModel
from guidebench.methods.lagea.feedback import prompts, reading, taxonomy

MOST_FRAMES_SHOWN = 10_000
"""Frames of the longest schema (choice: beyond any prompt)."""


class ReflectionDialogue(ObjectDialogue):
    """A dialogue that shows a model frames of an episode and asks for feedback until a reply is valid, at most 1 +
    `retries` times."""

    def __init__(self, structured: bool, tell_outcome: bool, retries: int, embedded: str, instruction: str) -> None:
        """`structured`: feedback in the schema of the taxonomy, else free text; `tell_outcome`: whether the prompt
        states the true outcome; `retries`: further attempts after an invalid reply; `embedded`: the text to embed
        (`reading.reflection`); `instruction`: the task in words."""
        self._structured, self._tell_outcome, self._retries = structured, tell_outcome, retries
        self._embedded, self._instruction = embedded, instruction
        self.calls = 1 + retries

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        return (taxonomy.schema(MOST_FRAMES_SHOWN),) if self._structured else ()

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return the reflection on an episode (`reading.reflection`); `Unusable` with an empty one if no reply was
        valid; None if no call was answered.

        `content`: {"history": [{"outcome", "code", "fix"}], oldest first, "frames": the environment step of each of
        the `frames` uint8 [N, height, width, 3], increasing, 0 for the state after the reset, "steps": the episode's
        length, "succeeded": bool}.
        """
        steps = content["frames"]
        assert frames is not None and len(frames) == len(steps), "each frame has its step"
        stated_outcome = bool(content["succeeded"]) if self._tell_outcome else None
        message = prompts.message(
            self._instruction, frames, steps, content["steps"], content["history"], self._structured, stated_outcome
        )
        if not self._structured:
            prose = await converse(ask, (message,), reading.free, prompts.free_reminder, self._retries)
            if prose.fault == "failed":
                return None
            reflection = reading.unstructured(prose.value or "", prose.retries)
            return Unusable(reflection) if reflection["empty"] else reflection

        def read(reply: str) -> dict[str, Any]:
            return reading.structured(reply, len(steps), stated_outcome)

        schema = taxonomy.schema(len(steps), stated_outcome) if self.by_schema else None
        conversation = await converse(ask, (message,), read, prompts.reminder, self._retries, schema=schema)
        if conversation.fault == "failed":
            return None
        if conversation.value is None:
            return Unusable(reading.unstructured("", conversation.retries))
        return reading.reflection(conversation.value, steps, self._embedded, conversation.retries)

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it is no reflection, it cites steps
        that this episode does not have, or another outcome than the one that the prompt states."""
        if wrong := unlike(answer, reading.FORM):
            return wrong
        if any(step > content["steps"] for step in answer["frames"]):
            return f"it cites a step of a longer episode, and this one has {content['steps']}"
        stated = "success" if content["succeeded"] else "failure"
        contradicts = self._structured and self._tell_outcome and answer["outcome"] != stated
        return f"its outcome is {answer['outcome']}, and the attempt was a {stated}" if contradicts else ""
