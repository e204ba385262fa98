"""The calls to a language model about one pair of segments (RL-SaLLM-F, §5.2 and 5.3).

1. Which is better? (equation 3) A 0 ends the dialogue: the pair is equal.
2. The same with the order swapped (equation 4); a different preference ends the dialogue: inconsistent.
3. In the first conversation: write a trajectory that improves on the preferred one (equation 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.baselines.conversing import Conversation, Misread, ObjectDialogue, converse
from guidebench.baselines.preference.conversing import concluded, verdict, weigh
from guidebench.baselines.teachers.llm import bounds, prompts, reading, trajectories
from guidebench.harness.interfaces import Array, Choose, Coordinates, Surroundings, Unusable
from guidebench.harness.models.calls import AskModel

if TYPE_CHECKING:
    from guidebench.baselines.teachers.llm import Llm


class PairDialogue(ObjectDialogue):
    """The dialogue about pairs of segments of one task."""

    def __init__(
        self, settings: Llm, things: Sequence[Coordinates], goal: str, around: Surroundings | None = None
    ) -> None:
        """`things` are the coordinates written in prompts, `goal` the task's instruction, `around` its surroundings."""
        self._settings, self._things, self._goal, self._around = settings, things, goal, around
        self.choices = 1 + settings.double_check
        self.calls = (1 + settings.retries) * (1 + settings.double_check + (settings.augment == "llm"))

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """Return the longest schema of an imagined trajectory; a verdict has none, since it follows prose."""
        start = trajectories.beginning(trajectories.named_points(self._things, bounds.longest_segment(self._things, 1)))
        return (reading.schema(self._things, start, bounds.STEPS),)

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Ask the model about a pair of segments, `content` {"segments": [2][H][D]}.

        Return `first` and `second` answer, `outcome` and `retries`; with a preference also `imagined`, the outcome of
        the imagined trajectory, and, if it is usable, its `states` [H][D]. Return `Unusable` if a verdict could not be
        read, or if only the imagined trajectory would be used for training and it is unusable. Return None if the first
        call got no answer.
        """
        pair = np.asarray(content["segments"], np.float32)

        async def prefer(first_index: int, second_index: int) -> Conversation[int]:
            return await self._prefer(ask, pair[first_index], pair[second_index])

        first, answers = await weigh(prefer, self._settings.double_check)
        if answers is None or answers["outcome"] != "labelled" or self._settings.augment != "llm":
            return concluded(answers)
        assert first.value
        preferred = pair[first.value - 1]
        imagined = await self._imagine(ask, first, preferred)
        answers |= {"retries": answers["retries"] + imagined.retries, "imagined": imagined.fault or "kept"}
        if imagined.value is not None:
            answers["states"] = trajectories.states(self._things, preferred, imagined.value).tolist()
        elif not self._settings.keep_sampled:
            return Unusable(answers)
        return answers

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> dict[str, Any] | Unusable | None:
        """Return the answers about a pair as the dialogue does, each verdict a choice among first, second and equal;
        None if the first choice got no answer."""
        pair = np.asarray(question["segments"], np.float32)

        async def prefer(first_index: int, second_index: int) -> Conversation[int]:
            ordered = [pair[first_index], pair[second_index]]
            messages = prompts.choosing(self._things, self._goal, self._around, ordered, self._settings.decimals)
            choice = await choose(messages[0], prompts.PREFIX, prompts.VERDICTS, messages[1], "verdict")
            if choice is None:
                return Conversation(None, "failed", messages[:1], 0)
            return Conversation(choice.number, "", messages[:1], 0)

        return concluded((await weigh(prefer, self._settings.double_check))[1])

    async def _prefer(self, ask: AskModel, first: Array, second: Array) -> Conversation[int]:
        """Ask which of two segments [H, D] is better, shown in this order."""
        message = prompts.pair(self._settings, self._things, self._goal, self._around, first, second)
        return await converse(ask, (message,), verdict, prompts.verdict_reminder, self._settings.retries, "verdict")

    async def _imagine(
        self, ask: AskModel, first: Conversation[int], preferred: Array
    ) -> Conversation[dict[str, Array]]:
        """Ask for a trajectory better than `preferred` [H, D], in the conversation that preferred it."""
        settings, things, length = self._settings, self._things, len(preferred)
        beginning = trajectories.beginning(trajectories.named_points(things, preferred))
        start = {name: np.round(points, settings.decimals) for name, points in beginning.items()}
        assert first.value is not None, "a trajectory was preferred"
        message = prompts.better(settings, things, self._goal, self._around, start, length, first.value)

        def read(answer: str) -> dict[str, Array]:
            return reading.trajectory(answer, things, start, length, settings.tolerance)

        def remind(fault: Misread) -> str:
            return prompts.trajectory_reminder(fault, length)

        schema = reading.schema(things, start, length) if self.by_schema else None
        messages = (*first.messages, message)
        return await converse(ask, messages, read, remind, settings.retries, "trajectory", schema)
