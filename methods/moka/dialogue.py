"""The dialogue in which a model chooses waypoints that the gripper can follow."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import AskModel
from guidebench.methods.kagi.dialogue import WaypointDialogue


class PathDialogue:
    """KAGI's dialogue, whose answer is also unusable if the gripper cannot reach one of its points."""

    def __init__(self, retries: int, led: Callable[[Any, Any], list[Any]]) -> None:
        """`retries`: further attempts after an invalid reply; `led`: returns the movements of an episode for
        its keypoints and an answer, [] if the answer cannot be followed."""
        self._conversation, self._led = WaypointDialogue(retries), led
        self.calls, self.schemas = self._conversation.calls, self._conversation.schemas

    def with_schemas(self) -> PathDialogue:
        """Return the dialogue whose conversation is one by schema."""
        dialogue = copy.copy(self)
        dialogue._conversation = self._conversation.with_schemas()
        return dialogue

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return the answer of `WaypointDialogue`; `Unusable` if the gripper cannot follow it."""
        answer = await self._conversation(content, frames, ask)
        return answer if answer is None or self._led(content, answer) else Unusable(answer)
