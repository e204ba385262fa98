"""A process counts as hung when it has not beaten during enough of the waiter's own running time; the reason is
reported."""

import os
import subprocess

import pytest

from guidebench.harness import heartbeats
from guidebench.harness.errors import Stopped
from guidebench.harness.heartbeats import LEAVING, LOOK, Pulse, Silent, Watch
from tests import programs


class Waiter:
    """Waits for a process that counts as hung after 120 seconds of a clock that a test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.stopping, self.pulse = 0.0, False, Pulse(120.0)
        monkeypatch.setattr(heartbeats.time, "monotonic", lambda: self.now)
        self.watch = Watch(os.getpid(), self.pulse, lambda: self.stopping)

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOK)):
            self.now += LOOK
            self.watch.look()


@pytest.fixture
def waiter(monkeypatch: pytest.MonkeyPatch) -> Waiter:
    return Waiter(monkeypatch)


def test_silence_is_counted_from_the_last_beat(waiter: Waiter) -> None:
    for _ in range(3):
        waiter.wait(119.0)
        waiter.pulse.beat()
    waiter.wait(119.5)
    with pytest.raises(Silent, match="gave no sign of life for 120 s and was killed: a call in it holds the Python"):
        waiter.wait(1.0)


def test_time_in_which_the_waiter_is_stopped_or_does_other_things_is_no_silence(waiter: Waiter) -> None:
    for _ in range(50):
        waiter.now += 3_600.0
        waiter.wait(LOOK)
    with pytest.raises(Silent):
        waiter.wait(120.0)


def test_a_waiter_that_is_to_stop_waits_only_a_little_longer(waiter: Waiter) -> None:
    waiter.wait(60.0)
    waiter.stopping = True
    waiter.wait(LEAVING - LOOK)
    with pytest.raises(Stopped):
        waiter.wait(LOOK)


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
