"""Workers that train nothing: they carry out the jobs of a study with the engine's own writers, so a study of any size
has the files that real workers leave.

    python -m benchmarks.simulated_workers STUDY [--processes 2]

The launcher `simulated` puts jobs into the study as `launcher=slurm` does; jobs without events are its queue. `bench`
finds it as a plug-in where `benchmarks.growth` has announced it. Each job takes its runs' leases, writes evaluations
and logs through the journal of real workers, and finishes the runs. Scores are random learning curves, and policies are
untrained ones of the cell. Nothing waits until a disk holds what was written, since the writers are not measured.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from guidebench.harness.execution import Execution
from guidebench.harness.launchers import base, job_files
from guidebench.harness.launchers.base import Slot, Standing
from guidebench.harness.loop.job import Job
from guidebench.harness.parts import LauncherPart
from guidebench.harness.registry import register

METRICS = ("loss", "q_mean", "grad_norm", "episode/return", "episode/length", "episode/success", "episode/count")
METRICS_EVERY, TIMINGS_EVERY, MOVES = 1_000, 5_000, 150
"""Steps between two rows of the logs `metrics` and `timings`; rows of the log `probes` each time."""


@register.launcher("simulated")
@dataclass(frozen=True)
class Simulated(LauncherPart):
    """Puts jobs into the study and returns; `python -m benchmarks.simulated_workers` carries them out."""

    detached = True
    shared = True

    def ready(self, execution: Execution, study: Path) -> None:
        return None

    def slots(self, execution: Execution) -> Sequence[Slot]:
        return [Slot("cpu")] * (execution.workers or 1)

    def spawn(self, execution: Execution, study: Path) -> base.Launcher:
        return Queue(execution, study)


class Queue(base.Launcher):
    """The jobs of a study that no worker has begun: those without events."""

    def __init__(self, execution: Execution, study: Path) -> None:
        self._execution, self._study = execution, study

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in base.elsewhere(jobs, self._execution):
            job_files.put(self._study, job)

    def poll(self, seconds: float) -> Sequence[base.Event]:
        return ()

    @property
    def open(self) -> int:
        return len(self.queued())

    def cancel(self, now: bool = False) -> None:
        for path in waiting(self._study):
            path.unlink()

    def queued(self) -> Sequence[Standing]:
        return [Standing(job_files.read(path), "waits for a simulated worker") for path in waiting(self._study)]


def waiting(study: Path) -> list[Path]:
    """Return the job files of a study that have no events."""
    names = set(os.listdir(study / job_files.FOLDER))
    jobs = sorted(study / job_files.FOLDER / name for name in names if name.endswith(".json"))
    return [path for path in jobs if job_files.events_of(path).name not in names]


def carry_out(study: Path, processes: int = 1) -> int:
    """Carry out the jobs of a study that have not begun; return the number of evaluation rows that were written."""
    paths = waiting(study)
    groups = [paths[start::processes] for start in range(processes)]
    if processes == 1:
        return _all(paths)
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(_all, groups))


def _all(paths: Sequence[Path]) -> int:
    return sum(map(_carry_out, paths))


def _carry_out(path: Path) -> int:
    """Carry out a job as `harness/run/worker.py` does, with a random learning curve instead of training."""
    import numpy as np

    from guidebench.harness.identity.cells import recorded
    from guidebench.harness.loop.evaluation import Result
    from guidebench.harness.loop.probes import Point
    from guidebench.harness.records.leases import Lease
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run.journal import RunJournal

    os.fsync = lambda handle: None  # type: ignore[assignment]
    job = job_files.read(path)
    cell, study = recorded(job.cell), StudyDirectory(Path(job.directory))
    held = {}
    for seed in job.seeds:
        run = study.run(cell.directory, seed)
        lease = Lease(run.home, "run")
        lease.acquire()
        run.begin(lease)
        run.update(status="running", seed=seed, step=0, steps=cell.steps, error=None, provenance=_provenance(cell))
        held[run] = lease

    def tell(event: Mapping[str, Any]) -> None:
        job_files.tell(path, event)

    journal = RunJournal(job, cell, tell, held)
    journal.open([{} for _ in held], 0, ())
    tell({"event": "started", "step": 0})
    rng = np.random.default_rng([int(cell.id, 16), *job.seeds])
    rows, evaluation = list(range(len(held))), cell.section("evaluation")
    top = np.clip(_worth(cell.id) + rng.normal(0, 0.08, len(rows)), 0, 1)
    written = 0
    for step in range(METRICS_EVERY, cell.steps + 1, METRICS_EVERY):
        for row in rows:
            journal.measured(row, step, dict(zip(METRICS, rng.random(len(METRICS)).tolist(), strict=True)))
            if job.probes and step % (cell.steps // job.probes) == 0:
                values = rng.random(MOVES).tolist()
                journal.probed(row, step, [Point(t, "critic", value) for t, value in enumerate(values)])
        if step % evaluation.every == 0:
            success = rng.random((len(rows), evaluation.episodes)) < (top * step / cell.steps)[:, None]
            scores = [
                Result(row, episode, 0.9 * won, won, 64 if won else 640, float(won))
                for row in rows
                for episode, won in enumerate(success[row].tolist())
            ]
            journal.evaluated(step, scores)
            written += len(scores)
        if step % TIMINGS_EVERY == 0:
            clock = dict.fromkeys(("seconds", "evaluation_seconds", "checkpoint_seconds", "wait_seconds"), step / 300)
            journal.timed(step, clock, {})
    journal.finish(SimpleNamespace(parameters=lambda row: _policy(cell)), {})  # type: ignore[arg-type]
    journal.close()
    tell({"event": "finished", "error": ""})
    return written


def _worth(cell: str) -> float:
    """Return the success rate at the end of a cell's training, in [.1, .9]."""
    return 0.1 + 0.8 * int(cell[:4], 16) / 0xFFFF


_ALIKE: dict[Any, Any] = {}


def _provenance(cell: Any) -> dict[str, Any]:
    """Return the provenance of a cell's runs, computed once for cells of the same parts."""
    from guidebench.harness.identity.provenance import provenance

    return _once(("provenance", cell.names), lambda: provenance("cpu", cell))


def _policy(cell: Any) -> dict[str, Any]:
    """Return the untrained policy of a cell's agent, built once for cells of the same parts."""
    return _once(("policy", cell.names), lambda: _built(cell))


def _once(key: Any, make: Any) -> Any:
    if key not in _ALIKE:
        _ALIKE[key] = make()
    return _ALIKE[key]


def _built(cell: Any) -> dict[str, Any]:
    import tempfile

    from guidebench.harness.loop.build import make_build

    with tempfile.TemporaryDirectory() as scratch:
        build = make_build(cell, (0,), "cpu", [Path(scratch)])
        return dict(build.parts["agent"].spawn(build).parameters(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="directory of a study whose jobs were submitted by launcher=simulated")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    print(carry_out(options.study, options.processes))


if __name__ == "__main__":
    main()
