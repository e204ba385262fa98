"""The reward of active pre-training: the entropy of features that are learnt beside it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.guides.apt import Apt
from guidebench.baselines.guides.apt.entropy import nearest, not_counted, reward
from guidebench.baselines.guides.apt.icm import Icm
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.moments import Moments
from guidebench.baselines.parameters import Adam, Parameters
from guidebench.baselines.tensors import tensor, tensors
from guidebench.harness.interfaces import Array, Batch, Build, Context, Learner, Metrics, State, Store

STREAM = "apt"
"""Name of each seed's random stream from which its networks are initialised."""
DRAWS = "apt/sample"
"""Name of each seed's random stream that draws the networks' batches and the sample of particles."""
LEAST = 1e-8
"""Smallest mean distance by which distances are divided."""


class AptGuide(BaseGuide):
    """r = task_weight·r_task + log(c + (1/k) Σ_j ‖z′ − z_j‖/μ) (Liu and Abbeel 2021, §3), for S seeds.

    z′ = φ(s′) are the features of a transition's next observation (`icm.Icm`), and z_j those of the k nearest among the
    next observations of other transitions: of the drawn batch, or of a sample of what is stored. A transition that was
    drawn twice counts once, and none is its own neighbour. μ is the mean of all such distances up to now, those of the
    batch included (URLB, released code).

    The reward is computed when a batch is drawn, by the current features. Of an n-step return each of the n transitions
    gets its own.
    """

    def __init__(self, config: Apt, build: Build) -> None:
        self.config, self._device, self._rows = config, build.device, build.rows
        self.icm = Icm(config, build.observations, build.actions)
        self.networks = Parameters(self.icm.specs(), build.rows, build.device)
        self.networks.initialise([streams.named(STREAM) for streams in build.streams])
        self._gradient = self.networks.empty_like()
        self.optimiser = Adam(self.networks, config.lr)
        self._draws = [streams.named(DRAWS) for streams in build.streams]
        self.distances = Moments(build.rows, 1)
        """Mean of all distances to neighbours, by seed."""
        self._particles: tuple[list[Tensor], Array] | None = None
        """Of the sample: features [s, M, out] by block, and numbers of the transitions [S, M]."""
        self._metrics = {name: np.full(build.rows, np.nan) for name in ("entropy", "distance", "forward", "inverse")}

    @property
    def scale(self) -> Array:
        """μ, which divides distances, float64 [S]."""
        return np.maximum(self.distances.mean[:, 0], LEAST)

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> int:
        """Take as many steps of the networks as the learner has due, each on a batch drawn uniformly; then draw the
        sample of particles, if one is asked for."""
        due = learner.updates_due(ctx.step, ctx.phase.updates)
        for _ in range(due):
            self.learn(self._drawn(store, self.config.batch_size))
        if due and self.config.sample:
            particles = self._drawn(store, self.config.sample)
            self._particles = self._features(particles.next_observation), _numbers(particles)
        return 0

    def _drawn(self, store: Store, count: int) -> Batch:
        """Return `count` stored transitions of each seed, drawn uniformly."""
        offsets = [draws.integers(store.live.count, size=count) for draws in self._draws]
        return store.gather(store.live.slots(np.stack(offsets)))

    def learn(self, batch: Batch) -> None:
        """Take one step of Adam on the mean of both losses over transitions [S, B, …], of every seed."""
        for block, (rows, views) in enumerate(self.networks.blocks):
            observations, following = (
                tensors(array[rows], self._device) for array in (batch.observation, batch.next_observation)
            )
            losses = self.icm.losses(views, observations, tensor(batch.action[rows], self._device), following)
            forward, inverse = losses.forward.mean(1), losses.inverse.mean(1)
            self.networks.block_gradient(block, forward + inverse, self._gradient)
            self._metrics["forward"][rows] = forward.detach().cpu().numpy()
            self._metrics["inverse"][rows] = inverse.detach().cpu().numpy()
        self.optimiser.step(self._gradient.flat, np.ones(self._rows, bool))

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with the entropy reward, and `task_weight` times the task's."""
        features, numbers = self._features(batch.next_observation), _numbers(batch)
        particles, others = self._particles or (features, numbers)
        left_out = not_counted(numbers, others)
        away = np.concatenate([
            nearest(points, among, torch.from_numpy(left_out[rows]).to(self._device), self.config.k).cpu().numpy()
            for (rows, _), points, among in zip(self.networks.blocks, features, particles, strict=True)
        ])  # fmt: skip
        for row, row_distances in enumerate(away):
            finite = row_distances[row_distances != np.inf]
            if len(finite):
                self.distances.add(row, finite[:, None])
            self._metrics["distance"][row] = finite.mean(dtype=np.float64) if len(finite) else np.nan
        entropy = reward(away, self.scale, self.config.constant)
        self._metrics["entropy"] = entropy.mean(1)
        task_reward = np.float32(self.config.task_weight) * batch.reward
        return batch._replace(reward=task_reward + entropy.astype(np.float32))

    def _features(self, observations: Array) -> list[Tensor]:
        """Return the features of observations [S, B, …], a tensor [s, B, out] for each block of seeds."""
        with torch.no_grad():
            return [
                self.icm.features(views, tensors(observations[rows], self._device))
                for rows, views in self.networks.blocks
            ]

    def metrics(self) -> Metrics:
        """Return `guide/entropy` and `guide/distance`, the means of the entropy reward and of the distances to
        neighbours in the last batch; `guide/scale`, μ; and `guide/forward` and `guide/inverse`, the mean losses of the
        two models in their last batch."""
        return {**{f"guide/{name}": values.copy() for name, values in self._metrics.items()}, "guide/scale": self.scale}

    def state(self, row: int) -> State:
        return {
            "networks": self.networks.arrays(row),
            "optimiser": self.optimiser.state(row),
            "distances": self.distances.state(row),
        }

    def load_state(self, row: int, state: State) -> None:
        self.networks.load(row, state["networks"])
        self.optimiser.load_state(row, state["optimiser"])
        self.distances.load_state(row, state["distances"])


def _numbers(batch: Batch) -> Array:
    """Return the numbers of a batch's transitions, int [S, B]; transitions drawn twice have the same number."""
    if batch.number is not None:
        return batch.number
    return np.broadcast_to(np.arange(batch.reward.shape[1]), batch.reward.shape)
