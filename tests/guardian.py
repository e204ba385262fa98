"""A process that kills everything a test run has started, even if the run itself was killed.

Every process that a test run starts inherits the variable `NAME`, which holds the id of the run. The guardian waits
until the run has ended, by a pipe that closes then, and kills every process whose environment holds the id. It needs
only the standard library, since it runs in an isolated interpreter."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

NAME = "GUIDEBENCH_TEST_RUN"
"""Environment variable with the ids of all test runs around a process; a test may start a test run of its own."""
PATIENCE = 60.0
"""Seconds that processes get to end by themselves after the tests."""


def marked_processes(text: str) -> list[int]:
    """Return the ids of all other processes whose environment, as it was when their program began, contains `text`."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if int(folder.name) != os.getpid() and text.encode() in (folder / "environ").read_bytes():
                processes.append(int(folder.name))
    return processes


def command(process: int) -> str:
    """Return the command line of a process; "" if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def end(text: str, seconds: float = 0.0) -> list[str]:
    """Wait up to `seconds`, then kill all processes whose environment contains `text`. Return the command lines of
    those that had not ended by themselves."""
    patience, remaining = time.monotonic() + seconds, marked_processes(text)
    while remaining and time.monotonic() < patience:
        time.sleep(0.05)
        remaining = marked_processes(text)
    commands = [command(process) for process in remaining]
    patience = time.monotonic() + 30.0
    while remaining and time.monotonic() < patience:
        for process in remaining:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
        remaining = marked_processes(text)
    return commands


def watch(id_: str) -> subprocess.Popen[bytes]:
    """Start the guardian of this process, and add the id to the environment of all processes that this one starts from
    now on."""
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, id_], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ[NAME] = f"{os.environ.get(NAME, '')} {id_}".strip()
    return guardian


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end(sys.argv[1])
