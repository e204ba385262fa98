"""Carries out one command with its fault, as a patient user would: waits, presses Ctrl-C where nothing moves, and looks
afterwards whether a process was left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import guardian
from tools.chaos.plan import Command
from tools.chaos.processes import Started, named, send
from tools.chaos.striking import NOTICES, SILENCE, Place, Strike

LOOK = 0.03
"""Seconds between two looks at a command."""
PATIENCE = 120.0
"""Seconds without any change in the study after which a command counts as hung."""
IMPATIENCE = 6.0
"""Seconds after which the user of a command presses Ctrl-C whose task chaos lets hang."""
AGAIN = 30.0 if NOTICES else 8.0
"""Seconds after which Ctrl-C is pressed again, which kills the workers. Where they notice silence, once is enough."""
ENDING = 45.0
"""Seconds within which the processes of a command must have ended after it."""


class OutOfTime(Exception):
    """The time of chaos is up."""


@dataclass
class Outcome:
    """What became of a command."""

    code: int
    seconds: float
    applied: str
    """What its fault did; "" if its moment did not come."""
    remark: str
    """The last line that the command printed."""
    findings: list[str] = field(default_factory=list)
    """What a user would complain of, whatever the study holds in the end."""
    running: list[int] = field(default_factory=list)
    """Ids of its processes that still run, if nobody waited for their end."""


def carry_out(
    words: Sequence[str], command: Command, place: Place, log: Path, mark: str, deadline: float, waits: bool = True,
    previous: Sequence[int] = (),
) -> Outcome:  # fmt: skip
    """Run a command to its end. `deadline`: when OutOfTime is raised, on the monotonic clock; `waits`: whether its
    processes are waited for; `previous`: those that the command before has left, which must end before this one does
    or soon after."""
    begin = time.monotonic()
    more = [f"output={place.study}", *command.words, *([SILENCE] if NOTICES else [])]
    started = Started([*words, *more], log, mark, {*guardian.marked(mark)}, command.is_fresh)
    strike = None if command.fault is None else Strike(command.fault, started, place)
    findings: list[str] = []
    try:
        findings += _follow(started, strike, place.study, deadline)
        stopped = strike.stopped() if strike is not None and strike.is_noticed else []
        if stopped and started.process.returncode == 0:
            findings.append(f"processes {stopped} are stopped still, and the command has ended")
    except BaseException:
        if strike is not None:
            strike.undo()
        started.end()
        raise
    if strike is not None:
        strike.undo()
    outcome = Outcome(
        int(started.process.returncode), time.monotonic() - begin, strike.applied if strike else "",
        remark(started.output, place.study), findings,
    )  # fmt: skip
    outcome.running = started.members()
    if waits or previous:
        outcome.findings += _await_end([*previous, *(outcome.running if waits else ())], deadline)
    return outcome


def remark(output: str, study: Path) -> str:
    """Return the line in which a command says how its study stands, else the last one that it has printed."""
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    return next((line for line in reversed(lines) if line.startswith(f"{study}: ")), lines[-1] if lines else "")


def _follow(started: Started, strike: Strike | None, study: Path, deadline: float) -> list[str]:
    """Wait for the end of a command; return what a user would complain of."""
    findings: list[str] = []
    progress, since, pressed = _state(study), time.monotonic(), 0
    looked = since
    while started.process.poll() is None:
        now = time.monotonic()
        if now > deadline:
            raise OutOfTime
        if strike is not None:
            strike.advance()
        if now - looked > 0.5:
            looked = now
            if (state := _state(study)) != progress:
                progress, since = state, now
        freezes = strike is not None and strike.freezes
        silent = now - max(since, strike.at if strike is not None else 0.0)
        if not pressed and silent > (IMPATIENCE if freezes else PATIENCE):
            if not freezes:
                findings.append(f"nothing moved for {PATIENCE:g} s; processes: {dict(named(started.members()))}")
            pressed, since = 1, now
            send(started.process.pid, signal.SIGINT)
        elif pressed == 1 and now - since > AGAIN:
            if NOTICES:
                findings.append(f"Ctrl-C has not ended it in {AGAIN:g} s; processes: {dict(named(started.members()))}")
            pressed, since = 2, now
            send(started.process.pid, signal.SIGINT)
        elif pressed == 2 and now - since > PATIENCE / 4:
            findings.append(f"two Ctrl-C did not end it; processes: {dict(named(started.members()))}")
            started.end()
        time.sleep(LOOK)
    return findings


def _state(study: Path) -> tuple[int, int]:
    """Return what changes whenever a study is written."""
    size = newest = 0
    for directory, _, names in os.walk(study):  # which skips directories that have gone meanwhile
        for name in names:
            with contextlib.suppress(OSError):  # it was renamed or deleted
                status = os.stat(os.path.join(directory, name))
                size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return size, newest


def _await_end(pids: Sequence[int], deadline: float) -> list[str]:
    """Wait until processes have ended; kill those that do not, and return them as a finding."""
    until = min(time.monotonic() + ENDING, deadline)
    remaining = list(pids)
    while remaining and time.monotonic() < until:
        time.sleep(0.05)
        remaining = [pid for pid in remaining if guardian.command(pid)]
    if not remaining:
        return []
    names = dict(named(remaining))
    for pid in remaining:
        send(pid, signal.SIGKILL)
    if time.monotonic() >= deadline:
        raise OutOfTime
    return [f"left {ENDING:g} s after the command: {names}"]
