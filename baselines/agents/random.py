"""The random agent: the floor of every comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from guidebench.baselines.fixed_policies import FixedPolicyAgent
from guidebench.baselines.masks import admitted
from guidebench.harness.interfaces import Actions, Actor, Agent, Array, Build, Context, Place
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
    stochastic: ClassVar[bool] = True
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({})
    citation: ClassVar[str | Path] = "% uniformly random actions"

    @property
    def learns(self) -> bool:
        return False

    def spawn(self, build: Build) -> Agent:
        return RandomAgent(build)


class RandomAgent(FixedPolicyAgent):
    """Acts uniformly at random: in a discrete space among the actions (if observations have a mask, among those that it
    admits), else by a vector in [-1, 1]."""

    def __init__(self, build: Build) -> None:
        super().__init__(build)
        self._streams, self._actions, self._mask = build.streams, build.actions, build.observations.masking

    def actor(self, places: Sequence[Place]) -> Actor:
        return RandomActor(self._actions, self._mask, [(self._streams[row], episode) for row, episode in places])


class RandomActor:
    """Plays the episodes of an evaluation; each has a generator that depends on seed, step and episode alone."""

    def __init__(self, actions: Actions, mask: str, episodes: Sequence[tuple[Streams, int]]) -> None:
        """`mask`: observation part that admits actions, or ""; `episodes`: streams of the seed, and number of the
        episode."""
        self._actions, self._mask, self._episodes = actions, mask, episodes
        self._rngs: list[np.random.Generator] = []

    def begin(self, observation: Array, ctx: Context) -> None:
        self._rngs = [
            np.random.default_rng((streams.evaluation_seed(ctx.step, episode), ENTROPY))
            for streams, episode in self._episodes
        ]

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        rngs = [self._rngs[number] for number in numbers.tolist()]
        if not self._actions.discrete:
            return np.array([rng.uniform(-1, 1, self._actions.shape) for rng in rngs], np.float32)
        count = self._actions.count or 0
        choices = admitted(observation[self._mask]) if self._mask else [np.arange(count)] * len(rngs)
        return np.array([rng.choice(allowed) for rng, allowed in zip(rngs, choices, strict=True)])

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


register.method("random")(
    Method(
        summary="uniformly random actions, the floor of a comparison",
        agent="random",
        citation=Random.citation,
    )
)
