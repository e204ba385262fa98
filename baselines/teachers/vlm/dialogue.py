"""The calls to a vision-language model about one pair (RL-VLM-F's two stages).

1. Two images: what does each show, and in which has more of the goal been achieved?
2. In a separate conversation, from that text alone: a label, 0, 1 or 2.

Or a choice among first, second and equal, about the two images at once. With `double_check`, all is repeated with the
images swapped (RL-SaLLM-F, equation 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guidebench.baselines.conversing import ECHOED, Conversation, converse
from guidebench.baselines.preference.conversing import concluded, verdict, weigh
from guidebench.baselines.teachers.vlm import prompts
from guidebench.harness.interfaces import Array, Choose, Unusable
from guidebench.harness.models.calls import AskModel, ChatCall, Message

if TYPE_CHECKING:
    from guidebench.baselines.teachers.vlm import Vlm


class ImageDialogue:
    """The dialogue about pairs of images of one task."""

    def __init__(self, settings: Vlm, goal: str) -> None:
        """`goal` is the task's instruction."""
        self._settings, self._goal = settings, goal
        self.choices = 1 + settings.double_check
        self.calls = (2 + settings.retries) * (1 + settings.double_check)

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return the result of `weigh`, `concluded`, for frames uint8 [2, height, width, 3]; None if the first call got
        no answer."""
        assert frames is not None and len(frames) == 2, "a pair has two frames"

        async def prefer(first_index: int, second_index: int) -> Conversation[int]:
            return await self._prefer(ask, frames[first_index], frames[second_index])

        return concluded((await weigh(prefer, self._settings.double_check))[1])

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> dict[str, Any] | Unusable | None:
        """Return the answers about two frames as the dialogue does, each verdict a choice among first, second and
        equal; None if the first choice got no answer."""
        assert frames is not None and len(frames) == 2, "a pair has two frames"

        async def prefer(first_index: int, second_index: int) -> Conversation[int]:
            message, neutral = prompts.choosing(self._goal, frames[first_index], frames[second_index])
            choice = await choose(message, prompts.PREFIX, prompts.VERDICTS, neutral, "label")
            if choice is None:
                return Conversation(None, "failed", (message,), 0)
            return Conversation(choice.number, "", (message,), 0)

        return concluded((await weigh(prefer, self._settings.double_check))[1])

    async def _prefer(self, ask: AskModel, first: Array, second: Array) -> Conversation[int]:
        """Ask which of two images [height, width, 3] is better, shown in this order."""
        settings, captions = self._settings, prompts.CAPTIONS
        messages = (
            Message("user", (captions[0], first, captions[1], second, prompts.comparison(settings, self._goal))),
        )
        compared = await ask(ChatCall(messages, aim="comparison"))
        if compared.failure:
            return Conversation(None, "failed", messages, 0)
        label_messages = (Message("user", (prompts.label(settings, self._goal, str(compared.value)[:ECHOED]),)),)
        return await converse(ask, label_messages, verdict, prompts.reminder, settings.retries, "label")
