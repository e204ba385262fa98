"""Answers from the task's own events, measures and solver, computed in the worker without rendering or a model process.

Only a model whose backend is `oracle` gets them, so that no other model sees privileged state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.models import answer_records
from guidebench.harness.models.calls import Answer, Ticket, Usage
from guidebench.harness.models.questions import Memory
from guidebench.harness.streams import Streams

Oracle = Callable[[Question, np.random.Generator], Any]
"""A question and its own generator -> the value of its response: a judge's P(yes), in [0, 1], or, for a chat, the JSON
value that the dialogue of the asking part would return, or None if it has no answer."""


def solution(question: Question) -> Any:
    """Return the action of the suite's own solver in the task's state at the time of the question. Raise UserError if
    the question holds no solver."""
    if question.solver is None:
        raise UserError(
            f"a model in the role {question.to!r} answers with the action of the suite's solver, and its question "
            f"holds none: the task has no solver of single states (`expert`), the role is not in the `consults` of the "
            f"part that asks, or the model's configuration does not declare `follows_solver`"
        )
    return question.solver()


class OracleBackend:
    """Answers each question immediately; its errors depend only on the seed and on the question's role, scope and
    ordinal."""

    restarts = 0
    memory = Memory()
    halted = ""

    def __init__(self, oracle: Oracle, streams: Sequence[Streams], recorded_as: str = "") -> None:
        """`recorded_as`: kind under which each answer carries its record (`Answer.records`); "" for no records."""
        self._oracle, self._streams, self._recorded_as = oracle, streams, recorded_as
        self._answers: dict[Ticket, Answer] = {}
        self.seconds = 0.0
        self.clips = 0

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None:
        started = time.perf_counter()
        generator = self._streams[question.row].of_question(ticket.ordinal, question.to, ticket.scope)
        value = self._oracle(question, generator)
        usage = Usage(calls=1, seconds=time.perf_counter() - started)
        answer = Answer(value, "empty" if value is None else "", usage, usage)
        if self._recorded_as and value is not None:
            answer = answer._replace(records=(answer_records.of_question(question, value, self._recorded_as),))
        self._answers[ticket] = answer
        self.clips += 1
        self.seconds += usage.seconds

    def arrived(self, ticket: Ticket) -> bool:
        return ticket in self._answers

    def wait(self, ticket: Ticket) -> bool:
        return True

    def take(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> tuple[Answer, float]:
        """Return the answer to a question and a wait of 0 seconds."""
        return self._answers.pop(ticket), 0.0

    def poll(self) -> None:
        """Do nothing, because every question is answered already."""

    def publish(self, followers: Sequence[Path] = ()) -> None:
        """Do nothing, because nothing is recorded."""

    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None:
        """Do nothing, because there is no process to end."""
