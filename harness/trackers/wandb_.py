"""Weights & Biases, online or offline (WANDB_MODE=offline, then `wandb sync`).

W&B appends: a run that is opened again continues after its last step, and drops points of earlier ones. Offline, each
process writes a file of its own, which `wandb sync` appends in order of time. A file becomes part of the run when it
is closed; one that a killed process left open is deleted and its points are written again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import read_regular
from guidebench.harness.registry import register
from guidebench.harness.trackers.base import START, Offset, Report, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point

CLOSED = "guidebench-closed"
"""File in the folder of an offline run that was closed, with the run's last step."""


@register.tracker("wandb")
class WandB(Tracker):
    """Weights & Biases; WANDB_MODE=offline writes files for `wandb sync`."""

    name = "wandb"
    modules = ("wandb",)
    keeps = False

    def __init__(self, study: str, directory: Path, token: str) -> None:
        super().__init__(study, directory, token)
        self._open: dict[str, Any] = {}
        self._last: dict[str, int] = {}

    @classmethod
    def ready(cls) -> None:
        super().ready()
        if _offline():
            return
        import wandb

        if not wandb.login(prompt=False):
            raise UserError(
                "trackers=wandb: W&B is not logged in here; run `wandb login`, or set WANDB_MODE=offline and send the "
                "runs later with `wandb sync`"
            )

    def held(self, run: FollowedRun, offset: Offset) -> Offset:
        if not _offline():
            return offset if self._exists(offset.id) else START
        closed = [step for folder in self._folders(offset.id) if (step := _closed(folder)) is not None]
        return offset._replace(step=max(closed)) if closed else START

    def begin(self, run: FollowedRun) -> Offset:
        import wandb

        id_ = f"{self.token}-{run.cell['cell']}-{run.seed}"
        # A run that is stored offline already was closed by a process that was killed then.
        if _offline() and (stored := self.held(run, Offset(id=id_))) != START:
            return stored
        try:
            self._session(run, Offset(id=id_))
        except wandb.Error as error:
            if "deleted" not in str(error):
                raise
            id_ = f"{id_}-{uuid.uuid4().hex[:6]}"  # W&B refuses the id of a deleted run
            self._session(run, Offset(id=id_))
        return Offset(id=id_)

    def put(self, run: FollowedRun, offset: Offset, points: Sequence[Point]) -> None:
        session = self._session(run, offset)
        for step, values in points:
            session.log(dict(values), step=step)
            self._last[run.key] = step

    def end(self, run: FollowedRun, offset: Offset, status: str) -> None:
        if run.key in self._open:
            self._finish(run.key, int(status == "failed"))

    def publish(self, report: Report) -> None:
        import wandb

        session = self._init(f"{self.token}-report", f"report of {self.study}", "report", {})
        content: dict[str, Any] = {name: wandb.Image(str(path)) for name, path in report.pictures.items()}
        for name, (columns, rows) in report.tables.items():
            content[name] = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
        session.log(content)
        artifact = wandb.Artifact(f"report-{self.token}", type="report")
        for path in report.files:
            artifact.add_file(str(path))
        session.log_artifact(artifact)
        session.finish()

    def close(self) -> None:
        for key in [*self._open]:
            self._finish(key, None)

    def forget(self) -> None:
        super().forget()
        self.close()

    def _session(self, run: FollowedRun, offset: Offset) -> Any:
        if run.key not in self._open:
            for folder in self._folders(offset.id) if _offline() else ():
                if _closed(folder) is None:
                    shutil.rmtree(folder)
            self._open[run.key] = self._init(offset.id, run.name, run.group, run.settings)
            self._last[run.key] = offset.step
        return self._open[run.key]

    def _init(self, id_: str, name: str, group: str, config: dict[str, Any]) -> Any:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        home = Path(os.environ.get("WANDB_DIR") or ".")
        try:  # W&B itself would write to a temporary directory, with a warning
            home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=home):
                pass
        except OSError as error:
            raise UserError(
                f"W&B's directory {home.absolute()} cannot be written ({error.strerror}); set WANDB_DIR to another"
            ) from None
        import wandb

        return wandb.init(
            project=os.environ.get("WANDB_PROJECT") or self.study, id=id_, name=name, group=group, config=config,
            dir=str(home), resume="allow", reinit="create_new",
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True
            ),
        )  # fmt: skip

    def _finish(self, key: str, exit_code: int | None) -> None:
        session = self._open.pop(key)
        folder = Path(session.dir).parent
        session.finish(exit_code=exit_code)
        if session.offline and folder.exists():
            (folder / CLOSED).write_text(str(self._last[key]), encoding="utf-8")

    def _folders(self, id_: str) -> list[Path]:
        home = Path(os.environ.get("WANDB_DIR") or ".")
        return [path for name in ("wandb", ".wandb") for path in sorted((home / name).glob(f"offline-run-*-{id_}"))]

    def _exists(self, id_: str) -> bool:
        import wandb

        project = os.environ.get("WANDB_PROJECT") or self.study
        entity = os.environ.get("WANDB_ENTITY")
        try:
            wandb.Api().run("/".join(filter(None, [entity, project, id_])))
        except ValueError:  # W&B's answer for a run that it does not have
            return False
        return True


def _offline() -> bool:
    return os.environ.get("WANDB_MODE", "").lower() in ("offline", "dryrun")


def _closed(folder: Path) -> int | None:
    """Return the last step that an offline run's folder holds if its writer has ended it properly, else None."""
    try:
        return int(read_regular(folder / CLOSED))
    except (OSError, ValueError):
        return None
