"""A guide whose reward is a model's score of each state's frame, requested per stretch of transitions and applied
late."""

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
    """Replaces the task's reward by the dialogue's result, one number per frame.

    A transition whose reward is missing, not yet answered or failed, gets the mean of the rewards known so far, 0
    before the first (choice).
    """

    columns: tuple[TransitionColumn, ...] = (REWARD.column(),)
    wants_snapshots = True

    def __init__(self, rows: int, stretch: int) -> None:
        self._stretch = stretch
        self._open = [Clip() for _ in range(rows)]
        self._stored = 0  # transitions so far; questions refer to transitions by this number
        self._sum, self._known, self._failed = np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Send a question about a stretch that is full or ended by its episode."""
        assert transition.snapshot is not None, "snapshots were wanted"
        ended = transition.terminated | transition.truncated
        for row, clip in enumerate(self._open):
            clip.add(self._stored, transition.snapshot[row], transition.events[row, :0])
            if len(clip.numbers) == self._stretch or ended[row]:
                ctx.ask(clip.close(row)._replace(to="embedder"))
        self._stored += 1

    def answered(self, answers: Sequence[Response], store: Store, ctx: Context) -> None:
        """Store the rewards of transitions that are still in the store; all rewards enter the mean."""
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
        """Return `guide/reward`, the mean of the rewards known so far, and `guide/failed`, the number of transitions
        without a reward because the model failed."""
        return {"guide/reward": self._mean, "guide/failed": self._failed.astype(np.float64)}

    @property
    def _mean(self) -> Array:
        """Mean of the rewards known so far, [S]."""
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
