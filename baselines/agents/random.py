"""The random agent: the floor of every comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from guidebench.baselines.unlearning import UnlearningAgent
from guidebench.harness.interfaces import Actor, Agent, Array, Build, Context, Place
from guidebench.harness.parts import AgentPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.streams import Streams

ENTROPY = 22
"""Last number of the seeds of an evaluation episode's actions, so that they differ from those of its layout."""


@register.agent("random")
@dataclass(frozen=True)
class Random(AgentPart):
    """Acts uniformly at random and learns nothing; a run takes no training steps, only its evaluations."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({})
    citation: ClassVar[str | Path] = "% uniformly random actions"

    def spawn(self, build: Build) -> Agent:
        return RandomAgent(build)


class RandomAgent(UnlearningAgent):
    """Acts uniformly at random: one of the actions of a discrete space, or a vector in [-1, 1]."""

    def __init__(self, build: Build) -> None:
        super().__init__(build)
        self._streams, self._actions = build.streams, build.actions

    def actor(self, places: Sequence[Place]) -> Actor:
        return RandomActor(self._actions.count, self._actions.shape, [(self._streams[row], n) for row, n in places])


class RandomActor:
    """Plays the episodes of an evaluation; each has a generator that depends on seed, step and episode alone."""

    def __init__(self, count: int | None, shape: tuple[int, ...], episodes: Sequence[tuple[Streams, int]]) -> None:
        """`count` and `shape` as in `Actions`; `episodes`: streams of the seed, and number of the episode."""
        self._count, self._shape, self._episodes = count, shape, episodes
        self._rngs: list[np.random.Generator] = []

    def begin(self, observation: Array, ctx: Context) -> None:
        self._rngs = [
            np.random.default_rng((streams.evaluation_seed(ctx.step, episode), ENTROPY))
            for streams, episode in self._episodes
        ]

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        rngs = [self._rngs[number] for number in numbers.tolist()]
        if self._count is not None:
            return np.array([rng.integers(self._count) for rng in rngs])
        return np.array([rng.uniform(-1, 1, self._shape) for rng in rngs], np.float32)

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


register.method("random")(
    Method(
        summary="uniformly random actions, the floor of a comparison",
        agent="random",
        version=1,
        citation=Random.citation,
    )
)
