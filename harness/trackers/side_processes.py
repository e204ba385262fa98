"""The processes that follow a study while a command trains it, one per tracker, at low priority."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from guidebench.harness import processes
from guidebench.harness.errors import UserError
from guidebench.harness.texts import printable
from guidebench.harness.trackers import following

PATIENCE = 20.0
"""Seconds that a tracker has to send the last points and the report after a command has ended (choice)."""
NICENESS = 10
"""Niceness of the processes, so that runs have precedence."""


@contextlib.contextmanager
def run_followers(names: Sequence[str], directory: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Follow a study with the named trackers, one process each, while the context is open. Raise UserError at once if
    one of them is not ready. `tell` gets a line for each tracker that did not receive everything; `bench track` sends
    the rest."""
    following.ready(names)
    started = [(name, _start(name, directory)) for name in dict.fromkeys(names)]
    try:
        yield
    finally:
        for _, process in started:
            assert process.stdin is not None
            process.stdin.close()  # tells it to look once more and end
            process.stdin = None
        until = time.monotonic() + PATIENCE
        for name, process in started:
            try:
                output, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                output = process.communicate()[0] or b"it takes long"
            if process.returncode:
                last_output = printable(output.decode(errors="replace").strip().rsplit("\n", 1)[-1])
                command = f"bench track {shlex.quote(str(directory))} --to {name}"
                tell(f"{name} has not taken everything ({last_output}); {command} sends the rest")


def _start(name: str, directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "guidebench.harness.trackers.side_processes", str(directory), name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C reaches only the parent
    )  # fmt: skip


def work(directory: Path, name: str) -> str:
    """Follow a study with the tracker `name` until standard input is closed. Return its last errors, or ""."""

    def closed() -> bool:
        return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)

    while not (directory / "study.json").exists():  # the command checks its plan first
        if closed():
            return ""
        time.sleep(0.2)
    try:
        with following.Following(directory, name) as follower:
            following.follow([follower], closed, lambda line: None)
            return "; ".join(follower.errors.values())
    except UserError as error:
        return str(error)


if __name__ == "__main__":
    processes.begin()
    os.nice(NICENESS)
    out = os.dup(1)
    os.dup2(2, 1)  # libraries print there; only the last errors are read from the pipe
    last_error = work(Path(sys.argv[1]), sys.argv[2])
    os.write(out, last_error.encode(errors="replace"))
    processes.leave(1 if last_error else 0)
