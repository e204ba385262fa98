"""TensorBoard: event files in STUDY/tensorboard, one folder per run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.registry import register
from guidebench.harness.trackers.base import START, Offset, Report, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point


@register.tracker("tensorboard")
class TensorBoard(Tracker):
    """TensorBoard's event files; `tensorboard --logdir STUDY/tensorboard` shows them."""

    name = "tensorboard"
    modules = ("tensorboard",)

    def __init__(self, study: str, directory: Path, token: str) -> None:
        super().__init__(study, directory, token)
        self._home = directory / "tensorboard"
        self._open: dict[str, Any] = {}

    def held(self, run: FollowedRun, offset: Offset) -> Offset:
        """What an interrupted process wrote after the offset is purged by the next file (`_writer`)."""
        return offset if offset.step >= 0 and any(self._folder(run).glob("events.*")) else START

    def begin(self, run: FollowedRun) -> Offset:
        shutil.rmtree(self._folder(run), ignore_errors=True)
        writer = self._writer(run, START)
        text = json.dumps(run.settings, indent=1, ensure_ascii=False)
        writer.add_text("settings", "\n".join(f"    {line}" for line in text.splitlines()), 0)
        return Offset(id=str(self._folder(run).relative_to(self._home)))

    def put(self, run: FollowedRun, offset: Offset, points: Sequence[Point]) -> None:
        writer = self._writer(run, offset)
        for step, values in points:
            for series, value in values.items():
                writer.add_scalar(series, value, step)
        writer.flush()

    def end(self, run: FollowedRun, offset: Offset, status: str) -> None:
        if (writer := self._open.pop(run.key, None)) is not None:
            writer.close()

    def publish(self, report: Report) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = self._home / "report"
        shutil.rmtree(folder, ignore_errors=True)
        with SummaryWriter(str(folder)) as writer:
            for name, path in report.pictures.items():
                image = reader_process.read(f"{path}: decoding it", path, outside.picture, path.read_bytes())
                writer.add_image(name, image, 0, dataformats="HWC")
            for name, (columns, rows) in report.tables.items():
                lines = [columns, ["---"] * len(columns), *rows]
                writer.add_text(name, "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines), 0)

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()
        self._open.clear()

    def forget(self) -> None:
        super().forget()
        self.close()

    def _folder(self, run: FollowedRun) -> Path:
        return self._home / run.directory.relative_to(self.directory)

    def _writer(self, run: FollowedRun, offset: Offset) -> Any:
        """Return the writer of a run. A new file makes TensorBoard drop all that earlier files have after the offset.
        Its name must sort after theirs, and names differ in the second of their making."""
        from torch.utils.tensorboard import SummaryWriter

        folder = self._folder(run)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{folder} cannot be written ({error.strerror}), where TensorBoard's files go; make room for it"
            ) from None
        if run.key in self._open and not any(folder.glob("events.*")):  # deleted while it was open
            self._open.pop(run.key).close()
        if run.key not in self._open:
            while (folder.exists()) and any(
                path.stat().st_mtime >= int(time.time()) for path in folder.glob("events.*")
            ):
                time.sleep(0.05)
            purged = offset.step + 1 if offset.step >= 0 else None
            self._open[run.key] = SummaryWriter(str(folder), purge_step=purged)
        return self._open[run.key]


def _cell(value: str | float) -> str:
    return str(value).replace("|", "\\|") if isinstance(value, str) else f"{value:.4g}"
