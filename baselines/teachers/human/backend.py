"""The backend of the human teacher: a run writes questions to files and stops until they are answered in `bench label`.

A run that needs a missing answer stops at a checkpoint, like a run whose budget is reached; the same command continues
it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from guidebench.baselines.teachers.human import files as questions
from guidebench.baselines.teachers.human.files import AnswerLine, PendingQuestion
from guidebench.harness.errors import BudgetReached
from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import ONE_CALL, Answer, Ticket
from guidebench.harness.models.questions import Memory


class HumanBackend:
    """A Backend that reads answers from files. An answer's value is `{"label": 0, 0.5, 1 or None}`."""

    restarts = 0
    memory = Memory()

    def __init__(self, runs: Sequence[Path]) -> None:
        """`runs` are the directories of the seed rows, STUDY/SUITE/TASK/METHOD-ID/seed-N."""
        self._runs = runs
        self._questions: dict[Ticket, PendingQuestion] = {}
        self._answers_read: dict[Path, tuple[tuple[int, int], Mapping[tuple[int, str], AnswerLine]]] = {}
        self.halted = ""
        self.seconds = 0.0
        self.clips = 0

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None:
        self._questions[ticket] = questions.pose(
            self._runs[question.row], ticket.ordinal, ticket.step, question.content, question.snapshots
        )

    def poll(self) -> None:
        """Do nothing; files are read when an answer is due."""

    def arrived(self, ticket: Ticket) -> bool:
        return self._answer(self._questions[ticket]) is not None

    def wait(self, ticket: Ticket) -> bool:
        """Return, without waiting, whether the answer has arrived; if not, set `halted` to a text with the number of
        missing answers."""
        if self.arrived(ticket):
            return True
        missing = sum(self._answer(question) is None for question in self._questions.values())
        self.halted = (
            f"{missing} question{'s wait' if missing > 1 else ' waits'} for a person; answer with "
            f"`bench label {shlex.quote(str(self._runs[0].parents[3]))}`, then run the same command again"
        )
        return False

    def take(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> tuple[Answer, float]:
        """Return the answer and a waiting time of 0; BudgetReached if it is missing."""
        answer = self._answer(self._questions[ticket])
        if answer is None:
            self.wait(ticket)
            raise BudgetReached(self.halted)
        del self._questions[ticket]
        self.clips += 1
        return Answer({"label": answer.label}, usage=ONE_CALL), 0.0

    def _answer(self, question: PendingQuestion) -> AnswerLine | None:
        return self._answers(question.run).get((question.ordinal, question.digest))

    def _answers(self, run: Path) -> Mapping[tuple[int, str], AnswerLine]:
        """Return the run's answers, read again if the file has changed."""
        try:
            status = os.stat(run / questions.ANSWERS)
        except FileNotFoundError:
            return {}
        now = status.st_mtime_ns, status.st_size
        if run not in self._answers_read or self._answers_read[run][0] != now:
            self._answers_read[run] = now, questions.latest(run)
        return self._answers_read[run][1]

    def publish(self, followers: Sequence[Path] = ()) -> None:
        """Do nothing, because a person's answers are files of the run."""

    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None:
        """Do nothing."""
