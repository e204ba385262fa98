"""Evaluation by greedy episodes: unfinished episodes of all seeds are stepped in one batch.

Under a deterministic policy, an episode of a task with positions (`Task.position`) ends when a position repeats, since
a cycle without success follows. The episode record equals that of the complete episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.capabilities import FollowsSolvers, HasExpert, HasOutcomes, HasSubgoals, ScoresEpisodes
from guidebench.harness.episodes.solvers import Solver, solver
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    SUCCESS,
    Agent,
    Array,
    Context,
    Mode,
    Place,
    Question,
    RunPhase,
    Score,
    Step,
    Suite,
    Task,
)
from guidebench.harness.loop.env_workers import at_once
from guidebench.harness.parts import AgentPart
from guidebench.harness.streams import Streams


class Result(NamedTuple):
    """One evaluation episode of one seed."""

    row: int
    episode: int
    ret: float
    success: bool
    length: int
    score: float
    """Score of the episode, as declared by the suite (`guidebench.harness.interfaces.Score`)."""
    subgoals: Mapping[str, bool] = {}
    """Which subgoals held when the episode ended; {} for a task without subgoals or an episode cut at a cycle."""
    outcomes: Mapping[str, float] = {}
    """Further numbers of the episode; {} for a task without any or an episode cut at a cycle."""


class Note(NamedTuple):
    """A table row that an agent logged during an evaluation."""

    log: str
    row: int
    values: Mapping[str, Any]


Consult = Callable[[Sequence[Question]], list[Any]]
"""The function `Context.consult` of an evaluation; each question belongs to the episode that it names."""


Watch = Callable[[int, Task, Any], None]
"""Function of the number of an episode, its task, and the action that was taken last; None after a reset."""


def nobody(questions: Sequence[Question]) -> list[Any]:
    """Raise UserError, since no role can be consulted."""
    raise UserError(
        f"a part asks in the role {questions[0].to!r} during an evaluation, and no backend answers there; name the "
        f"role in the `consults` of the part's configuration"
    )


def unseen(place: Place) -> Array:
    """Raise UserError, since no task is played."""
    raise UserError(f"episode {place.episode} of this evaluation has no task to take a snapshot of")


@dataclass
class EvaluationContext:
    """The Context of an agent during an evaluation."""

    step: int
    streams: Sequence[Streams]
    rows: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    mode: Mode = Mode.EVALUATE
    answer: Consult = nobody
    notes: list[Note] = field(default_factory=list)
    """Logged table rows, to be written after the evaluation."""
    shot: Callable[[Place], Array] = unseen
    """Returns the snapshot of an episode's present state."""

    @property
    def phase(self) -> RunPhase:
        raise RuntimeError("Context.phase is not available during an evaluation; an evaluation has no run phase")

    @property
    def observation(self) -> Array:
        raise RuntimeError("Context.observation is not available during an evaluation; use the one passed to act")

    @property
    def active(self) -> Array:
        raise RuntimeError("Context.active is not available during an evaluation; only seeds that train are evaluated")

    def snapshot(self, row: int, episode: int = 0) -> Array:
        """Return the snapshot of the state that an episode is in."""
        return self.shot(Place(row, episode))

    def ask(self, ask: Question) -> None:
        raise RuntimeError("Context.ask is not available during an evaluation; use Context.consult")

    def consult(self, questions: Sequence[Question]) -> list[Any]:
        return self.answer(questions) if questions else []

    def note(self, log: str, row: int, values: Mapping[str, Any]) -> None:
        self.notes.append(Note(log, row, values))


class Memoryless:
    """The Actor of an agent whose `act` needs no memory of the episode."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def begin(self, observation: Array, ctx: Context) -> None:
        """Do nothing."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        return self._agent.act(observation, ctx)

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


Solve = Callable[[int, Task, int], Solver]
"""Function of a seed row, its task and the seed of its reset -> the solver of the episode that has just begun."""


def unsolved(row: int, task: Task, seed: int) -> Solver:
    """Raise UserError, since the agent may not follow a solver."""
    raise UserError(
        "an actor follows the task's solver, which is privileged; declare backend = 'oracle' in the configuration of "
        "its agent"
    )


def solving(agent: AgentPart, suite: Callable[[int], Suite], task: str) -> Solve:
    """Return how an evaluation solves episodes for an agent of this configuration: by the solver of its task if the
    agent is labelled as privileged, else not at all. `suite`: seed row -> its suite."""
    if agent.backend != "oracle":
        return unsolved
    return lambda row, made, seed: solver(suite(row), task, made, seed)


def with_solver(question: Question, task: Task | None) -> Question:
    """Return a question with the solver of the task that it concerns, if any."""
    return question._replace(solver=task.expert if isinstance(task, HasExpert) else None)


class Evaluator:
    """Evaluates the seeds of a worker on `episodes` layouts each; `make(row)` makes the task of a seed, and `solve`
    finds solvers for actors that follow them."""

    def __init__(
        self,
        make: Callable[[int], Task],
        episodes: int,
        streams: Sequence[Streams],
        score: Score = SUCCESS,
        solve: Solve = unsolved,
    ) -> None:
        self._make, self._solve = make, solve
        self._episodes = episodes
        self._score = score
        self._streams = streams
        self._pool: dict[tuple[int, int], Task] = {}

    def __call__(
        self,
        agent: Agent,
        step: int,
        rows: Sequence[int],
        watch: Watch | None = None,
        consult: Consult = nobody,
        notes: list[Note] | None = None,
    ) -> list[Result]:
        """Return the results of every episode of the seed rows `rows`, ordered by seed row and episode.

        `watch(number, task, action)` is called after each reset, with None, and after each step of the number-th
        episode, for videos; `consult` answers the agent's questions; table rows that the agent logs are appended to
        `notes`.
        """
        places = [Place(row, episode) for row in rows for episode in range(self._episodes)]
        if not places:
            return []
        for place in places:
            if place not in self._pool:
                self._pool[place] = self._make(place[0])
        tasks = [self._pool[place] for place in places]
        played = dict(zip(places, tasks, strict=True))

        def answer(questions: Sequence[Question]) -> list[Any]:
            places = (Place(question.row, question.episode) for question in questions)
            return consult([with_solver(*pair) for pair in zip(questions, map(played.get, places), strict=True)])

        def shot(place: Place) -> Array:
            return played[place].snapshot()

        ctx = EvaluationContext(step, self._streams, answer=answer, notes=[] if notes is None else notes, shot=shot)
        seeds = [self._streams[row].evaluation_seed(step, episode) for row, episode in places]
        observations: list[Array] = at_once(tasks, "reset", ((seed,) for seed in seeds))
        returns = [0.0] * len(places)
        lengths = [0] * len(places)
        positions: list[set[bytes]] = [set() for _ in places]
        results: dict[int, Result] = {}
        alive = list(range(len(places)))
        cut = agent.deterministic and not self._score.recorded  # other scores of a cycle are unknown
        if cut:
            for number in alive:
                _repeats(positions[number], tasks[number])
        if watch:
            for number in alive:
                watch(number, tasks[number], None)
        actor = agent.actor(places)
        if isinstance(actor, FollowsSolvers):
            starts = zip(places, tasks, seeds, strict=True)
            actor.follow([self._solve(place.row, task, seed) for place, task, seed in starts])
        ctx.rows = np.array([place.row for place in places])
        actor.begin(np.stack(observations), ctx)
        while alive:
            ctx.rows = np.array([places[number].row for number in alive])
            actions = actor.act(np.stack([observations[number] for number in alive]), np.array(alive), ctx)
            steps: list[Step] = at_once([tasks[number] for number in alive], "step", ((action,) for action in actions))
            unfinished = []
            for number, action, step_result in zip(alive, actions, steps, strict=True):
                task = tasks[number]
                observations[number] = step_result.observation
                returns[number] += float(step_result.reward)
                lengths[number] += 1
                if watch:
                    watch(number, task, action)
                row, episode = places[number]
                if step_result.terminated or step_result.truncated:
                    success = bool(step_result.success)
                    worth = scored(self._score, task, success, returns[number])
                    results[number] = Result(
                        row, episode, returns[number], success, lengths[number], worth, _subgoals(task), _outcomes(task)
                    )
                elif cut and _repeats(positions[number], task):
                    worth = scored(self._score, task, False, returns[number])
                    results[number] = Result(row, episode, returns[number], False, task.max_steps, worth)
                else:
                    unfinished.append(number)
            if len(unfinished) < len(alive):
                ended = np.array([number for number in alive if number in results])
                ctx.rows = np.array([places[number].row for number in ended.tolist()])
                actor.end(ended, ctx)
            alive = unfinished
        return [results[number] for number in range(len(places))]


def scored(score: Score, task: Task, success: bool, ret: float) -> float:
    """Return the score of an episode that has just ended with return `ret`. Raise RuntimeError if the task lacks the
    method for it."""
    if score.name == "success":
        return float(success)
    if score.name == "return":
        return ret
    if score.name == "completion":
        parts = _subgoals(task)
        if not parts:
            raise RuntimeError("the suite declares the score 'completion', but its task has no subgoals")
        return sum(parts.values()) / len(parts)
    if not isinstance(task, ScoresEpisodes):
        raise RuntimeError(f"the suite declares the score {score.name!r}, but its task has no method `score`")
    return float(task.score())


def _subgoals(task: Task) -> Mapping[str, bool]:
    return task.subgoals() if isinstance(task, HasSubgoals) else {}


def _outcomes(task: Task) -> Mapping[str, float]:
    return task.outcomes() if isinstance(task, HasOutcomes) else {}


def _repeats(positions: set[bytes], task: Task) -> bool:
    position = task.position()
    if position is None:
        return False
    if position in positions:
        return True
    positions.add(position)
    return False
