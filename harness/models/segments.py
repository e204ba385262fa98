"""The cassette of a model process whose study is on a disk that several machines share.

SQLite cannot let several machines write one file. So a process writes its shard on its own machine, in a scratch
folder, and copies it whole into the study at each checkpoint of its runs; the next answers go into the next shard. What
was copied is never written again. A study reads and merges such shards like any others.

A machine or a worker that dies loses the answers since the last checkpoint, and the study pays for them again.

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
from guidebench.harness.models.cassette import SHARDS, Cassette, missing_images
from guidebench.harness.models.cassette_file import STRANGERS, copy, create, faults_of, opened, transaction, uri
from guidebench.harness.records.files import move, refresh
from guidebench.harness.records.leases import Fenced

MINE, HEARD = "mine.sqlite", "heard.sqlite"
LOOKED_UP = ("requests", "answers", "arrays", "failures")
"""Tables in which answers are looked up."""


class Segmented(Cassette):
    """A cassette that writes its shards on this machine and copies them into the study."""

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
        abandoned_shards = [
            shard for shard in sorted(scratch.glob(SHARDS)) if cassette.abandoned(shard)
        ]  # by one that died
        _gather(scratch / HEARD, study, cell)
        super().__init__([*sources, scratch / HEARD, scratch / MINE, *abandoned_shards], self._next(), keep_images)

    def lacks(self, digests: Iterable[str]) -> set[str]:
        return missing_images(self._sources[self._scratch / MINE], super().lacks(digests))

    def publish(self, followers: Iterable[Path] = ()) -> None:
        self._end_shard()
        for shard in sorted(self._scratch.glob(SHARDS)):
            self._hand_over(shard, followers)

    def bill(self) -> None:
        self._end_shard()
        for shard in sorted(self._scratch.glob(SHARDS)):
            if cassette.abandoned(shard) and not (self._study / shard.name).exists():
                bill = self._scratch / f"bill-{shard.name}"
                create(bill)
                _copy(bill, shard, ("spent",))
                _publish(bill, self._study / shard.name)

    def _end_shard(self) -> None:
        """Close the shard that is being written; the next record begins another one."""
        if self._shard_db is not None:
            self._shard_db.close()
            self._shard_db, self._shard, self._accounts = None, self._next(), {}

    def _next(self) -> Path:
        self._number += 1
        return self._scratch / f"{self._stem}-{self._number:06d}.sqlite"

    def _hand_over(self, shard: Path, followers: Iterable[Path]) -> None:
        """Copy a shard into the study, then merge it into this process's file of all that it has copied."""
        if not cassette.abandoned(shard):
            raise UserError(f"{shard} is still being written by a process that was given up; end that process")
        _publish(shard, self._study / shard.name, followers)
        with closing(opened(self._scratch / MINE, "rw")) as db:
            cassette.absorb(db, shard)


def _gather(heard: Path, study: Path, cell: str) -> None:
    """Copy the recorded answers of a cell's shards into one file, so that the shards may be merged and deleted
    later."""
    refresh(study)
    for shard in sorted(study.glob(f"shard-{cell}-*.sqlite")):
        _copy(heard, shard, LOOKED_UP)


def _copy(target: Path, origin: Path, tables: Sequence[str]) -> None:
    """Copy tables of a shard that nobody writes any more into the cassette `target`, skipping rows that it has. The
    shard is read without locks, because its disk may not support them."""
    opened(origin, STRANGERS).close()
    with closing(opened(target, "rw")) as db, faults_of(origin):
        db.execute("ATTACH ? AS origin", (uri(origin, STRANGERS),))
        with transaction(db):
            copy(db, tables, "origin")


def _publish(source: Path, target: Path, followers: Iterable[Path] = ()) -> None:
    """Copy a file to a shared disk so that others see it complete or not at all. Raise Fenced if one of `followers`
    exists when it is copied."""
    beside = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, beside)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        if any(map(_exists, followers)):
            raise Fenced("another process has taken over the runs, so their answers are not published any more")
        move(beside, target)
    except OSError as error:
        raise UserError(
            f"{target} cannot be written ({error.strerror or error}); make room, and the same command continues"
        ) from None


def _exists(path: Path) -> bool:
    """Return whether a file exists, by opening it, because an answer without that may come from a stale cache."""
    try:
        with open(path, "rb"):
            return True
    except PermissionError:
        return True
    except OSError:
        return False
