"""Questions in flight. The answer to a question of step t is applied at step t + delay, whenever it arrives.

If the answer is late, the training loop waits and the wait is measured, so an asynchronous run is reproducible and
resumable. With `delay=None` an answer is applied when it arrives, which depends on the machine's speed.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question, Response, State
from guidebench.harness.models.calls.base import CallResult, Usage

POLL_EVERY = 8
"""Steps between polls of the backend while no answer is due; enough to keep a judge busy at no measurable cost."""


class InFlight(NamedTuple):
    """A question sent to the backend: `number` identifies it there, `ordinal` counts questions within its seed."""

    number: int
    ordinal: int
    step: int
    question: Question
    scope: str = ""
    """Context of the question: "" for training, else an episode of an evaluation."""
    probe: bool = False
    """Whether the question is about a clip of a probe; then it does not belong to the run."""


class Memory(NamedTuple):
    """GPU memory of the process that holds a model, in GiB; 0 without a GPU."""

    load: float = 0.0
    """Smallest value measured after an answer: approximately the weights."""
    peak: float = 0.0

    @classmethod
    def of_process(cls) -> Memory:
        """Return the GPU memory of this process, zero unless torch is loaded and uses the GPU."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return cls()
        return cls(torch.cuda.memory_allocated() / 2**30, torch.cuda.max_memory_allocated() / 2**30)

    def with_(self, other: Memory) -> Memory:
        """Return the smaller load and the larger peak of two measurements."""
        return Memory(min(filter(None, (self.load, other.load)), default=0.0), max(self.peak, other.peak))


class Backend(Protocol):
    """Source of answers: a model process that gets snapshots, an oracle that reads the task's state, or a person at a
    terminal."""

    seconds: float
    clips: int
    restarts: int
    memory: Memory
    halted: str
    """Why the backend has stopped answering (a spent budget, or an absent person), or ""."""

    def ask(self, item: InFlight, ahead: bool = False) -> None: ...
    def arrived(self, number: int) -> bool: ...
    def wait(self, number: int) -> bool: ...
    def take(self, number: int, stop: Callable[[], bool] | None = None) -> tuple[CallResult, float]: ...
    def poll(self) -> None: ...
    def publish(self, followers: Sequence[Path] = ()) -> None: ...
    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None: ...


class QuestionAccount(NamedTuple):
    """Usage of a run's questions, including failed ones, as if no answer had come from a cassette; so it is the same
    for every repetition of the run. The usage really incurred is in the study's cassette (`spending`)."""

    would_be: Usage = Usage()
    failures: int = 0
    """Questions that ended without a usable answer."""
    questions: int = 0
    """Questions that ended, with or without an answer; one question may take several calls."""

    def plus(self, other: QuestionAccount) -> QuestionAccount:
        """Return the sum, field by field."""
        return QuestionAccount(
            self.would_be.plus(other.would_be), self.failures + other.failures, self.questions + other.questions
        )

    def with_answer(self, outcome: CallResult) -> QuestionAccount:
        """Return the account after one more question ended with `outcome`."""
        return self.plus(QuestionAccount(outcome.usage, int(bool(outcome.failure)), 1))


class Due(NamedTuple):
    """A question, its response, and the outcome of its calls."""

    item: InFlight
    answer: Response
    outcome: CallResult


class QuestionQueue:
    """All questions of a worker to one role, queued per seed in the order in which they were asked."""

    def __init__(
        self, rows: int, delay: int | None, backend: Backend, halts: bool = False, role: str = "judge",
        kind: str = "judge", numbers: Iterator[int] | None = None, follows_solver: bool = False, clips: bool = False,
    ) -> None:  # fmt: skip
        """`halts`: whether the backend may stop answering, for a spent budget or an absent person; `kind`: kind of the
        part in this role; `numbers`: counter of question numbers, shared by all roles of a worker because one backend
        may serve several roles; `follows_solver`: whether the backend is an oracle that receives solvers; `clips`:
        whether the questions are clips to be judged."""
        self._delay, self._halts, self.role, self.kind = delay, halts, role, kind
        self.follows_solver, self.clips = follows_solver, clips
        self._backend = backend
        self._flight: list[list[InFlight]] = [[] for _ in range(rows)]
        self._ordinals = [0] * rows
        self._scoped: defaultdict[str, list[int]] = defaultdict(lambda: [0] * rows)
        self._numbers = itertools.count() if numbers is None else numbers
        self._next_due = math.inf
        self.accounts = [QuestionAccount()] * rows
        self.waited = 0.0
        """Seconds that the training loop waited for late answers."""

    def submit(self, question: Question, step: int) -> None:
        """Send a question whose answer applies from `step` + delay."""
        self._put(question, step, self._ordinals[question.row])
        self._ordinals[question.row] += 1

    def _put(self, question: Question, step: int, ordinal: int) -> None:
        item = InFlight(next(self._numbers), ordinal, step, question)
        self._flight[question.row].append(item)
        self._backend.ask(item)
        self._next_due = min(self._next_due, self._due_step(item))

    def send(self, questions: Sequence[tuple[Question, str]], step: int) -> list[InFlight]:
        """Send questions, each with its scope, ahead of all queued ones, because the caller blocks until they are
        answered."""
        sent = []
        for question, scope in questions:
            counted = self._scoped[scope] if scope else self._ordinals
            if not self.follows_solver:
                question = question._replace(solver=None)
            sent.append(InFlight(next(self._numbers), counted[question.row], step, question, scope))
            counted[question.row] += 1
        for item in sent:
            self._backend.ask(item, ahead=True)
        return sent

    def values(self, items: Sequence[InFlight], stop: Callable[[], bool]) -> list[Any]:
        """Wait for the answers to sent questions and return them in order, None where a question failed. Raise Stopped
        if `stop()` becomes true meanwhile, and BudgetReached if a budget prevents an answer."""
        answers = []
        for item in items:
            outcome, seconds = self._backend.take(item.number, stop)
            self.waited += seconds
            self.accounts[item.question.row] = self.accounts[item.question.row].with_answer(outcome)
            answers.append(outcome.value)
        return answers

    def begin_scopes(self) -> None:
        """Restart the ordinals of every scope but training's at 0, because an evaluation begins or is repeated."""
        self._scoped.clear()

    def due(self, step: int) -> list[Due]:
        """Return the answers that apply from `step` on, seed by seed in the order asked; wait for late ones. Raise
        BudgetReached if a budget prevents one."""
        if step < self._next_due and step % POLL_EVERY:
            return []
        self._backend.poll()
        due_answers = []
        for queue in self._flight:
            while queue and self._counts(queue[0], step):
                item = queue.pop(0)
                outcome, seconds = self._backend.take(item.number)
                self.waited += seconds
                row = item.question.row
                self.accounts[row] = self.accounts[row].with_answer(outcome)
                due_answers.append(
                    Due(item, Response(row, item.question.key, outcome.value, item.question.to), outcome)
                )
        self._next_due = min((self._due_step(queue[0]) for queue in self._flight if queue), default=math.inf)
        return due_answers

    def halted(self, step: int) -> bool:
        """Return whether an answer due at `step` will not come, so that the run must stop before that step."""
        if not self._halts or step < self._next_due:
            return False
        if self._delay is None:
            return bool(self._backend.halted)
        started = time.monotonic()
        items = [item for queue in self._flight for item in queue if self._due_step(item) <= step]
        answered = all([self._backend.wait(item.number) for item in items])
        self.waited += time.monotonic() - started
        return not answered

    def _counts(self, item: InFlight, step: int) -> bool:
        return self._due_step(item) <= step and (self._delay is not None or self._backend.arrived(item.number))

    def _due_step(self, item: InFlight) -> int:
        """Return the step from which an answer applies; with `delay=None`, the earliest such step."""
        return item.step + (self._delay or 0)

    @property
    def reason(self) -> str:
        """Why the backend has stopped answering, or ""."""
        return self._backend.halted

    @property
    def question_count(self) -> int:
        """Number of questions asked so far, over all seeds."""
        return sum(self._ordinals)

    @property
    def in_flight(self) -> int:
        return sum(len(queue) for queue in self._flight)

    def state(self, row: int) -> State:
        """Return the account of one seed and its unanswered questions, including their snapshots, events and
        measures."""
        account = self.accounts[row]
        return {
            "ordinal": self._ordinals[row],
            "account": account._asdict() | {"would_be": list(account.would_be)},
            "asks": [
                {
                    "step": item.step,
                    "ordinal": item.ordinal,
                    "key": item.question.key,
                    "snapshots": item.question.snapshots,
                    "events": item.question.events,
                    "content": item.question.content,
                    **({} if item.question.measures is None else {"measures": item.question.measures}),
                }
                for item in self._flight[row]
            ],
        }

    def load_state(self, row: int, state: State) -> None:
        """Restore the state of one seed and ask its unanswered questions again."""
        self._ordinals[row] = int(state["ordinal"])
        account = state["account"]
        self.accounts[row] = QuestionAccount(
            Usage(*account["would_be"]), int(account["failures"]), int(account["questions"])
        )
        for item in state["asks"]:
            snapshots = None if item["snapshots"] is None else np.asarray(item["snapshots"])
            key, events = np.asarray(item["key"]), np.asarray(item["events"])
            measured = np.asarray(item["measures"]) if "measures" in item else None
            ask = Question(row, key, snapshots, events, item["content"], self.role, measures=measured)
            self._put(ask, int(item["step"]), int(item["ordinal"]))


def consult(
    roles: Mapping[str, QuestionQueue],
    questions: Sequence[tuple[Question, str]],
    step: int,
    stop: Callable[[], bool] = lambda: False,
    active: Array | None = None,
) -> list[Any]:
    """Send questions, wait, and return their answers in order: None where a question failed, and for a seed that is not
    `active` [S], whose question is not sent. All questions are sent before the first wait.

    `questions`: pairs of question and scope. Raise UserError for a role that is not among `roles`, and Stopped and
    BudgetReached as `QuestionQueue.values` does."""
    by_role: dict[str, list[int]] = {}
    for number, (question, _) in enumerate(questions):
        if question.to not in roles:
            role_names = ", ".join(roles) or "none"
            raise UserError(
                f"a part consults the role {question.to!r}, and the cell's consulted roles are {role_names}; declare "
                f"it in the `needs` and the `consults` of the part's configuration"
            )
        if active is None or active[question.row]:
            by_role.setdefault(question.to, []).append(number)
    sent = {role: roles[role].send([questions[number] for number in mine], step) for role, mine in by_role.items()}
    answers: list[Any] = [None] * len(questions)
    for role, mine in by_role.items():
        for number, value in zip(mine, roles[role].values(sent[role], stop), strict=True):
            answers[number] = value
    return answers
