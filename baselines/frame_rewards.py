"""Rewards that a model computes from what was drawn of an episode, applied late: a guide that rewards each frame, and
the account of rewards known so far that such guides share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guidebench.baselines.experience import Clip
from guidebench.baselines.guiding import BaseGuide
from guidebench.harness import lengths
from guidebench.harness.interfaces import (
    Array,
    ArraySpec,
    Batch,
    Context,
    Metrics,
    Question,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.parts import CellView

REWARD = ArraySpec("frame_reward")
"""Answers about a stretch: one number per frame."""


def most_stretches(view: CellView, length: int) -> int:
    """Return the most questions about stretches of so many transitions in a run, its demonstrations included."""
    collected = lengths.stretches(view, length, int(view["training"].steps))
    return lengths.demonstrated_stretches(view, length) + collected


class RewardTally:
    """What each seed knows of its rewards: their mean, and how many never come because the model failed."""

    def __init__(self, rows: int) -> None:
        self._sum, self._count, self._failed = np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64)

    def add(self, question: Question, answer: Answer) -> bool:
        """Count the rewards of an answer, [n], or the n that failed; return whether it has rewards."""
        row = question.row
        if answer.value is None:
            self._failed[row] += len(question.key)
            return False
        self._sum[row] += answer.value.sum(dtype=np.float64)
        self._count[row] += len(answer.value)
        return True

    @property
    def mean(self) -> Array:
        """Mean of the rewards known so far, [S]; 0 before the first."""
        return self._sum / np.maximum(self._count, 1)

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean of the rewards known so far, and `guide/failed`, the number of rewards that
        never come because the model failed."""
        return {"guide/reward": self.mean, "guide/failed": self._failed.astype(np.float64)}

    def state(self, row: int) -> State:
        return {"sum": float(self._sum[row]), "known": int(self._count[row]), "failed": int(self._failed[row])}

    def load_state(self, row: int, state: State) -> None:
        self._sum[row], self._count[row], self._failed[row] = state["sum"], state["known"], state["failed"]


class FrameRewardGuide(BaseGuide):
    """Replaces the task's reward by the dialogue's result, one number per frame of a stretch of transitions.

    A transition whose reward is missing, not yet answered or failed, gets the mean of the rewards known so far, 0
    before the first (choice).
    """

    columns: tuple[TransitionColumn, ...] = (REWARD.column(),)
    wants_snapshots = True

    def __init__(self, rows: int, stretch: int) -> None:
        self._stretch = stretch
        self._open = [Clip() for _ in range(rows)]
        self._stored = 0  # transitions so far; questions refer to transitions by this number
        self._tally = RewardTally(rows)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Send a question about a stretch that is full or ended by its episode."""
        assert transition.snapshot is not None, "snapshots were wanted"
        ended = transition.terminated | transition.truncated
        for row, clip in enumerate(self._open):
            clip.add(self._stored, transition.snapshot[row], transition.events[row, :0])
            self.added(row)
            if len(clip.numbers) == self._stretch or ended[row]:
                ctx.ask(clip.close(row)._replace(to="embedder", content=self.content(row, bool(ended[row]))))
        self._stored += 1

    def added(self, row: int) -> None:
        """Do nothing about another transition in the open stretch of a seed."""

    def content(self, row: int, ended: bool) -> str:
        """Return the content of the question about a seed's stretch, after which the next one begins: JSON, or "".
        `ended`: whether the episode ends with it."""
        return ""

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Store the rewards of transitions that are still in the store; all rewards enter the mean."""
        for question, answer in answers:
            if self._tally.add(question, answer):
                store.apply(REWARD.name, question.row, question.key, answer.value)

    def shape(self, batch: Batch) -> Batch:
        rewards = batch.columns[REWARD.name]
        reward = np.where(np.isnan(rewards), self._tally.mean[:, None], rewards).astype(np.float32)
        return batch._replace(reward=reward)

    def metrics(self) -> Metrics:
        """Return the metrics of `RewardTally`."""
        return self._tally.metrics()

    def state(self, row: int) -> State:
        return {"stored": self._stored, "open": self._open[row].state(), **self._tally.state(row)}

    def load_state(self, row: int, state: State) -> None:
        self._stored = int(state["stored"])
        self._open[row].load_state(state["open"])
        self._tally.load_state(row, state)
