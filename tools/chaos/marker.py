"""The file by which chaos lets a task hang, and what a task does that finds it.

The next step in a process that the file names does not return. The process takes the file away first, so that only one
task hangs. It sleeps, so that other threads of its process go on, or it holds the interpreter, so that they do not.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

VARIABLE = "GUIDEBENCH_CHAOS_HANG"
"""Environment variable with the path of the marker file."""
HOLDS = "holds the interpreter"
"""First line of a marker file that makes the task hold the interpreter; the names of processes follow."""
SUITE = "chaos_classic"
"""The suite whose tasks look for the file (`tools/chaos/hanging.py`)."""


def hang(marker: Path) -> None:
    """Never return if the file names this process and no other process has removed the file first; else do nothing."""
    try:
        first, *names = marker.read_text().splitlines()
        if Path("/proc/self/comm").read_text().strip() not in names:
            return
        marker.unlink()
    except FileNotFoundError:
        return
    sleep = ctypes.PyDLL(None).sleep if first == HOLDS else time.sleep
    while True:
        sleep(3600)
