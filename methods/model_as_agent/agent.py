"""Agents whose actions a chat names, alone or towards the sub-goals of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from guidebench.baselines.fixed_policies import FixedPolicyAgent
from guidebench.baselines.instructions import Instructions
from guidebench.harness.capabilities import NamesActions
from guidebench.harness.interfaces import Actor, Array, Build, Place
from guidebench.methods.dsadf.acting import LoneActor, PlannedActor
from guidebench.methods.dsadf.deeds import Deeds

if TYPE_CHECKING:
    from guidebench.methods.dsadf.slow_system import Performs
    from guidebench.methods.model_as_agent import ModelWithPlanner


class LoneAgent(FixedPolicyAgent):
    """Acts in evaluations by the actions that a chat names, given only the task."""

    def __init__(self, config: Performs, build: Build) -> None:
        super().__init__(build)
        suite = build.parts["suite"]
        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        self.config, self.streams = config, build.streams
        self.names, self.mask = suite.action_names(build.task), build.observations.masking
        self.deeds = Deeds(build.parts["suite"], build.task)
        self._instructions = Instructions(build)

    def goals(self, observation: Array, rows: Sequence[int]) -> list[str]:
        """Return the instructions of episodes that begin with observations [n]; "" where the task has a single one."""
        return self._instructions.changing(observation)

    def actor(self, places: Sequence[Place]) -> Actor:
        return LoneActor(self, places)


class PlannedAgent(LoneAgent):
    """Acts in evaluations by the actions that a chat names, given the sub-goals of a plan in turn."""

    def __init__(self, config: ModelWithPlanner, build: Build) -> None:
        super().__init__(config, build)
        self._planned = config

    def actor(self, places: Sequence[Place]) -> Actor:
        return PlannedActor(self, self._planned, places)
