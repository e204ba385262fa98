"""A worker: a process that trains some seeds of one cell to the end, from their newest checkpoints if there are any.

It reads its assignment as JSON from standard input and writes its progress as JSON lines to standard output. On
SIGTERM, Ctrl-C or the end of its parent process, it writes a checkpoint and exits with code 75.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from guidebench.harness import processes
from guidebench.harness.episodes import datasets, demonstrations
from guidebench.harness.episodes.datasets import Dataset
from guidebench.harness.errors import BudgetReached, Notice, Stopped, UserError, of_system
from guidebench.harness.identity.cells import recorded
from guidebench.harness.identity.provenance import provenance
from guidebench.harness.identity.sources import differing
from guidebench.harness.interfaces import Agent, Task
from guidebench.harness.loop import asking, checkpoints
from guidebench.harness.loop.building import checkpoint_spacing, make_build
from guidebench.harness.loop.evaluation import Evaluator, solving
from guidebench.harness.loop.job import EXIT_STOPPED, EXIT_USER_ERROR, Job
from guidebench.harness.loop.probes import Probes
from guidebench.harness.loop.training import Loop, phases_of
from guidebench.harness.models.questions import Backend
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.study import StudyDirectory, dumps
from guidebench.harness.run import stages, timing
from guidebench.harness.run.journal import RunJournal, resume_point

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameter codes of glibc's mallopt: trim threshold, mmap threshold."""


def work(job: Job, tell: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
    """Train the job's seeds to the end. Raise Stopped if `stop` returns True."""
    import torch

    torch.set_num_threads(job.threads)
    _keep_memory()
    if job.device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"torch {torch.__version__} finds no GPU here; use device=cpu, or install its CUDA build")
    cell = recorded(job.cell)
    job = _ready(job, cell, tell)
    journal = RunJournal(job, cell, tell)
    backends: dict[str, Backend] = {}
    try:
        found = resume_point(journal.runs)
        for run, checkpoint in zip(journal.runs, found, strict=True):
            checkpoints.drop_after(run.path, checkpoint.step if checkpoint else -1)
        # A run that continues has its demonstrations in the ring already.
        begins = [demonstrations.prepare(cell, seed) for seed in job.seeds] if found[0] is None else []
        given = datasets.given(cell, job.seeds) if found[0] is None else {}
        build = make_build(cell, job.seeds, job.device, [run.path for run in journal.runs])
        agent: Agent = build.parts["agent"].spawn(build)
        pretrained = []
        if cell.stage and found[0] is None:
            pretrained = stages.begin(cell, agent, StudyDirectory(Path(job.directory)), job.seeds)
        origin = provenance(job.device, cell)
        for row, (run, seed) in enumerate(zip(journal.runs, job.seeds, strict=True)):
            begun = run.read() if found[0] is not None else {}
            shown: dict[str, Any] = {}
            if begins and begins[row].episodes:
                shown["demonstrations"] = begins[row].digest
            if given and given[seed].digests:
                shown["datasets"] = dict(given[seed].digests)
            if pretrained:
                shown["pretraining"] = pretrained[row]
            before = begun.get("provenance")
            run.update(
                status="running", seed=seed, step=found[0].step if found[0] else 0, steps=cell.steps, error=None,
                provenance=_continued(before, origin) if before else {**origin, **shown}, success=begun.get("success"),
            )  # fmt: skip
        spacing = checkpoint_spacing(cell, job.checkpoint_every)
        tasks: list[Task] = [build.suite(row).make(cell.names.task) for row in range(build.rows)]
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        asked = asking.asked_of(cell, agent)
        for roles in asking.sharing(cell, asked):
            backend = asking.backend_of(roles, job, cell, build)
            backends |= dict.fromkeys(roles, backend)
        every, now = asking.asks_of(backends, job, cell), cell.consulted
        asks = {role: every[role] for role in every if role not in now}
        evaluation = build.parts["evaluation"]
        loading = datasets.loading(cell, job.seeds)
        fed = {role: functools.partial(_as_begun, journal, role, load) for role, load in loading.items()}
        end = sum(phase.steps for phase in phases_of(agent, cell.steps, fed))
        probes = Probes(build, cell.names.task, job.probes, end, journal.probed)
        loop = Loop(
            agent, tasks, build.streams,
            Evaluator(
                lambda row: build.evaluated(row).make(cell.names.task), evaluation.episodes, build.streams, cell.score,
                solving(build.parts["agent"], build.evaluated, cell.names.task),
            ),
            journal, evaluate_every=evaluation.every, checkpoint_every=spacing, asks=asks,
            consulted={role: every[role] for role in every if role in now}, probe=probes, stop=stop,
            demonstrations=demonstrations.beside([each.episodes for each in begins]), datasets=fed,
        )  # fmt: skip
        if found[0] is not None:
            for number, checkpoint in enumerate(found):
                assert checkpoint is not None
                loop.load_state(number, checkpoint.state["loop"])
        offsets = [checkpoint.state["offsets"] if checkpoint else {} for checkpoint in found]
        journal.open(offsets, loop.step, asking.distinct(backends))
        if threading.current_thread() is threading.main_thread():
            # The launcher recognises a full disk under the ring by SIGBUS; pygame, if imported, would turn it to abort.
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
        tell({"event": "started", "step": loop.step})
        try:
            new = [row for row, written in enumerate(offsets) if not written.get("probes")]
            judge = cell.judge if cell.judge in asked else ""
            probes.describe(new, backends.get(judge), stop, judge)
            loop.run()
        except Stopped as stopped:
            journal.stopped(str(stopped))
            raise
        journal.finish(agent)
        if found[0] is None:  # a resumed run is no reliable measure of the duration of a run
            timing.record_run(cell, job, loop.clock, sum(backend.seconds for backend in asking.distinct(backends)))
    finally:
        for backend in asking.distinct(backends):
            backend.close()
        journal.close()


def _ready(job: Job, cell: Cell, tell: Callable[[dict[str, Any]], None]) -> Job:
    """Return the job without the seeds whose pre-training stage is not finished. Those whose stage has failed are
    marked failed, and the others go on waiting. Raise UserError or Stopped if none is left."""
    study = StudyDirectory(Path(job.directory))
    new = [seed for seed in job.seeds if not checkpoints.existing(study.run(cell.directory, seed).path)]
    barred = stages.barred(cell, study, new) if cell.stage else {}
    failed = {seed: error for seed, error in barred.items() if error}
    if barred and len(barred) == len(job.seeds):
        if failed:
            raise UserError("; ".join(dict.fromkeys(failed.values())))
        raise Stopped(f"the pre-training stage of {cell.directory} is not finished")
    for seed, error in failed.items():
        study.run(cell.directory, seed).update(status="failed", error=error)
        tell({"event": "failed", "seed": seed, "error": error})
    return replace(job, seeds=tuple(seed for seed in job.seeds if seed not in barred))


def _as_begun(journal: RunJournal, role: str, load: Callable[[], list[Dataset]]) -> list[Dataset]:
    """Return each seed's dataset in a role. Raise UserError if it is not the one that the run began with."""
    found = load()
    for run, dataset in zip(journal.runs, found, strict=True):
        begun = (run.read().get("provenance") or {}).get("datasets", {}).get(role, dataset.digest)
        if begun != dataset.digest:
            raise UserError(
                f"{run.path} began with another dataset {role!r} ({begun[:10]}) than the present one "
                f"({dataset.digest[:10]}); restore its files, or delete the run's directory"
            )
    return found


def _continued(begun: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of a resumed run: that of its beginning, with the groups of sources changed since."""
    changed = set(begun.get("continued_by", ()))
    if "sources" in begun:
        changed.update(differing(begun["sources"], now["sources"]))
    return begun | ({"continued_by": sorted(changed)} if changed else {})


def _keep_memory() -> None:
    """Make glibc keep freed memory for the next update. Returning it to the system would cause hundreds of page faults,
    a tenth of the time of a SAC update. No effect with other C libraries."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(M_TRIM_THRESHOLD, 256 * 2**20)


@dataclass
class Stop:
    """A stop request, set by a signal or by the end of the parent process."""

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
    """Run a worker process and return its exit code."""
    stop = Stop()
    stop.listen()
    job = Job.loads(sys.stdin.read())
    telling = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        try:
            with telling:
                print(dumps(event), flush=True)
        except BrokenPipeError:  # the parent has ended; the run stops at its next step
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
        tell({"event": "halted", "error": str(reached)})
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
    processes.begin()
    processes.leave(main())
