"""Relay RL of FuRL (Fu et al. 2024): an explorer that sees the task's reward alone takes turns with the learner.

A learner that follows a guide's reward may be stuck where that reward is wrong. The explorer leads episodes elsewhere;
both learn from all that is stored. The relay of a seed ends once it has seen enough success.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from guidebench.baselines.agents.standard import Standard, StandardAgent
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Agent,
    Array,
    Build,
    Context,
    Episode,
    Guide,
    Learner,
    Metrics,
    Mode,
    State,
    Transition,
)
from guidebench.harness.parts import AgentPart, CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience

SHARED = ("batch_size", "learning_starts", "utd", "n_step")
"""Settings in which learner and explorer agree, since each gradient step draws one batch for both."""


@register.agent("relay")
@dataclass(frozen=True)
class Relay(Standard):
    """The standard agent and an explorer, which take turns within an episode and learn from the same transitions.

    The learner learns from the reward that the guide shapes and is evaluated. The explorer learns from the task's
    reward alone. A seed's first episode begins with the learner, its second with the explorer, and so on.
    """

    periods: Annotated[tuple[int, ...], Bounds(1), Unit("environment steps")] = (50, 100, 150, 200)
    """Possible lengths of a turn, after which the other of learner and explorer acts; each episode draws one uniformly
    (FuRL, released code)."""
    noise: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.2
    """Standard deviation of the Gaussian noise that is added to the explorer's actions, which are then clipped to
    [-1, 1]; actions before the explorer's `learning_starts` are random and have none (FuRL, released code)."""
    until: Literal["positives", "success_steps"] = "positives"
    """What the relay collects until it ends. `success_steps`: every step that succeeds. `positives`: in each episode
    that succeeds, the steps up to the first success and the successes that directly follow it (FuRL, released code;
    its relay without FuRL's reward counts `success_steps`)."""
    enough: Annotated[int, Bounds(1), Unit("environment steps")] = 2_500
    """Counted steps after which a seed's relay ends, at the end of the current episode. From then on the learner acts
    alone, and the explorer neither acts nor learns (FuRL, released code)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("relay.bib")
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({**AgentPart.needs, "explorer": "learner"})

    def __post_init__(self) -> None:
        if not self.periods:
            raise UserError("agent.periods=[]: expected at least one number of environment steps, such as [50,100]")

    def spawn(self, build: Build) -> Agent:
        from guidebench.baselines.experience import Experience

        parts = build.parts
        # in the order of the usual agent, so that the learner's random start is the same with and without an explorer
        learner = parts["learner"].spawn(build)
        guide = parts["guide"].spawn(build)
        streams = [streams.branch("explorer") for streams in build.streams]
        explorer = parts["explorer"].spawn(dataclasses.replace(build, streams=streams))
        experience = Experience(build, parts["replay"], guide.columns, (learner, explorer))
        return RelayAgent(self, build, learner, explorer, experience, guide, parts["guide"].adds)

    def fits(self, view: CellView) -> str:
        """Return why these parts cannot work together, or ""."""
        if view.actions.discrete:
            return (
                f"it adds noise to the explorer's actions, so it needs continuous ones, and these are "
                f"{view.actions.count} discrete ones; choose another task or agent=standard"
            )
        for name in SHARED:
            learner_setting, explorer_setting = (getattr(view[role], name, None) for role in ("learner", "explorer"))
            if learner_setting != explorer_setting:
                return (
                    f"learner and explorer learn from the same batches, and learner.{name}={learner_setting} differs "
                    f"from explorer.{name}={explorer_setting}; give both the same value"
                )
        learner, explorer = view["learner"], view["explorer"]
        if getattr(learner, "n_step", None) is not None and learner.discount != explorer.discount:
            return (
                f"learner and explorer learn from the same n-step returns, and learner.discount={learner.discount} "
                f"differs from explorer.discount={explorer.discount}; give both the same value"
            )
        return super().fits(view)


def positives(success: Array) -> int:
    """Return the number of an episode's steps [n] up to its first success and of the successes that directly follow
    it, or 0 if none succeeds."""
    if not success.any():
        return 0
    first = int(success.argmax())
    run = success[first:]
    return first + (len(run) if run.all() else int(run.argmin()))


def success_steps(success: Array) -> int:
    """Return the number of an episode's steps [n] that succeed."""
    return int(success.sum())


COUNTS: Mapping[str, Callable[[Array], int]] = {"positives": positives, "success_steps": success_steps}
"""Setting `until` -> what an episode adds to the count."""


class Turns:
    """Tracks one seed's turns: who acts next, and how much success the relay has collected."""

    def __init__(self, count: Callable[[Array], int], enough: int) -> None:
        self._count, self._enough = count, enough
        self.period = 1
        """Environment steps of a turn in this episode."""
        self.collected, self.over = 0, False
        self.share: float | None = None
        """Share of the last episode's steps that the explorer took; None before one has ended."""
        self._episodes = 0
        self._explored = 0
        """The explorer's steps in this episode."""
        self._success: list[bool] = []
        """Success of each step of this episode."""

    @property
    def exploring(self) -> bool:
        """Whether the explorer takes the next step."""
        return not self.over and (len(self._success) // self.period + self._episodes) % 2 == 1

    def step(self, success: bool) -> None:
        """Count a step of the environment."""
        self._explored += self.exploring
        self._success.append(success)

    def end(self) -> None:
        """Count an episode that has ended."""
        self.share = self._explored / len(self._success)
        if not self.over:
            self.collected += self._count(np.array(self._success))
            self.over = self.collected >= self._enough
        self._episodes += 1
        self._explored, self._success = 0, []

    def state(self) -> State:
        return {
            "period": self.period,
            "collected": self.collected,
            "over": self.over,
            "share": self.share,
            "episodes": self._episodes,
            "explored": self._explored,
            "success": np.array(self._success, bool),
        }

    def load_state(self, state: State) -> None:
        self.period, self.collected, self.over = int(state["period"]), int(state["collected"]), bool(state["over"])
        self.share, self._episodes, self._explored = state["share"], int(state["episodes"]), int(state["explored"])
        self._success = [bool(success) for success in state["success"]]


class RelayAgent(StandardAgent):
    """The usual agent with an explorer, for S seeds."""

    def __init__(
        self,
        config: Relay,
        build: Build,
        learner: Learner,
        explorer: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`explorer` draws its random numbers from the streams' branch `explorer`; `adds` as of StandardAgent."""
        super().__init__(build, learner, experience, guide, adds)
        self.config, self.explorer = config, explorer
        self.learners["explorer"] = explorer
        self.turns = [Turns(COUNTS[config.until], config.enough) for _ in build.seeds]
        self._starts: int = build.parts["explorer"].learning_starts
        self._branches = [streams.branch("explorer") for streams in build.streams]
        self._periods = [streams.named("relay/period") for streams in build.streams]
        self._noise = [streams.named("relay/noise") for streams in build.streams]

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        super().begin(rows, observation, ctx)
        for row in rows.tolist():
            if not self.turns[row].over:
                self.turns[row].period = int(self._periods[row].choice(self.config.periods))

    def act(self, observation: Array, ctx: Context) -> Array:
        """Return the actions: in training those of learner or explorer, whichever has its turn in each seed; in
        evaluation the learner's."""
        if ctx.mode is not Mode.TRAIN:
            return super().act(observation, ctx)
        exploring = np.array([self.turns[row].exploring for row in ctx.rows.tolist()], bool)
        if not exploring.any():
            return super().act(observation, ctx)
        explored = self._explore(observation[exploring], ctx.rows[exploring], ctx.step)
        if exploring.all():
            return explored
        # each acts in its own seeds alone, so that no seed draws a number that it would not draw alone
        learner = [streams.explore for streams in ctx.streams]
        actions = np.empty((len(observation), *explored.shape[1:]), explored.dtype)
        actions[exploring] = explored
        actions[~exploring] = self.learner.act(observation[~exploring], ctx.rows[~exploring], learner, ctx.step)
        return actions

    def _explore(self, observation: Array, rows: Array, step: int) -> Array:
        """Return the explorer's actions [n, A] for observations [n, …] of seeds `rows` [n]."""
        actions = self.explorer.act(observation, rows, [streams.explore for streams in self._branches], step)
        if step <= self._starts:
            return actions
        noise = np.stack([self._noise[row].standard_normal(actions.shape[1:], np.float32) for row in rows.tolist()])
        return np.clip(actions + np.float32(self.config.noise) * noise, -1, 1).astype(actions.dtype)

    def observe(self, transition: Transition, ctx: Context) -> None:
        super().observe(transition, ctx)
        if ctx.phase.source == "environment":  # demonstrations and datasets are nobody's turn
            for turns, success in zip(self.turns, transition.success.tolist(), strict=True):
                turns.step(success)

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        super().end(episodes, ctx)
        for episode in episodes:
            self.turns[episode.row].end()

    def update(self, ctx: Context) -> Metrics:
        self.explorer.updates_due(ctx.step, ctx.phase.updates)  # so that it knows the updates that the phase asks for
        metrics = super().update(ctx)
        return {**metrics, **self._progress()} if metrics else metrics

    def _update_due(self, ctx: Context) -> tuple[Drawn, Metrics]:
        """Update the learner, then the explorer on the same batch without guidance (`Guide.unguided`). The extra
        gradient steps that a guide requests update the learner only."""
        drawn, metrics = super()._update_due(ctx)
        relaying = self.active & drawn.ready & ~np.array([turns.over for turns in self.turns])
        if not relaying.any():
            return drawn, metrics
        # an update draws the random numbers of all seeds; those whose relay is over get theirs back
        random_states = {row: self._branches[row].state() for row in np.flatnonzero(~relaying).tolist()}
        update = self.learn_from(self.explorer, drawn.shaped(self.guide.unguided), relaying, ctx.step)
        for row, state in random_states.items():
            self._branches[row].load_state(state)
        explorer_metrics = {
            f"explorer/{name}": np.where(relaying, values, np.nan) for name, values in update.metrics.items()
        }
        return drawn, {**metrics, **explorer_metrics}

    def _progress(self) -> Metrics:
        """Return whether each seed's relay is over, its count, and the explorer's share of its last episode."""
        shares = [np.nan if turns.share is None else turns.share for turns in self.turns]
        return {
            "relay/over": np.array([turns.over for turns in self.turns], np.float64),
            "relay/collected": np.array([turns.collected for turns in self.turns], np.float64),
            "relay/explorer_share": np.array(shares, np.float64),
        }

    def state(self, row: int) -> State:
        return {**super().state(row), "turns": self.turns[row].state()}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.turns[row].load_state(state["turns"])
