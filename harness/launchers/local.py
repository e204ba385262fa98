"""Launcher of workers on this machine: one process each, on CPU cores or GPU slots; a crashed one is retried once.

A worker that gives no sign of life (`harness/heartbeats.py`) is killed with the processes beside it, which counts as a
crash."""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from guidebench.harness import fork_server, heartbeats, machine
from guidebench.harness.errors import Notice, UserError, size
from guidebench.harness.execution import Execution
from guidebench.harness.heartbeats import SILENT_AFTER, Pulse, Silent, Watch
from guidebench.harness.launchers import base, ending, job_files
from guidebench.harness.launchers.base import Event, Launcher, Slot
from guidebench.harness.loop.job import EXIT_ERRORS, EXIT_HALTED, EXIT_STOPPED, Job
from guidebench.harness.machine import cores, mps_runs, visible_gpus
from guidebench.harness.models.hosts.keeper import Hosts
from guidebench.harness.parts import LauncherPart
from guidebench.harness.registry import register
from guidebench.harness.texts import printable

WORKER = "guidebench.harness.run.worker"
"""The module that a worker runs; it is not imported here, since it imports all that trains."""
SHARING = 4
"""Maximum number of workers that share a GPU unless the command says otherwise (choice)."""
LEAST = 2**30
"""Bytes of a GPU that must be free (choice: CUDA alone takes half of it)."""
GRACE = heartbeats.STOPPING - 2.0
"""Seconds that a worker has to write its checkpoint after a stop signal; the others are for what ends after it."""


@register.launcher("local")
@dataclass(frozen=True)
class Local(LauncherPart):
    """Workers on this machine, one process each; the command stays until they have ended."""

    def ready(self, execution: Execution, study: Path) -> None:
        slots = self.slots(execution)
        if slots[0].device == "cuda":
            import torch

            if not torch.cuda.is_available():
                raise UserError(
                    f"torch {torch.__version__} finds no GPU here; use device=cpu, or install its CUDA build"
                )
            _usable(slots)

    def slots(self, execution: Execution) -> list[Slot]:
        """Return the slots of this machine: GPUs if available, else CPU cores."""
        gpus = visible_gpus() if execution.gpus is None else [str(gpu) for gpu in execution.gpus]
        if execution.device == "cuda" or (execution.device == "auto" and gpus):
            sharing = execution.per_gpu
            if sharing is None:
                sharing = max(1, min(SHARING, cores() // (2 * max(1, len(gpus))))) if mps_runs() else 1
            places = [Slot("cuda", gpu) for _ in range(sharing) for gpu in gpus or ["0"]]
            return places[: execution.workers] if execution.workers else places
        return [Slot("cpu") for _ in range(execution.workers or cores())]

    def spawn(self, execution: Execution, study: Path) -> Launcher:
        gpus = _gpus(execution) if execution.models.share else None
        return Processes(self.slots(execution), study / "logs", gpus, execution.silent_after)


def _usable(slots: Sequence[Slot]) -> None:
    """Raise UserError for a GPU of `slots` without free memory, or in a mode that refuses several workers. Issue a
    Notice for workers that share a GPU in turns, since CUDA MPS does not run."""
    gpus = machine.gpus()
    for name, sharing in Counter(slot.gpu for slot in slots).items():
        gpu = next((device for device in gpus if name in (device.number, device.uuid)), None)
        if gpu is None:
            continue
        if gpu.free < LEAST:
            raise UserError(
                f"GPU {name} ({gpu.name}) has {size(gpu.free)} of {size(gpu.total)} free, and other processes hold the "
                f"rest; end them (nvidia-smi names them), choose other GPUs by gpus=…, or use device=cpu"
            )
        if sharing > 1 and not mps_runs():
            if gpu.exclusive:
                raise UserError(
                    f"GPU {name} ({gpu.name}) takes one process at a time (compute mode Exclusive_Process), and "
                    f"{sharing} workers are to share it; use per_gpu=1, or start CUDA MPS: nvidia-cuda-mps-control -d"
                )
            warnings.warn(
                Notice(
                    f"{sharing} workers share GPU {name} and take turns on it, since CUDA MPS does not run here; "
                    f"`nvidia-cuda-mps-control -d` starts it, and then they compute at the same time"
                ),
                stacklevel=2,
            )


@dataclass
class _Running:
    job: Job
    slot: Slot
    process: fork_server.Process
    watch: Watch
    log: Path
    log_start: int
    retried: bool
    error: str = ""
    silent: str = ""
    """Why it was killed, if it gave no sign of life."""
    ended: float = 0.0
    """Time at which it was first seen to have ended with its output still open; 0 before."""


class Processes(Launcher):
    """Workers as child processes, one per slot at a time; a line that a worker prints is an event."""

    def __init__(
        self, slots: Sequence[Slot], logs: Path, gpus: str | None = None, silent_after: float = SILENT_AFTER
    ) -> None:
        """`gpus`: CUDA_VISIBLE_DEVICES of models that workers share and whose settings name a device; None if workers
        share no models; `silent_after`: seconds without a heartbeat after which a process is killed."""
        self._free, self._logs, self._slots, self._gpus = list(slots), logs, len(slots), gpus
        self._silent_after = silent_after
        self._sharing = Counter(slot.gpu for slot in slots)
        self._hosts: Hosts | None = None
        self._fork_server = contextlib.ExitStack()
        self._waiting: deque[tuple[Job, bool]] = deque()
        """Jobs, and whether each was retried."""
        self._running: dict[int, _Running] = {}
        self._lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._cancelled_at: float | None = None

    def submit(self, jobs: Sequence[Job]) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        if jobs and not self.open:
            environment = base.environment(Slot("cpu"))
            forking = fork_server.running("torch", WORKER, environment=environment, silent_after=self._silent_after)
            self._fork_server.enter_context(forking)
        self._waiting.extend((job, False) for job in jobs)
        if self._hosts is None and self._gpus is not None and self._waiting:
            self._hosts = Hosts(self._logs / "models.log", self._of_host, self._silent_after)

    @property
    def open(self) -> int:
        return len(self._waiting) + len(self._running)

    def cancel(self, now: bool = False) -> None:
        self._waiting.clear()
        for worker in self._running.values():
            if now:
                _kill(worker)
            elif self._cancelled_at is None:
                worker.process.terminate()
        self._cancelled_at = self._cancelled_at or time.monotonic()
        self._end_hosts()

    def poll(self, seconds: float) -> list[Event]:
        if self._cancelled_at is not None and time.monotonic() - self._cancelled_at > GRACE:
            self.cancel(now=True)
        while self._free and (ready := _ready(self._waiting, self._running.values())) is not None:
            job, retried = self._waiting[ready]
            del self._waiting[ready]
            beside = min(self._slots, self.open + 1)
            slot = self._free.pop(0)
            sharing = min(self._sharing[slot.gpu], -(-(self.open + 1) // len(self._sharing))) if slot.gpu else 1
            job = replace(
                job,
                device=slot.device,
                cores=max(1, cores() // beside),
                gpu_share=1 / sharing,
                model_requests=None if self._hosts is None else self._hosts.requests,
            )
            worker = _start(job, slot, self._logs, retried, self._silent_after)
            self._running[worker.process.pid] = worker
            threading.Thread(target=_listen, args=(worker.process, self._lines), daemon=True).start()
        for worker in self._running.values():
            _look(worker)
        if self._hosts is not None and self._hosts.notices and self._running:
            job = next(iter(self._running.values())).job
            return [Event(job, "notice", {"error": self._hosts.notices.popleft()})]
        try:
            pid, line = self._lines.get(timeout=min(seconds, heartbeats.LOOK))
        except queue.Empty:
            return []
        worker = self._running[pid]
        return [*_heard(worker, line)] if line is not None else [self._ended(worker)]

    def _ended(self, worker: _Running) -> Event:
        """Return the event of a worker's end; after its first crash, queue its job again."""
        code = worker.process.wait()
        del self._running[worker.process.pid]
        self._free.append(worker.slot)
        kind, error = _ending(worker, code)
        if code in (-signal.SIGKILL, -signal.SIGTERM) and self._cancelled_at is not None:
            kind, error = "stopped", ""  # ended by `cancel`
        if kind == "crashed" and not worker.retried and self._cancelled_at is None:
            self._waiting.appendleft((worker.job, True))
            return Event(worker.job, "retry", {"error": error, "log": str(worker.log)})
        self._end_hosts()
        return Event(worker.job, kind, {"error": error})

    def _end_hosts(self) -> None:
        """End the models that workers share, and the server that forks workers, when the last worker has ended."""
        if self.open:
            return
        if self._hosts is not None:
            self._hosts.close()
            self._hosts = None
        self._fork_server.close()

    def _of_host(self, gpus: str | None) -> Mapping[str, str]:
        """Return the environment variables of a model host for the GPUs of a worker, or for all of the command."""
        return base.environment(Slot("", self._gpus if gpus is None else gpus))


def _gpus(execution: Execution) -> str:
    """Return the GPUs that a command may use, as CUDA_VISIBLE_DEVICES names them."""
    return ",".join(visible_gpus() if execution.gpus is None else map(str, execution.gpus))


def _ready(waiting: Iterable[tuple[Job, bool]], running: Iterable[_Running]) -> int | None:
    """Return the index of the first waiting job whose pre-training stages have ended, or None. A run whose stage has
    failed begins too, and reports that."""
    jobs = [job for job, _ in waiting]
    open_ = {(job.cell["cell"], seed) for job in (*jobs, *(worker.job for worker in running)) for seed in job.seeds}
    for place, job in enumerate(jobs):
        if not {(job.cell.get("stage", {}).get("cell"), seed) for seed in job.seeds} & open_:
            return place
    return None


def _look(worker: _Running) -> None:
    """Kill a worker without heartbeat, and the processes of an ended worker that still hold its pipe."""
    if worker.process.poll() is not None:
        worker.ended = worker.ended or time.monotonic()
        if time.monotonic() - worker.ended >= heartbeats.STOPPING:
            _kill(worker)
        return
    try:
        worker.watch.look()
    except Silent as silent:
        worker.silent = worker.silent or f"the worker {silent}"
        _kill(worker)


def _kill(worker: _Running) -> None:
    """Kill a worker and the other processes of its group, also if the worker itself has ended."""
    heartbeats.kill_group(worker.process.pid)


def _start(job: Job, slot: Slot, logs: Path, retried: bool, silent_after: float) -> _Running:
    pulse = Pulse(silent_after)
    log = logs / f"{job.name}.log"
    start = log.stat().st_size if log.exists() else 0
    with open(log, "ab") as errors:
        process = fork_server.start(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=base.environment(slot),
            pass_fds=[] if job.model_requests is None else [job.model_requests],
            text=True,
            start_new_session=True,  # Ctrl-C reaches only the parent, which stops its workers
            pulse=pulse,
        )
    pulse.close()
    assert process.stdin is not None
    try:
        process.stdin.write(job.dumps())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended immediately; its exit code and log give the reason
    return _Running(job, slot, process, Watch(process.pid, pulse), log, start, retried)


def _listen(process: fork_server.Process, lines: queue.Queue[tuple[int, str | None]]) -> None:
    assert process.stdout is not None
    stream: IO[str] = process.stdout
    for line in stream:
        lines.put((process.pid, line))
    lines.put((process.pid, None))


def _heard(worker: _Running, line: str) -> Iterator[Event]:
    if (parsed := job_files.event(line)) is None:
        return
    kind, content = parsed
    if kind == "error":
        worker.error = str(content.get("error", ""))
    else:
        yield Event(worker.job, kind, content)


def _ending(worker: _Running, code: int) -> tuple[str, str]:
    if code == 0:
        return "finished", ""
    if code in (EXIT_STOPPED, EXIT_HALTED):
        return "stopped", ""
    if code in EXIT_ERRORS:
        return "error", worker.error
    tail = _tail(worker)
    if worker.silent:
        return "crashed", f"{tail}\n{worker.silent}".lstrip()
    if code == -signal.SIGBUS:
        return "error", ending.by_signal(-code)
    if code < 0:
        return "crashed", f"{tail}\n{ending.by_signal(-code)}".lstrip()
    return "crashed", tail or f"the worker ended with exit code {code}"


def _tail(worker: _Running, lines: int = 30) -> str:
    with open(worker.log, "rb") as file:
        file.seek(worker.log_start)
        text = file.read().decode(errors="replace").rstrip()
    return printable("\n".join(text.splitlines()[-lines:]))
