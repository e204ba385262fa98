"""Questions in flight. The answer to a question of step t is applied at step t + delay, whenever it arrives.

If the answer is late, the training loop waits and the wait is measured, so an asynchronous run is reproducible and
resumable. With `delay=None` an answer is applied when it arrives, which depends on the machine's speed.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question, State
from guidebench.harness.models.calls.base import Answer, Ticket, Usage
from guidebench.harness.records.answers import AnswerRecord

POLL_EVERY = 8
"""Steps between polls of the backend while no answer is due; enough to keep a judge busy at no measurable cost."""


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

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None: ...
    def arrived(self, ticket: Ticket) -> bool: ...
    def wait(self, ticket: Ticket) -> bool: ...
    def take(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> tuple[Answer, float]: ...
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
    retried: int = 0
    """Questions that ended with an answer, after a reply that could not be read."""

    def plus(self, other: QuestionAccount) -> QuestionAccount:
        """Return the sum, field by field."""
        return QuestionAccount(
            self.would_be.plus(other.would_be), self.failures + other.failures, self.questions + other.questions,
            self.retried + other.retried,
        )  # fmt: skip

    def with_answer(self, answer: Answer) -> QuestionAccount:
        """Return the account after one more question ended with `answer`."""
        failed = bool(answer.failure)
        return self.plus(QuestionAccount(answer.usage, int(failed), 1, int(answer.retried and not failed)))


Keep = Callable[[int, Sequence[AnswerRecord]], None]
"""Keeps the answers to a question of a seed row."""


def keep_none(row: int, records: Sequence[AnswerRecord]) -> None:
    """Do nothing, because the run keeps no answers."""


class QuestionQueue:
    """All questions of a worker to one role, queued per seed in the order in which they were asked."""

    def __init__(
        self, runs: Sequence[str], delay: int | None, backend: Backend, halts: bool = False, role: str = "judge",
        kind: str = "judge", follows_solver: bool = False, clips: bool = False, keep: Keep = keep_none,
    ) -> None:  # fmt: skip
        """`runs`: CELL/SEED of each seed row; `halts`: whether the backend may stop answering, for a spent budget or an
        absent person; `kind`: kind of the part in this role; `follows_solver`: whether the backend is an oracle that
        receives solvers; `clips`: whether the questions are clips to be judged; `keep`: receives what is to be kept of
        each answer, in the order in which the run takes answers."""
        self._runs, self._delay, self._halts, self.role, self.kind = runs, delay, halts, role, kind
        self.follows_solver, self.clips = follows_solver, clips
        self._backend, self._keep = backend, keep
        self._flight: list[list[tuple[Ticket, Question]]] = [[] for _ in runs]
        self._ordinals = [0] * len(runs)
        self._scoped: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(runs))
        self._next_due = math.inf
        self.accounts = [QuestionAccount()] * len(runs)
        self.waited = 0.0
        """Seconds that the training loop waited for late answers."""

    def submit(self, question: Question, step: int) -> None:
        """Send a question whose answer applies from `step` + delay."""
        self._put(self._ticket(question, step), question)

    def _ticket(self, question: Question, step: int, scope: str = "") -> Ticket:
        """Return the ticket of the next question of a seed in a scope."""
        row, ordinals = question.row, self._scoped[scope] if scope else self._ordinals
        ordinals[row] += 1
        return Ticket(self._runs[row], ordinals[row] - 1, step, question.to, scope)

    def _put(self, ticket: Ticket, question: Question) -> None:
        self._flight[question.row].append((ticket, question))
        self._backend.ask(ticket, question)
        self._next_due = min(self._next_due, self._due_step(ticket))

    def send(self, questions: Sequence[tuple[Question, str]], step: int) -> list[Ticket]:
        """Send questions, each with its scope, ahead of all queued ones, because the caller blocks until they are
        answered."""
        tickets = [self._ticket(question, step, scope) for question, scope in questions]
        for ticket, (question, _) in zip(tickets, questions, strict=True):
            self._backend.ask(ticket, question if self.follows_solver else question._replace(solver=None), ahead=True)
        return tickets

    def values(self, tickets: Sequence[Ticket], stop: Callable[[], bool]) -> list[Any]:
        """Wait for the answers to sent questions and return them in order, None where a question failed. Raise Stopped
        if `stop()` becomes true meanwhile, and BudgetReached if a budget prevents an answer."""
        return [self._take(ticket, self._runs.index(ticket.run), stop).value for ticket in tickets]

    def _take(self, ticket: Ticket, row: int, stop: Callable[[], bool] | None = None) -> Answer:
        """Wait for an answer and count it for its seed."""
        answer, seconds = self._backend.take(ticket, stop)
        self.waited += seconds
        self.accounts[row] = self.accounts[row].with_answer(answer)
        if answer.records:
            self._keep(row, answer.records)
        return answer

    def begin_scopes(self) -> None:
        """Restart the ordinals of every scope but training's at 0, because an evaluation begins or is repeated."""
        self._scoped.clear()

    def due(self, step: int) -> list[tuple[Ticket, Question, Answer]]:
        """Return the answers that apply from `step` on, seed by seed in the order asked; wait for late ones. Raise
        BudgetReached if a budget prevents one."""
        if step < self._next_due and step % POLL_EVERY:
            return []
        self._backend.poll()
        answers = []
        for row, flight in enumerate(self._flight):
            while flight and self._counts(flight[0][0], step):
                ticket, question = flight.pop(0)
                answers.append((ticket, question, self._take(ticket, row)))
        self._next_due = min((self._due_step(flight[0][0]) for flight in self._flight if flight), default=math.inf)
        return answers

    def halted(self, step: int) -> bool:
        """Return whether an answer due at `step` will not come, so that the run must stop before that step."""
        if not self._halts or step < self._next_due:
            return False
        if self._delay is None:
            return bool(self._backend.halted)
        started = time.monotonic()
        tickets = [ticket for flight in self._flight for ticket, _ in flight if self._due_step(ticket) <= step]
        answered = all([self._backend.wait(ticket) for ticket in tickets])
        self.waited += time.monotonic() - started
        return not answered

    def _counts(self, ticket: Ticket, step: int) -> bool:
        return self._due_step(ticket) <= step and (self._delay is not None or self._backend.arrived(ticket))

    def _due_step(self, ticket: Ticket) -> int:
        """Return the step from which an answer applies; with `delay=None`, the earliest such step."""
        return ticket.step + (self._delay or 0)

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
                    "step": ticket.step,
                    "ordinal": ticket.ordinal,
                    "key": question.key,
                    "snapshots": question.snapshots,
                    "events": question.events,
                    "content": question.content,
                    **({} if question.measures is None else {"measures": question.measures}),
                }
                for ticket, question in self._flight[row]
            ],
        }

    def load_state(self, row: int, state: State) -> None:
        """Restore the state of one seed and ask its unanswered questions again."""
        self._ordinals[row] = int(state["ordinal"])
        account = state["account"]
        self.accounts[row] = QuestionAccount(
            Usage(*account["would_be"]), int(account["failures"]), int(account["questions"]),
            int(account.get("retried", 0)),  # checkpoints from before it was counted lack it
        )  # fmt: skip
        for stored in state["asks"]:
            snapshots = None if stored["snapshots"] is None else np.asarray(stored["snapshots"])
            key, events = np.asarray(stored["key"]), np.asarray(stored["events"])
            measures = np.asarray(stored["measures"]) if "measures" in stored else None
            question = Question(row, key, snapshots, events, stored["content"], self.role, measures=measures)
            self._put(Ticket(self._runs[row], int(stored["ordinal"]), int(stored["step"]), self.role), question)


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
