"""A worker: a process that trains some seeds of one cell to the end, from their newest checkpoints if there are any.

It reads its job as JSON from standard input and writes its events as JSON lines to standard output, or is given a job
file and appends its events to the file beside it (`launchers/job_files.py`). On SIGTERM, Ctrl-C or the end of a parent
process with a pipe, it writes a checkpoint and exits with code 75. With a job file it outlives its parent, unless it is
told that it is --attached.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from guidebench.harness import fork_server, heartbeats, processes
from guidebench.harness.episodes import datasets, demonstrations
from guidebench.harness.episodes.datasets import Dataset
from guidebench.harness.errors import (
    BudgetReached,
    NoMemory,
    Notice,
    Stopped,
    Unusable,
    UserError,
    count,
    full,
    of_system,
    size,
)
from guidebench.harness.execution import Models
from guidebench.harness.identity.cells import recorded
from guidebench.harness.identity.provenance import absent_models, code, provenance
from guidebench.harness.identity.sources import differing
from guidebench.harness.interfaces import Agent, Task
from guidebench.harness.launchers import base, ending, job_files
from guidebench.harness.loop import checkpoints, env_workers
from guidebench.harness.loop.backends import backend_of, distinct, process_groups, question_queues, question_roles
from guidebench.harness.loop.build import checkpoint_spacing, make_build
from guidebench.harness.loop.env_workers import EnvWorkers
from guidebench.harness.loop.evaluation import Evaluator, solving
from guidebench.harness.loop.job import (
    EXIT_CRASHED,
    EXIT_HALTED,
    EXIT_HELD,
    EXIT_STOPPED,
    EXIT_UNUSABLE,
    EXIT_USER_ERROR,
    Job,
)
from guidebench.harness.loop.probes import Probes
from guidebench.harness.loop.training import Loop, learning_begins, phases_of
from guidebench.harness.models.questions import Backend
from guidebench.harness.plan.config import Cell
from guidebench.harness.records import leases
from guidebench.harness.records.leases import EXPIRES, Lease, LeaseHeld
from guidebench.harness.records.study import RunDirectory, StudyDirectory, dumps
from guidebench.harness.run import estimates, memory, stages
from guidebench.harness.run.journal import RunJournal, resume_point

PATIENCE = 15.0
"""Seconds to wait for the leases of runs whose previous worker may still be writing its checkpoint."""
SILENCE = EXPIRES + 5.0
"""Seconds to wait for a lease that another machine holds: if that machine is gone, its silence shows meanwhile."""
PACK = "--pack="
"""Argument of a worker with a job file: another number of seeds at the same time than the file says."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""Signals that ask a worker to stop."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameter codes of glibc's mallopt: trim threshold, mmap threshold."""


def work(
    job: Job,
    tell: Callable[[dict[str, Any]], None],
    stop: Callable[[], bool],
    attach: Callable[[Loop], Callable[[], None]] | None = None,
) -> None:
    """Train the job's seeds to the end, as many at the same time as the job says or as fit into the GPU's memory. An
    error of seeds that train together is raised when the others have trained. Raise Full at once if they do not fit
    after all, and Stopped if `stop` returns True. `attach` gets each loop before it runs, such as to time it, and
    returns the function that detaches it."""
    import torch

    torch.set_num_threads(job.threads)
    _keep_memory()
    if job.device == "cuda":
        _limit_gpu(job)
    cell = _checked(job)
    job = _ready(job, cell, tell)
    refused: list[LeaseHeld] = []
    errors: list[Exception] = []
    groups, trained = _groups(job, cell), 0
    for seeds in groups:
        group = replace(job, seeds=seeds)
        try:
            trained += _train(group, cell, tell, stop, attach)
            if len(groups) > 1:
                tell({"event": "trained", "seeds": seeds})
        except Stopped:
            raise
        except LeaseHeld as held:
            refused.append(held)
        except Exception as error:
            message = _lacking(error, group)
            if message and len(seeds) > 1:
                raise Full(message, -(-len(seeds) // 2)) from error
            errors.append(UserError(message) if message else error)
    if errors:
        raise errors[0]
    if refused and not trained:
        raise refused[0]
    for refusal in refused:
        tell({"event": "notice", "error": str(refusal)})


class Full(Exception):
    """More seeds were trained at the same time than fit into the memory."""

    def __init__(self, message: str, pack: int) -> None:
        super().__init__(message)
        self.pack = pack
        """Number of seeds to try next."""


def _groups(job: Job, cell: Cell) -> list[tuple[int, ...]]:
    """Return the seeds of a job in groups that are trained one after another, each of seeds at the same step."""
    study = StudyDirectory(Path(job.directory))
    at_step: dict[int, list[int]] = {}
    for seed in job.seeds:
        run = study.run(cell.directory, seed)
        saved = checkpoints.existing(run.path)
        step = cell.steps if run.status == "finished" else checkpoints.step_of(saved[-1]) if saved else 0
        at_step.setdefault(step, []).append(seed)
    most = max(map(len, at_step.values()), default=0)
    pack = job.pack or most
    if job.device == "cuda" and job.pack is None and most > 1:
        import torch

        if (need := memory.needed(cell, torch.cuda.get_device_name(0))) is not None:
            free, total = torch.cuda.mem_get_info()
            part = job.gpu_memory * 2**20 if job.gpu_memory else int(job.gpu_share * total)
            pack = memory.fitting(need, min(free, part), most)
    return [
        tuple(seeds[first : first + pack]) for seeds in at_step.values() for first in range(0, len(seeds), pack)
    ]  # fmt: skip


def _train(
    job: Job,
    cell: Cell,
    tell: Callable[[dict[str, Any]], None],
    stop: Callable[[], bool],
    attach: Callable[[Loop], Callable[[], None]] | None,
) -> int:
    """Train seeds together to the end, and return how many were trained. Raise Stopped if `stop` returns True."""
    held = _take(job, cell, tell)
    if not held:
        return 0  # all were finished meanwhile
    job = replace(job, seeds=tuple(held))
    try:
        journal = RunJournal(job, cell, tell, {run: lease for run, lease in held.values()})
    except BaseException:
        for _, lease in held.values():
            lease.release()
        raise
    backends: dict[str, Backend] = {}
    stepping = EnvWorkers(0)

    def stopping() -> bool:
        return stop() or journal.lost

    try:
        latest = resume_point(journal.runs)
        for run, checkpoint in zip(journal.runs, latest, strict=True):
            checkpoints.drop_after(run.path, checkpoint.step if checkpoint else -1)
        # A run that continues has its demonstrations in the ring already.
        begins = [demonstrations.prepare(cell, seed) for seed in job.seeds] if latest[0] is None else []
        summaries = datasets.summaries(cell, job.seeds) if latest[0] is None else {}
        build = make_build(cell, job.seeds, job.device, [run.path for run in journal.runs])
        agent: Agent = build.parts["agent"].spawn(build)
        pretrained = []
        if cell.stage and latest[0] is None:
            pretrained = stages.begin(cell, agent, StudyDirectory(Path(job.directory)), job.seeds)
        origin = provenance(job.device, cell)
        if Models(**job.models).mode == "replay" and (absent := absent_models(cell)):
            origin["replayed"] = absent
        for row, (run, seed) in enumerate(zip(journal.runs, job.seeds, strict=True)):
            record = run.read() if latest[0] is not None else {}
            digests: dict[str, Any] = {}
            if begins and begins[row].episodes:
                digests["demonstrations"] = begins[row].digest
            if summaries and summaries[seed].digests:
                digests["datasets"] = dict(summaries[seed].digests)
            if pretrained:
                digests["pretraining"] = pretrained[row]
            before = record.get("provenance")
            run.update(
                status="running", seed=seed, step=latest[0].step if latest[0] else 0, steps=cell.steps, error=None,
                provenance=_continued(before, origin) if before else {**origin, **digests},
                success=record.get("success"),
            )  # fmt: skip
        spacing = checkpoint_spacing(cell, job.checkpoint_every)
        process_count = env_workers.processes(job, cell, latest[0].step if latest[0] else 0)
        stepping = EnvWorkers(process_count, job.silent_after, stopping)
        training = stepping if env_workers.spread(job) else EnvWorkers(0)
        tasks: list[Task] = [training.make(build.suite(row), cell.names.task) for row in range(build.rows)]
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        roles_with_questions = question_roles(cell, agent)
        for roles in process_groups(cell, roles_with_questions):
            backend = backend_of(roles, job, cell, build, stopping)
            backends |= dict.fromkeys(roles, backend)
        every, now = question_queues(backends, job, cell, journal.answered), cell.consulted
        asks = {role: every[role] for role in every if role not in now}
        evaluation = build.parts["evaluation"]
        loading = datasets.loading(cell, job.seeds)
        fed = {role: functools.partial(_as_begun, journal, role, load) for role, load in loading.items()}
        phases = phases_of(agent, cell.steps, fed)
        end = sum(phase.steps for phase in phases)
        probes = Probes(build, cell.names.task, job.probes, end, journal.probed)
        loop = Loop(
            agent, tasks, build.streams,
            Evaluator(
                lambda row: stepping.make(build.evaluated(row), cell.names.task), evaluation.episodes, build.streams,
                cell.score, solving(build.parts["agent"], build.evaluated, cell.names.task),
            ),
            journal, evaluate_every=evaluation.every, checkpoint_every=spacing, asks=asks,
            consulted={role: every[role] for role in every if role in now}, probe=probes, stop=stopping,
            demonstrations=demonstrations.parallel_episodes([demonstration.episodes for demonstration in begins]),
            datasets=fed,
        )  # fmt: skip
        if latest[0] is not None:
            for number, checkpoint in enumerate(latest):
                assert checkpoint is not None
                loop.load_state(number, checkpoint.state["loop"])
        offsets = [checkpoint.state["offsets"] if checkpoint else {} for checkpoint in latest]
        starts = max((build.parts[part.role].learning_starts for part in cell.names.of("learner")), default=1)
        journal.open(offsets, loop.step, distinct(backends), learning_begins(phases, starts))
        if threading.current_thread() is threading.main_thread():
            # The launcher recognises a full disk under the ring by SIGBUS; pygame, if imported, would turn it to abort.
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
        tell({"event": "started", "step": loop.step, "seeds": job.seeds})
        try:
            new = [row for row, offset in enumerate(offsets) if not offset.get("probes")]
            judge = cell.judge if cell.judge in roles_with_questions else ""
            probes.describe(new, backends.get(judge), cell.runs(job.seeds), stopping, judge)
            with contextlib.ExitStack() as attached:
                if attach is not None:
                    attached.callback(attach(loop))
                loop.run()
        except Stopped as stopped:
            journal.stopped(str(stopped))
            raise
        for backend in distinct(backends):
            _close(backend, journal)  # calls under way are recorded, so that the ledger counts them
        journal.finish(agent, loop.accounts)
        # A resumed run, or one to which idle cores happened to help, is no measure of the duration of another.
        if latest[0] is None and (env_workers.spread(job) or not stepping.processes):
            setup = estimates.Setup(len(job.seeds), job.device, len(stepping.processes))
            judging = sum(backend.seconds for backend in distinct(backends))
            estimates.record_run(cell, setup, loop.clock, judging, stepping.processor_seconds)
    finally:
        with contextlib.ExitStack() as closing:
            closing.callback(journal.close)
            for backend in distinct(backends):
                closing.callback(_close, backend, journal)
            closing.callback(stepping.close)
    return len(job.seeds)


def _close(backend: Backend, journal: RunJournal) -> None:
    backend.close(journal.held, journal.followers)


def _limit_gpu(job: Job) -> None:
    """Limit this process to its part of the GPU's memory. Raise Unusable if there is no GPU, or too small a one."""
    import torch

    if not torch.cuda.is_available():
        raise Unusable(f"torch {torch.__version__} finds no GPU here; use device=cpu, or install its CUDA build")
    total_mib = torch.cuda.get_device_properties(0).total_memory / 2**20
    share = job.gpu_share
    if job.gpu_memory is not None:
        if job.gpu_memory > total_mib * share:
            raise Unusable(
                f"the GPU here has {total_mib:,.0f} MiB, of which a share of {share:g} is less than the "
                f"{job.gpu_memory:,} MiB of launcher.gpu_memory; lower it, or raise launcher.gpus"
            )
        share = job.gpu_memory / total_mib
    if share < 1:
        torch.cuda.set_per_process_memory_fraction(share)


def _checked(job: Job) -> Cell:
    """Return the job's cell. Raise Unusable if this machine has other sources or packages than the one that wrote the
    job."""
    try:
        cell = recorded(job.cell)
    except UserError as error:
        raise (Unusable(f"this machine lacks a part: {error}") if job.code else error) from None
    present = code(cell.names) if job.code else {}
    if changed := differing(job.code, present):
        versions = [
            f"{name} {present.get(name, 'missing')} instead of {job.code.get(name, 'none')}" if " " in name else name
            for name in changed
        ]
        raise Unusable(
            f"this machine has other sources or packages than the command had: {', '.join(versions)}; make them alike "
            f"and type the command again"
        )
    return cell


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
        ending.record(study, replace(job, seeds=(seed,)), "error", error)
        tell({"event": "failed", "seed": seed, "error": error})
    return replace(job, seeds=tuple(seed for seed in job.seeds if seed not in barred))


def _take(job: Job, cell: Cell, tell: Callable[[dict[str, Any]], None]) -> dict[int, tuple[RunDirectory, Lease]]:
    """Take the leases of the job's runs; return seed -> directory and lease, without runs that another worker has
    finished or trains. Raise LeaseHeld if others train all that is left."""
    study = StudyDirectory(Path(job.directory))
    runs_by_seed: dict[int, tuple[RunDirectory, Lease]] = {}
    refused = []
    began = time.monotonic()
    holders = {seed: leases.holder(study.run(cell.directory, seed).home) for seed in job.seeds}  # watched from now on
    try:
        for seed, holder in holders.items():
            lease = Lease(study.run(cell.directory, seed).home, "run")
            patience = SILENCE if holder and holder.machine != leases.machine() else PATIENCE
            try:
                lease.acquire(max(0.0, began + patience - time.monotonic()))
            except LeaseHeld as reason:
                refused.append(reason)
                continue
            run = study.run(cell.directory, seed)  # as the holder before left it
            runs_by_seed[seed] = run, lease
            if run.status == "finished":
                run.publish(lease)
                lease.release()
                del runs_by_seed[seed]
            else:
                run.begin(lease)
    except BaseException:
        for _, lease in runs_by_seed.values():
            lease.release()
        raise
    if refused and not runs_by_seed:
        raise refused[0]
    for refusal in refused:
        tell({"event": "notice", "error": str(refusal)})
    return runs_by_seed


def _as_begun(journal: RunJournal, role: str, load: Callable[[], list[Dataset]]) -> list[Dataset]:
    """Return each seed's dataset in a role. Raise UserError if it is not the one that the run began with."""
    seed_datasets = load()
    for run, dataset in zip(journal.runs, seed_datasets, strict=True):
        recorded_digest = (run.read().get("provenance") or {}).get("datasets", {}).get(role, dataset.digest)
        if recorded_digest != dataset.digest:
            raise UserError(
                f"{run.path} began with another dataset {role!r} ({recorded_digest[:10]}) than the present one "
                f"({dataset.digest[:10]}); restore its files, or delete the run's directory"
            )
    return seed_datasets


def _continued(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of a resumed run: that of its beginning, with the groups of sources changed since."""
    changed = set(earlier.get("continued_by", ()))
    if "sources" in earlier:
        changed.update(differing(earlier["sources"], now["sources"]))
    return earlier | ({"continued_by": sorted(changed)} if changed else {})


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

    is_requested: bool = False

    def __call__(self) -> bool:
        return self.is_requested

    def listen(self, *signals: signal.Signals) -> None:
        """Begin to listen to these signals."""

        def handle(*_: Any) -> None:
            self.is_requested = True

        for number in signals:
            signal.signal(number, handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def watch_parent(self) -> None:
        """Begin to watch for the end of the parent process."""
        ended = fork_server.parent_watch()

        def watch() -> None:
            while not ended():
                time.sleep(0.5)
            self.is_requested = True

        threading.Thread(target=watch, daemon=True).start()


def from_pipe() -> int:
    """Carry out the job on standard input, print its events, and return the exit code. The parent process hears of the
    end by the exit code."""
    stop = Stop()
    stop.listen(signal.SIGTERM, signal.SIGINT)
    stop.watch_parent()
    job = Job.loads(sys.stdin.read())
    if job.heartbeat is not None:
        heartbeats.begin(*job.heartbeat)
    telling = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        try:
            with telling:
                print(dumps(event), flush=True)
        except BrokenPipeError:  # the parent has ended; the run stops at its next step
            stop.is_requested = True
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    number, kind, error = _carry_out(job, tell, stop, lambda job: _afresh(job, stop))
    if kind == "error":
        tell({"event": "error", "error": error})
    elif error:
        print(error, file=sys.stderr, flush=True)  # the end of the log is what the parent tells of a crash
    return number


def from_file(path: Path, *words: str) -> int:
    """Carry out the job of a job file, append its events and its end to those of the file, and return the exit code.
    Nobody else may notice how it ends, so its runs are marked here.

    `--attached` in `words`: the worker stops when its parent ends, and the parent starts a job again which only this
    machine or only now cannot be carried out. `--pack=N` is another `Job.pack`.
    """
    stop, attached = Stop(), "--attached" in words
    if attached:
        stop.watch_parent()
    # SIGUSR1 is what schedulers can be asked to send some time before they end a job.
    stop.listen(*STOPS)
    try:
        job = job_files.read(path)
        for word in words:
            if word.startswith(PACK):
                job = replace(job, pack=int(word.removeprefix(PACK)))
    except UserError as unusable:
        print(unusable, file=sys.stderr)
        return EXIT_USER_ERROR
    telling = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        with telling, contextlib.suppress(OSError):  # the disk may be full, and the run's own files tell of it
            job_files.tell(path, event)

    def again(job: Job) -> None:
        _afresh(job, stop, str(path), *(word for word in words if word == "--attached"), f"{PACK}{job.pack}")

    number, kind, error = _carry_out(job, tell, stop, again)
    if error:
        print(error, file=sys.stderr, flush=True)
    if attached and number in (EXIT_UNUSABLE, EXIT_HELD):
        tell({"event": "notice", "error": error})
        return number
    ending.record(StudyDirectory(Path(job.directory)), job, kind, error)
    tell({"event": kind, "error": error})
    return number


def _afresh(job: Job, stop: Stop, *words: str) -> None:
    """Replace this process by a new one that carries out the job; return if it was asked to stop. Only then is all that
    this one held of a GPU's memory free. The new process hears a signal that comes meanwhile."""
    heartbeat = heartbeats.handed_on()
    with tempfile.TemporaryFile() as text:
        text.write(replace(job, heartbeat=heartbeat).dumps().encode())
        text.seek(0)
        os.dup2(text.fileno(), 0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        if stop():
            return
        for number in map(int, os.listdir("/dev/fd")):
            if number > 2 and number not in (job.model_requests, None if heartbeat is None else heartbeat[0]):
                with contextlib.suppress(OSError):  # the one that lists the others is closed
                    os.set_inheritable(number, False)
        os.execv(sys.executable, base.command(*words))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def _carry_out(
    job: Job, tell: Callable[[dict[str, Any]], None], stop: Stop, again: Callable[[Job], None]
) -> tuple[int, str, str]:
    """Carry out a job. Return the exit code, the kind of the event that ends it, and the error. `again` carries out the
    job in a new process, with fewer seeds at the same time, or returns if this one was asked to stop."""

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)
        if isinstance(message, Notice):
            tell({"event": "notice", "error": str(message)})

    warnings.showwarning = warn
    try:
        work(job, tell, stop)
    except Full as fewer:
        if stop():
            return EXIT_STOPPED, "stopped", ""
        text = f"{fewer}; the worker goes on with {count(fewer.pack, 'seed')} at a time"
        print(text, file=sys.stderr, flush=True)
        tell({"event": "notice", "error": text})
        try:
            again(replace(job, pack=fewer.pack))
        except OSError:
            return EXIT_CRASHED, "crashed", traceback.format_exc()
        return EXIT_STOPPED, "stopped", ""
    except BudgetReached as reached:
        tell({"event": "halted", "error": str(reached)})
        return EXIT_HALTED, "stopped", ""
    except Stopped:
        return EXIT_STOPPED, "stopped", ""
    except Unusable as error:
        return EXIT_UNUSABLE, "error", str(error)
    except LeaseHeld as error:
        return EXIT_HELD, "error", str(error)
    except UserError as error:
        return EXIT_USER_ERROR, "error", str(error)
    except OSError as error:
        if text := of_system(error):
            return EXIT_USER_ERROR, "error", text
        return EXIT_CRASHED, "crashed", traceback.format_exc()
    except Exception as error:
        if text := _lacking(error, replace(job, seeds=job.seeds[:1])):  # before any seed began
            return EXIT_USER_ERROR, "error", text
        return EXIT_CRASHED, "crashed", traceback.format_exc()
    return 0, "finished", ""


def _lacking(error: Exception, job: Job) -> str:
    """Return a message if the memory of a GPU did not suffice, or for several seeds that of the machine, or either for
    a foundation model; "" for any other error."""
    import torch

    if isinstance(error, NoMemory):
        return str(error)
    first = (str(error).splitlines() or [""])[0]
    is_single, device = len(job.seeds) == 1, full(error)
    if not is_single and device == "machine":
        return (
            f"a worker with {count(len(job.seeds), 'seed')} needs more memory than this machine has for it "
            f"({first or type(error).__name__})"
        )
    if job.device != "cuda" or not (device == "GPU" or isinstance(error, torch.OutOfMemoryError)):
        return ""
    try:
        gpu, peak_bytes = torch.cuda.get_device_properties(0), torch.cuda.max_memory_allocated()
    except RuntimeError:  # not even what CUDA itself needs is free
        return f"the GPU has no memory free for a worker ({first}): end what else uses it, or choose device=cpu"
    more = re.search(r"ried to allocate ([\d.]+ \w+)", str(error))
    needed = size(peak_bytes) + (f" and another {more[1]}" if more else "")
    part = job.gpu_memory * 2**20 if job.gpu_memory else int(job.gpu_share * gpu.total_memory)
    limit = f"it may use {size(part)} of the {size(gpu.total_memory)} of {gpu.name}"
    last = ["choose a GPU with more memory, device=cpu, or a smaller network or batch"]
    last += ["leave more of the GPU to it (launcher.gpu_memory, launcher.gpus, per_gpu)"] if job.gpu_share < 1 else []
    advice = f": {'; or '.join(last)}" if is_single else ""
    return (
        f"a worker with {count(len(job.seeds), 'seed')} needs more memory of the GPU than there is: it held {needed}, "
        f"and {limit}, which other processes on that GPU may share{advice} ({first})"
    )


def main(*words: str) -> int:
    """Carry out the job on standard input, or that of the job file in `words`, and return the exit code."""
    return from_file(Path(words[0]), *words[1:]) if words else from_pipe()


if __name__ == "__main__":
    processes.begin()
    processes.leave(main(*sys.argv[1:]))
