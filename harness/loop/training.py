"""The training loop of all methods: it steps the tasks of S seeds in lock-step and drives an Agent."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from guidebench.harness.capabilities import HasExpert, Measured, Telling
from guidebench.harness.episodes.datasets import Dataset, transitions
from guidebench.harness.episodes.demonstrations import together
from guidebench.harness.errors import BudgetReached, Stopped, UserError
from guidebench.harness.interfaces import (
    Agent,
    Array,
    Episode,
    Metrics,
    Mode,
    Question,
    RunPhase,
    State,
    Step,
    StepWords,
    Task,
    Transition,
)
from guidebench.harness.loop.env_workers import at_once
from guidebench.harness.loop.evaluation import Evaluator, Note, Result, with_solver
from guidebench.harness.models.calls.base import Answer, Ticket
from guidebench.harness.models.questions import QuestionAccount, QuestionQueue, consult
from guidebench.harness.streams import Streams
from guidebench.harness.trajectories import Demonstration

METRICS_EVERY = 1_000
"""Environment steps over which losses and training episodes are averaged into one table row."""


def phases_of(agent: Agent, steps: int, datasets: Collection[str] = ()) -> tuple[RunPhase, ...]:
    """Return the run phases of an agent for a run of `steps` steps, with datasets in the roles `datasets`. Raise
    UserError for invalid run phases."""
    phases = agent.phases()
    names = [phase.name for phase in phases]
    for number, phase in enumerate(phases):
        name = f"phase {phase.name!r}"
        if phase.name in names[:number]:
            raise UserError(f"two phases of the run are called {phase.name!r}; give each a name of its own")
        if not isinstance(phase.steps, int) or phase.steps < 1:
            raise UserError(f"{name} has {phase.steps} steps; expected a whole number from 1 on, or no such phase")
        if phase.updates is not None and (not isinstance(phase.updates, int) or phase.updates < 0):
            raise UserError(
                f"{name} has updates={phase.updates}; expected a whole number of gradient updates per step, or None "
                f"for the learner's own schedule"
            )
        if phase.source not in ("environment", "none", *datasets):
            raise UserError(
                f"{name} has source={phase.source!r}; expected environment, none, or a role of kind dataset that a "
                f"part of the cell needs ({', '.join(datasets) or 'none does'})"
            )
        if phase.source in datasets and agent.wants_snapshots and not agent.datasets_unseen:
            raise UserError(
                f"{name} takes the dataset {phase.source!r}, which holds no snapshots and no events, and a part of the "
                f"cell needs frames or events of stored transitions (`wants_snapshots`); choose a replay, a guide and "
                f"an agent that do not need them"
            )
        if phase.source in datasets and agent.wants_measures:
            raise UserError(
                f"{name} takes the dataset {phase.source!r}, which holds no measures, and an oracle of the cell reads "
                f"measures of stored transitions; choose another model in its role"
            )
        if phase.source in datasets and agent.wants_words:
            raise UserError(
                f"{name} takes the dataset {phase.source!r}, which holds no words about its steps, and a part of the "
                f"cell reads them; choose another guide"
            )
    if (total := sum(phase.steps for phase in phases)) != steps:
        listed = ", ".join(f"{phase.name} {phase.steps:,}" for phase in phases) or "none"
        raise UserError(
            f"the phases of the run have {total:,} steps in all ({listed}), and training.steps={steps}; the two "
            f"must be equal"
        )
    return phases


def learning_begins(phases: Sequence[RunPhase], learning_starts: int) -> int:
    """Return the first step of a run with these phases that can take gradient steps, 1 if none can. `learning_starts`:
    the step from which the learners' own schedules do."""
    begin = 0
    for phase in phases:
        end = begin + phase.steps
        if phase.updates:
            return begin + 1
        if phase.updates is None and learning_starts <= end:
            return max(begin + 1, learning_starts)
        begin = end
    return 1


EVALUATING = "evaluation"
"""What the progress of a run calls its phase while an evaluation waits for answers."""


class Journal(Protocol):
    """Receives the loop's records, logs and checkpoints, and writes them to the run directories of a worker."""

    def evaluated(self, step: int, results: Sequence[Result]) -> None: ...

    def measured(self, row: int, step: int, metrics: dict[str, float]) -> None: ...

    def judged(self, ticket: Ticket, question: Question, answer: Answer, step: int) -> None: ...

    def noted(self, log: str, row: int, step: int, values: Mapping[str, Any]) -> None: ...

    def timed(self, step: int, clock: dict[str, float], accounts: Mapping[str, Sequence[QuestionAccount]]) -> None: ...

    def checkpoint(self, step: int, states: Callable[[int], State]) -> None: ...

    def diverged(self, row: int, step: int) -> None: ...

    def progress(
        self, step: int, score: Array, waited: float, accounts: Callable[[], Sequence[QuestionAccount]], phase: str
    ) -> None: ...

    def consulting(
        self, step: int, score: Array, waited: float, accounts: Callable[[], Sequence[QuestionAccount]], phase: str
    ) -> None: ...


class Loop:
    """Trains S seeds; also the Context that the agent sees."""

    mode = Mode.TRAIN

    def __init__(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        streams: Sequence[Streams],
        evaluator: Evaluator,
        journal: Journal,
        *,
        evaluate_every: int,
        checkpoint_every: int,
        asks: Mapping[str, QuestionQueue] | None = None,
        consulted: Mapping[str, QuestionQueue] | None = None,
        demonstrations: Sequence[Sequence[Demonstration]] = (),
        datasets: Mapping[str, Callable[[], Sequence[Dataset]]] = MappingProxyType({}),
        probe: Callable[[Agent, int, Sequence[int]], None] = lambda agent, step, rows: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._measured = [task for task in tasks if isinstance(task, Measured)] if agent.wants_measures else []
        """The tasks whose measures the agent asks for; all or none."""
        if agent.wants_measures and len(self._measured) < len(tasks):
            raise UserError(
                "an oracle of the cell reads measures, and the task has none; choose another model in its role"
            )
        self._telling = [task for task in tasks if isinstance(task, Telling)] if agent.wants_words else []
        """The tasks whose state and steps the agent wants in words; all or none."""
        if agent.wants_words and len(self._telling) < len(tasks):
            raise UserError(
                "a part of the cell reads state and steps in words, and the task tells its state in no sentences or "
                "has no captions; choose a suite that does both, such as crafter_ood"
            )
        follow = [role for role, asks in (consulted or {}).items() if asks.follows_solver]
        if follow and not all(isinstance(task, HasExpert) for task in tasks):
            raise UserError(
                f"{follow[0]}=… answers with the action of the suite's solver in the present state, and the task's "
                f"solver, if it has any, plans whole episodes; choose another {follow[0]}=…"
            )
        self.agent, self.tasks, self.streams = agent, tasks, streams
        self.rows = np.arange(len(tasks))
        self.step = 0
        self._evaluator, self._journal, self._probe, self._stop = evaluator, journal, probe, stop
        self._asks, self._consulted = asks or {}, consulted or {}
        self._pending: set[int] = set()
        """Seed rows that resume from a checkpoint written before an unfinished evaluation. After a kill, some seeds of
        a worker may have this checkpoint and others the one after the evaluation."""
        self._demonstrations = demonstrations
        self._datasets = dict(datasets)
        """Role -> function that loads the dataset of each seed, for datasets that are not stored yet."""
        self._evaluate_every, self._checkpoint_every = evaluate_every, checkpoint_every
        self.phase = RunPhase("none", 0, "none")
        """The current run phase."""
        self._evaluating = False
        self._observation: Array | None = None
        self._has_started = False
        """Whether the first episodes have begun."""
        self._returns = np.zeros(len(tasks))
        self._lengths = np.zeros(len(tasks), np.int64)
        self._windows = [Window() for _ in tasks]
        self._score = np.full(len(tasks), np.nan)
        self._clock = {"seconds": 0.0, "evaluation_seconds": 0.0, "checkpoint_seconds": 0.0, "wait_seconds": 0.0}
        self._resumed_at = time.monotonic()
        self._diverged = np.zeros(len(tasks), bool)
        self._end, self._several = 0, False

    def ask(self, ask: Question) -> None:
        if not self.agent.active[ask.row]:
            return  # the seed has stopped training
        if ask.to not in self._asks:
            role_names = ", ".join(self._asks) or "none"
            raise UserError(
                f"a part asks in the role {ask.to!r}, which the cell does not have (asked roles: {role_names}); "
                f"declare it in the `needs` of the part's configuration, and set `wants_snapshots` if it is a judge's"
            )
        self._asks[ask.to].submit(ask, self.step)

    def consult(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to questions of training synchronously."""
        return self._consult([(with_solver(question, self.tasks[question.row]), "") for question in questions])

    def _consult(self, questions: Sequence[tuple[Question, str]]) -> list[Any]:
        """Return the answer to each question, given with its scope, in order; None for a stopped seed, whose question
        is not sent."""

        def stop() -> bool:
            phase = EVALUATING if self._evaluating else self._phase_shown
            self._journal.consulting(self.step, self._score, self._waited, self._accounts, phase)
            return self._stop()

        return consult(self._consulted, questions, self.step, stop, self.agent.active)

    def note(self, log: str, row: int, values: Mapping[str, Any]) -> None:
        self._journal.noted(log, row, self.step, values)

    @property
    def active(self) -> Array:
        return self.agent.active

    @property
    def observation(self) -> Array:
        """Return the observation that each seed acts on next, [S, …]."""
        if self._observation is None:
            self._observation = np.stack([task.reset() for task in self.tasks])
        return self._observation

    def snapshot(self, row: int, episode: int = 0) -> Array:
        """Return the snapshot of the state that a seed acts on next."""
        return self.tasks[row].snapshot()

    def run(self) -> None:
        """Train to the end of the agent's last run phase. Raise Stopped if a stop is requested: between two steps after
        writing a checkpoint, or within a step that waits for an answer without writing one."""
        self._resumed_at = time.monotonic()
        phases = self.agent.phases()
        self._several = len(phases) > 1
        self._end = sum(phase.steps for phase in phases)
        if self.step == 0:
            self._demonstrate()
        elif self._pending:  # the checkpoint was written before an evaluation, which is repeated
            self._evaluate(sorted(self._pending))
            self._conclude()
        elif halted := self._halted():  # the budget that stopped the run is still exhausted
            raise BudgetReached(halted)
        until = 0
        for phase in phases:
            begin, until = until, until + phase.steps
            if self.step > begin:  # its dataset is already stored
                self._datasets.pop(phase.source, None)
            if self.step < until:
                self.enter(phase)
            while self.step < until:
                self.advance(phase)
                self._housekeep()

    def enter(self, phase: RunPhase) -> None:
        """Begin or continue a run phase, and store its dataset if that has not been done."""
        self.phase = phase
        load = self._datasets.pop(phase.source, None)
        if load is None:
            return
        if self._has_started:
            self.agent.cut(self)
        for transition in transitions(load(), len(self.tasks[0].events())):
            self.agent.observe(transition, self)

    def advance(self, phase: RunPhase) -> None:
        """Take one step of a run phase: a transition of every seed, responses that are due, and gradient steps."""
        self.phase = phase
        self.step += 1
        if phase.source == "environment":
            self._interact()
        for asks in self._asks.values():
            self._answer(asks)
        self._take_in(self.agent.update(self))

    def _demonstrate(self) -> None:
        """Pass the demonstrations to the agent; every seed observes its own."""
        for episodes in self._demonstrations:
            for step in range(episodes[0].length):
                transition = together(episodes, step)
                self.agent.observe(
                    transition if self.agent.wants_snapshots else transition._replace(snapshot=None), self
                )

    def _interact(self) -> None:
        """Take one step of every seed's task."""
        observations = self.observation
        if not self._has_started:
            self._has_started = True
            self.agent.begin(self.rows, observations, self)
        actions = self._finite(self.agent.act(observations, self))
        before = tuple(task.text() for task in self._telling)
        steps: list[Step] = at_once(self.tasks, "step", ((action,) for action in actions))
        transition = Transition(
            observation=observations,
            action=actions,
            reward=np.array([step.reward for step in steps], np.float32),
            terminated=np.array([step.terminated for step in steps]),
            truncated=np.array([step.truncated for step in steps]),
            next_observation=np.array([step.observation for step in steps]),
            events=np.array([task.events() for task in self.tasks]),
            snapshot=np.array([task.snapshot() for task in self.tasks]) if self.agent.wants_snapshots else None,
            success=np.array([step.success for step in steps], bool),
            measures=np.array([task.measures() for task in self._measured]) if self._measured else None,
            words=StepWords(before, tuple(task.caption() for task in self._telling)) if self._telling else None,
        )
        self._returns += [step.reward for step in steps]
        self._lengths += 1
        self.agent.observe(transition, self)
        ended = [row for row, step in enumerate(steps) if step.terminated or step.truncated]
        self._observation = transition.next_observation
        if ended:
            episodes = [
                Episode(row, float(self._returns[row]), int(self._lengths[row]), bool(steps[row].success))
                for row in ended
            ]
            for episode in episodes:
                self._windows[episode.row].episode(episode)
            self.agent.end(episodes, self)
            self._returns[ended], self._lengths[ended] = 0.0, 0
            self._observation = self._observation.copy()
            first = at_once([self.tasks[row] for row in ended], "reset", [()] * len(ended))
            for row, observation in zip(ended, first, strict=True):
                self._observation[row] = observation
            self.agent.begin(np.array(ended), self._observation[ended], self)

    def _finite(self, actions: Array) -> Array:
        """Return the actions; a seed whose action is not finite stops training, and its task continues with zeros."""
        bad = ~np.isfinite(actions).reshape(len(actions), -1).all(1)
        if not bad.any():
            return actions
        self.agent.active[bad] = False
        return np.where(bad.reshape(-1, *[1] * (actions.ndim - 1)), 0, actions).astype(actions.dtype)

    def _answer(self, asks: QuestionQueue) -> None:
        if answers := asks.due(self.step):
            self.agent.answered([(question, answer) for _, question, answer in answers], self)
            for due in answers if asks.clips else ():
                self._journal.judged(*due, self.step)

    def _take_in(self, metrics: Metrics) -> None:
        for name, values in metrics.items():
            for row, window in enumerate(self._windows):
                window.add(name, float(values[row]))

    def _housekeep(self) -> None:
        """Handle diverged seeds, metrics, evaluation, checkpoint, progress and stop, in an order that a resume
        repeats."""
        step, last = self.step, self.step == self._end
        if not self.agent.active.all():
            for row in np.flatnonzero(~self.agent.active & ~self._diverged).tolist():
                self._diverged[row] = True
                self._journal.diverged(row, step)
        if step % METRICS_EVERY == 0 or last:
            for row, window in enumerate(self._windows):
                self._journal.measured(row, step, window.drain())
        if step % self._evaluate_every == 0 or last:
            if self._consulted:  # a question of the evaluation may stop the run, so write a checkpoint before it
                self._journal.checkpoint(step, lambda row: {**self.state(row), "pending": True})
            self._evaluate(self.rows.tolist())
        self._conclude()

    def _conclude(self) -> None:
        """Handle checkpoint, progress and stop, after a possible evaluation."""
        step, last = self.step, self.step == self._end
        halted = "" if last else self._halted()
        stopping = not last and (bool(halted) or self._stop())
        if step % self._checkpoint_every == 0 or last or stopping:
            self._journal.timed(step, self._read_clock(), self.accounts)
            started = time.monotonic()
            self._journal.checkpoint(step, self.state)
            self._clock["checkpoint_seconds"] += time.monotonic() - started
        self._journal.progress(step, self._score, self._waited, self._accounts, self._phase_shown)
        if halted:
            raise BudgetReached(halted)
        if stopping:
            raise Stopped

    def _halted(self) -> str:
        """Return why an answer that the next step needs cannot arrive, or ""."""
        return next((asks.reason for asks in self._asks.values() if asks.halted(self.step + 1)), "")

    def _evaluate(self, of: Sequence[int]) -> None:
        """Evaluate those of the seed rows `of` that still train."""
        started = time.monotonic()
        rows = [row for row in of if self.agent.active[row]]
        for asks in self._consulted.values():
            asks.begin_scopes()

        def consult(questions: Sequence[Question]) -> list[Any]:
            return self._consult([(question, f"evaluation/{self.step}/{question.episode}") for question in questions])

        notes: list[Note] = []
        self._evaluating = True
        results = self._evaluator(self.agent, self.step, rows, None, consult, notes)
        self._evaluating = False
        self._journal.evaluated(self.step, results)
        for log, row, values in notes:
            self._journal.noted(log, row, self.step, values)
        self._probe(self.agent, self.step, rows)
        returns = np.full(len(self.tasks), np.nan)
        for row in rows:
            mine = [result for result in results if result.row == row]
            returns[row] = np.mean([result.ret for result in mine])
            self._score[row] = np.mean([result.score for result in mine])
        self.agent.evaluated(returns, self)
        self._clock["evaluation_seconds"] += time.monotonic() - started

    @property
    def clock(self) -> dict[str, float]:
        """Return the seconds so far, and those spent on evaluations, on checkpoints and on waiting for answers."""
        return self._read_clock()

    def _read_clock(self) -> dict[str, float]:
        now = time.monotonic()
        self._clock["seconds"] += now - self._resumed_at
        self._resumed_at = now
        if self._every:
            self._clock["wait_seconds"] = self._waited
        return dict(self._clock)

    @property
    def accounts(self) -> dict[str, Sequence[QuestionAccount]]:
        """Return the model usage of each seed's questions, by role."""
        return {role: asks.accounts for role, asks in self._every}

    @property
    def _phase_shown(self) -> str:
        """Return the name of the current run phase, or "" if the run has only one."""
        return self.phase.name if self._several else ""

    @property
    def _waited(self) -> float:
        return sum(asks.waited for _, asks in self._every)

    @property
    def _every(self) -> list[tuple[str, QuestionQueue]]:
        """Return the question queues of all roles, delayed and synchronous."""
        return [*self._asks.items(), *self._consulted.items()]

    def _accounts(self) -> list[QuestionAccount]:
        """Return the model usage of each seed's questions over all roles; empty if the cell sends no questions."""
        accounts = [asks.accounts for _, asks in self._every]
        return [functools.reduce(QuestionAccount.plus, mine) for mine in zip(*accounts, strict=True)]

    def state(self, row: int) -> State:
        """Return everything that decides the rest of one seed's run."""
        return {
            "step": self.step,
            "task": self.tasks[row].state(),
            "observation": None if self._observation is None else self._observation[row],
            "begun": self._has_started,
            "return": float(self._returns[row]),
            "length": int(self._lengths[row]),
            "streams": self.streams[row].state(),
            "window": self._windows[row].state(),
            "agent": self.agent.state(row),
            "asks": {role: asks.state(row) for role, asks in self._every},
            "clock": dict(self._clock),
        }

    def load_state(self, row: int, state: State) -> None:
        """Restore one seed from `state`; all seeds of a worker must be at the same step."""
        self.step = int(state["step"])
        self.tasks[row].load_state(state["task"])
        if state["observation"] is not None:
            if self._observation is None:
                self._observation = np.stack([state["observation"]] * len(self.tasks))
            self._observation[row] = state["observation"]
        self._has_started = bool(state["begun"])
        self._returns[row], self._lengths[row] = state["return"], state["length"]
        self.streams[row].load_state(state["streams"])
        self._windows[row].load_state(state["window"])
        self.agent.load_state(row, state["agent"])
        if state.get("pending"):
            self._pending.add(row)
        for number, (role, asks) in enumerate(self._every):
            if role not in state["asks"]:
                raise UserError(
                    "this checkpoint was written by a version that stored questions differently; delete the run's "
                    "directory"
                )
            asks.load_state(row, state["asks"][role])
            asks.waited = 0.0 if number else state["clock"]["wait_seconds"]  # the sum over all roles
        self._clock.update(state["clock"])


class Window:
    """Accumulates the means of one seed's metrics since the last table row of metrics."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Add a value; NaN is ignored."""
        if math.isnan(value):
            return
        total = self._sums.setdefault(name, [0.0, 0])
        total[0] += value
        total[1] += 1

    def episode(self, episode: Episode) -> None:
        self.add("episode/return", episode.ret)
        self.add("episode/length", episode.length)
        self.add("episode/success", float(episode.success))
        self.add("episode/count", 1.0)

    def drain(self) -> dict[str, float]:
        """Return the means (the number of episodes as a sum) and reset."""
        means = {name: total if name == "episode/count" else total / n for name, (total, n) in self._sums.items()}
        self._sums = {}
        return means

    def state(self) -> dict[str, Any]:
        return {name: list(total) for name, total in self._sums.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        self._sums = {name: list(total) for name, total in state.items()}
