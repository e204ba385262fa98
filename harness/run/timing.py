"""Measures the duration of a cell's steps on this machine by running its agent, tasks and judge for a few seconds.

`python -m guidebench.harness.run.timing` is a process that reads cells as JSON from standard input and writes one line
for each: a `Timing` as JSON, or an error. The cell is built as in a worker and takes some hundred steps. It is then
moved to the first learning step of each run phase, and some steps are timed. Its results are discarded. On a CPU,
processor time is measured, so that other processes do not matter.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from guidebench.harness import processes, registry
from guidebench.harness.episodes import datasets
from guidebench.harness.identity import sources
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.identity.provenance import hardware, packages
from guidebench.harness.models import keeping
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import write_json

if TYPE_CHECKING:
    from guidebench.harness.interfaces import RunPhase
    from guidebench.harness.loop.job import Job
    from guidebench.harness.loop.training import Loop

Basis = Literal["recorded", "timed"]
"""Basis of a timing: a whole run, or a few seconds of one."""
SCHEMA = 1
FILL = 400
"""Steps before any timing, so that batches can be drawn."""
WARM = 12
"""First steps of a run phase that are not timed, since they include compilation and allocation."""
LEAST = 4
"""Minimum steps taken in a run phase, however slow; half of the steps are excluded from the timing if they are few."""
EPISODES = 2
"""Number of timed evaluation episodes."""
CLIPS, ANSWERED = 8, 6.0
"""Number of clips to wait for when timing a scripted judge, and the maximum seconds to wait."""
SHORTEST = 20.0
"""Minimum duration in seconds of a run that is recorded as a timing."""
START = 30.0
"""Maximum seconds for the process to import its packages."""


class Timing(NamedTuple):
    """Seconds of a worker, for all seeds that it packs."""

    training: float
    """Training time of a whole run."""
    evaluation: float
    """Time of one evaluation."""
    judging: float
    """Time, in a whole run, of the parallel process that draws clips and runs a scripted judge."""


def timed(cells: Sequence[Cell], seeds: int, device: str, seconds: float) -> list[Timing | None]:
    """Time each cell for about `seconds` seconds, one after the other in a separate process; None for a cell that could
    not be timed."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = str(sources.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    asked = {"seeds": seeds, "device": device, "seconds": seconds, "cells": [record(cell) for cell in cells]}
    found: list[Timing | None] = []
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "timings"
        # Timings written before a timeout are used.
        with open(output, "wb") as lines, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            # -P: a file in the current directory must not shadow a module.
            subprocess.run(
                [sys.executable, "-P", "-m", "guidebench.harness.run.timing"], input=json.dumps(asked).encode(),
                stdout=lines, stderr=subprocess.DEVNULL, env=environment,
                timeout=START + 4 * seconds * len(cells), cwd=scratch,
            )  # fmt: skip
        for line in output.read_bytes().splitlines():
            try:
                content = json.loads(line)
                found.append(Timing(**content) if isinstance(content, dict) else None)
            except (ValueError, TypeError):
                continue  # a library wrote to standard output
    return [*found, *[None] * len(cells)][: len(cells)]


def keep(cell: Cell, seeds: int, device: str, timing: Timing, basis: Basis) -> None:
    """Cache a cell's timing. A recorded run replaces a timing of a few seconds, but not vice versa."""
    file = _file(cell, seeds, device)
    if basis == "timed" and (before := kept(cell, seeds, device)) is not None and before[1] == "recorded":
        return
    with contextlib.suppress(OSError):  # without the cache, the cell is timed again
        write_json(file, {"schema": SCHEMA, "basis": basis, "steps": cell.steps, **timing._asdict()})


def record_run(cell: Cell, job: Job, clock: Mapping[str, float], judging: float) -> None:
    """Cache the timing of a finished run if it was long enough; waiting for foundation models is excluded."""
    if clock["seconds"] < SHORTEST:
        return
    asked = any(keeping.recorded(cell.section(part.role)) for part in cell.models)
    elsewhere = clock["evaluation_seconds"] + (clock["wait_seconds"] if asked else 0.0)
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    found = Timing(clock["seconds"] - elsewhere, clock["evaluation_seconds"] / evaluations, 0.0 if asked else judging)
    keep(cell, len(job.seeds), job.device, found, "recorded")


def kept(cell: Cell, seeds: int, device: str) -> tuple[Timing, Basis] | None:
    """Return the cached timing of a cell that differs from this one at most in steps and evaluations, or None."""
    try:
        content = json.loads(_file(cell, seeds, device).read_bytes())
        if content["schema"] != SCHEMA or content["basis"] not in get_args(Basis):
            return None
        longer = cell.steps / int(content["steps"])
        training, evaluation, judging = (float(content[name]) for name in Timing._fields)
        return Timing(longer * training, evaluation, longer * judging), content["basis"]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None


def remembered() -> bool:
    """Return whether the cache exists."""
    return _directory().is_dir()


def _directory(of: str = "timings") -> Path:
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / of


def _file(cell: Cell, seeds: int, device: str) -> Path:
    return cached("timings", cell, seeds, device)


def cached(kind: str, cell: Cell, *also: str | int) -> Path:
    """Return the file of the cache for what was measured of a cell, whatever its steps and evaluations, on this machine
    with this version of PyTorch, and also under these circumstances."""
    values = {
        key: value.value for key, value in cell.settings.items() if key not in ("training.steps", "evaluation.every")
    }
    machine = [*hardware("cpu").values(), packages().get("torch")]
    content = [cell.names[:2], cell.names.parts, values, machine, also]
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return _directory(kind) / f"{key}.json"


def measure(cell: Cell, seeds: Sequence[int], device: str, seconds: float, directory: Path) -> Timing:
    """Measure the timing of a cell in this process; the cell stores its files in `directory`."""
    from guidebench.harness.execution import Models
    from guidebench.harness.interfaces import Agent
    from guidebench.harness.loop.asking import asked_of, asks_of, backend_of
    from guidebench.harness.loop.building import make_build
    from guidebench.harness.loop.evaluation import Evaluator, solving
    from guidebench.harness.loop.job import Job
    from guidebench.harness.loop.training import Loop
    from guidebench.harness.models.questions import Backend

    clock = _clock(device)
    names = cell.names
    places = [directory / str(seed) for seed in seeds]
    for place in places:
        place.mkdir(parents=True)
    job = Job("timing", str(directory), record(cell), tuple(seeds), device, models=asdict(Models(mode="live")))
    build = make_build(cell, seeds, device, places)
    agent: Agent = build.parts["agent"].spawn(build)
    tasks = [build.suite(row).make(names.task) for row in range(build.rows)]
    backends: dict[str, Backend] = {}
    try:
        for role in asked_of(cell, agent):
            silent = role == registry.HUMAN or keeping.recorded(build.parts[role])
            backends[role] = Silent() if silent else backend_of((role,), job, cell, build)
        every, now = asks_of(backends, job, cell), cell.consulted
        asks, consulted = ({role: every[role] for role in every if (role in now) == wanted} for wanted in (False, True))
        solve = solving(build.parts["agent"], build.evaluated, names.task)
        evaluator = Evaluator(
            lambda row: build.evaluated(row).make(names.task), EPISODES, build.streams, cell.score, solve
        )
        loop = Loop(
            agent, tasks, build.streams, evaluator, Nowhere(), asks=asks, consulted=consulted, evaluate_every=1,
            checkpoint_every=1, datasets=datasets.loading(cell, seeds),
        )  # fmt: skip
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        trial = Trial(loop, clock)
        starts = min((build.parts[part.role].learning_starts for part in cell.names.of("learner")), default=1)
        training = sum(trial.phases(starts, seconds))
        judges = [role for role in asks if asks[role].kind == "judge" and not isinstance(backends[role], Silent)]
        judging = sum(trial.judging(backends[role], asks[role].asked) for role in judges)
        rows = list(range(build.rows))
        for row in rows:
            for episode in range(EPISODES):
                evaluator._pool[row, episode] = build.evaluated(row).make(names.task)
        started = clock()
        evaluator(agent, loop.step, rows, consult=lambda questions: [None] * len(questions))
        evaluation = (clock() - started) * build.parts["evaluation"].episodes / EPISODES
    finally:
        for backend in backends.values():
            backend.close()
    return Timing(training, evaluation, judging)


class Trial:
    """Times the steps of a loop."""

    def __init__(self, loop: Loop, clock: Callable[[], float]) -> None:
        self._loop, self._clock = loop, clock
        self._taken = 0
        self._phases = loop.agent.phases()

    def phases(self, learning_starts: int, seconds: float) -> Iterator[float]:
        """Yield the seconds of each run phase. Steps before learning starts count as measured if they step the
        environment, and as 0 otherwise."""
        loop = self._loop
        waiting, begin = 0.0, 0
        for phase in self._phases:
            loop.enter(phase)
            acts = phase.source == "environment"
            if acts and not waiting:
                waiting = self._mean(phase, min(FILL, phase.steps), seconds / 2, WARM)
            end = begin + phase.steps
            starts = max(begin, min(learning_starts, end)) if phase.updates is None else begin
            # Move to the step before the first learning step, so that one-time work there is excluded by WARM.
            loop.step = max(starts - 1, min(loop.step, end))
            each = self._mean(phase, end - loop.step, seconds / len(self._phases), WARM) or waiting
            yield (starts - begin) * waiting * acts + (end - starts) * each
            begin = end

    def _mean(self, phase: RunPhase, most: int, seconds: float, warm: int) -> float:
        """Return the mean seconds per step, over as many steps as the time allows; 0.0 if there is none to take."""
        took: list[float] = []
        until = time.monotonic() + seconds
        while len(took) < most and (time.monotonic() < until or len(took) < LEAST):
            started = self._clock()
            self._loop.advance(phase)
            took.append(self._clock() - started)
        self._taken += len(took)
        return float(np.mean(took[min(warm, len(took) // 2) :])) if took else 0.0

    def judging(self, backend: Any, asked: int) -> float:
        """Return the seconds that a parallel process draws and judges in a run, from the clips answered so far."""
        until = time.monotonic() + ANSWERED
        before = (0, 0.0)
        while backend.clips < min(asked, CLIPS) and time.monotonic() < until:
            backend.poll()
            time.sleep(0.02)
            if not before[0]:
                before = backend.clips, backend.seconds  # exclude the first clips, which include one-time work
        clips, seconds = backend.clips - before[0], backend.seconds - before[1]
        if not clips or getattr(backend, "pid", None) is None:
            return 0.0
        steps = sum(phase.steps for phase in self._phases)
        return float(seconds / clips * asked / self._taken * steps)


def _clock(device: str) -> Callable[[], float]:
    if not device.startswith("cuda"):
        return time.process_time
    import torch

    def after() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return after


class Silent:
    """A backend in place of a foundation model during timing: every question ends without an answer."""

    restarts, clips, seconds, halted = 0, 0, 0.0, ""

    def __init__(self) -> None:
        from guidebench.harness.models.questions import Memory

        self.memory = Memory()

    def ask(self, item: Any, ahead: bool = False) -> None: ...
    def arrived(self, number: int) -> bool:
        return True

    def wait(self, number: int) -> bool:
        return True

    def take(self, number: int, stop: Callable[[], bool] | None = None) -> tuple[Any, float]:
        from guidebench.harness.models.calls import CallResult

        return CallResult(None, "breaker"), 0.0

    def poll(self) -> None: ...
    def publish(self, followers: Sequence[Path] = ()) -> None: ...
    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None: ...


class Nowhere:
    """A journal that writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def main() -> None:
    """Time the cells on standard input and write the results to standard output."""
    asked: Mapping[str, Any] = json.loads(sys.stdin.read())
    output, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.set_num_threads(1)
    for content in asked["cells"]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found: Any = measure(
                    recorded(content), tuple(range(asked["seeds"])), asked["device"], asked["seconds"], Path(scratch)
                )._asdict()
            except Exception as error:  # the cell's runs will report the error
                found = repr(error)
        print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    processes.begin()
    main()
    processes.leave(0)
