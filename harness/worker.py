"""A worker: one process that trains some seeds of one cell, from wherever they stand to the end.

It reads its assignment as JSON from standard input, tells its progress as JSON lines on standard output, and answers
SIGTERM, Ctrl-C and the loss of its parent with a checkpoint and exit code 75.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import checkpoints, demonstrations
from harness.building import checkpoint_spacing, make_build
from harness.config import Cell
from harness.errors import BudgetReached, Notice, Stopped, UserError, of_system
from harness.evaluation import Evaluator
from harness.execution import Models
from harness.foundation import keeping
from harness.foundation.asks import Asks, Backend
from harness.foundation.oracle import OracleBackend
from harness.foundation.process import Assignment, ModelProcess
from harness.interfaces import Agent, Build
from harness.job import EXIT_STOPPED, EXIT_USER_ERROR, Job
from harness.journal import RunJournal, resume_point
from harness.probes import Probes
from harness.records.cells import recorded
from harness.records.provenance import provenance
from harness.records.study import dumps
from harness.training import Loop

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h: free bytes at the heap's end from which on they are returned; bytes of an allocation of its
own."""


def work(job: Job, tell: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
    """Train the job's seeds to the end; Stopped if `stop` asks for it."""
    import torch

    torch.set_num_threads(job.threads)
    _keep_memory()
    if job.device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"torch {torch.__version__} finds no GPU here; use device=cpu, or install its CUDA build")
    cell = recorded(job.cell)
    journal = RunJournal(job, cell, tell)
    judge: Backend | None = None
    try:
        found = resume_point(journal.runs)
        for run, checkpoint in zip(journal.runs, found, strict=True):
            checkpoints.drop_after(run.path, checkpoint.step if checkpoint else -1)
        # One that continues has its demonstrations in the ring, as everything else that is stored.
        begins = demonstrations.prepare(cell) if found[0] is None else None
        origin = provenance(job.device, cell)
        if begins and begins.episodes:
            origin["demonstrations"] = begins.digest
        for run, seed in zip(journal.runs, job.seeds, strict=True):
            begun = run.read() if found[0] is not None else {}
            run.update(
                status="running", seed=seed, step=found[0].step if found[0] else 0, steps=cell.steps, error=None,
                provenance=begun.get("provenance") or origin,
            )  # fmt: skip
        build = make_build(cell, job.seeds, job.device, [run.path for run in journal.runs])
        spacing = checkpoint_spacing(cell, job.checkpoint_every)
        suite = build.parts["suite"]
        agent: Agent = build.parts["agent"].spawn(build)
        tasks = [suite.make(cell.names.task) for _ in job.seeds]
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        asks, judge = _judging(job, cell, build, agent)
        evaluation = build.parts["evaluation"]
        end = sum(phase.steps for phase in agent.phases())
        probes = Probes(build, cell.names.task, job.probes, end, journal.probed)
        loop = Loop(
            agent, tasks, build.streams,
            Evaluator(lambda: suite.make(cell.names.task), evaluation.episodes, build.streams),
            journal, evaluate_every=evaluation.every, checkpoint_every=spacing, asks=asks, probe=probes, stop=stop,
            demonstrations=begins.episodes if begins else (),
        )  # fmt: skip
        if found[0] is not None:
            for number, checkpoint in enumerate(found):
                assert checkpoint is not None
                loop.load_state(number, checkpoint.state["loop"])
        offsets = [checkpoint.state["offsets"] if checkpoint else {} for checkpoint in found]
        journal.open(offsets, judge)
        if threading.current_thread() is threading.main_thread():
            # How the launcher knows a full disk under the ring; pygame, which a suite may import, makes it an abort.
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
        tell({"event": "started", "step": loop.step})
        try:
            probes.describe([row for row, written in enumerate(offsets) if not written.get("probes")], judge, stop)
            loop.run()
        except Stopped as stopped:
            journal.stopped(loop.step, str(stopped))
            raise
        journal.finish(agent)
    finally:
        if judge is not None:
            judge.close()
        journal.close()


def _judging(job: Job, cell: Cell, build: Build, agent: Agent) -> tuple[Asks | None, Backend | None]:
    judge = build.parts.get("judge")
    if judge is None or not agent.wants_snapshots:
        return None, None
    models = Models(**job.models)
    backend = _backend(job, cell, build, judge)
    return Asks(build.rows, judge.delay, backend, models.budgeted), backend


def _backend(job: Job, cell: Cell, build: Build, judge: Any) -> Backend:
    """What answers: an oracle here in the worker, any other judge in a process that is sent snapshots alone."""
    if judge.backend == "oracle":
        return OracleBackend(judge.spawn(build.parts["suite"], cell.names.task), build.streams)
    assignment = Assignment(
        cell.names.suite, asdict(build.parts["suite"]), cell.names.task, asdict(build.parts["drawing"]),
        cell.names.part("judge"), asdict(judge), getattr(build.parts["replay"], "clip_length", 1),
        runs=tuple(f"{cell.id}/{seed}" for seed in job.seeds), models=job.models,
        directory=str(keeping.folder(Path(job.directory))), device=job.device,
    )  # fmt: skip
    if judge.backend == "scripted":
        return ModelProcess(assignment, judge.timeout)
    policy = judge.policy()
    return ModelProcess(assignment, keeping.patience(policy), 2 * policy.in_flight)


def _keep_memory() -> None:
    """Have glibc keep what an update frees for the next one: given back to the system, it returns as hundreds of page
    faults, a tenth of the time of an update of SAC. Elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(M_TRIM_THRESHOLD, 256 * 2**20)


@dataclass
class Stop:
    """Set by a signal or by the loss of the parent."""

    asked: bool = False
    parent: int = field(default_factory=os.getppid)

    def __call__(self) -> bool:
        return self.asked

    def listen(self) -> None:
        def handle(*_: Any) -> None:
            self.asked = True

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)

        def watch() -> None:
            while os.getppid() == self.parent:
                time.sleep(0.5)
            self.asked = True

        threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Entry point of a worker process."""
    stop = Stop()
    stop.listen()
    job = Job.loads(sys.stdin.read())
    telling = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        try:
            with telling:
                print(dumps(event), flush=True)
        except BrokenPipeError:  # the parent is gone; the watcher stops the run at its next step
            stop.asked = True
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)
        if isinstance(message, Notice):
            tell({"event": "notice", "error": str(message)})

    warnings.showwarning = warn
    try:
        work(job, tell, stop)
    except BudgetReached as reached:
        tell({"event": "budget", "error": str(reached)})
        return EXIT_STOPPED
    except Stopped:
        return EXIT_STOPPED
    except UserError as error:
        tell({"event": "error", "error": str(error)})
        return EXIT_USER_ERROR
    except OSError as error:
        if told := of_system(error):
            tell({"event": "error", "error": told})
            return EXIT_USER_ERROR
        traceback.print_exc()
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
