"""AER's sampler: a frozen random encoder, and the candidates nearest to the current observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from guidebench.baselines.parameters import Parameters
from guidebench.baselines.sampling import BaseSampler
from guidebench.baselines.tensors import tensors
from guidebench.harness.interfaces import Array, Build, Draw, Metrics, Moment, Span, State, Transition, TransitionColumn

if TYPE_CHECKING:
    from guidebench.baselines.replay.aer import Aer

CHUNK = 256
"""Maximum number of observations encoded at once."""


class AerSampler(BaseSampler):
    """Draws the B of ⌊λB⌋ uniform candidates whose features are nearest to the current observation's (VLM-RB, app. E).

    The encoder has the Q-network's architecture and stays at its random initialisation. So each stored observation is
    encoded once, at the next draw, and its features are a column of the store.
    """

    def __init__(self, config: Aer, build: Build) -> None:
        self.config = config
        self._steps = build.steps
        self._device = build.device
        learner = build.parts["learner"]
        self.encoder = learner.encoder(build.observations)
        self.columns = (TransitionColumn("features", "fixed", (learner.encoder_width(build.observations),)),)
        self.parameters = Parameters(self.encoder.specs(), build.rows, build.device, trainable=False)
        self.parameters.initialise([streams.initial for streams in build.streams])
        self._slots: list[int] = []
        self._observations: list[Array] = []
        """Observations stored since the last draw and not yet encoded, [S, …] each."""

    def pool(self, step: int) -> float:
        """Return λ at environment step `step`: candidates per transition of the batch, falling linearly from λ_0 to
        1."""
        start = self.config.lambda_start
        return start + (1.0 - start) * min(1.0, step / self._steps)

    def added(self, index: int, live: Span, transition: Transition) -> None:
        self._slots.append(index)
        self._observations.append(transition.observation)

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B], without weights; uniform if there are no more candidates than B."""
        live, store = moment.live, moment.store
        current = self._encode_new(moment)
        size = max(count, int(self.pool(moment.step) * count))
        index = live.slots(np.stack([rng.integers(live.count, size=size) for rng in moment.rngs]))
        if size == count:
            return Draw(index, None)
        features = store.column("features", index)
        chosen = np.empty((len(index), count), np.int64)
        for row, stored in enumerate(features):
            distance = np.square(stored - current[row]).sum(axis=1)
            chosen[row] = index[row, np.argsort(distance, kind="stable")[:count]]
        return Draw(chosen, None)

    def _encode_new(self, moment: Moment) -> Array:
        """Store the features of transitions added since the last draw; return those of the current observation, [S,
        F]."""
        observations = np.stack([*self._observations, moment.observation], axis=1)
        features = np.concatenate(
            [self.features(observations[:, start : start + CHUNK]) for start in range(0, observations.shape[1], CHUNK)],
            axis=1,
        )
        slots = np.array(self._slots, np.int64)
        for row in range(len(features)):
            moment.store.write("features", row, slots, features[row, :-1])
        self._slots, self._observations = [], []
        return np.asarray(features[:, -1])

    def features(self, observations: Array) -> Array:
        """Return φ of observations [S, n, …], float32 [S, n, F]."""
        with torch.no_grad():
            parts = [
                self.encoder(block.views, tensors(observations[block.rows], self._device))
                for block in self.parameters.blocks
            ]
        return np.asarray(torch.cat(parts).cpu().numpy())

    def metrics(self, step: int) -> Metrics:
        return {"replay/lambda": np.full(self.parameters.rows, self.pool(step))}

    def state(self, row: int) -> State:
        """Return the observations not yet encoded; the encoder follows from the seed."""
        pending = np.stack([observation[row] for observation in self._observations]) if self._observations else None
        return {"slots": np.array(self._slots, np.int64), "observations": pending}

    def load_state(self, row: int, state: State) -> None:
        self._slots = [int(slot) for slot in state["slots"]]
        if state["observations"] is None:
            self._observations = []
            return
        if len(self._observations) != len(self._slots):
            shape = (self.parameters.rows, *state["observations"].shape[1:])
            self._observations = [np.zeros(shape, state["observations"].dtype) for _ in self._slots]
        for observation, seed_observation in zip(self._observations, state["observations"], strict=True):
            observation[row] = seed_observation
