"""trackio: a project per study, on this machine or, by TRACKIO_SERVER_URL or TRACKIO_SPACE_ID, elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.registry import register
from guidebench.harness.trackers.base import START, Offset, Report, Tracker, flat
from guidebench.harness.trackers.points import FollowedRun, Point


@register.tracker("trackio")
class Trackio(Tracker):
    """trackio, in TRACKIO_DIR or elsewhere; `trackio show` opens its page."""

    name = "trackio"
    modules = ("trackio",)

    def __init__(self, study: str, directory: Path, token: str) -> None:
        super().__init__(study, directory, token)
        self._project = os.environ.get("TRACKIO_PROJECT") or re.sub(r"[^\w.-]", "-", f"guidebench-{study}-runs")

    @property
    def _local(self) -> bool:
        return not (os.environ.get("TRACKIO_SERVER_URL") or os.environ.get("TRACKIO_SPACE_ID"))

    def held(self, run: FollowedRun, offset: Offset) -> Offset:
        """Return the offset with the last step in the local store; for a remote store the given offset."""
        if not self._local:
            return offset
        last = self._last(offset.id)
        return START if last is None else offset._replace(step=max(last, offset.step))

    def begin(self, run: FollowedRun) -> Offset:
        name = f"{run.name} · {run.cell['cell']}-{self.token}"
        # trackio makes a run with its first point.
        last = self._last(name) if self._local else None
        return Offset(-1 if last is None else last, name)

    def put(self, run: FollowedRun, offset: Offset, points: Sequence[Point]) -> None:
        if not points:
            return
        with self._run(offset.id, run.group, flat(run.settings)) as open_:
            for step, values in points:
                open_.log(dict(values), step=step)
        if self._local and self._last(offset.id) != points[-1].step:  # its errors are printed only
            raise UserError(f"trackio did not store the points of {offset.id}; see that TRACKIO_DIR can be written")

    def publish(self, report: Report) -> None:
        import trackio

        with self._run(f"report {self.token}", "report", {}) as open_:
            content: dict[str, Any] = {name: trackio.Image(str(path)) for name, path in report.pictures.items()}
            for name, (columns, rows) in report.tables.items():
                content[name] = trackio.Table(columns=list(columns), data=[list(row) for row in rows])
            open_.log(content)

    def _last(self, name: str) -> int | None:
        """Return the last step of a run in the store of this machine; None if it is not there."""
        _writable()
        from trackio.sqlite_storage import SQLiteStorage

        if not SQLiteStorage.get_project_db_path(self._project).exists():
            return None
        step = SQLiteStorage.get_max_step_for_run(self._project, name)
        return None if step is None else int(step)

    @contextlib.contextmanager
    def _run(self, name: str, group: str, config: dict[str, Any]) -> Iterator[Any]:
        """Open a run; its points are stored when the context ends."""
        _writable()
        import trackio

        with contextlib.redirect_stdout(io.StringIO()):
            run = trackio.init(
                project=self._project, name=name, group=group, config=config, resume="allow", embed=False,
                auto_log_gpu=False, auto_log_cpu=False,
            )  # fmt: skip
            try:
                yield run
            finally:
                run.finish()


def _writable() -> None:
    """Raise UserError if trackio's directory cannot be written, which trackio itself only warns of."""
    from trackio.utils import TRACKIO_DIR

    try:
        Path(TRACKIO_DIR).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=TRACKIO_DIR):
            pass
    except OSError as error:
        raise UserError(
            f"trackio's directory {TRACKIO_DIR} cannot be written ({error.strerror}); set TRACKIO_DIR to another"
        ) from None
