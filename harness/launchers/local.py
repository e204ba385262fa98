"""Launcher of workers on this machine: one process each, on CPU cores or GPU slots; a crashed one is retried once."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from guidebench.harness.execution import Execution
from guidebench.harness.identity import sources
from guidebench.harness.loop.job import EXIT_STOPPED, EXIT_USER_ERROR, Job
from guidebench.harness.machine import cores, visible_gpus
from guidebench.harness.texts import each_text, printable

TOGETHER = 0.5
"""Seconds within which stop signals count as one; a later second signal kills the workers immediately."""
GRACE = 60.0
"""Seconds that a worker has to write its checkpoint after a stop signal."""


class Event(NamedTuple):
    """An event of a job. `kind` is demonstrations (made before the job begins), started, progress, notice, failed (one
    seed), retry, or the end of the job: finished, stopped, crashed, error."""

    job: Job
    kind: str
    content: Mapping[str, Any]


@dataclass
class Slot:
    """A CPU core or a share of a GPU on which one worker runs."""

    device: str
    gpu: str | None = None
    """GPU index or UUID, as in CUDA_VISIBLE_DEVICES."""


@dataclass
class _Running:
    job: Job
    slot: Slot
    process: subprocess.Popen[str]
    log: Path
    log_start: int
    retried: bool
    error: str = ""


def slots(execution: Execution) -> list[Slot]:
    """Return the slots of this machine under these settings: GPUs if available, else CPU cores."""
    gpus = visible_gpus() if execution.gpus is None else [str(gpu) for gpu in execution.gpus]
    if execution.device == "cuda" or (execution.device == "auto" and gpus):
        places = [Slot("cuda", gpu) for _ in range(execution.per_gpu) for gpu in gpus or ["0"]]
        return places[: execution.workers] if execution.workers else places
    return [Slot("cpu") for _ in range(execution.workers or cores())]


class Stopping(Exception):
    """The user stopped the command, and every worker has ended."""


def launch(jobs: Sequence[Job], places: Sequence[Slot], logs: Path, watch: Callable[[Event], None]) -> None:
    """Run all jobs, one per slot at a time, each after its pre-training stages. Raise Stopping if SIGINT or SIGTERM
    ended the command early."""
    waiting = deque((job, False) for job in jobs)
    free = list(places)
    running: dict[int, _Running] = {}
    events: queue.Queue[tuple[int, str | None]] = queue.Queue()
    stop = _Signals()
    logs.mkdir(parents=True, exist_ok=True)
    stopping_since: float | None = None
    with stop:
        while waiting or running:
            if stop.count and stopping_since is None:
                stopping_since = time.monotonic()
                waiting.clear()
                for worker in running.values():
                    worker.process.terminate()
            if stopping_since is not None and (stop.count > 1 or time.monotonic() - stopping_since > GRACE):
                for worker in running.values():
                    worker.process.kill()
            while free and (ready := _ready(waiting, running.values())) is not None:
                job, retried = waiting[ready]
                del waiting[ready]
                worker = _start(replace(job, device=free[0].device), free.pop(0), logs, retried)
                running[worker.process.pid] = worker
                threading.Thread(target=_listen, args=(worker.process, events), daemon=True).start()
            try:
                pid, line = events.get(timeout=0.2)
            except queue.Empty:
                continue
            worker = running[pid]
            if line is not None:
                _hear(worker, line, watch)
                continue
            code = worker.process.wait()
            del running[pid]
            free.append(worker.slot)
            kind, error = _ending(worker, code)
            if code == -signal.SIGKILL and stopping_since is not None:
                kind, error = "stopped", ""  # killed above
            if kind == "crashed" and not worker.retried and stopping_since is None:
                watch(Event(worker.job, "retry", {"error": error, "log": str(worker.log)}))
                waiting.appendleft((worker.job, True))
            else:
                watch(Event(worker.job, kind, {"error": error}))
    if stopping_since is not None:
        raise Stopping


def _ready(waiting: Iterable[tuple[Job, bool]], running: Iterable[_Running]) -> int | None:
    """Return the place of the first waiting job whose pre-training stages have ended, or None. A run whose stage has
    failed begins, and says so."""
    jobs = [job for job, _ in waiting]
    open_ = {(job.cell["cell"], seed) for job in (*jobs, *(each.job for each in running)) for seed in job.seeds}
    for place, job in enumerate(jobs):
        if not {(job.cell.get("stage", {}).get("cell"), seed) for seed in job.seeds} & open_:
            return place
    return None


def _start(job: Job, slot: Slot, logs: Path, retried: bool) -> _Running:
    environment = dict(os.environ)
    # One thread per worker: more would change the rounding of sums, and all cores have workers already.
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = slot.gpu or ""
    root = str(sources.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    seeds = "_".join(map(str, job.seeds)) if len(job.seeds) <= 8 else f"{job.seeds[0]}_to_{job.seeds[-1]}"
    log = logs / f"{job.cell['method']}-{job.cell['cell']}-{seeds}.log"
    start = log.stat().st_size if log.exists() else 0
    with open(log, "ab") as errors:
        process = subprocess.Popen(
            # -P: a file in the current directory must not shadow a module.
            [sys.executable, "-P", "-m", "guidebench.harness.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
            start_new_session=True,  # Ctrl-C reaches only the parent, which stops its workers
        )
    assert process.stdin is not None
    try:
        process.stdin.write(job.dumps())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended immediately; its exit code and log give the reason
    return _Running(job, slot, process, log, start, retried)


def _listen(process: subprocess.Popen[str], events: queue.Queue[tuple[int, str | None]]) -> None:
    assert process.stdout is not None
    stream: IO[str] = process.stdout
    for line in stream:
        events.put((process.pid, line))
    events.put((process.pid, None))


def _hear(worker: _Running, line: str, watch: Callable[[Event], None]) -> None:
    try:
        content = each_text(json.loads(line), printable)
        kind = content.pop("event")
    except (ValueError, KeyError, AttributeError, RecursionError):
        return  # a library wrote to standard output
    if kind == "error":
        worker.error = str(content["error"])
    else:
        watch(Event(worker.job, str(kind), content))


def _ending(worker: _Running, code: int) -> tuple[str, str]:
    if code == 0:
        return "finished", ""
    if code == EXIT_STOPPED:
        return "stopped", ""
    if code == EXIT_USER_ERROR:
        return "error", worker.error
    tail = _tail(worker)
    if code == -signal.SIGBUS:
        return "error", (
            "the disk is full: the stored transitions could not be written; "
            "free some room and run the same command again"
        )
    if code == -signal.SIGKILL:
        ended = "the worker was killed (SIGKILL), by the system if memory ran out: then lower workers, pack or capacity"
        return "crashed", f"{tail}\n{ended}".lstrip()
    if code < 0:
        return "crashed", f"{tail}\nthe worker was ended by {signal.Signals(-code).name}".lstrip()
    return "crashed", tail or f"the worker ended with exit code {code}"


def _tail(worker: _Running, lines: int = 30) -> str:
    with open(worker.log, "rb") as file:
        file.seek(worker.log_start)
        text = file.read().decode(errors="replace").rstrip()
    return printable("\n".join(text.splitlines()[-lines:]))


class _Signals:
    """Counts SIGINT and SIGTERM while active; signals within TOGETHER seconds, as from `timeout`, count as one."""

    def __init__(self) -> None:
        self.count = 0
        self._last = -math.inf
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        def handle(*_: Any) -> None:
            now = time.monotonic()
            self.count += now - self._last > TOGETHER
            self._last = now

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, handle)

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
