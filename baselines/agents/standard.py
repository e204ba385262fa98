"""The standard agent: one learner, one replay and one guide. It stores transitions, asks the judge and takes gradient
steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from guidebench.baselines.acting import GuidedAgent
from guidebench.baselines.learners.q_learning import QLearning
from guidebench.harness.capabilities import INSTRUCTION
from guidebench.harness.interfaces import (
    Agent,
    Array,
    Build,
    Context,
    Guide,
    Learner,
    Loss,
    Metrics,
    Question,
    RunPhase,
    State,
    Transition,
    Update,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.parts import AgentPart, AskingPart, CellView, ReplayPart
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience


@register.agent("standard")
@dataclass(frozen=True)
class Standard(AgentPart):
    """Combines one learner, one replay and one guide; most methods only choose these three."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = "% it joins the other parts"

    def spawn(self, build: Build) -> Agent:
        return StandardAgent(build, *self.built(build))

    def built(self, build: Build) -> tuple[Learner, Experience, Guide, tuple[str, ...]]:
        """Return learner, experience and guide, and the names of the learner's losses to which the guide adds."""
        from guidebench.baselines.experience import Experience

        parts = build.parts
        # spawn the learner first, so that its random initialisation is the same under every replay
        learner = parts["learner"].spawn(build)
        guide = parts["guide"].spawn(build)
        experience = Experience(build, parts["replay"], guide.columns, (learner,))
        return learner, experience, guide, parts["guide"].adds

    def fits(self, view: CellView) -> str:
        """Return why these parts cannot work together, or ""."""
        replay, role = view["replay"], _judge(view["replay"])
        askers = (name for name, part in view.parts.items() if isinstance(part, AskingPart) and role in part.needs)
        if replay.judged_transitions and (who := next(askers, "")):
            return (
                f"the replay and the {who} both ask in the role {role!r}, whose answers go to the replay alone; have "
                f"the {who} need its judge in a role of another name"
            )
        return ""


def _judge(replay: ReplayPart) -> str:
    """Return the role whose model judges the replay's clips."""
    return next((role for role, kind in replay.needs.items() if kind == "judge"), "judge")


class StandardAgent(GuidedAgent):
    """Trains S seeds with one experience store, one learner and one guide."""

    def __init__(
        self, build: Build, learner: Learner, experience: Experience, guide: Guide, adds: tuple[str, ...] = ()
    ) -> None:
        """`adds` names the learner's losses to which the guide adds."""
        super().__init__(build, learner, guide, experience)
        self._losses = (Loss(f"the guide {type(guide).__name__}", adds, guide.losses),) if adds else ()
        part = build.parts.get("learner")
        self._reading = part.reading(build.observations) if isinstance(part, QLearning) else None

    def phases(self) -> tuple[RunPhase, ...]:
        return self.guide.phases(self._steps)

    def adopted(self, policy: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return a stage's policy; one that was learnt without the vector of a goal gets the weights 0 for it."""
        return self._reading.widened(policy, self.parameters(0), INSTRUCTION) if self._reading else policy

    def observe(self, transition: Transition, ctx: Context) -> None:
        slot = self.experience.add(transition, ctx)
        self.guide.observed(slot, transition, self.experience.store, ctx)

    def answered(self, answers: Sequence[tuple[Question, Answer]], ctx: Context) -> None:
        if self.experience.judged and answers[0][0].to == self.experience.judge:
            self.experience.answered(answers)
        else:
            self.guide.answered(answers, self.experience.store, ctx)

    def update(self, ctx: Context) -> Metrics:
        extra_steps = self.guide.before_update(self.experience.store, self.learner, ctx)
        further = np.broadcast_to(extra_steps, self.active.shape)
        due = self.learner.updates_due(ctx.step, ctx.phase.updates)
        if further.any():
            self._update_further(further, max(1, due), ctx)
        if not due:
            return {}
        for _ in range(due):
            drawn, update_metrics = self._update_due(ctx)
        metrics = {**update_metrics, **self.experience.metrics(ctx.step), **self.guide.metrics()}
        return {**metrics, **self.experience.spread(drawn)}

    def _update_due(self, ctx: Context) -> tuple[Drawn, Metrics]:
        """Take one of the due gradient steps for the active seeds."""
        drawn, update = self._update(self.active, ctx.step, ctx)
        return drawn, update.metrics

    def _update(self, learning: Array, step: int, ctx: Context) -> tuple[Drawn, Update]:
        """Take one gradient step of the seeds selected by `learning`, bool [S]."""
        return self.learn(
            self.learner, self.experience, ctx, step=step, learning=learning, shape=self.guide.shape,
            losses=self._losses,
        )  # fmt: skip

    def _update_further(self, further: Array, due: int, ctx: Context) -> None:
        """Take `further` [S] extra gradient steps of each seed. Every `due` of them count as one environment step, so
        that periodic updates (of targets or the actor) also happen among them.

        A batch is drawn and shaped for all seeds at once. The random streams and other state of a seed that takes fewer
        steps are restored afterwards.
        """
        sampler = self.experience.sampler
        saved_states: dict[int, tuple[State, State, State]] = {}
        for number in range(further.max()):
            for row in np.flatnonzero(self.active & (further <= number)).tolist():
                if row not in saved_states:
                    states = ctx.streams[row].state(), sampler.state(row), self.guide.state(row)
                    saved_states[row] = copy.deepcopy(states)
            self._update(self.active & (further > number), number // due, ctx)
        for row, (streams, sampled, guide) in saved_states.items():
            ctx.streams[row].load_state(streams)
            sampler.load_state(row, sampled)
            self.guide.load_state(row, guide)
