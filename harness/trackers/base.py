"""The base class of trackers: a tracker creates a run at its service, sends points, and marks the run as ended."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.harness.trackers.points import FollowedRun, Point

ENDED = ("finished", "failed", "stopped")
"""Statuses of a run to which nothing is added, unless its command is given again."""


class Offset(NamedTuple):
    """How far a tracker has followed a run."""

    step: int = -1
    """Last environment step whose points the tracker holds; -1 for none."""
    id: str = ""
    """Id of the run at the tracker; "" if the run does not exist there."""
    status: str = ""
    """Status of the run that was last sent to the tracker."""


START = Offset()
"""The offset of a run that the tracker does not have."""


class Table(NamedTuple):
    """A table of a report."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float]]


class Report(NamedTuple):
    """The parts of a study's report that are sent to trackers."""

    pictures: Mapping[str, Path]
    """Name of a figure -> its PNG file."""
    tables: Mapping[str, Table]
    files: Sequence[Path]
    """All files of the report."""


class Tracker(ABC):
    """A kind of tracker, built for one study by one process. It reads its own environment variables for addresses, keys
    and directories, such as WANDB_PROJECT or MLFLOW_TRACKING_URI."""

    name: ClassVar[str]
    """The registered name."""
    modules: ClassVar[tuple[str, ...]]
    """Modules that must be importable."""
    keeps: ClassVar[bool] = True
    """Whether points are safe as soon as `put` returns. Otherwise they are when `end` or `close` returns, and only then
    is the offset stored."""

    def __init__(self, study: str, directory: Path, token: str) -> None:
        """`study`: its name; `directory`: where it lies; `token`: what distinguishes it from studies of that name."""
        self.study, self.directory, self.token = study, directory, token
        self._created: set[str] = set()

    @classmethod
    def ready(cls) -> None:
        """Raise UserError for a package or a login that is missing. Makes no call to a server."""
        if missing := [name for name in cls.modules if importlib.util.find_spec(name) is None]:
            message = f"trackers={cls.name} needs packages that are missing ({', '.join(missing)})"
            raise extras.missing(message, cls.name) if cls.name in extras.EXTRAS else UserError(message)

    def follow(
        self,
        run: FollowedRun,
        offset: Offset,
        read: Callable[[FollowedRun, int, int], Sequence[Point]] = FollowedRun.points,
        standing: tuple[int, str] | None = None,
    ) -> Offset:
        """Send what the run's logs hold after an offset, and return the new offset. `read`: how the points of a run
        with steps in (after, until] are read; `standing`: what `run.standing()` returned, None to call it. Whatever the
        library raises is raised; following again from the old offset then repeats nothing."""
        until, status = standing or run.standing()
        if status == "waiting":
            return offset
        stored = offset
        if run.key not in self._created:  # the run may have been deleted at the other end
            stored = self.held(run, offset) if offset.id else START
        if stored.id and stored.status == status and (until <= stored.step or status == "finished"):
            self._created.add(run.key)
            return stored
        if not stored.id:
            stored = self.begin(run)
        points = read(run, stored.step, until)
        self.put(run, stored, points)
        self._created.add(run.key)
        if status in ENDED:
            self.end(run, stored, status)
        last = points[-1].step if points else stored.step
        return Offset(last if status == "finished" else max(until, stored.step), stored.id, status)

    def forget(self) -> None:
        """Forget which runs exist at the service, after an error."""
        self._created.clear()

    @abstractmethod
    def held(self, run: FollowedRun, offset: Offset) -> Offset:
        """Return the offset that the tracker holds of a run that it was sent before, in whatever order processes were
        killed; `START` if the run was deleted there."""

    @abstractmethod
    def begin(self, run: FollowedRun) -> Offset:
        """Create the run, with its settings, and return its offset."""

    @abstractmethod
    def put(self, run: FollowedRun, offset: Offset, points: Sequence[Point]) -> None:
        """Send points, all after the offset and by step. Sending points again that the tracker holds adds none."""

    def end(self, run: FollowedRun, offset: Offset, status: str) -> None:  # noqa: B027 - most need nothing
        """Mark the run as ended at the service, and release what is open for it."""

    @abstractmethod
    def publish(self, report: Report) -> None:
        """Send the report, replacing an earlier one."""

    def close(self) -> None:  # noqa: B027 - most need nothing
        """Release everything."""


def flat(settings: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return settings whose values a tracker takes: numbers and texts; other values become texts."""
    return {
        name: value if isinstance(value, (str, int, float, bool)) else str(value) for name, value in settings.items()
    }
