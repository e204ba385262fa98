"""Attempt directories: where a run is written after another machine lost it while its worker may still be alive.

    RUN/attempt-EPOCH/     what the holder of that epoch, and those after it, write in place of RUN

Nobody else writes there, so a worker that wakes up late spoils nothing. An attempt begins with a copy of what the one
before left, and when the run is finished its files are moved into RUN. Without such a loss a run has no attempts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from guidebench.harness.errors import UserError, size
from guidebench.harness.records.files import drop_unfinished, move, nothing, read_json, retry_once

PREFIX = "attempt-"
LEASE = ".lease"
BLOCK = 2**20
LAST = "run.json"
"""The file whose status says that a run is finished."""
BEGUN = ".publishing"
"""File of an attempt that is being moved: the older files of the run are deleted."""
TRIES = 3
"""Times that a copy is begun, since the worker that was lost may go on deleting files for a while."""


def path_of(run: Path, number: int) -> Path:
    """Return the directory of an attempt; 0 is the run's own."""
    return run / f"{PREFIX}{number}" if number else run


def newest(run: Path) -> int:
    """Return the number of a run's newest attempt, or 0. Attempts whose files were all moved into the run do not
    count."""
    try:
        names = [name.removeprefix(PREFIX) for name in os.listdir(run) if name.startswith(PREFIX)]
    except OSError:
        return 0
    for number in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
        if not _emptied(path_of(run, number)):
            return number
    return 0


def _emptied(folder: Path) -> bool:
    """Return whether all files of an attempt were moved into the run, so that only its directory is left."""
    return (folder / BEGUN).exists() and not (folder / LAST).exists()


def remain(run: Path) -> bool:
    """Return whether a run has attempts, or remains of one that is half made or half deleted."""
    return bool(_remains(run))


def _number(path: Path) -> int:
    """Return the number of an attempt, or 0 for one that is half made or half deleted."""
    number = path.name.removeprefix(PREFIX)
    return int(number) if number.isdecimal() else 0


def _remains(run: Path) -> list[Path]:
    return sorted(path for path in run.glob("*") if path.name.removeprefix(".").startswith(PREFIX))


def begin(run: Path, number: int) -> Path:
    """Return the directory of an attempt. If there is none yet, it is made as a copy of the attempt before; raise
    UserError if the disk has no room for that."""
    folder = path_of(run, number)
    if folder.is_dir():
        return folder
    before = path_of(run, newest(run))
    temporary = run / f".{PREFIX}{number}"
    shutil.rmtree(temporary, ignore_errors=True)
    needed, free = allocated(before), shutil.disk_usage(run).free
    if needed > free:
        raise UserError(
            f"the run {run} was lost with a machine and goes on in a copy of its files, for which {size(needed)} are "
            f"needed and {size(free)} are free; free some room and run the same command again"
        )
    for attempt in range(1, TRIES + 1):
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            retry_once(shutil.copytree, before, temporary, ignore=_left_out, copy_function=copied, dirs_exist_ok=True)
            break
        except (shutil.Error, FileNotFoundError):
            if attempt == TRIES:
                raise
    move(temporary, folder)
    return folder


def allocated(directory: Path) -> int:
    """Return the bytes on disk of the files that an attempt would copy. The holes of sparse files do not count."""
    total = 0
    for place, folders, names in os.walk(directory):
        folders[:] = sorted(set(folders) - _left_out(place, folders))
        for name in set(names) - _left_out(place, names):
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                total += os.stat(os.path.join(place, name)).st_blocks * 512
    return total


def publish(run: Path, number: int, fence: Callable[[], None] = nothing) -> bool:
    """Move the files of a run's attempt into the run's own directory, and delete all that is left of its attempts.
    Return False, and do nothing, unless that attempt is the run's newest and finished; 0 is the run's own directory. If
    killed, the next call completes it. Call it with the run's lease held; `fence` raises an error if it is lost.

    This process may sleep before any of these operations while another takes over and completes the run. So it deletes
    no newer attempt, and of the run no file that the attempt has too, which it replaces."""
    folder = path_of(run, number)
    if number != newest(run) or not _finished(folder):
        return False
    if number:
        if not (folder / BEGUN).exists():
            drop_unfinished(run)  # whoever lost the run may wake up before the rename that ends a write
            new = set(os.listdir(folder))
            for path in run.iterdir():
                if path.name not in (LAST, LEASE, folder.name) and (path.is_dir() or path.name not in new):
                    fence()
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            (folder / BEGUN).touch()
        fence()
        for path in sorted(folder.iterdir(), key=lambda file: file.name == LAST):
            if path.name != BEGUN:
                move(path, run / path.name)
    for path in _remains(run):
        if _number(path) > number and not _emptied(path):
            continue
        if not path.name.startswith("."):  # no moment at which it is an attempt without files
            path = path.rename(run / f".{path.name}")
        shutil.rmtree(path)
    return True


def _finished(folder: Path) -> bool:
    try:
        content = read_json(folder / LAST)
    except UserError:
        return False
    return isinstance(content, dict) and content.get("status") == "finished"


def copied(source: str, target: str) -> str:
    """Copy a file without the holes of a sparse one, such as a ring that is not full; return `target`."""
    with open(source, "rb") as old, open(target, "wb") as new:
        size, at = os.fstat(old.fileno()).st_size, 0
        new.truncate(size)
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
                end = os.lseek(old.fileno(), at, os.SEEK_HOLE)
            except OSError:  # nothing but a hole is left
                break
            new.seek(at)
            while at < end and (block := os.pread(old.fileno(), min(BLOCK, end - at), at)):
                new.write(block)
                at += len(block)
            if at < end:  # it was cut meanwhile
                break
    with contextlib.suppress(OSError):
        shutil.copystat(source, target)
    return target


def _left_out(directory: str, names: Sequence[str]) -> set[str]:
    """Return the names that are not copied: leases, attempts, and files that are being written."""
    return {name for name in names if name.startswith((".", PREFIX))}
