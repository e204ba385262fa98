"""Evaluations alone, on one task, of the policy that another method has learnt on another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from guidebench.baselines.agents.standard import Standard, StandardAgent
from guidebench.harness.interfaces import Agent, Build, RunPhase
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import cite


@register.agent("unchanging")
@dataclass(frozen=True)
class Unchanging(Standard):
    """The standard agent without training: it acts by the policy of its pre-training stage, and a run takes no training
    steps, only its evaluations."""

    version: ClassVar[int] = 1

    @property
    def learns(self) -> bool:
        return False

    def spawn(self, build: Build) -> Agent:
        return UnchangingAgent(build, *self.built(build))


class UnchangingAgent(StandardAgent):
    """Keeps the parameters with which it begins."""

    def phases(self) -> tuple[RunPhase, ...]:
        """Return one run phase without transitions and updates, so that the run goes from evaluation to evaluation."""
        return (RunPhase("evaluate", self._steps, "none", 0),)


register.method("transfer")(
    Method(
        summary="evaluations alone, of the policy that another method (pretraining=…) has learnt on another task",
        agent="unchanging",
        pretraining="sparse",
        on_suite={
            "crafter_ood": {
                "evaluation.every": cite(2_000_000, "choice: it does not learn, so only the last evaluation is run")
            }
        },
        citation="% evaluations of another method's policy",
    )
)
