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
from collections.abc import Callable
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
_HELD = "a call in it holds the Python interpreter; raise silent_after if such a call may take so long"

_current: tuple[int, float] | None = None
"""Descriptor of this process's counter, and its interval."""


class Silent(Exception):
    """A process has given no sign of life for too long."""


class Pulse:
    """The counter of one process. The waiter makes it, and the process inherits its descriptor."""

    def __init__(self, silent_after: float = SILENT_AFTER) -> None:
        """`silent_after`: seconds without a beat after which the process is regarded as hung."""
        self.silent_after, self.interval = silent_after, min(BEAT, silent_after / BEATS)
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("heartbeat")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        os.truncate(self.descriptor, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE)
        self.close = weakref.finalize(self, os.close, self.descriptor)
        """Closes the descriptor, when the process has it; the counter can still be read."""

    @property
    def beats(self) -> int:
        """Return the number of beats so far."""
        return int(_COUNTER.unpack_from(self._memory)[0])


def begin(descriptor: int, interval: float) -> None:
    """Let this process beat on a counter that it has inherited, from a daemon thread, until it ends."""
    global _current
    os.set_inheritable(descriptor, False)
    memory, _current = mmap.mmap(descriptor, mmap.PAGESIZE), (descriptor, interval)

    def beat() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        while True:
            _COUNTER.pack_into(memory, 0, _COUNTER.unpack_from(memory)[0] + 1)
            time.sleep(interval)

    threading.Thread(target=beat, daemon=True, name="heartbeat").start()


def handed_on() -> tuple[int, float] | None:
    """Return what a program that replaces this one in the same process needs to go on beating (`begin`), and let it
    inherit the descriptor; None if nobody watches this process."""
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

    def __init__(self, pid: int, pulse: Pulse, stop: Callable[[], bool] = lambda: False) -> None:
        """`stop`: says whether this process is to stop, which then waits LEAVING seconds more."""
        self._pid, self._pulse, self._stop = pid, pulse, stop
        self._beats, self._silence, self._leaving = pulse.beats, 0.0, 0.0
        self._clock = Clock()

    def look(self) -> None:
        """Raise Silent, with the reason, if the process is hung, and Stopped if this process has been asked to stop and
        has waited for LEAVING seconds since. Call it every LOOK seconds of waiting."""
        passed = self._clock()
        if (beats := self._pulse.beats) != self._beats:
            self._beats, self._silence = beats, 0.0
        else:
            self._silence += passed
        if self._silence >= self._pulse.silent_after:
            raise Silent(f"gave no sign of life for {self._pulse.silent_after:g} s and was killed: {reason(self._pid)}")
        if self._stop():
            self._leaving += passed
            if self._leaving >= LEAVING:
                raise Stopped


def reason(pid: int) -> str:
    """Return why a process does not beat, as far as the system tells."""
    with contextlib.suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return _STATES.get(state, _HELD)
    return f"it is stopped, or {_HELD}"


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, with all processes of the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
