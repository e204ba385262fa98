"""Random network distillation: the two networks, the bonus and what normalises it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.encoders import read
from guidebench.baselines.guides.rnd import Rnd
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.moments import Moments
from guidebench.baselines.networks import MLP
from guidebench.baselines.parameters import Adam, Parameters
from guidebench.baselines.tensors import ObservationTensors, tensors
from guidebench.harness.interfaces import Array, Batch, Build, Context, Learner, Metrics, State, Store, Transition

STREAM = "rnd"
"""Name of each seed's random stream from which its networks are initialised."""
DRAWS = "rnd/sample"
"""Name of each seed's random stream that draws the predictor's batches."""
LEAST = 1e-4
"""Smallest standard deviation by which a feature or the bonus is divided."""


class RndGuide(BaseGuide):
    """r = r_task + weight·b(s′)/σ with b(s′) = mean_i (f̂_i(x) − f_i(x))² (Burda et al. 2018, §2.2, 2.4), for S seeds.

    f is a random, fixed network and f̂ the predictor, which is trained to equal it on stored transitions. Both read x:
    the features of the *next* observation s′ of a transition, normalised and clipped. The features are those of a
    random, fixed encoder, so a vector is its own features (choice: one normalisation for every kind of observation;
    ELLM's code normalises the features of the learner's own encoder).

    Features are normalised by their mean and standard deviation over all s′ that the seed has stored, demonstrations
    and datasets included. σ is the standard deviation of the bonus returns g_t = discount·g_{t−1} + b(s′_t) over the
    same transitions, in the order of storage and across episodes. Both are updated every `every` steps, from the
    transitions stored since, by the networks as they are then; those of the run's first random actions come first.

    The bonus is computed when a batch is drawn, by the current predictor, and not when a transition is observed: it
    fades for a stored transition too. Of an n-step return each of the n transitions gets its own. It ends with the
    episode, like the task's reward (the paper values bonuses apart, beyond an episode's end).
    """

    def __init__(self, config: Rnd, build: Build) -> None:
        self.config, self._device, self._rows = config, build.device, build.rows
        reading = read(build.observations, config.sizes())
        self._encoder = reading.network()
        self._target = MLP(reading.width, config.hidden, config.out, "target")
        self._predictor = MLP(reading.width, config.hidden, config.out, "predictor")
        self.fixed = Parameters(
            {**self._encoder.specs(), **self._target.specs()}, build.rows, build.device, trainable=False
        )
        self.predictor = Parameters(self._predictor.specs(), build.rows, build.device)
        generators = [streams.named(STREAM) for streams in build.streams]
        self.fixed.initialise(generators)
        self.predictor.initialise(generators)
        self._gradient = self.predictor.empty_like()
        self.optimiser = Adam(self.predictor, config.lr)
        self._draws = [streams.named(DRAWS) for streams in build.streams]
        self.observation_moments, self.returned = Moments(build.rows, reading.width), Moments(build.rows, 1)
        """Statistics of features and of bonus returns."""
        self._return = np.zeros(build.rows)
        """g of the last transition counted, [S]."""
        self._bonus, self._loss = np.zeros(build.rows), np.full(build.rows, np.nan)

    @property
    def scale(self) -> Array:
        """σ, which divides the bonus, float64 [S]."""
        return np.maximum(np.sqrt(self.returned.variance[:, 0]), LEAST)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Count the transitions stored since the last time, every `every` steps."""
        if store.written % self.config.every:
            return
        slots = store.slot(np.arange(store.written - self.config.every, store.written))
        batch = store.gather(np.broadcast_to(slots, (self._rows, len(slots))))
        seen, rows = _flat(batch.next_observation)
        features = self.fixed.evaluate(self._features, seen, rows).reshape(self._rows, len(slots), -1)
        for row, own in enumerate(features):
            self.observation_moments.add(row, own)
        for row, own in enumerate(self.bonus(seen, rows).reshape(self._rows, -1)):
            self._count(row, own)

    def _count(self, row: int, bonuses: Array) -> None:
        """Continue a seed's bonus returns with the bonuses [n] of consecutive transitions."""
        found = np.empty((len(bonuses), 1))
        for step, bonus in enumerate(bonuses.tolist()):
            self._return[row] = self.config.discount * self._return[row] + bonus
            found[step] = self._return[row]
        self.returned.add(row, found)

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> int:
        """Take as many steps of the predictor as the learner has due, each on a batch drawn uniformly."""
        for _ in range(learner.updates_due(ctx.step, ctx.phase.updates)):
            offsets = [draws.integers(store.live.count, size=self.config.batch_size) for draws in self._draws]
            self.learn(store.gather(store.live.slots(np.stack(offsets))).next_observation)
        return 0

    def learn(self, seen: Array) -> None:
        """Take one step of Adam on the mean of b over observations [S, B, …], of every seed."""
        for block, (rows, _) in enumerate(self.predictor.blocks):
            loss = self._errors(block, tensors(seen[rows], self._device)).mean(1)
            self.predictor.block_gradient(block, loss, self._gradient)
            self._loss[rows] = loss.detach().cpu().numpy()
        self.optimiser.step(self._gradient.flat, np.ones(self._rows, bool))

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with r_task + weight·b/σ."""
        found = self.bonus(*_flat(batch.next_observation)).reshape(batch.reward.shape) / self.scale[:, None]
        self._bonus = found.mean(1)
        return batch._replace(reward=batch.reward + np.float32(self.config.weight) * found.astype(np.float32))

    def bonus(self, seen: Array, rows: Array) -> Array:
        """Return b of observations [n, …] of seed rows `rows` [n], before it is divided by σ, float32 [n]."""
        return self.predictor.evaluate(self._errors, seen, rows)

    def reward(self, observation: Array, rows: Array) -> Array:
        """Return weight·b/σ of observations [n, …], as if each were the next observation of a transition."""
        return np.float32(self.config.weight) * (self.bonus(observation, rows) / self.scale[rows]).astype(np.float32)

    def _features(self, block: int, seen: ObservationTensors) -> Tensor:
        """Return the features [s, B, width] of the observations of a block's s seeds, before normalisation."""
        return self._encoder(self.fixed.blocks[block].views, seen)

    def _errors(self, block: int, seen: ObservationTensors) -> Tensor:
        """Return b [s, B] of the observations of a block's s seeds, with gradients for the predictor alone."""
        rows, fixed = self.fixed.blocks[block]
        with torch.no_grad():
            deviation = np.maximum(np.sqrt(self.observation_moments.variance[rows]), LEAST)
            mean, scale = (
                self._tensor(each).unsqueeze(1) for each in (self.observation_moments.mean[rows], 1 / deviation)
            )
            features = ((self._features(block, seen) - mean) * scale).clamp_(-self.config.clip, self.config.clip)
            wanted = self._target(fixed, features)
        return (self._predictor(self.predictor.blocks[block].views, features) - wanted).square().mean(2)

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(self._device)

    def metrics(self) -> Metrics:
        """Return `guide/bonus`, the mean of b/σ in the last batch; `guide/loss`, the mean of b in the predictor's last
        batch; and `guide/scale`, σ."""
        return {"guide/bonus": self._bonus.copy(), "guide/loss": self._loss.copy(), "guide/scale": self.scale}

    def state(self, row: int) -> State:
        return {
            "fixed": self.fixed.arrays(row),
            "predictor": self.predictor.arrays(row),
            "optimiser": self.optimiser.state(row),
            "seen": self.observation_moments.state(row),
            "returned": self.returned.state(row),
            "return": float(self._return[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        self.fixed.load(row, state["fixed"])
        self.predictor.load(row, state["predictor"])
        self.optimiser.load_state(row, state["optimiser"])
        self.observation_moments.load_state(row, state["seen"])
        self.returned.load_state(row, state["returned"])
        self._return[row] = state["return"]


def _flat(seen: Array) -> tuple[Array, Array]:
    """Return observations [S, B, …] as [S·B, …], and their seed rows [S·B]."""
    seeds, size = seen.shape[:2]
    return seen.reshape(seeds * size, *seen.shape[2:]), np.repeat(np.arange(seeds), size)
