"""The suite's own solver as an agent: the ceiling of a comparison, by privileged knowledge of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from guidebench.baselines.fixed_policies import FixedPolicyAgent
from guidebench.harness.capabilities import demonstrates
from guidebench.harness.interfaces import Actor, Agent, Array, Build, Context, Place
from guidebench.harness.parts import AgentPart, CellView
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register


@register.agent("expert")
@dataclass(frozen=True)
class Expert(AgentPart):
    """Acts as the suite's scripted solver, which knows the task's state, and learns nothing; a run takes no training
    steps, only its evaluations."""

    version: ClassVar[int] = 1
    backend: ClassVar[str] = "oracle"
    model: ClassVar[str] = "solver"
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({})
    citation: ClassVar[str | Path] = "% the suite's own solver"

    def fits(self, view: CellView) -> str:
        """Return why it cannot act in this cell, or ""."""
        if demonstrates(view.suite, view.task):
            return ""
        return f"it acts as the suite's scripted solver, and no solver comes with the task {view.task!r}"

    @property
    def learns(self) -> bool:
        return False

    def spawn(self, build: Build) -> Agent:
        return ExpertAgent(build)


class ExpertAgent(FixedPolicyAgent):
    """Acts as the suite's solver in every episode of an evaluation."""

    def actor(self, places: Sequence[Place]) -> Actor:
        return ExpertActor()


class ExpertActor:
    """Plays the episodes of an evaluation, each by its own solver (`harness.capabilities.FollowsSolvers`)."""

    def __init__(self) -> None:
        self._solvers: Sequence[Callable[[], Any]] = ()

    def follow(self, solvers: Sequence[Callable[[], Any]]) -> None:
        self._solvers = solvers

    def begin(self, observation: Array, ctx: Context) -> None:
        """Do nothing."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        return np.array([self._solvers[number]() for number in numbers.tolist()])

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


register.method("expert")(
    Method(
        summary="the suite's scripted solver, which knows the task's state: the ceiling of a comparison",
        agent="expert",
        citation=Expert.citation,
    )
)
