"""Timings of cells, which are built as in a worker and store their files in a scratch directory, in another process.

`python -m guidebench.harness.run.estimates` is that process: it reads cells as JSON from standard input and writes one
line for each: a `Timing` as JSON, or an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness import registry
from guidebench.harness.episodes import datasets
from guidebench.harness.identity import sources
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.loop import env_workers
from guidebench.harness.loop.job import Job
from guidebench.harness.models import study_models
from guidebench.harness.parts import Part
from guidebench.harness.plan.config import Cell
from guidebench.harness.run.estimates.timings import Setup, Timing
from guidebench.harness.run.estimates.trial import FILL, Nowhere, Silent, Trial, clock_of, common_cycle

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Agent


EPISODES = 2
"""Maximum number of timed evaluation episodes."""
START, PATIENCE = 30.0, 60.0
"""Maximum seconds for the process to import its packages, and to time a cell."""


def timed(cells: Sequence[Cell], setups: Sequence[Setup], seconds: float) -> list[Timing | None]:
    """Time each cell for about `seconds` seconds, one after the other in a separate process; None for a cell that could
    not be timed."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = str(sources.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    request = {"seconds": seconds, "cells": [[record(cell), setup] for cell, setup in zip(cells, setups, strict=True)]}
    timings: list[Timing | None] = []
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "timings"
        # Timings written before a timeout are used.
        with open(output, "wb") as lines, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            # -P: a file in the current directory must not shadow a module.
            subprocess.run(
                [sys.executable, "-P", "-m", "guidebench.harness.run.estimates"], input=json.dumps(request).encode(),
                stdout=lines, stderr=subprocess.DEVNULL, env=environment,
                timeout=START + (PATIENCE + 4 * seconds) * len(cells), cwd=scratch,
            )  # fmt: skip
        for line in output.read_bytes().splitlines():
            try:
                content = json.loads(line)
                timings.append(Timing(**content) if isinstance(content, dict) else None)
            except (ValueError, TypeError):
                continue  # a library wrote to standard output
    return [*timings, *[None] * len(cells)][: len(cells)]


def measure(cell: Cell, seeds: Sequence[int], device: str, seconds: float, directory: Path, beside: int = 0) -> Timing:
    """Measure the timing of a cell in this process, with `beside` processes that step its tasks; the cell stores its
    files in `directory`."""
    from guidebench.harness.execution import Models
    from guidebench.harness.loop.backends import backend_of, question_queues, question_roles
    from guidebench.harness.loop.build import make_build
    from guidebench.harness.loop.evaluation import Evaluator, solving
    from guidebench.harness.loop.training import Loop
    from guidebench.harness.models.questions import Backend

    places = [directory / str(seed) for seed in seeds]
    for place in places:
        place.mkdir(parents=True)
    job = Job("timing", str(directory), record(cell), tuple(seeds), device, models=asdict(Models(mode="live")))
    build = make_build(cell, seeds, device, places)
    agent: Agent = build.parts["agent"].spawn(build)
    backends: dict[str, Backend] = {}
    with contextlib.ExitStack() as closing:
        stepping = env_workers.EnvWorkers(beside)
        closing.callback(stepping.close)
        tasks = [stepping.make(build.suite(row), cell.names.task) for row in range(build.rows)]
        for role in question_roles(cell, agent):
            silent = role == registry.HUMAN or study_models.is_recorded(build.parts[role])
            backends[role] = Silent() if silent else backend_of((role,), job, cell, build)
            closing.callback(backends[role].close)
        every, now = question_queues(backends, job, cell), cell.consulted
        asks, consulted = (
            {role: every[role] for role in every if (role in now) == synchronous} for synchronous in (False, True)
        )
        episodes = min(EPISODES, build.parts["evaluation"].episodes)
        evaluator = Evaluator(
            lambda row: stepping.make(build.evaluated(row), cell.names.task), episodes, build.streams, cell.score,
            solving(build.parts["agent"], build.evaluated, cell.names.task),
        )  # fmt: skip
        loop = Loop(
            agent, tasks, build.streams, evaluator, Nowhere(), asks=asks, consulted=consulted, evaluate_every=1,
            checkpoint_every=1, datasets=datasets.loading(cell, seeds),
        )  # fmt: skip
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        trial = Trial(loop, clock_of(device, stepping))
        learners = [build.parts[part.role] for part in cell.names.of("learner")]
        starts = max((learner.learning_starts for learner in learners), default=1)
        filling = max((max(part.batch_size, min(part.learning_starts, FILL)) for part in learners), default=FILL)
        cycle = common_cycle([part.cycle for part in build.parts.values() if isinstance(part, Part)])
        training = trial.training(starts, filling, cycle, seconds)
        judges = [role for role in asks if asks[role].kind == "judge" and not isinstance(backends[role], Silent)]
        judging = sum(trial.judging(backends[role], asks[role].question_count) for role in judges)
        evaluation = trial.evaluation(evaluator, range(build.rows), seconds)
        evaluation *= build.parts["evaluation"].episodes / episodes
    evaluations = -(-cell.steps // build.parts["evaluation"].every)
    return Timing(training[0], evaluation[0], judging, training[1] + evaluations * evaluation[1])


def main() -> None:
    """Time the cells on standard input and write the results to standard output."""
    request: Mapping[str, Any] = json.loads(sys.stdin.read())
    output, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.set_num_threads(1)
    for content, (seeds, device, beside) in request["cells"]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                cell = recorded(content)
                timing: Any = measure(
                    cell, tuple(range(seeds)), device, request["seconds"], Path(scratch), beside
                )._asdict()
            except Exception as error:  # the cell's runs will report the error
                timing = repr(error)
        print(json.dumps(timing), file=output, flush=True)
