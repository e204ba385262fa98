"""What tests of launchers with a scheduler share: commands as processes, and what a study's files tell of its jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    code: int
    out: str
    err: str


def bench(*words: str) -> Done:
    """`bench("run", …)` as a process."""
    done = subprocess.run([sys.executable, "-m", "guidebench", *words], capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


def until(true: Callable[[], bool], every: float = 1.0) -> None:
    """Wait for at most four minutes, looking `every` seconds."""
    end = time.monotonic() + 240
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(every)


def statuses(study: Path) -> list[str]:
    return [json.loads(path.read_text())["status"] for path in sorted(study.glob("*/*/*/seed-*/run.json"))]


def events(study: Path) -> list[list[str]]:
    """The events of each job, in order, without progress."""
    found = []
    for path in sorted((study / "jobs").glob("*.events.jsonl")):
        kinds = [json.loads(line)["event"] for line in path.read_text().splitlines()]
        found.append([kind for kind in kinds if kind != "progress"])
    return found
