"""The worker's side of the model process, which renders frames and calls models beside the training process.

The weights of a local model may be held by another process, which the workers of a machine share (`hosts/`).
The process gets only snapshots and text, and a model sees only pixels and text. If the process dies, gives no sign of
life (`harness/heartbeats.py`) or does not answer in time, it is restarted and its questions are sent again. A question
that a model cannot answer returns a counted failure; a process that keeps dying, or a judge that cannot be built,
raises an error.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from guidebench.harness import fork_server, heartbeats, registry
from guidebench.harness.companions import Channel, never
from guidebench.harness.errors import BudgetReached, MissingCall, Stopped, UserError
from guidebench.harness.heartbeats import LOOK, SILENT_AFTER, Clock, Pulse, Silent, Watch
from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.messages import (
    FAREWELL,
    HURRIED,
    Assignment,
    Farewell,
    FromProcess,
    Publish,
)
from guidebench.harness.models.questions import Memory

SERVICE = "guidebench.harness.models.service"
"""The module that runs in the model process. It is not imported here, because it imports the models' libraries."""
COPYING = 60.0
"""Seconds that a process may take to copy its last answers to a disk that several machines share."""
DEATHS = 2
"""Consecutive deaths of the process without an answer in between after which an error is raised."""


class ModelProcess:
    """Answers questions in all roles of one model, several concurrently if the model supports it, or in those of
    several hand-written models; a Backend."""

    def __init__(
        self, assignment: Assignment, patience: float, window: int = 2, requests: int | None = None,
        silent_after: float = SILENT_AFTER, stop: Callable[[], bool] = never,
    ) -> None:  # fmt: skip
        """`patience`: seconds of waiting without any answer after which the process counts as hung, though it beats;
        `window`: most unanswered questions in the process (two keep a scripted judge busy; more would only wait in the
        pipe); `requests`: file descriptor of the socket on which it asks for a shared model, None if it loads its own;
        `silent_after`: seconds without a heartbeat after which it is killed; `stop`: returns whether the worker is to
        stop, which then waits for an answer only a little longer (`heartbeats.Watch`)."""
        self._assignment, self._patience, self._window, self._requests = assignment, patience, window, requests
        self._silent_after, self._stop = silent_after, stop
        self._watch: Watch | None = None
        self._waiting: deque[tuple[Ticket, Question]] = deque()
        self._ahead: deque[tuple[Ticket, Question]] = deque()
        """Questions for which the training loop is waiting; they are sent before the others."""
        self._sent: dict[Ticket, Question] = {}
        self._answers: dict[Ticket, Answer | MissingCall] = {}
        """The answers that arrived. A question that is not on record is an error only if its answer is needed: a
        recorded run ends with questions whose answers nothing waited for."""
        self._deaths = 0
        self._scratch = ""
        self._publishing = False
        self._process: fork_server.Process | None = None
        self._connection: Channel | None = None
        self._arrivals = select.poll()
        """Detects arrived answers by a single system call, which matters because it is polled at every step."""
        self._waited = 0.0
        """Seconds of waiting without any answer."""
        self.halted = ""
        """Message about the spent budget that has stopped the answers, or ""."""
        self.restarts = 0
        self.seconds = 0.0
        """Seconds of rendering, and of model time for calls that were actually made."""
        self.clips = 0
        self.memory = Memory()

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None:
        """Queue a question. What only an oracle may read of it is not sent to the process."""
        queue = self._ahead if ahead else self._waiting
        queue.append((ticket, question._replace(events=question.events[:0], measures=None, solver=None)))
        self.poll()

    def poll(self) -> None:
        """Collect arrived answers and send queued questions as the window allows; never blocks."""
        try:
            while self._connection is not None and self._sent and self._arrivals.poll(0):
                self._receive()
        except (EOFError, OSError, Silent) as error:
            self._restart(error)
        self._send()

    def arrived(self, ticket: Ticket) -> bool:
        self.poll()
        return ticket in self._answers

    def wait(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> bool:
        """Wait until the question is answered or a budget is reached, and return whether it was answered. Raise Stopped
        when `stop()`, which is checked several times a second, is true; without it, some seconds after the worker was
        asked to stop."""
        clock = Clock()
        while ticket not in self._answers:
            if self.halted:
                return False
            self._send()
            if not self._sent:
                raise KeyError(f"{ticket} was never sent")
            if stop is not None and stop():
                raise Stopped
            self._await(clock, "no answer")
        if isinstance(missing := self._answers[ticket], MissingCall):
            raise missing
        return True

    def _await(self, clock: Clock, lacking: str) -> None:
        """Wait until a message arrives, at most LOOK seconds, and receive it. Restart the process if it has ended or
        hangs. `lacking`: words for the missing message, used if the process beats but nothing arrives in time."""
        assert self._connection is not None
        try:
            if self._connection.poll(min(max(0.0, self._patience - self._waited), LOOK)):
                self._receive()
                return
            self._look()
            self._waited += clock()
            if self._waited >= self._patience:
                self._restart(TimeoutError(f"{lacking} within {self._patience:g} s"))
        except (EOFError, OSError, Silent) as error:
            self._restart(error)

    def _look(self) -> None:
        assert self._watch is not None
        self._watch.look()

    def take(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> tuple[Answer, float]:
        """Return the answer to a question and the seconds waited for it. Raise BudgetReached if a budget prevented the
        call, MissingCall if it is not on record, UserError if the process cannot answer, and Stopped as `wait` does."""
        started = time.monotonic()
        if not self.wait(ticket, stop):
            raise BudgetReached(self.halted)
        answer = self._answers.pop(ticket)
        assert isinstance(answer, Answer), "`wait` raises what is not on record"
        return answer, time.monotonic() - started

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def publish(self, followers: Sequence[Path] = ()) -> None:
        """Wait until all recorded answers are copied to storage that survives the loss of this machine. `followers`:
        files that exist once other processes have taken over the runs; Fenced is raised if one does."""
        self._publishing, connection, clock = bool(self._scratch), None, Clock()
        self._waited = 0.0
        while self._publishing:
            if self._connection is None:
                self._start()
            assert self._connection is not None
            if connection is not self._connection:
                connection = self._connection
                try:
                    connection.send(Publish(tuple(followers)), self._look)
                except (OSError, Silent) as error:
                    self._restart(error)
                    continue
            self._await(clock, "nothing published")

    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None:
        """End the process and drop unanswered questions. `keep`: whether the worker held its runs until now; if not, no
        more of their answers is published. `followers`: as in `publish`."""
        seconds = HURRIED if self._stop() else FAREWELL
        if self._connection is not None:
            with contextlib.suppress(OSError, Silent, Stopped):
                self._connection.send(Farewell(keep, tuple(followers), seconds), self._look)
            self._connection.close()
            self._connection = None
        if self._process is not None:
            try:
                longest = seconds + 2 + (COPYING if self._scratch else 0)
                self._process.wait(0.0 if heartbeats.is_stopped(self._process.pid) else longest)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._scratch and self._process.returncode:
                print(
                    f"the last answers of {self._assignment.model_names} could not be copied into the study; their "
                    f"runs ask for them again (exit code {self._process.returncode})", file=sys.stderr, flush=True,
                )  # fmt: skip
            self._process = None
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = ""

    def _start(self) -> None:
        if self._assignment.shared and not self._scratch:
            self._scratch = tempfile.mkdtemp(prefix="guidebench-")
        assignment = self._assignment._replace(scratch=self._scratch)
        mine, theirs = multiprocessing.Pipe()
        self._connection, pulse = Channel(mine), Pulse(self._silent_after)
        self._arrivals = select.poll()
        self._arrivals.register(self._connection.fileno(), select.POLLIN)
        with theirs:
            handles = [theirs.fileno(), *([] if self._requests is None else [self._requests])]
            words = [str(theirs.fileno()), _home(self._assignment.suite.name), *map(str, handles[1:])]
            self._process = fork_server.start(SERVICE, *words, pass_fds=handles, pulse=pulse)
        pulse.close()
        self._watch = Watch(self._process.pid, pulse, self._stop)
        with contextlib.suppress(ConnectionError, Silent):  # as who waits for the first answer notices
            self._connection.send(assignment, self._look)

    def _send(self) -> None:
        if self.halted:
            return
        if (self._ahead or self._waiting) and self._process is None:
            self._start()
        while (self._ahead or self._waiting) and len(self._sent) < self._window and self._connection is not None:
            ticket, question = (self._ahead or self._waiting).popleft()
            if not self._sent:
                self._waited = 0.0
            self._sent[ticket] = question
            try:
                self._connection.send((ticket, question), self._look)
            except (ConnectionError, Silent) as error:
                self._restart(error)
                return

    def _receive(self) -> None:
        assert self._connection is not None
        message: FromProcess = self._connection.receive(self._look)
        self._waited, self._deaths = 0.0, 0
        if isinstance(message, BudgetReached):
            self.halted = str(message)
        elif isinstance(message, Exception):
            raise message
        elif isinstance(message, Publish):
            self._publishing = False
        elif message is not None:
            del self._sent[message.ticket]
            self._answers[message.ticket] = message.answer
            if isinstance(message.answer, Answer):
                self.seconds += message.drawing + message.answer.billed.seconds
                self.clips += 1
                self.memory = self.memory.with_(message.memory)

    def _restart(self, cause: BaseException) -> None:
        """Restart the process and put its unanswered questions back at the head of the queue."""
        exit_code = pid = None
        if self._process is not None:
            self._process.kill()
            pid, exit_code = self._process.pid, self._process.wait()
        self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        how = str(cause) if isinstance(cause, Silent) else f"{cause or type(cause).__name__}; exit code {exit_code}"
        self._deaths += bool(self._sent) or self._publishing
        if self._deaths >= DEATHS:
            raise UserError(
                f"the process of {self._assignment.model_names} ended {DEATHS} times without an answer ({how}); "
                f"its log is in the run's log file"
            )
        self.restarts += 1
        print(f"process {pid} of {self._assignment.model_names} ended ({how}); restarted", file=sys.stderr, flush=True)
        self._ahead.extendleft(reversed(self._sent.items()))
        self._sent.clear()
        self._send()


def _home(suite: str) -> str:
    """Return the name under which another process can import the module that registers a suite, or ""."""
    module = registry.home("suite", suite)
    if module != "__main__":
        return module
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "" if spec is None else str(spec.name)
