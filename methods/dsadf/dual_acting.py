"""The dual system's evaluations: routing, both systems' steps, and emergencies (DSADF, algorithm 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.capabilities import TellsNearby
from guidebench.harness.interfaces import Array, Context, Place
from guidebench.methods.dsadf.acting import NamedAction, PlannedActor, Situation, Trial
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.routing import LEARNER, Route, route

if TYPE_CHECKING:
    from guidebench.methods.dsadf.agent import DualAgent

FACING = re.compile(r"\byou are targeting ([a-z ]+)")


class Leg(NamedTuple):
    """The part of an episode during which one sub-goal is the present one."""

    plan: int
    """Plans that the episode has had so far."""
    at: int
    """Index of the sub-goal in its plan."""
    subgoal: str
    route: Route
    first: int
    """Steps of the episode before this part."""
    emergencies: int
    """Emergency steps of the episode before this part."""


class DualTrial(Trial):
    """The state of one evaluation episode of the dual system."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.counts |= {"fast": 0, "emergencies": 0}
        self.danger = ""
        """What makes the present step an emergency, or ""."""
        self.leg: Leg | None = None
        """The present sub-goal's part of the episode; None before the first step."""


def emergency(danger: str, names: Sequence[str]) -> str:
    """Return the instruction about a danger that the performer gets in place of a sub-goal. `names`: the actions'.

    >>> emergency("zombie", ["attack zombie"]), emergency("lava", ["attack zombie"])
    ('attack zombie or move away from it', 'move away from lava')
    """
    attack = f"attack {danger}"
    return f"{attack} or move away from it" if attack in names else f"move away from {danger}"


class DualActor(PlannedActor):
    """Plays the episodes of an evaluation by their plans; the memory decides which system acts towards a sub-goal."""

    _trial = DualTrial
    _trials: list[DualTrial]  # type: ignore[assignment]

    def __init__(self, agent: DualAgent, places: Sequence[Place]) -> None:
        super().__init__(agent, agent.config, places)
        self._dual = agent

    def end(self, numbers: Array, ctx: Context) -> None:
        for number in numbers.tolist():
            trial = self._trials[number]
            self._follow(trial, ctx)
            if trial.leg is not None and not (trial.course.over and trial.leg.first == trial.steps):
                self._note(trial, trial.leg, False, ctx)
        super().end(numbers, ctx)

    def _unasked(
        self,
        pending: Sequence[int],
        trials: Sequence[Trial],
        situations: Sequence[Situation],
        observation: Array,
        ctx: Context,
    ) -> list[NamedAction | None]:
        """Return the actions of the `pending` episodes that are taken without asking the performer: the only possible
        one, and System 1's where the present sub-goal is routed to it and there is no emergency."""
        named_actions = super()._unasked(pending, trials, situations, observation, ctx)
        dangers = self._dangers(observation[[*pending]], [situations[number] for number in pending])
        fast = list[int]()
        for at, (number, nearby_dangers) in enumerate(zip(pending, dangers, strict=True)):
            trial = trials[number]
            assert isinstance(trial, DualTrial)
            self._follow(trial, ctx)
            trial.danger = next(iter(self._dual.memories[trial.place.row].unknown(nearby_dangers)), "")
            if (
                named_actions[at] is None
                and not trial.danger
                and self._route(trial, trial.course.present).by == LEARNER
            ):
                fast.append(at)
        if fast:
            fast_trials = [trials[pending[at]] for at in fast]
            goals = [self._dual.pursued(trial.course, trial.goal, trial.place.row) for trial in fast_trials]
            observations = observation[[pending[at] for at in fast]]
            actions = self._dual.fast(observations, goals, [trial.place for trial in fast_trials], ctx)
            for at, action in zip(fast, actions.tolist(), strict=True):
                named_actions[at] = NamedAction(int(action), LEARNER)
        return named_actions

    def _dangers(self, observation: Array, situations: Sequence[Situation]) -> list[list[str]]:
        """Return the near dangers of each of the observations [n], in the order of `config.dangers`: those within
        `config.near` cells, or, where observations have no distances, the one that the sentences name as faced."""
        config, suite = self._dual.config, self._dual.suite
        if config.router != "both":
            return [[]] * len(situations)
        nearby_things = (
            suite.nearby(self._dual.task, observation, config.near) if isinstance(suite, TellsNearby) else None
        )
        if nearby_things is None:
            nearby_things = [frozenset(FACING.findall(situation.text)) for situation in situations]
        return [[danger for danger in config.dangers if danger in names] for names in nearby_things]

    def _route(self, trial: Trial, subgoal: Subgoal | None) -> Route:
        config = self._dual.config
        goal = self._dual.stated(trial.goal, trial.place.row)
        return route(subgoal, self._dual.memories[trial.place.row], config.router, config.threshold, goal)

    def _content(self, trial: Trial, situation: Situation, may_end: bool) -> Mapping[str, Any]:
        """Return the content of a question to the performer; in an emergency its sub-goal is to deal with the
        danger."""
        assert isinstance(trial, DualTrial)
        if not trial.danger:
            return super()._content(trial, situation, may_end)
        content = super()._content(trial, situation, False)
        return {**content, "subgoal": emergency(trial.danger, self._dual.names)}

    def _took(self, trial: Trial, action: str, did: Sequence[str], by: str, reply: str, ctx: Context) -> None:
        assert isinstance(trial, DualTrial)
        trial.counts["fast"] += by == LEARNER
        trial.counts["emergencies"] += bool(trial.danger) and by in ("performer", "fallback")
        super()._took(trial, action, did, by, reply, ctx)

    def _plan(self, trials: Sequence[Trial], situations: Sequence[Situation], ctx: Context) -> None:
        for trial in trials:
            assert isinstance(trial, DualTrial)
            if trial.leg is not None:
                self._follow(trial, ctx)
                if not trial.course.over:
                    self._note(trial, trial.leg, False, ctx)
                trial.leg = None
        super()._plan(trials, situations, ctx)

    def _follow(self, trial: DualTrial, ctx: Context) -> None:
        """Log the sub-goals that ended since the last step, and begin the part of the present one."""
        if trial.leg is None:
            trial.leg = self._leg(trial, 0)
        while trial.leg.at < trial.course.at:
            self._note(trial, trial.leg, True, ctx)
            trial.leg = self._leg(trial, trial.leg.at + 1)

    def _leg(self, trial: DualTrial, at: int) -> Leg:
        """Return the part of an episode that begins now, with sub-goal `at` of its plan."""
        subgoal = trial.course.plan[at] if at < len(trial.course.plan) else None
        name = "" if subgoal is None else subgoal.name
        return Leg(
            trial.counts["plans"], at, name, self._route(trial, subgoal), trial.steps, trial.counts["emergencies"]
        )

    def _note(self, trial: DualTrial, leg: Leg, reached: bool, ctx: Context) -> None:
        """Log a part of an episode that has ended, in the log `routes`."""
        leg_route = leg.route
        proficiency = {} if leg_route.proficiency is None else {"proficiency": leg_route.proficiency}
        ctx.note(
            "routes", trial.place.row,
            {
                "trial": trial.place.episode, "number": leg.plan - 1, "index": leg.at, "subgoal": leg.subgoal,
                "by": leg_route.by, "why": leg_route.why, **proficiency, "steps": trial.steps - leg.first,
                "emergencies": trial.counts["emergencies"] - leg.emergencies, "reached": reached,
            },
        )  # fmt: skip
