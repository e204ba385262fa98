"""The cassette of a model process whose study is on a disk that several machines share.

SQLite cannot let several machines write one file. So a process writes its shard on its own machine, in a scratch
folder, and copies it whole into the study at each checkpoint of its runs; the next answers go into the next shard. What
was copied is never written again. A study reads and merges such shards like any others. When the process ends, it
leaves one shard in place of all that it copied.

A machine that dies loses the answers since the last checkpoint, and the study pays for them again.

    SCRATCH/shard-….sqlite   the shard that is being written
    SCRATCH/mine.sqlite      all that this process has copied into the study
    SCRATCH/heard.sqlite     what other processes have recorded for the cell
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from guidebench.harness.errors import UserError
from guidebench.harness.models import cassette
from guidebench.harness.models.cassette import SHARDS, WHOLE, Cassette, unknown
from guidebench.harness.models.cassette_file import copy, create, faults_of, opened, transaction, uri
from guidebench.harness.records.files import move, refresh

MINE, HEARD = "mine.sqlite", "heard.sqlite"
LOOKED_UP = ("requests", "answers", "arrays", "failures")
"""Tables in which answers are looked up."""
TRIES = 5
"""Times that the shards of a cell are listed, as one may be replaced by a larger one meanwhile."""


class Segmented(Cassette):
    """A cassette whose shards are copied into the study."""

    def __init__(
        self, sources: Sequence[Path], scratch: Path, study: Path, cell: str, keep_images: bool = True
    ) -> None:
        """`sources`: cassettes to read that nobody writes meanwhile; `scratch`: folder on this machine; `study`: the
        study's folder of recorded answers; `cell`: id of the cell of the runs.

        Raises UserError for a damaged source, and if a folder cannot be written.
        """
        self._scratch, self._study = scratch, study
        self._stem, self._number = f"shard-{cell}-{uuid.uuid4().hex}", 0
        for name in (MINE, HEARD):
            create(scratch / name)
        for left in sorted(scratch.glob(SHARDS)):  # a process before this one died with it
            self._hand_over(left)
        _hear(scratch / HEARD, study, cell)
        super().__init__([*sources, scratch / HEARD, scratch / MINE], self._next(), keep_images)

    def lacks(self, digests: Iterable[str]) -> set[str]:
        return unknown(self._sources[self._scratch / MINE], super().lacks(digests))

    def publish(self) -> None:
        self._end_shard()
        for shard in sorted(self._scratch.glob(SHARDS)):
            self._hand_over(shard)

    def close(self, keep: bool = True) -> None:
        try:
            if keep:
                self.publish()
                self._join()
            else:
                self._bill()
        finally:
            super().close()

    def _end_shard(self) -> None:
        """Close the shard that is being written; the next record begins another one."""
        if self._own is not None:
            self._own.close()
            self._own, self._shard = None, self._next()

    def _next(self) -> Path:
        self._number += 1
        return self._scratch / f"{self._stem}-{self._number:06d}.sqlite"

    def _hand_over(self, shard: Path) -> None:
        """Copy a shard into the study, then merge it into what this process keeps of its own."""
        if not cassette.abandoned(shard):
            raise UserError(f"{shard} is still being written by a process that was given up; end that process")
        _put(shard, self._study / shard.name)
        with closing(opened(self._scratch / MINE, "rw")) as db:
            cassette.absorb(db, shard)

    def _join(self) -> None:
        """Replace all shards that were copied into the study by one that holds them all."""
        with closing(opened(self._scratch / MINE)) as db:
            parts = [name for (name,) in db.execute("SELECT shard FROM merged")]
        if len(parts) > 1:
            _put(self._scratch / MINE, self._study / f"{self._stem}{WHOLE}")
            for name in parts:
                (self._study / name).unlink(missing_ok=True)

    def _bill(self) -> None:
        """Tell the study what the calls since the last copy have cost, without the answers: another process may have
        begun to repeat these steps, and a run has one answer to each question."""
        self._end_shard()
        for shard in sorted(self._scratch.glob(SHARDS)):
            if not (self._study / shard.name).exists():
                bill = self._scratch / f"bill-{shard.name}"
                create(bill)
                _copied(bill, shard, ("spent",))
                _put(bill, self._study / shard.name)


def _hear(heard: Path, study: Path, cell: str) -> None:
    """Gather what the shards of a cell hold. It is read once, so a shard may be merged and deleted at any time."""
    for tried in range(1, TRIES + 1):
        try:
            refresh(study)
            for shard in cassette.unmerged(study, sorted(study.glob(f"shard-{cell}-*.sqlite"))):
                _copied(heard, shard, LOOKED_UP)
            return
        except FileNotFoundError:
            if tried == TRIES:
                raise


def _copied(target: Path, origin: Path, tables: Sequence[str]) -> None:
    """Copy tables of a cassette into another one, without the rows that it has. Raise FileNotFoundError if the origin
    is gone."""
    origin.stat()
    opened(origin).close()
    with closing(opened(target, "rw")) as db, faults_of(origin):
        db.execute("ATTACH ? AS origin", (uri(origin, "ro"),))
        with transaction(db):
            copy(db, tables, "origin")


def _put(source: Path, target: Path) -> None:
    """Copy a file to a shared disk so that others see it whole, or not at all."""
    beside = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, beside)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        move(beside, target)
    except OSError as error:
        raise UserError(
            f"{target} cannot be written ({error.strerror or error}); make room, and the same command continues"
        ) from None
