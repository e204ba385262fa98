"""Self-imitation: the store of rewarded episodes, the loss and its rounds of gradient steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from guidebench.baselines.experience import Uneven
from guidebench.baselines.guides.self_imitation import SelfImitation
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.losses import QNetworks
from guidebench.baselines.replay.per import Per
from guidebench.baselines.returns import returns_to_go
from guidebench.harness.interfaces import (
    Array,
    Build,
    Context,
    Learner,
    Loss,
    Metrics,
    State,
    Store,
    Tensors,
    Transition,
    TransitionColumn,
    Update,
)

NAME = "self_imitation"
"""Name of the guide's experience: of its folder in each seed's replay, and of its random stream."""
RETURN = TransitionColumn("return", "fixed")
"""The discounted return from a transition to the end of its episode."""
PIECE = 256
"""Transitions that are copied at a time."""


class SelfImitationGuide(BaseGuide):
    """L = weight·mean of w·½(R − Q(s, a))₊² over transitions of the seed's own rewarded episodes, with importance
    weights w (Oh et al. 2018, eq. 3, with Q in place of V), for S seeds.

    As an episode ends in which a reward was positive, its transitions are copied from the learner's store into one of
    the guide's own, as far as the former still holds them, with R = Σ γ^k r_{t+k} of the task's reward and the
    learner's discount γ. An episode that a time limit ended counts the rewards that it had. So successes outlive the
    learner's replay.

    Every `every` steps, from the learner's `learning_starts` on, `updates` gradient steps follow, by the learner's
    optimiser and networks and on this loss alone. Transitions are drawn in proportion to ((R − Q)₊ + ε)^α, with Q as of
    the last time that they were drawn; a new one has the largest priority so far.
    """

    def __init__(self, config: SelfImitation, build: Build) -> None:
        self.config = config
        learner = build.parts["learner"]
        self._discount, self._starts = float(learner.discount), int(learner.learning_starts)
        # an episode is copied at once, so that more may be written between two checkpoints than steps are taken
        slots = config.capacity + build.slots + build.horizon
        memory_build = dataclasses.replace(build, capacity=config.capacity, slots=slots, events=())
        replay = Per(config.alpha, config.beta, config.beta > 0, config.epsilon, new_priority="maximum")
        self.memory = Uneven(memory_build, replay, (RETURN,), name=NAME)
        self._episode_starts = np.zeros(build.rows, np.int64)
        """[S], number of the first transition of the episode being stored."""
        self._advantage: Array = np.zeros((build.rows, config.batch_size), np.float32)
        """(R − Q)₊ of the last batch, [S, B]."""
        self._metrics: dict[str, Array] = {}

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Copy each episode that ends with this transition and had a positive reward into the guide's own store;
        episodes of demonstrations and datasets too."""
        ended = transition.terminated | transition.truncated
        for row in np.flatnonzero(ended).tolist():
            self._keep(row, store, ctx)
            self._episode_starts[row] = store.written

    def _keep(self, row: int, store: Store, ctx: Context) -> None:
        """Copy a seed's episode that ended with the newest transition, if it had a positive reward."""
        first = max(int(self._episode_starts[row]), store.written - store.live.count)
        slots = store.slot(np.arange(first, store.written))
        breaks = np.flatnonzero(store.read("ended", row, slots[:-1]))  # a dataset was stored in between
        slots = slots[breaks[-1] + 1 if len(breaks) else 0 :]
        rewards = store.read("reward", row, slots)
        if not (rewards > 0).any():
            return
        returns, memory = returns_to_go(rewards, self._discount), self.memory.by_seed[row]
        for start in range(0, len(slots), PIECE):
            chosen = slots[start : start + PIECE]
            batch = store.gather(np.broadcast_to(chosen, (len(self._episode_starts), len(chosen))))
            assert batch.success is not None
            for place in range(len(chosen)):
                index = np.s_[row : row + 1, place]
                terminated = batch.terminated[index]
                last = start + place == len(slots) - 1
                step = Transition(
                    batch.observation[index], batch.action[index], batch.reward[index], terminated, ~terminated & last,
                    batch.next_observation[index], np.zeros((1, 0), bool), None, batch.success[index],
                )  # fmt: skip
                slot = memory.add(step, ctx)
                memory.store.write(RETURN.name, 0, np.array([slot]), returns[start + place])

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> int:
        """Take a round of gradient steps, if one is due."""
        if ctx.step >= self._starts and ctx.step % self.config.every == 0 and ctx.phase.updates != 0:
            for _ in range(self.config.updates):
                self._imitate(learner, ctx)
        return 0

    def _imitate(self, learner: Learner, ctx: Context) -> None:
        """Take one gradient step of the seeds that have kept enough."""
        sample = self.memory.sample(self.config.batch_size, ctx, least=self.config.starts)
        if not sample.ready.any():
            return
        update_metrics = learner.update_added(
            sample.batch, sample.ready, (Loss("the guide SelfImitation", ("q",), self.imitation),)
        )
        self.memory.feedback(sample, Update(self._advantage, {}))
        metrics = {
            "guide/loss": update_metrics["q_added"],
            "guide/advantage": self._advantage.mean(1),
            "guide/raised": (self._advantage > 0).mean(1),
        }
        self._metrics = {name: np.where(sample.ready, values, np.nan) for name, values in metrics.items()}

    def imitation(self, batch: Tensors, networks: QNetworks) -> Mapping[str, Tensor]:
        """Return weight·mean of w·½(R − Q(s, a))₊² for group `q`, [s], and note (R − Q)₊ as the new priorities."""
        value = networks.q(batch.observation).gather(2, batch.action.long().unsqueeze(2)).squeeze(2)
        advantage = (batch.columns[RETURN.name] - value).clamp(min=0)
        self._advantage[networks.rows] = advantage.detach().cpu().numpy()
        loss = 0.5 * advantage.square()
        return {"q": self.config.weight * (loss if batch.weight is None else loss * batch.weight).mean(1)}

    def metrics(self) -> Metrics:
        """Return `guide/kept`, the transitions of rewarded episodes that may be drawn, and of the last batch
        `guide/loss`, the weighted loss, `guide/advantage`, the mean of (R − Q)₊, and `guide/raised`, the share in which
        it is positive."""
        nothing = np.full(len(self._episode_starts), np.nan)
        names = ("guide/loss", "guide/advantage", "guide/raised")
        return {
            "guide/kept": self.memory.stored.astype(np.float64),
            **{name: self._metrics.get(name, nothing).astype(np.float64) for name in names},
        }

    def state(self, row: int) -> State:
        metrics = {name: float(values[row]) for name, values in self._metrics.items()}
        return {"memory": self.memory.state(row), "begun": int(self._episode_starts[row]), "told": metrics}

    def load_state(self, row: int, state: State) -> None:
        self.memory.load_state(row, state["memory"])
        self._episode_starts[row] = state["begun"]
        for name, value in state["told"].items():
            self._metrics.setdefault(name, np.full(len(self._episode_starts), np.nan))[row] = value
