"""The frame-and-judge process: snapshots in, a score out; drawn and judged in one process beside the training.

Only snapshots go in and only pixels reach the judge. The process is watched: if it dies or hangs it is started again
and asked again, and a clip that brings it down twice is an error.
"""

from __future__ import annotations

import multiprocessing
import select
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from harness.errors import UserError
from harness.foundation.asks import InFlight
from harness.interfaces import Array

WINDOW = 2
"""Clips sent ahead of the answers: one being judged, one waiting. More could fill the pipe and block the training."""


class Assignment(NamedTuple):
    """What the process needs to draw and judge, by registered names and settings."""

    suite: str
    suite_settings: Mapping[str, Any]
    task: str
    drawing_settings: Mapping[str, Any]
    judge: str
    judge_settings: Mapping[str, Any]
    clip_length: int


class JudgeProcess:
    """Scores clips in the order in which they were asked."""

    def __init__(self, assignment: Assignment, timeout: float) -> None:
        self._assignment = assignment
        self._timeout = timeout
        self._waiting: deque[tuple[int, Array]] = deque()
        self._sent: deque[tuple[int, Array]] = deque()
        self._answers: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._process: Any = None
        self._connection: Connection | None = None
        self._arrivals = select.poll()
        """Tells whether an answer has come at a fraction of what `Connection.poll` costs; it is asked at every step."""
        self._since = 0.0
        self.restarts = 0
        self.seconds = 0.0
        """Drawing and judging so far, in the process's own clock."""
        self.clips = 0

    def ask(self, item: InFlight) -> None:
        """Ask for the score of a clip; of the question only its number and its snapshots, uint8 [L, n], go out."""
        self._waiting.append((item.number, item.ask.snapshots))
        self.poll()

    def poll(self) -> None:
        """Collect answers that have arrived and send what may be sent; never blocks."""
        try:
            while self._connection is not None and self._sent and self._arrivals.poll(0):
                self._receive()
        except (EOFError, ConnectionError) as error:
            self._restart(error)
        self._send()

    def arrived(self, number: int) -> bool:
        self.poll()
        return number in self._answers

    def take(self, number: int) -> tuple[float, float]:
        """The score of a clip and the seconds waited for it; UserError if the process cannot give one."""
        started = time.monotonic()
        while number not in self._answers:
            self._send()
            if not self._sent:
                raise KeyError(f"clip {number} was never asked")
            assert self._connection is not None
            try:
                left = self._since + self._timeout - time.monotonic()
                if self._connection.poll(max(0.0, left)):
                    self._receive()
                elif time.monotonic() - self._since >= self._timeout:
                    self._restart(TimeoutError(f"no answer within {self._timeout:g} s"))
            except (EOFError, ConnectionError) as error:
                self._restart(error)
        return self._answers.pop(number), time.monotonic() - started

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process; unanswered clips are dropped."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.join(2)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._arrivals = select.poll()
        self._arrivals.register(self._connection.fileno(), select.POLLIN)
        self._process = context.Process(target=_serve, args=(theirs, self._assignment), daemon=True, name="judge")
        self._process.start()
        theirs.close()

    def _send(self) -> None:
        if self._waiting and self._process is None:
            self._start()
        while self._waiting and len(self._sent) < WINDOW and self._connection is not None:
            number, snapshots = self._waiting.popleft()
            if not self._sent:
                self._since = time.monotonic()
            self._sent.append((number, snapshots))
            try:
                self._connection.send((number, snapshots))
            except (BrokenPipeError, ConnectionError) as error:
                self._restart(error)
                return

    def _receive(self) -> None:
        assert self._connection is not None
        number, score, seconds, failure = self._connection.recv()
        expected, _ = self._sent.popleft()
        assert number == expected, "the judge answers in order"
        self._since = time.monotonic()
        if failure:
            raise UserError(f"judge {self._assignment.judge!r} failed on a clip:\n{failure}")
        if not (isinstance(score, float) and 0.0 <= score <= 1.0):
            raise UserError(f"judge {self._assignment.judge!r} answered {score!r}; a score lies in [0, 1]")
        self.seconds += seconds
        self.clips += 1
        self._answers[number] = score

    def _restart(self, cause: BaseException) -> None:
        """Start the process anew and put the clips it had back at the head of the queue."""
        exit_code = None
        if self._process is not None:
            self._process.kill()
            self._process.join()
            exit_code = self._process.exitcode
        self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._sent:
            number = self._sent[0][0]
            self._failures[number] = self._failures.get(number, 0) + 1
            if self._failures[number] > 1:
                raise UserError(
                    f"the process of judge {self._assignment.judge!r} ended twice on the same clip "
                    f"({cause or type(cause).__name__}; exit code {exit_code}); its log is in the run's log file"
                )
        self.restarts += 1
        print(
            f"judge process ended ({type(cause).__name__}, exit code {exit_code}); restarted",
            file=sys.stderr,
            flush=True,
        )
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
        self._send()


def _serve(connection: Connection, assignment: Assignment) -> None:
    """The process: build drawer and judge once, then answer until the other side hangs up."""
    import signal

    from harness import registry, settings

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to handle; it closes the pipe
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    score: Any = None
    try:
        suite = settings.build(registry.get("suite", assignment.suite), assignment.suite_settings, "suite")
        judge = settings.build(registry.get("judge", assignment.judge), assignment.judge_settings, "judge")
        draw = settings.build(suite.drawing, assignment.drawing_settings, "drawing").spawn(assignment.task)
        score = judge.spawn(suite, assignment.task)
        ready = ""
    except Exception:
        ready = traceback.format_exc()
    while True:
        try:
            number, snapshots = connection.recv()
        except (EOFError, OSError):
            return
        started = time.perf_counter()
        answer, failure = 0.0, ready
        if not failure:
            try:
                answer = float(score([draw(padded(snapshots, assignment.clip_length))])[0])
            except Exception:
                failure = traceback.format_exc()
        try:
            connection.send((number, answer, time.perf_counter() - started, failure))
        except OSError:
            return


def padded(snapshots: Array, length: int) -> Array:
    """A clip of `length` snapshots: a shorter one repeats its first frame on the left (VLM-RB, app. E)."""
    missing = length - len(snapshots)
    return snapshots if missing <= 0 else np.concatenate([np.repeat(snapshots[:1], missing, axis=0), snapshots])
