"""A disk that is full when chaos says so: a file system in memory, or, for who may not mount one, a limit on files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

ROOM = 2**28
"""Bytes of the file system while it is not full."""
NEW_MOUNTS = 0x20000
"""CLONE_NEWNS of unshare(2)."""
TRIES = 100
"""Attempts to shrink a file system to the size of its files, which may grow meanwhile."""


class Disk(Protocol):
    """The file system that holds a study; it can be filled and freed."""

    directory: Path
    meaning: str

    def fill(self, pids: Sequence[int]) -> None:
        """Make the next writes of these processes fail for want of space."""

    def free(self) -> None:
        """Make writes succeed again."""


class Memory:
    """A tmpfs that is filled by shrinking it to its contents: a write raises ENOSPC, a write to a memory map SIGBUS."""

    meaning = "a tmpfs as small as its files"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        _mount(directory, f"size={ROOM}")

    def fill(self, pids: Sequence[int]) -> None:
        for attempt in range(TRIES):
            room = os.statvfs(self.directory)
            try:
                _mount(self.directory, f"remount,size={max(1, room.f_blocks - room.f_bfree) * room.f_frsize}")
                break
            except OSError:  # a file has grown meanwhile
                if attempt == TRIES - 1:
                    raise

    def free(self) -> None:
        _mount(self.directory, f"remount,size={ROOM}")

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.directory)], check=True)


class Limited:
    """An ordinary directory that is filled by setting RLIMIT_FSIZE for the writers: a growing file raises EFBIG."""

    meaning = "RLIMIT_FSIZE, since no file system can be mounted here"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def fill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))

    def free(self) -> None:
        """Nothing to do: later processes have no limit."""

    def close(self) -> None:
        """Nothing to do."""


def _mount(directory: Path, options: str) -> None:
    """Mount a tmpfs with these options at a directory. Raise OSError if the system refuses."""
    directory.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise OSError(f"{' '.join(command)}: {process.stderr.strip()}")


def hide_mounts() -> None:
    """Enter a private mount namespace, so that later mounts are visible to this process and its children alone and end
    with them. Do nothing where the system does not allow it."""
    with contextlib.suppress(AttributeError, OSError):
        if not ctypes.CDLL(None).unshare(NEW_MOUNTS):
            subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True)


@contextlib.contextmanager
def disk(directory: Path) -> Iterator[Disk]:
    """Create a disk at a directory that does not exist yet; a context manager that removes it."""
    place: Memory | Limited
    try:
        place = Memory(directory)
    except OSError:
        with contextlib.suppress(OSError):
            directory.rmdir()
        place = Limited(directory)
    try:
        yield place
    finally:
        place.close()
