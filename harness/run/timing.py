"""How long a cell's steps really take on this machine: its own agent, tasks and judge at work for a few seconds.

`python -m guidebench.harness.run.timing` is a process that reads cells as JSON from standard input and writes one line
for each: what `Timing` holds, or an error. The cell is built as a worker builds it, takes some hundred steps, and is
moved on to the first step of each of its phases that learns, of which some steps are timed. Nothing of it is kept. On a
CPU its own processor time counts, so that what else runs here does not.
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
from guidebench.harness.plan import answering
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import write_json

if TYPE_CHECKING:
    from guidebench.harness.interfaces import RunPhase
    from guidebench.harness.loop.job import Job
    from guidebench.harness.loop.training import Loop

Basis = Literal["recorded", "timed"]
"""What a timing is of: a whole run, or a few seconds of one."""
SCHEMA = 1
FILL = 400
"""Steps before anything is timed, so that batches can be drawn."""
WARM = 12
"""Steps of a phase that are not timed: what is compiled or allocated once is in them."""
LEAST = 4
"""Steps of a phase that are taken however slow they are; of so few, half are not timed."""
EPISODES = 2
"""Evaluation episodes that are timed."""
CLIPS, ANSWERED = 8, 6.0
"""Clips that are waited for where a hand-written judge is timed, and the seconds for which they are."""
SHORTEST = 20.0
"""Seconds from which on a run tells how long such runs take."""
START = 30.0
"""Seconds that the process may take until the packages are imported."""


class Timing(NamedTuple):
    """Seconds of a worker's time; all seeds that it packs together."""

    training: float
    """Of a whole run, from the first step to the last."""
    evaluation: float
    """Of one evaluation."""
    judging: float
    """Of a whole run, in the process beside it that draws clips and asks a hand-written judge."""


def timed(cells: Sequence[Cell], seeds: int, device: str, seconds: float) -> list[Timing | None]:
    """Each cell at work for about so many seconds, one after the other in a process of its own; None for one that could
    not be timed in time."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = str(sources.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    asked = {"seeds": seeds, "device": device, "seconds": seconds, "cells": [record(cell) for cell in cells]}
    found: list[Timing | None] = []
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "timings"
        # What it has written when its time is over counts.
        with open(output, "wb") as lines, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            # -P: a file of the current directory must not stand in for a module of ours.
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
    """Remember what a cell's steps took; a run's own timing replaces one of a few seconds, not the other way round."""
    file = _file(cell, seeds, device)
    if basis == "timed" and (before := kept(cell, seeds, device)) is not None and before[1] == "recorded":
        return
    with contextlib.suppress(OSError):  # what cannot be remembered is timed again
        write_json(file, {"schema": SCHEMA, "basis": basis, "steps": cell.steps, **timing._asdict()})


def record_run(cell: Cell, job: Job, clock: Mapping[str, float], judging: float) -> None:
    """Remember what a finished run took, where it was long enough to tell; waiting for foundation models is left
    out."""
    if clock["seconds"] < SHORTEST:
        return
    asked = any(keeping.recorded(cell.section(part.role)) for part in cell.models)
    elsewhere = clock["evaluation_seconds"] + (clock["wait_seconds"] if asked else 0.0)
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    found = Timing(clock["seconds"] - elsewhere, clock["evaluation_seconds"] / evaluations, 0.0 if asked else judging)
    keep(cell, len(job.seeds), job.device, found, "recorded")


def kept(cell: Cell, seeds: int, device: str) -> tuple[Timing, Basis] | None:
    """What is remembered of cells that differ from this one in the number of steps and evaluations alone."""
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
    """Whether anything is."""
    return _directory().is_dir()


def _directory() -> Path:
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / "timings"


def _file(cell: Cell, seeds: int, device: str) -> Path:
    values = {
        key: value.value for key, value in cell.settings.items() if key not in ("training.steps", "evaluation.every")
    }
    machine = [*hardware("cpu").values(), device, packages().get("torch")]
    content = [cell.names[:2], cell.names.parts, values, seeds, machine]
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return _directory() / f"{key}.json"


def measure(cell: Cell, seeds: Sequence[int], device: str, seconds: float, directory: Path) -> Timing:
    """As `Timing`, by the process that asks; what the cell stores goes into `directory`."""
    from guidebench.harness.execution import Models
    from guidebench.harness.interfaces import Agent
    from guidebench.harness.loop.asking import asked_of, asks_of, backend_of
    from guidebench.harness.loop.building import make_build
    from guidebench.harness.loop.evaluation import Evaluator
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
        every, now = asks_of(backends, job, cell), answering.consulted(names.parts)
        asks, consulted = ({role: every[role] for role in every if (role in now) == wanted} for wanted in (False, True))
        evaluator = Evaluator(lambda row: build.suite(row).make(names.task), EPISODES, build.streams, cell.score)
        loop = Loop(
            agent, tasks, build.streams, evaluator, Nowhere(), asks=asks, consulted=consulted, evaluate_every=1,
            checkpoint_every=1, datasets=datasets.loading(cell, seeds),
        )  # fmt: skip
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        trial = Trial(loop, clock)
        starts = min(build.parts[part.role].learning_starts for part in cell.names.of("learner"))
        training = sum(trial.phases(starts, seconds))
        judges = [role for role in asks if asks[role].kind == "judge" and not isinstance(backends[role], Silent)]
        judging = sum(trial.judging(backends[role], asks[role].asked) for role in judges)
        rows = list(range(build.rows))
        for row in rows:
            for episode in range(EPISODES):
                evaluator._pool[row, episode] = build.suite(row).make(names.task)
        started = clock()
        evaluator(agent, loop.step, rows, consult=lambda questions: [None] * len(questions))
        evaluation = (clock() - started) * build.parts["evaluation"].episodes / EPISODES
    finally:
        for backend in backends.values():
            backend.close()
    return Timing(training, evaluation, judging)


class Trial:
    """Steps of a loop, timed."""

    def __init__(self, loop: Loop, clock: Callable[[], float]) -> None:
        self._loop, self._clock = loop, clock
        self._taken = 0
        self._phases = loop.agent.phases()

    def phases(self, learning_starts: int, seconds: float) -> Iterator[float]:
        """Seconds of each phase of a run; steps with the environment before learning starts count as what such steps
        took, and those without it as nothing."""
        loop = self._loop
        waiting, begin = 0.0, 0
        for phase in self._phases:
            loop.enter(phase)
            acts = phase.source == "environment"
            if acts and not waiting:
                waiting = self._mean(phase, min(FILL, phase.steps), seconds / 2, WARM)
            end = begin + phase.steps
            starts = max(begin, min(learning_starts, end)) if phase.updates is None else begin
            # To the step before the first that learns: what is done there once, such as a session, is not timed.
            loop.step = max(starts - 1, min(loop.step, end))
            each = self._mean(phase, end - loop.step, seconds / len(self._phases), WARM) or waiting
            yield (starts - begin) * waiting * acts + (end - starts) * each
            begin = end

    def _mean(self, phase: RunPhase, most: int, seconds: float, warm: int) -> float:
        """Seconds of a step, over as many as the time allows; 0.0 where there is none to take."""
        took: list[float] = []
        until = time.monotonic() + seconds
        while len(took) < most and (time.monotonic() < until or len(took) < LEAST):
            started = self._clock()
            self._loop.advance(phase)
            took.append(self._clock() - started)
        self._taken += len(took)
        return float(np.mean(took[min(warm, len(took) // 2) :])) if took else 0.0

    def judging(self, backend: Any, asked: int) -> float:
        """Seconds of a run in which a process beside it draws and judges, by the clips that it has answered so far."""
        until = time.monotonic() + ANSWERED
        before = (0, 0.0)
        while backend.clips < min(asked, CLIPS) and time.monotonic() < until:
            backend.poll()
            time.sleep(0.02)
            if not before[0]:
                before = backend.clips, backend.seconds  # what is made once is in the first
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
    """In place of a foundation model, which timing asks nothing: every question ends without an answer."""

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
    def close(self) -> None: ...


class Nowhere:
    """A journal that writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def main() -> None:
    """Entry point of the process."""
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
            except Exception as error:  # whatever a part raises: its runs will say so
                found = repr(error)
        print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    processes.begin()
    main()
    processes.leave(0)
