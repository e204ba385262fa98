"""A guide whose only reward is paid at an episode's end, for a video of the episode; it is applied late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guidebench.baselines.experience import Clip
from guidebench.baselines.frame_rewards import RewardTally
from guidebench.baselines.guiding import BaseGuide
from guidebench.harness.interfaces import (
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
from guidebench.methods.roboclip import REWARD

LAST = TransitionColumn("video_last", "fixed", dtype="bool")
"""Whether the transition is its episode's last one."""


class VideoRewardGuide(BaseGuide):
    """Replaces the task's reward: the last transition of an episode gets the video's reward, the others get 0.

    A last transition whose reward is missing, not yet answered or failed, gets the mean of the rewards of episodes
    known so far, 0 before the first (choice).
    """

    columns: tuple[TransitionColumn, ...] = (REWARD.column(), LAST)
    wants_snapshots = True

    def __init__(self, rows: int, every: int) -> None:
        self._every = every
        self._open = [Clip() for _ in range(rows)]
        self._clock = np.zeros(rows, np.int64)
        """[S], steps of the episode so far."""
        self._tally = RewardTally(rows)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Record the snapshot of every k-th step, from the first one on, and send a question at the episode's end."""
        assert transition.snapshot is not None, "snapshots were wanted"
        ended, number = transition.terminated | transition.truncated, store.written - 1
        for row, clip in enumerate(self._open):
            store.write(LAST.name, row, np.array([slot]), ended[row : row + 1])
            if self._clock[row] % self._every == 0:
                clip.add(number, transition.snapshot[row], transition.events[row, :0])
            if ended[row]:
                question = clip.close(row)
                ctx.ask(question._replace(key=np.array([number], np.int64), events=question.events[:1], to="embedder"))
        self._clock += 1
        self._clock[ended] = 0

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Store the rewards of transitions that are still in the store; all rewards enter the mean."""
        for question, answer in answers:
            if self._tally.add(question, answer):
                store.apply(REWARD.name, question.row, question.key, answer.value)

    def shape(self, batch: Batch) -> Batch:
        episode_rewards = batch.columns[REWARD.name]
        last_rewards = np.where(np.isnan(episode_rewards), self._tally.mean[:, None], episode_rewards)
        return batch._replace(reward=np.where(batch.columns[LAST.name], last_rewards, 0).astype(np.float32))

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean of the episodes' rewards known so far, and `guide/failed`, the number of
        episodes without one because the model failed."""
        return self._tally.metrics()

    def state(self, row: int) -> State:
        return {"open": self._open[row].state(), "clock": int(self._clock[row]), **self._tally.state(row)}

    def load_state(self, row: int, state: State) -> None:
        self._open[row].load_state(state["open"])
        self._clock[row] = state["clock"]
        self._tally.load_state(row, state)
