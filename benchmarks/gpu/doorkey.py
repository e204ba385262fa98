"""Training of DQN on DoorKey 8x8 at the paper profile, five seeds in one worker, with all time that is left.

It is `bench run`, stopped in time, so that its workers write checkpoints; the next call goes on from these. The study
is packed beside the figures (archive.py), and unpacked where it is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyarrow import parquet

from benchmarks.gpu import archive
from benchmarks.gpu.figures import Row
from benchmarks.gpu.steps import Ask, Tell, Unavailable
from benchmarks.turns import last_timing
from guidebench.harness.records.study import RunDirectory, StudyDirectory

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 5
CELL = ("suite=minigrid_doorkey", "task=8x8", "method=uer", "profile=paper")
SMALL = ("learner.channels=8", "learner.features=32", "learner.hidden=[32]", "learner.batch_size=16")
PACKING, MOST_PACKING = 0.1, 30.0
"""Share of the time, and most seconds, that are left for the checkpoint and the archive."""
GRACE = 30.0
"""Seconds that the workers have to write their checkpoints."""


def command(ask: Ask) -> list[str]:
    """Return the command that trains, or goes on."""
    seeds = SEEDS if ask.full else 2
    how = [f"seeds={seeds}", f"pack={seeds}", "workers=1", f"device={'cuda' if ask.full else 'cpu'}"]
    how += [f"output={ask.study}", "report=false", "mixed_commits=true"]
    return [sys.executable, "-P", "-m", "guidebench", "run", *CELL, *how, *(() if ask.full else SMALL)]


def measure(ask: Ask, tell: Tell) -> None:
    if not ask.study.exists() and archive.existing(ask.output):
        archive.unpack(ask.output, ask.study)
    before = {seed: run["step"] for seed, run in runs(ask.study).items()}
    begun = time.monotonic()
    stopping = ask.deadline - min(MOST_PACKING, PACKING * ask.seconds_left())

    def look() -> bool:
        tell(rows(ask.study, before, time.monotonic() - begun))
        return not ask.full and _gained(ask.study, before) > 0

    train(ask, stopping, look)
    figure_rows = rows(ask.study, before, time.monotonic() - begun)
    tell(figure_rows)
    if not runs(ask.study):
        raise Unavailable("no run had begun when its time was over")
    began = time.monotonic()
    parts = archive.pack(ask.study, ask.output)
    size = sum(path.stat().st_size for path in parts) / 1e6
    note = f"{len(parts)} parts beside the figures, from which the training goes on elsewhere"
    tell([*figure_rows, Row("the study, packed", size, "MB", seconds=time.monotonic() - began, dtype="", note=note)])


def train(ask: Ask, until: float, look: Callable[[], bool]) -> None:
    """Run the command until it ends, or stop it at `until`, or once `look`, called every two seconds, returns True;
    raise RuntimeError if it fails."""
    child = subprocess.Popen(command(ask), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=os.environ)
    try:
        while child.poll() is None and time.monotonic() < until:
            try:
                child.wait(min(2.0 if ask.full else 0.2, max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                if look():
                    break
        asked_to_stop = child.poll() is None
        if asked_to_stop:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):  # the checkpoint before is then the newest
                child.wait(GRACE)
    finally:
        child.kill()
    if child.returncode and not asked_to_stop:
        raise RuntimeError(f"bench run ended with exit code {child.returncode}; its words are above")


def runs(study: Path) -> dict[int, dict[str, Any]]:
    """Return step, success and directory of each seed that has begun."""
    if not (study / "study.json").exists():
        return {}
    seed_runs = {}
    for _, run in StudyDirectory(study).runs():
        record = run.read()
        if "seed" in record:
            live = run.live()
            step = max(int(record["step"]), int(live.get("step", 0)))
            seed_runs[int(record["seed"])] = {"step": step, "status": record["status"], "run": run}
    return seed_runs


def evaluated(run: RunDirectory) -> tuple[int, float] | None:
    """Return the step and the success rate of a run's last evaluation, or None."""
    if (run.path / "evaluations.parquet").exists():
        episodes = parquet.read_table(run.path / "evaluations.parquet", columns=["step", "success"]).to_pylist()
    elif (run.path / "evaluations.jsonl").exists():
        lines = (run.path / "evaluations.jsonl").read_text().splitlines()[-2_000:]
        episodes = [json.loads(line) for line in lines if line.endswith("}")]
    else:
        return None
    if not episodes:
        return None
    last = max(episode["step"] for episode in episodes)
    return last, statistics.mean(bool(episode["success"]) for episode in episodes if episode["step"] == last)


def _gained(study: Path, before: dict[int, int]) -> int:
    """Return the steps that all seeds have trained since they stood at `before`."""
    return sum(run["step"] - before.get(seed, 0) for seed, run in runs(study).items())


def rows(study: Path, before: dict[int, int], seconds: float) -> list[Row]:
    """Return the steps of each seed so far, the speed of this call, and the last evaluation."""
    seed_runs = runs(study)
    if not seed_runs:
        return []
    steps = [run["step"] for run in seed_runs.values()]
    gained = _gained(study, before)
    title = "DQN on DoorKey 8x8, paper profile"
    seeds = len(seed_runs)
    states = ", ".join(sorted({run["status"] for run in seed_runs.values()}))
    figure_rows = [
        Row(f"{title}: steps of each seed", statistics.median(steps), "steps", min(steps), max(steps), seconds=seconds,
            seeds=seeds, note=states),
        Row(f"{title}: in this call, its start and its evaluations included", gained / seconds, "steps/s",
            seconds=seconds, seeds=seeds),
    ]  # fmt: skip
    try:
        clock = last_timing(next(iter(seed_runs.values()))["run"].path)
        rate = seeds * clock["step"] / clock["seconds"]
        figure_rows.append(
            Row(f"{title}: of the training loop alone", rate, "steps/s", seconds=clock["seconds"], seeds=seeds)
        )
    except (OSError, LookupError, ValueError, ZeroDivisionError):
        pass
    last = [evaluation for run in seed_runs.values() if (evaluation := evaluated(run["run"])) is not None]
    if last:
        rates = [rate for _, rate in last]
        note = f"evaluation at step {min(step for step, _ in last):,}"
        figure_rows.append(
            Row(f"{title}: success", statistics.mean(rates), "of 1", min(rates), max(rates), len(rates), seeds=seeds,
                note=note)
        )  # fmt: skip
    return figure_rows
