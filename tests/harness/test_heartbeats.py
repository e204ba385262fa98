"""A process counts as hung when it has not beaten during enough of the waiter's own running time; the reason is
reported."""

from __future__ import annotations

import os
import subprocess

import pytest

from guidebench.harness import heartbeats
from guidebench.harness.errors import Stopped
from guidebench.harness.heartbeats import LEAVING, LOOK, Pulse, Silent, Watch
from tests import programs


class Time:
    """A clock that a test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(heartbeats.time, "monotonic", lambda: self.now)

    def wait(self, watch: Watch, seconds: float) -> None:
        """Call `watch.look` as a waiter does, for some seconds of this clock."""
        for _ in range(round(seconds / LOOK)):
            self.now += LOOK
            watch.look()


def test_silence_is_counted_from_the_last_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    time, pulse = Time(monkeypatch), Pulse(120.0)
    watch = Watch(os.getpid(), pulse)
    for _ in range(3):
        time.wait(watch, 119.0)
        pulse.beat()
    time.wait(watch, 119.5)
    with pytest.raises(Silent, match="gave no sign of life for 120 s and was killed: a call in it holds the Python"):
        time.wait(watch, 1.0)


def test_time_in_which_the_waiter_is_stopped_or_does_other_things_is_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, pulse = Time(monkeypatch), Pulse(120.0)
    watch = Watch(os.getpid(), pulse)
    for _ in range(50):
        time.now += 3_600.0
        time.wait(watch, LOOK)
    with pytest.raises(Silent):
        time.wait(watch, 120.0)


def test_a_waiter_that_is_to_stop_waits_only_a_little_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    time, pulse, stop = Time(monkeypatch), Pulse(120.0), [False]
    watch = Watch(os.getpid(), pulse, lambda: stop[0])
    time.wait(watch, 60.0)
    stop[0] = True
    time.wait(watch, LEAVING - LOOK)
    with pytest.raises(Stopped):
        time.wait(watch, LOOK)


def test_beats_come_often_enough_for_a_short_limit() -> None:
    assert [Pulse(seconds).interval for seconds in (120.0, 10.0, 1.0)] == [5.0, 2.0, 0.2]


REPLACES_ITSELF = """
import os, sys, time
from guidebench.harness import heartbeats
print("first", flush=True)
heartbeat = heartbeats.handed_on()
second = f"from guidebench.harness import heartbeats; heartbeats.begin(*{heartbeat!r}); print('second', flush=True); "
os.execv(sys.executable, [sys.executable, "-c", second + "input()"])
"""


def test_a_program_that_replaces_another_goes_on_beating() -> None:
    pulse = Pulse(0.5)
    process = programs.start_python(REPLACES_ITSELF, pulse=pulse, stdin=subprocess.PIPE)
    try:
        with process.stdout as lines:
            assert [lines.readline(), lines.readline()] == ["first\n", "second\n"]
        before, watch = pulse.beats, Watch(process.pid, Pulse(60.0))
        while pulse.beats < before + 2:
            watch.look()
    finally:
        process.kill()
        process.wait()
