"""Runs one command with its fault as a patient user would: it waits, presses Ctrl-C when nothing moves, and checks
afterwards that no process of the command still runs."""

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
from tools.chaos.processes import RunningCommand, command_names, send
from tools.chaos.striking import NOTICES, SILENCE, Place, Strike

LOOK = 0.03
"""Seconds between two looks at a command."""
PATIENCE = 120.0
"""Seconds without any change in the study after which a command counts as hung."""
IMPATIENCE = 6.0
"""Seconds without change after which Ctrl-C is pressed for a command whose task chaos has made hang."""
AGAIN = 30.0 if NOTICES else 8.0
"""Seconds after which Ctrl-C is pressed a second time, which kills the workers. Commands that notice silence need
one."""
ENDING = 45.0
"""Seconds within which the processes of a command must end after it."""


class OutOfTime(Exception):
    """Raised when the deadline of the whole chaos run has passed."""


@dataclass
class Outcome:
    """How a command ended, what its fault did, and what a user would complain about."""

    code: int
    seconds: float
    applied: str
    """Description of what its fault did; "" if its moment did not come."""
    remark: str
    """The last line that the command printed."""
    findings: list[str] = field(default_factory=list)
    """Complaints of a user about how the command ran, whatever its study contains."""
    running: list[int] = field(default_factory=list)
    """Ids of its processes that still run, if nobody waited for their end."""


def carry_out(
    words: Sequence[str], command: Command, place: Place, log: Path, mark: str, deadline: float, waits: bool = True,
    previous: Sequence[int] = (),
) -> Outcome:  # fmt: skip
    """Run a command to its end. `deadline`: when OutOfTime is raised, on the monotonic clock; `waits`: whether to
    wait for its processes to end; `previous`: process ids that the previous command left running, which must end before
    this command does or soon after."""
    begin = time.monotonic()
    more = [f"output={place.study}", *command.words, *([SILENCE] if NOTICES else [])]
    running_command = RunningCommand([*words, *more], log, mark, {*guardian.marked_processes(mark)}, command.is_fresh)
    strike = None if command.fault is None else Strike(command.fault, running_command, place)
    findings: list[str] = []
    try:
        findings += _follow(running_command, strike, place.study, deadline)
        stopped = strike.stopped() if strike is not None and strike.is_noticed else []
        if stopped and running_command.process.returncode == 0:
            findings.append(f"processes {stopped} are stopped still, and the command has ended")
    except BaseException:
        if strike is not None:
            strike.undo()
        running_command.end()
        raise
    if strike is not None:
        strike.undo()
    outcome = Outcome(
        int(running_command.process.returncode), time.monotonic() - begin, strike.applied if strike else "",
        remark(running_command.output, place.study), findings,
    )  # fmt: skip
    outcome.running = running_command.members()
    if waits or previous:
        outcome.findings += _await_end([*previous, *(outcome.running if waits else ())], deadline)
    return outcome


def remark(output: str, study: Path) -> str:
    """Return the line of the output that states the progress of the study, else the last line."""
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    return next((line for line in reversed(lines) if line.startswith(f"{study}: ")), lines[-1] if lines else "")


def _follow(running_command: RunningCommand, strike: Strike | None, study: Path, deadline: float) -> list[str]:
    """Wait until a command has ended, pressing Ctrl-C if it hangs; return what a user would complain about. Raise
    OutOfTime at `deadline` on the monotonic clock."""
    findings: list[str] = []
    progress, since, pressed = _state(study), time.monotonic(), 0
    looked = since
    while running_command.process.poll() is None:
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
                findings.append(
                    f"nothing moved for {PATIENCE:g} s; processes: {dict(command_names(running_command.members()))}"
                )
            pressed, since = 1, now
            send(running_command.process.pid, signal.SIGINT)
        elif pressed == 1 and now - since > AGAIN:
            if NOTICES:
                names = dict(command_names(running_command.members()))
                findings.append(f"Ctrl-C has not ended it in {AGAIN:g} s; processes: {names}")
            pressed, since = 2, now
            send(running_command.process.pid, signal.SIGINT)
        elif pressed == 2 and now - since > PATIENCE / 4:
            findings.append(f"two Ctrl-C did not end it; processes: {dict(command_names(running_command.members()))}")
            running_command.end()
        time.sleep(LOOK)
    return findings


def _state(study: Path) -> tuple[int, int]:
    """Return the total size of a study's files and their newest modification time in ns, which change with every
    write."""
    size = newest = 0
    for directory, _, names in os.walk(study):  # which skips directories that have gone meanwhile
        for name in names:
            with contextlib.suppress(OSError):  # it was renamed or deleted
                status = os.stat(os.path.join(directory, name))
                size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return size, newest


def _await_end(pids: Sequence[int], deadline: float) -> list[str]:
    """Wait until processes have ended; kill those that run on, and return them as a finding. Raise OutOfTime at
    `deadline` on the monotonic clock."""
    until = min(time.monotonic() + ENDING, deadline)
    remaining = list(pids)
    while remaining and time.monotonic() < until:
        time.sleep(0.05)
        remaining = [pid for pid in remaining if guardian.command(pid)]
    if not remaining:
        return []
    names = dict(command_names(remaining))
    for pid in remaining:
        send(pid, signal.SIGKILL)
    if time.monotonic() >= deadline:
        raise OutOfTime
    return [f"left {ENDING:g} s after the command: {names}"]
