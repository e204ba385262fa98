"""Questions in flight. An answer to a question of step t is applied at step t + delay, whenever it arrived.

If it is late the loop waits and the wait is counted, so an asynchronous run is reproducible and resumable. With
`delay=None` an answer is applied when it arrives, which depends on the machine.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question, Response, State
from guidebench.harness.models.calls.base import CallResult, Usage

POLL_EVERY = 8
"""Steps from one look at what has arrived to the next while nothing is due: a judge stays fed, and it costs nothing."""


class InFlight(NamedTuple):
    """A question on its way: `number` names it to the backend, `ordinal` counts within its seed."""

    number: int
    ordinal: int
    step: int
    ask: Question
    scope: str = ""
    """Within what it was put: "" for training, else an episode of an evaluation."""


class Memory(NamedTuple):
    """GiB that a model's process held of a GPU; 0 where it uses none."""

    load: float = 0.0
    """Least after an answer: the weights, with next to nothing that an answer needs."""
    peak: float = 0.0

    def with_(self, other: Memory) -> Memory:
        """Both together."""
        return Memory(min(filter(None, (self.load, other.load)), default=0.0), max(self.peak, other.peak))


class Backend(Protocol):
    """What answers: a process that is sent snapshots, an oracle that is told events, a person at a terminal."""

    seconds: float
    clips: int
    restarts: int
    memory: Memory
    halted: str
    """What keeps it from answering, a budget or that nobody is there, in words; or ""."""

    def ask(self, item: InFlight, ahead: bool = False) -> None: ...
    def arrived(self, number: int) -> bool: ...
    def wait(self, number: int) -> bool: ...
    def take(self, number: int, stop: Callable[[], bool] | None = None) -> tuple[CallResult, float]: ...
    def poll(self) -> None: ...
    def close(self) -> None: ...


class Account(NamedTuple):
    """What a run's questions took; those that failed are among them."""

    would_be: Usage = Usage()
    """As if nothing had been answered from a cassette: the same whenever the run is made."""
    billed: Usage = Usage()
    """What was really asked of the model for it; what a crash lost stands in the study's cassette alone."""
    failures: int = 0
    """Questions that ended without an answer."""
    questions: int = 0
    """All that ended, with an answer or without one; a question may take several calls."""

    def plus(self, other: Account) -> Account:
        return Account(
            self.would_be.plus(other.would_be), self.billed.plus(other.billed), self.failures + other.failures,
            self.questions + other.questions,
        )  # fmt: skip

    def with_answer(self, told: CallResult) -> Account:
        return self.plus(Account(told.usage, told.billed, int(bool(told.failure)), 1))


class Due(NamedTuple):
    """A question, and what is to be known of its answer."""

    item: InFlight
    answer: Response
    told: CallResult


class QuestionQueue:
    """All questions of a worker to one role, per seed in the order in which they were asked."""

    def __init__(
        self, rows: int, delay: int | None, backend: Backend, halts: bool = False, role: str = "judge",
        kind: str = "judge", numbers: Iterator[int] | None = None,
    ) -> None:  # fmt: skip
        """`halts`: whether a budget, or a person who is not there, may keep the backend from answering; `kind`: of the
        part in this role; `numbers`: of the questions, from a counter that all roles of a worker share, since one
        backend may answer in several."""
        self._delay, self._halts, self.role, self.kind = delay, halts, role, kind
        self._backend = backend
        self._flight: list[list[InFlight]] = [[] for _ in range(rows)]
        self._ordinals = [0] * rows
        self._scoped: defaultdict[str, list[int]] = defaultdict(lambda: [0] * rows)
        self._numbers = itertools.count() if numbers is None else numbers
        self._next_due = math.inf
        self.accounts = [Account()] * rows
        self.waited = 0.0
        """Seconds that the loop stood still for a late answer."""

    def submit(self, ask: Question, step: int) -> None:
        self._put(ask, step, self._ordinals[ask.row])
        self._ordinals[ask.row] += 1

    def _put(self, ask: Question, step: int, ordinal: int) -> None:
        item = InFlight(next(self._numbers), ordinal, step, ask)
        self._flight[ask.row].append(item)
        self._backend.ask(item)
        self._next_due = min(self._next_due, self._due_step(item))

    def send(self, questions: Sequence[tuple[Question, str]], step: int) -> list[InFlight]:
        """Put questions that somebody stands waiting for, each with the scope that it is put within, ahead of whatever
        waits."""
        items = []
        for ask, scope in questions:
            counted = self._scoped[scope] if scope else self._ordinals
            items.append(InFlight(next(self._numbers), counted[ask.row], step, ask, scope))
            counted[ask.row] += 1
        for item in items:
            self._backend.ask(item, ahead=True)
        return items

    def values(self, items: Sequence[InFlight], stop: Callable[[], bool]) -> list[Any]:
        """The answers to questions that were sent, in order, None where there is no usable one; waits for all. Stopped
        where `stop` says so meanwhile, BudgetReached where one will not be answered."""
        found = []
        for item in items:
            told, seconds = self._backend.take(item.number, stop)
            self.waited += seconds
            self.accounts[item.ask.row] = self.accounts[item.ask.row].with_answer(told)
            found.append(told.value)
        return found

    def begin_scopes(self) -> None:
        """Count questions from 0 in every scope but training's: an evaluation begins, or begins again."""
        self._scoped.clear()

    def due(self, step: int) -> list[Due]:
        """The answers that count from `step` on, seed by seed, in the order asked; waits for those that are late.
        BudgetReached where one will not come."""
        if step < self._next_due and step % POLL_EVERY:
            return []
        self._backend.poll()
        found = []
        for queue in self._flight:
            while queue and self._counts(queue[0], step):
                item = queue.pop(0)
                told, seconds = self._backend.take(item.number)
                self.waited += seconds
                row = item.ask.row
                self.accounts[row] = self.accounts[row].with_answer(told)
                found.append(Due(item, Response(row, item.ask.key, told.value, item.ask.to), told))
        self._next_due = min((self._due_step(queue[0]) for queue in self._flight if queue), default=math.inf)
        return found

    def halted(self, step: int) -> bool:
        """Whether an answer that is due at `step` is kept from coming: the moment to stop is before that."""
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
        """The step at which an answer counts; with `delay=None` the first at which it might."""
        return item.step + (self._delay or 0)

    @property
    def reason(self) -> str:
        """What keeps answers from coming, in words, or ""."""
        return self._backend.halted

    @property
    def asked(self) -> int:
        """Questions of all seeds so far."""
        return sum(self._ordinals)

    @property
    def in_flight(self) -> int:
        return sum(len(queue) for queue in self._flight)

    def state(self, row: int) -> State:
        """The questions of one seed that are not answered yet, snapshots and events included."""
        account = self.accounts[row]
        return {
            "ordinal": self._ordinals[row],
            "account": account._asdict() | {"would_be": list(account.would_be), "billed": list(account.billed)},
            "asks": [
                {
                    "step": item.step,
                    "ordinal": item.ordinal,
                    "key": item.ask.key,
                    "snapshots": item.ask.snapshots,
                    "events": item.ask.events,
                    "content": item.ask.content,
                }
                for item in self._flight[row]
            ],
        }

    def load_state(self, row: int, state: State) -> None:
        """Ask again what was in flight."""
        self._ordinals[row] = int(state["ordinal"])
        account = state["account"]
        self.accounts[row] = Account(
            Usage(*account["would_be"]), Usage(*account["billed"]), int(account["failures"]), int(account["questions"])
        )
        for item in state["asks"]:
            snapshots = None if item["snapshots"] is None else np.asarray(item["snapshots"])
            key, events = np.asarray(item["key"]), np.asarray(item["events"])
            ask = Question(row, key, snapshots, events, item["content"], self.role)
            self._put(ask, int(item["step"]), int(item["ordinal"]))


def consulted(
    roles: Mapping[str, QuestionQueue],
    questions: Sequence[tuple[Question, str]],
    step: int,
    stop: Callable[[], bool] = lambda: False,
    active: Array | None = None,
) -> list[Any]:
    """The answers to questions that somebody stands waiting for, in order; None where there is no usable one, and for a
    seed that is not `active` [S], whose question is not sent. All are sent before the first is waited for.

    `questions`: each with the scope that it is put within. UserError for a role that is not among `roles`; Stopped and
    BudgetReached as of `QuestionQueue.values`."""
    by_role: dict[str, list[int]] = {}
    for number, (question, _) in enumerate(questions):
        if question.to not in roles:
            known = ", ".join(roles) or "none"
            raise UserError(
                f"a part consults the role {question.to!r}, and the cell's consulted roles are {known}; declare it in "
                f"the `needs` and the `consults` of the part's configuration"
            )
        if active is None or active[question.row]:
            by_role.setdefault(question.to, []).append(number)
    sent = {role: roles[role].send([questions[number] for number in mine], step) for role, mine in by_role.items()}
    told: list[Any] = [None] * len(questions)
    for role, mine in by_role.items():
        for number, value in zip(mine, roles[role].values(sent[role], stop), strict=True):
            told[number] = value
    return told
