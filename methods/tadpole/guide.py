"""A guide that rewards each frame by a diffusion model's errors at its episode's noise level, and success."""

from __future__ import annotations

import json

import numpy as np

from guidebench.baselines.frame_rewards import FrameRewardGuide
from guidebench.harness.interfaces import Batch, Build, State
from guidebench.harness.models.calls.denoise import SEEDS
from guidebench.methods.tadpole import Tadpole

STREAM = "tadpole"
"""Name of each seed's random stream, which draws a noise level for each episode and a noise for each frame."""


class DenoisingGuide(FrameRewardGuide):
    """r = r_model + c·success; a missing r_model is replaced by the mean of the rewards known so far."""

    def __init__(self, build: Build, config: Tadpole) -> None:
        super().__init__(build.rows, config.stretch)
        self._config = config
        self._streams = [streams.named(STREAM) for streams in build.streams]
        self._levels: list[int | None] = [None] * build.rows
        """Noise level of each seed's episode; None before its first step."""
        self._seeds: list[list[int]] = [[] for _ in range(build.rows)]
        """Seeds of the noise of the frames in each seed's open stretch."""

    def added(self, row: int) -> None:
        """Draw the noise level of a new episode, and the seed of this frame's noise."""
        stream, low = self._streams[row], self._config.least_noise
        if self._levels[row] is None:
            self._levels[row] = int(stream.integers(low, low + self._config.noise_levels))
        self._seeds[row].append(int(stream.integers(SEEDS)))

    def content(self, row: int, ended: bool) -> str:
        content = json.dumps({"level": self._levels[row], "seeds": self._seeds[row]})
        self._seeds[row] = []
        if ended:
            self._levels[row] = None
        return content

    def shape(self, batch: Batch) -> Batch:
        assert batch.success is not None, "batches of a store tell of success"
        shaped = super().shape(batch)
        bonus = self._config.success * batch.success
        return shaped._replace(reward=(shaped.reward + bonus).astype(np.float32))

    def state(self, row: int) -> State:
        level = self._levels[row]
        seeds = np.array(self._seeds[row], np.int64)
        return {**super().state(row), "level": -1 if level is None else level, "seeds": seeds}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self._levels[row] = None if state["level"] < 0 else int(state["level"])
        self._seeds[row] = state["seeds"].tolist()
