"""Heartbeats of processes for which other processes wait.

A thread of a process adds one to a counter, in memory that it shares with its waiter, every few seconds. A process
whose counter has stood still for `silent_after` seconds of the waiter's own running time is regarded as hung. How long
a call takes is no reason: the thread beats beside it, unless the process is stopped or the call holds the interpreter.

A beat is a write into memory, so nothing is sent, and the waiter looks at the counter only when it has waited for LOOK
seconds: steps of tasks and answers of models cost what they cost without.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from guidebench.harness.errors import Stopped

BEAT = 5.0
"""Most seconds between two beats of a process."""
SILENT_AFTER = 120.0
"""Seconds of a waiter's running time without a beat after which a process is regarded as hung (choice: 24 beats)."""
BEATS = 5
"""Beats that a process misses at least before it is regarded as hung, where `silent_after` is short."""
LOOK = 0.5
"""Seconds between two looks of a waiter."""
STOPPING = 10.0
"""Seconds within which everything that a command has started ends once it is stopped."""
LEAVING = 2.5
"""Seconds for which a waiter that is to stop still waits for a step or an answer (choice: of STOPPING, so much goes to
this, twice as much to calls that are paid for, and the rest to files and to the processes that end last)."""
_COUNTER = struct.Struct("=Q")
_STATES = {
    "T": "it is stopped (SIGSTOP)",
    "t": "a debugger holds it",
    "D": "it waits for a disk or a driver",
    "Z": "it has ended, and another process holds its pipe",
}
"""Letter of /proc/PID/stat -> why a process is silent."""
_GAVE = "gave no sign of life for"
_HELD = "a call in it holds the Python interpreter; raise silent_after if such a call may take so long"

_current: tuple[int, float] | None = None
"""Descriptor of this process's counter, and its interval."""


class Silent(Exception):
    """A process has given no sign of life for too long."""


class Counter:
    """The beats of one process, in memory that other processes see."""

    def __init__(self, descriptor: int, silent_after: float = SILENT_AFTER) -> None:
        """`descriptor`: of the memory; `silent_after`: seconds without a beat after which the process is regarded as
        hung."""
        self.descriptor, self.silent_after = descriptor, silent_after
        self.interval = min(BEAT, silent_after / BEATS)
        """Seconds between two beats."""
        self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)

    @property
    def beats(self) -> int:
        """Return the number of beats so far."""
        return int(_COUNTER.unpack_from(self._memory)[0])

    def beat(self) -> None:
        """Add one beat; only the process whose counter this is calls it."""
        _COUNTER.pack_into(self._memory, 0, self.beats + 1)

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Beat from a thread as long as the context is open."""
        over = threading.Event()
        thread = threading.Thread(target=_beat, args=(self.beat, self.interval, over), daemon=True, name="heartbeat")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class Pulse(Counter):
    """A new counter. The waiter makes it, and the process inherits its descriptor."""

    def __init__(self, silent_after: float = SILENT_AFTER) -> None:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("heartbeat")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.truncate(descriptor, mmap.PAGESIZE)
        super().__init__(descriptor, silent_after)
        self.close = weakref.finalize(self, os.close, descriptor)
        """Closes the descriptor, when the process has it; the counter can still be read."""


def begin(descriptor: int, interval: float) -> None:
    """Let this process beat on a counter that it has inherited, from a daemon thread, until it ends."""
    global _current
    os.set_inheritable(descriptor, False)
    counter, _current = Counter(descriptor), (descriptor, interval)
    arguments = (counter.beat, interval, threading.Event())
    threading.Thread(target=_beat, args=arguments, daemon=True, name="heartbeat").start()


def _beat(beat: Callable[[], None], interval: float, over: threading.Event) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
    while True:
        beat()
        if over.wait(interval):
            return


def handed_on() -> tuple[int, float] | None:
    """Return the arguments of `begin` for a program that replaces this one by `exec`, and make the descriptor of the
    counter inheritable; None if this process has no counter."""
    if _current is not None:
        os.set_inheritable(_current[0], True)
    return _current


class Clock:
    """Measures the running time of this process. The time for which it, or its machine, is stopped does not count, so
    a waiter calls it at least every LOOK seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self) -> float:
        """Return the seconds since the last call, at most two looks."""
        last, self._last = self._last, time.monotonic()
        return min(self._last - last, 2 * LOOK)


class Watch:
    """Judges whether a process is hung."""

    def __init__(self, pid: int, counter: Counter, stop: Callable[[], bool] = lambda: False) -> None:
        """`stop`: says whether this process is to stop, which then waits LEAVING seconds more."""
        self._pid, self._counter, self._stop = pid, counter, stop
        self._beats, self._silence, self._leaving = counter.beats, 0.0, 0.0
        self._clock = Clock()

    def look(self) -> None:
        """Raise Silent, with the reason, if the process is hung, and Stopped if this process has been asked to stop and
        has waited for LEAVING seconds since. Call it every LOOK seconds of waiting."""
        passed = self._clock()
        if (beats := self._counter.beats) != self._beats:
            self._beats, self._silence = beats, 0.0
        else:
            self._silence += passed
        if self._silence >= self._counter.silent_after:
            raise Silent(f"{_GAVE} {self._counter.silent_after:g} s and was killed: {reason(self._pid)}")
        if self._stop():
            self._leaving += passed
            if self._leaving >= LEAVING:
                raise Stopped

    def silence(self) -> str:
        """Describe a process that is hung but was not killed: for how long it has been silent, and why."""
        return f"{_GAVE} {self._counter.silent_after:g} s: {reason(self._pid)}"


def reason(pid: int) -> str:
    """Return why a process does not beat, as far as the system tells."""
    return _STATES.get(state, _HELD) if (state := _state(pid)) else f"it is stopped, or {_HELD}"


def is_stopped(pid: int) -> bool:
    """Return whether a process is known to be stopped by a signal or a debugger."""
    return _state(pid) in ("T", "t")


def _state(pid: int) -> str:
    """Return the letter of a process's state, or "" if the system does not tell it."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, with all processes of the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
