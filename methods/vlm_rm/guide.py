"""A guide whose reward is a model's word on the frame of each state, asked in stretches and given late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guidebench.baselines.experience import Clip
from guidebench.baselines.guiding import BaseGuide
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Context,
    Metrics,
    Response,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.methods.vlm_rm import REWARD


class FrameRewardGuide(BaseGuide):
    """Replaces the task's reward. What the rewards are is the dialogue's: it ends with one number for each frame.

    A transition whose reward is not there, yet or for good since the model failed, counts as the mean of the rewards
    known so far, before the first as 0 (choice).
    """

    columns: tuple[TransitionColumn, ...] = (REWARD.column(),)
    wants_snapshots = True

    def __init__(self, rows: int, stretch: int) -> None:
        self._stretch = stretch
        self._open = [Clip() for _ in range(rows)]
        self._stored = 0  # transitions so far: the numbers by which questions name them
        self._sum, self._known, self._failed = np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Asks about a stretch that is full, or that an episode ends."""
        assert transition.snapshot is not None, "snapshots were wanted"
        ended = transition.terminated | transition.truncated
        for row, clip in enumerate(self._open):
            clip.add(self._stored, transition.snapshot[row], transition.events[row, :0])
            if len(clip.numbers) == self._stretch or ended[row]:
                ctx.ask(clip.close(row)._replace(to="embedder"))
        self._stored += 1

    def answered(self, answers: Sequence[Response], store: Store, ctx: Context) -> None:
        """Keeps the rewards of transitions that are still stored; all of them enter the mean."""
        for answer in answers:
            if answer.value is None:
                self._failed[answer.row] += len(answer.key)
                continue
            self._sum[answer.row] += answer.value.sum(dtype=np.float64)
            self._known[answer.row] += len(answer.value)
            store.apply(REWARD.name, answer.row, answer.key, answer.value)

    def shape(self, batch: Batch) -> Batch:
        given = batch.columns[REWARD.name]
        reward = np.where(np.isnan(given), self._mean[:, None], given).astype(np.float32)
        return batch._replace(reward=reward)

    def metrics(self) -> Metrics:
        """`guide/reward`: the mean of those known so far; `guide/failed`: transitions that will never have one."""
        return {"guide/reward": self._mean, "guide/failed": self._failed.astype(np.float64)}

    @property
    def _mean(self) -> Array:
        """[S]."""
        return self._sum / np.maximum(self._known, 1)

    def state(self, row: int) -> State:
        return {
            "stored": self._stored,
            "open": self._open[row].state(),
            "sum": float(self._sum[row]),
            "known": int(self._known[row]),
            "failed": int(self._failed[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        self._stored = int(state["stored"])
        self._open[row].load_state(state["open"])
        self._sum[row], self._known[row], self._failed[row] = state["sum"], state["known"], state["failed"]
