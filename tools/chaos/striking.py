"""Applies a fault to a command when its moment has come, and undoes it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, fields
from pathlib import Path

from guidebench.harness.execution import Execution
from guidebench.harness.loop import checkpoints
from tools.chaos import plan
from tools.chaos.disk import Disk
from tools.chaos.marker import HOLDS
from tools.chaos.plan import DISK, SERVER, Fault
from tools.chaos.processes import NAMES, RunningCommand, is_stopped, send
from tools.chaos.server import Server

SIGNALS = {
    plan.KILL: signal.SIGKILL, plan.INTERRUPT: signal.SIGINT, plan.TERMINATE: signal.SIGTERM, plan.STOP: signal.SIGSTOP,
}  # fmt: skip
NOTICES = "silent_after" in {setting.name for setting in fields(Execution)}
"""Whether a command notices by itself that one of its processes is silent."""
SILENCE = "silent_after=12"
"""Setting of commands that notice silence: seconds until they do."""
CONTINUED = 3.0
"""Seconds after which a process that should stay stopped is continued, for commands that do not notice silence."""


@dataclass
class Place:
    """The surroundings of a round's commands: study, marker file, server and disk."""

    study: Path
    marker: Path
    """The file that lets a task hang."""
    server: Server | None = None
    disk: Disk | None = None


@dataclass
class Strike:
    """The fault of one command, from waiting for its moment until it is undone."""

    fault: Fault
    running_command: RunningCommand
    place: Place
    applied: str = ""
    """Description of what was done; "" before."""
    at: float = 0.0
    """Time at which it was done, on the monotonic clock."""
    _struck: list[int] = field(default_factory=list)
    _ready: float = 0.0
    _until: float = 0.0

    @property
    def freezes(self) -> bool:
        """Return whether the command can only go on if somebody ends it."""
        return bool(self.applied) and self.fault.kind in (plan.HANG, plan.HOLD) and not self.is_noticed

    @property
    def is_noticed(self) -> bool:
        """Return whether the command itself ends the processes that the fault has silenced."""
        stays_stopped = self.fault.kind == plan.STOP and not self.fault.seconds
        return NOTICES and (stays_stopped or self.fault.kind == plan.HOLD)

    def advance(self) -> None:
        """Apply or undo the fault if its time has come; called in a loop."""
        now = time.monotonic()
        if self.applied:
            if self._until and now >= self._until:
                self.undo()
            return
        targets = self._targets()
        if not targets or newest(self.place.study) < self.fault.step:
            self._ready = 0.0
            return
        self._ready = self._ready or now
        if now >= self._ready + self.fault.delay:
            self._apply(targets[self.fault.choice % len(targets)])
            self.at = now
            lasts = self.fault.seconds or (CONTINUED if self.fault.kind == plan.STOP and not self.is_noticed else 0.0)
            self._until = now + lasts if lasts else 0.0

    def undo(self) -> None:
        """Undo the fault as far as possible: continue stopped processes, free the disk, restore the server."""
        self._until = 0.0
        for pid in self._struck:
            send(pid, signal.SIGCONT)
        if not self.applied:
            return
        if self.fault.target == DISK and self.place.disk is not None:
            self.place.disk.free()
        if self.fault.target == SERVER and self.place.server is not None:
            self.place.server.restore()
        self.place.marker.unlink(missing_ok=True)

    def stopped(self) -> list[int]:
        """Return the ids of the processes that this fault stopped and that are still under SIGSTOP."""
        return [pid for pid in self._struck if is_stopped(pid)]

    def _targets(self) -> list[int]:
        if self.fault.target in (DISK, SERVER):
            return [self.running_command.process.pid]
        return self.running_command.targets(self.fault.target)

    def _apply(self, pid: int) -> None:
        kind, target = self.fault.kind, self.fault.target
        if kind in SIGNALS:
            if not send(pid, SIGNALS[kind]):
                return  # it has ended meanwhile; another one may follow
            self._struck = [pid] if kind == plan.STOP else []
            self.applied = f"{kind} {target} (process {pid})"
        elif target == DISK:
            assert self.place.disk is not None
            self.place.disk.fill(self.running_command.members())
            self.applied = f"{kind} ({self.place.disk.meaning})"
        elif target == SERVER:
            assert self.place.server is not None
            {plan.LOSE: self.place.server.lose, plan.SILENCE: self.place.server.silence,
             plan.FAIL: self.place.server.fail}[kind]()  # fmt: skip
            self.applied = f"{kind} server"
        else:
            beside = self.place.marker.with_suffix(".new")
            first = HOLDS if kind == plan.HOLD else ""
            beside.write_text("\n".join([first, *NAMES[target]]))
            beside.rename(self.place.marker)
            self.applied = f"{kind}: the next task of a {target}"


def newest(study: Path) -> int:
    """Return the step of the newest checkpoint of any run; 0 without one."""
    return max((checkpoints.step_of(path) for path in study.glob("*/*/*/seed-*/checkpoint-*")), default=0)
