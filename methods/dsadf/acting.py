"""Evaluations in which a chat names the actions, for the task itself or for the sub-goals of a plan.

This is DSADF's algorithm 2, lines 15-37, with all goals in G_VLM and without emergencies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from guidebench.baselines.masks import admitted
from guidebench.baselines.text_acting import sentences
from guidebench.harness.interfaces import Array, Context, Place
from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.deeds import Deeds, done
from guidebench.methods.dsadf.deliberation import Moment, deliberate, question, replans, towards
from guidebench.methods.dsadf.prompts import DONE
from guidebench.methods.dsadf.slow_system import PERFORMER

if TYPE_CHECKING:
    from guidebench.harness.streams import Streams
    from guidebench.methods.dsadf.slow_system import Performs, Plans

FALLBACK = 23
"""Constant in the seed of an episode's fallback actions, so that it differs from the seed of the layout."""
COUNTS = ("performed", "fallback", "impossible", "unknown", "failed", "reached", "declared", "plans")
"""Columns of the log `trials` that count something in an episode, besides its steps."""


class PerformingAgent(Protocol):
    """The attributes of an agent that its actor uses."""

    @property
    def config(self) -> Performs: ...

    @property
    def streams(self) -> Sequence[Streams]:
        """Return the random streams of each seed."""

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the actions."""

    @property
    def mask(self) -> str:
        """Return the name of the observation part that masks impossible actions, or "" without one."""

    @property
    def deeds(self) -> Deeds:
        """Return the deeds of the task, which the steps of a plan name."""

    def goals(self, observation: Array, rows: Sequence[int]) -> list[str]:
        """Return the goals of episodes that begin with observations [n] of these seed rows: what the seed has inferred,
        or the episode's own instruction; "" where the task has one instruction, which the dialogues know."""


class NamedAction(NamedTuple):
    """An action taken without asking the performer."""

    action: int
    by: str
    """What chose it: the column `by` of the log `actions`."""


class Situation(NamedTuple):
    """What an actor reads of one episode's observation before a step."""

    text: str
    """The sentences of the observation."""
    possible: Array
    """Numbers of the possible actions, int [k]; of all actions if the observation does not show which are possible."""
    deeds: Mapping[str, int]
    """Possible deed -> number of its action; all deeds if the observation does not show which are possible."""


class Trial:
    """The state of one evaluation episode: its course, counts and open log row."""

    def __init__(self, place: Place, streams: Streams, step: int, recent: int, goal: str = "") -> None:
        """`step`: the run's step at which the evaluation takes place; `recent`: number of actions to remember; `goal`:
        the episode's (`PerformingAgent.goals`)."""
        self.place, self.goal = place, goal
        self.course = Course()
        self.recent: deque[str] = deque(maxlen=recent)
        self.steps = self.rows = 0
        """Steps so far, and rows of the log `actions` so far."""
        self.counts = dict.fromkeys(COUNTS, 0)
        self.row: dict[str, Any] | None = None
        """The open row of the log `actions`, which counts the last steps; None without one."""
        self._rng = np.random.default_rng((streams.evaluation_seed(step, place.episode), FALLBACK))

    def draw(self, possible: Array) -> int:
        """Return the fallback action, drawn uniformly from the `possible` ones, numbers of actions int [n]."""
        return int(self._rng.choice(possible))


class LoneActor:
    """Plays the episodes of an evaluation. All episodes put their questions in one batch; an episode with a single
    possible action asks nothing."""

    def __init__(self, agent: PerformingAgent, places: Sequence[Place]) -> None:
        self._agent, self._places = agent, places
        self._trials: list[Trial] = []

    def begin(self, observation: Array, ctx: Context) -> None:
        agent = self._agent
        goals = agent.goals(observation, [place.row for place in self._places])
        self._trials = [
            self._trial(place, agent.streams[place.row], ctx.step, agent.config.recent, goal)
            for place, goal in zip(self._places, goals, strict=True)
        ]

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        trials = [self._trials[number] for number in numbers.tolist()]
        situations = self._situations(observation)
        self._before(trials, situations, ctx)
        chosen_actions: list[int | None] = [None] * len(trials)
        causes = [("", "")] * len(trials)
        pending = [*range(len(trials))]
        for attempt in range(self._ends + 1):
            named_actions = self._unasked(pending, trials, situations, observation, ctx)
            for number, named_action in zip(pending, named_actions, strict=True):
                if named_action is not None:
                    chosen_actions[number], causes[number] = named_action.action, (named_action.by, "")
            pending = [number for number in pending if chosen_actions[number] is None]
            if not pending:
                break
            may_end = [attempt < self._ends and not trials[number].course.last for number in pending]
            questions = [
                question(PERFORMER, trials[number].place, self._content(trials[number], situations[number], may))
                for number, may in zip(pending, may_end, strict=True)
            ]
            remaining = []
            for number, answer in zip(pending, ctx.consult(questions), strict=True):
                trial, name = trials[number], _count(trials[number], answer)
                if name == DONE:
                    trial.course.end()
                    trial.counts["reached"] += 1
                    trial.counts["declared"] += 1
                    remaining.append(number)
                    continue
                possible = situations[number].possible
                chosen_actions[number] = self._agent.names.index(name) if name else trial.draw(possible)
                causes[number] = ("performer" if name else "fallback", answer["said"] if answer else "")
            pending = remaining
        actions = np.array(chosen_actions, np.int64)
        for trial, action, situation, (by, reply) in zip(trials, actions.tolist(), situations, causes, strict=True):
            self._took(trial, self._agent.names[action], done(action, situation.deeds), by, reply, ctx)
        return actions

    def end(self, numbers: Array, ctx: Context) -> None:
        for number in numbers.tolist():
            trial = self._trials[number]
            self._flush(trial, ctx)
            ctx.note("trials", trial.place.row, {"trial": trial.place.episode, "steps": trial.steps, **trial.counts})

    _trial: type[Trial] = Trial
    """The class that holds an episode's state."""
    _ends = 0
    """Most sub-goals that may be declared reached in one step."""

    def _before(self, trials: Sequence[Trial], situations: Sequence[Situation], ctx: Context) -> None:
        """Update the episodes' plans before the performer is asked; does nothing without a planner."""

    def _unasked(
        self,
        pending: Sequence[int],
        trials: Sequence[Trial],
        situations: Sequence[Situation],
        observation: Array,
        ctx: Context,
    ) -> list[NamedAction | None]:
        """Return, for each of the `pending` episodes (indices into `trials`), the action taken without asking the
        performer because it is the only possible one; None where the performer must be asked."""
        return [
            NamedAction(int(situations[number].possible[0]), "only") if len(situations[number].possible) == 1 else None
            for number in pending
        ]

    def _situations(self, observation: Array) -> list[Situation]:
        """Return the sentences, possible actions and possible deeds of observations [n], one `Situation` each."""
        texts = sentences(observation)
        everything = np.arange(len(self._agent.names))
        masks = admitted(observation[self._agent.mask]) if self._agent.mask else [everything] * len(texts)
        return [*map(Situation._make, zip(texts, masks, self._agent.deeds.possible(observation), strict=True))]

    def _content(self, trial: Trial, situation: Situation, may_end: bool) -> Mapping[str, Any]:
        """Return the content of a question to the performer (`performing.PerformerDialogue`)."""
        present, effects = trial.course.present, self._agent.deeds.effects(situation.deeds)
        return {
            "text": situation.text, "possible": situation.possible.tolist(),
            "subgoal": "" if present is None else str(present), "recent": list(trial.recent),
            "may_end": may_end, **({"effects": effects} if effects else {}),
            **towards(trial.goal),
        }  # fmt: skip

    def _took(self, trial: Trial, action: str, did: Sequence[str], by: str, reply: str, ctx: Context) -> None:
        """Record a step of an episode in its course, its counts and the log `actions`.

        `action`: its name; `did`: its deeds; `by`: who chose it; `reply`: the performer's reply, or ""."""
        course = trial.course
        subgoal = "" if course.present is None else course.present.name
        row = trial.row
        if row is not None and (row["subgoal"], row["action"], row["by"]) == (subgoal, action, by):
            row["steps"] += 1
        else:
            self._flush(trial, ctx)
            trial.row = {
                "trial": trial.place.episode, "first": trial.steps, "steps": 1, "subgoal": subgoal, "action": action,
                "by": by, "said": reply,
            }  # fmt: skip
        at = course.at
        course.acted(did)
        trial.counts["reached"] += course.at - at
        trial.counts["performed"] += by == "performer"
        trial.counts["fallback"] += by == "fallback"
        trial.recent.append(action)
        trial.steps += 1

    def _flush(self, trial: Trial, ctx: Context) -> None:
        """Write an episode's open row of the log `actions`, unless `config.logged` rows are written already."""
        if trial.row is not None and trial.rows < self._agent.config.logged:
            ctx.note("actions", trial.place.row, trial.row)
            trial.rows += 1
        trial.row = None


def _count(trial: Trial, answer: Mapping[str, Any] | None) -> str:
    """Return the action that the performer's answer names, or "", and count the answer's faults in the trial."""
    if answer is None:
        trial.counts["failed"] += 1
        return ""
    for fault in answer["faults"]:
        trial.counts["impossible" if fault == "impossible" else "unknown"] += 1
    return str(answer["action"])


class PlannedActor(LoneActor):
    """Plays the episodes of an evaluation, each along a plan of its own."""

    def __init__(self, agent: PerformingAgent, config: Plans, places: Sequence[Place]) -> None:
        super().__init__(agent, places)
        self._config, self._ends = config, config.ends

    def begin(self, observation: Array, ctx: Context) -> None:
        super().begin(observation, ctx)
        self._plan(self._trials, self._situations(observation), ctx)

    def _plan(self, trials: Sequence[Trial], situations: Sequence[Situation], ctx: Context) -> None:
        """Make a plan for each of these episodes, and start them on it. `situations`: what each of them shows now."""
        moments = [
            Moment(trial.place, situation.text, trial.counts["plans"], target=trial.goal)
            for trial, situation in zip(trials, situations, strict=True)
        ]
        for trial, plan in zip(trials, deliberate(moments, self._config, ctx), strict=True):
            trial.course = Course(plan, self._config.partial)
            trial.counts["plans"] += 1

    def _before(self, trials: Sequence[Trial], situations: Sequence[Situation], ctx: Context) -> None:
        """Make further plans for episodes whose sub-goal has taken too long or whose partial plan is over, and advance
        those whose sub-goal to find something is reached."""
        replanned = [
            number for number, trial in enumerate(trials) if replans(trial.course, trial.counts["plans"], self._config)
        ]
        if replanned:
            self._plan([trials[number] for number in replanned], [situations[number] for number in replanned], ctx)
        for trial, situation in zip(trials, situations, strict=True):
            at = trial.course.at
            trial.course.look(situation.deeds if self._agent.deeds.shows_possible else None)
            trial.counts["reached"] += trial.course.at - at
