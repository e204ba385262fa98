"""Base class of agents that do not learn: their runs consist of evaluations."""

from __future__ import annotations

from guidebench.baselines.acting import BaseAgent
from guidebench.harness.interfaces import Array, Build, RunPhase


class FixedPolicyAgent(BaseAgent):
    """An agent without learner and experience, whose run takes no training step; its `actor` plays the
    evaluations."""

    deterministic = False

    def __init__(self, build: Build) -> None:
        super().__init__(build, {}, {})
        self.repeatable = True

    def phases(self) -> tuple[RunPhase, ...]:
        """Return one run phase without transitions and updates, so that the run goes from evaluation to evaluation."""
        return (RunPhase("evaluate", self._steps, "none", 0),)

    def value(self, observation: Array, rows: Array) -> None:
        """Return None: it estimates no value."""
