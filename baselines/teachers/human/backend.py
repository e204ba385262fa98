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
from guidebench.harness.models.calls import ONE_CALL, CallResult
from guidebench.harness.models.questions import InFlight, Memory


class HumanBackend:
    """A Backend that reads answers from files. An answer's value is `{"label": 0, 0.5, 1 or None}`."""

    restarts = 0
    memory = Memory()

    def __init__(self, runs: Sequence[Path]) -> None:
        """`runs` are the directories of the seed rows, STUDY/SUITE/TASK/METHOD-ID/seed-N."""
        self._runs = runs
        self._asked: dict[int, PendingQuestion] = {}
        self._known: dict[Path, tuple[tuple[int, int], Mapping[tuple[int, str], AnswerLine]]] = {}
        self.halted = ""
        self.seconds = 0.0
        self.clips = 0

    def ask(self, item: InFlight, ahead: bool = False) -> None:
        ask = item.question
        self._asked[item.number] = questions.pose(
            self._runs[ask.row], item.ordinal, item.step, ask.content, ask.snapshots
        )

    def poll(self) -> None:
        """Do nothing; files are read when an answer is due."""

    def arrived(self, number: int) -> bool:
        return self._answer(self._asked[number]) is not None

    def wait(self, number: int) -> bool:
        """Return at once whether the answer is there; if not, `halted` states how many answers are missing."""
        if self.arrived(number):
            return True
        missing = sum(self._answer(question) is None for question in self._asked.values())
        self.halted = (
            f"{missing} question{'s wait' if missing > 1 else ' waits'} for a person; answer with "
            f"`bench label {shlex.quote(str(self._runs[0].parents[3]))}`, then run the same command again"
        )
        return False

    def take(self, number: int, stop: Callable[[], bool] | None = None) -> tuple[CallResult, float]:
        """Return the answer and a waiting time of 0; BudgetReached if it is missing."""
        answer = self._answer(self._asked[number])
        if answer is None:
            self.wait(number)
            raise BudgetReached(self.halted)
        del self._asked[number]
        self.clips += 1
        return CallResult({"label": answer.label}, usage=ONE_CALL), 0.0

    def _answer(self, question: PendingQuestion) -> AnswerLine | None:
        return self._answers(question.run).get((question.ordinal, question.digest))

    def _answers(self, run: Path) -> Mapping[tuple[int, str], AnswerLine]:
        """Return the run's answers, read again if the file has changed."""
        try:
            status = os.stat(run / questions.ANSWERS)
        except FileNotFoundError:
            return {}
        now = status.st_mtime_ns, status.st_size
        if run not in self._known or self._known[run][0] != now:
            self._known[run] = now, questions.latest(run)
        return self._known[run][1]

    def publish(self, followers: Sequence[Path] = ()) -> None:
        """Do nothing, because a person's answers are files of the run."""

    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None:
        """Do nothing."""
