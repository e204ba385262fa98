"""What a worker finds on its machine, and how a worker ends that is attached to the process that started it."""

import json
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from guidebench.harness.errors import NoMemory, Unusable
from guidebench.harness.identity import provenance
from guidebench.harness.identity.cells import record
from guidebench.harness.launchers import base, job_files
from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.job import EXIT_HELD, EXIT_STOPPED, EXIT_UNUSABLE, EXIT_USER_ERROR, Job
from guidebench.harness.plan import matrix
from guidebench.harness.records.leases import Lease
from guidebench.harness.run import memory, worker
from tests import programs

LONG = ("suite=minigrid_doorkey", "method=uer", "profile=smoke", "training.steps=900000", "evaluation.every=900000")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (cell,) = matrix.plan(list(LONG)).cells
    return Job("mine", str(tmp_path), record(cell), (0,), code=provenance.code(cell.names))


CARRY_OUT = """
import sys
from guidebench.harness.run import memory, worker
from tests import programs
worker.PATIENCE = 0.5
sys.exit(worker.main(*sys.argv[1:]))
"""


def carry_out_job(job: Job, *words: str) -> tuple[int, str]:
    """Run the worker of a job file; return its exit code and its log."""
    path = job_files.put(Path(job.directory), job)
    done = programs.python(CARRY_OUT, str(path), *words, env=base.environment(Slot("cpu")))
    return done.code, done.err


def run_of(job: Job) -> Path:
    cell = job.cell
    return Path(job.directory, cell["suite"], cell["task"], f"{cell['method']}-{cell['cell']}", "seed-0")


@pytest.mark.slow
def test_a_machine_with_other_sources_or_packages_is_named_and_fails_the_run_only_if_nobody_else_hears(
    job: Job,
) -> None:
    foreign_job = replace(job, code={**job.code, "harness.loop": "0", "package torch": "1.0"})
    code, output = carry_out_job(foreign_job, "--attached")
    assert code == EXIT_UNUSABLE and not run_of(job).exists()
    torch = job.code["package torch"]
    assert (
        f"other sources or packages than the command had: harness.loop, package torch {torch} instead of 1.0" in output
    )
    code, _ = carry_out_job(foreign_job)
    assert code == EXIT_UNUSABLE and json.loads((run_of(job) / "run.json").read_text())["status"] == "failed"


def test_a_machine_without_a_part_of_the_cell_is_unusable(job: Job) -> None:
    cell = {**job.cell, "method": "nowhere_installed"}
    with pytest.raises(Unusable, match=r"this machine lacks a part: .*nowhere_installed"):
        worker._checked(replace(job, cell=cell))
    assert worker._checked(job).id == job.cell["cell"]


@pytest.mark.slow
def test_an_attached_worker_that_finds_its_run_held_says_so_and_leaves_it(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(job).mkdir(parents=True)
    lease = Lease(run_of(job), "run")
    lease.acquire()
    code, output = carry_out_job(job, "--attached")
    assert code == EXIT_HELD and "is being written by another process" in output
    assert not (run_of(job) / "run.json").exists()


@pytest.mark.slow
def test_an_attached_worker_writes_a_checkpoint_when_its_parent_ends(job: Job) -> None:
    path = job_files.put(Path(job.directory), job)
    words = " ".join(base.command(str(path), "--attached"))
    shell = subprocess.Popen(["bash", "-c", f"{words}; true"], env=base.environment(Slot("cpu")))
    hearing = job_files.Hearing(path)
    _wait_for_event(hearing, "started")
    shell.kill()
    shell.wait()
    _wait_for_event(hearing, "stopped")
    assert json.loads((run_of(job) / "run.json").read_text())["status"] == "stopped"
    assert list(run_of(job).glob("checkpoint-*"))


def _wait_for_event(hearing: job_files.Hearing, kind: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while kind not in [event for event, _ in hearing]:
        assert time.monotonic() < end, f"no event {kind!r}"
        time.sleep(0.2)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Simulate a GPU of 8,000 MiB; return the list of memory fractions that are set."""
    import torch

    limits: list[float] = []
    properties = SimpleNamespace(total_memory=8000 * 2**20, name="Small GPU")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", limits.append)
    return limits


def test_a_worker_s_part_of_a_gpu_is_limited_to_its_share_or_to_less(job: Job, gpu: list[float]) -> None:
    worker._limit_gpu(job)
    assert gpu == []  # the whole
    worker._limit_gpu(replace(job, gpu_share=0.25))
    worker._limit_gpu(replace(job, gpu_share=0.5, gpu_memory=1000))
    assert gpu == [0.25, 0.125]


def test_a_gpu_whose_share_is_too_small_is_named(job: Job, gpu: list[float]) -> None:
    with pytest.raises(Unusable, match=r"has 8,000 MiB, of which a share of 0\.25 is less than the 3,000 MiB"):
        worker._limit_gpu(replace(job, gpu_share=0.25, gpu_memory=3000))
    assert gpu == []


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
@pytest.mark.parametrize("kind", ["torch", "driver", "library"])
def test_a_gpu_too_small_for_the_seeds_lowers_their_number_or_ends_the_job_with_the_memory_needed_and_there(
    job: Job, monkeypatch: pytest.MonkeyPatch, gpu: list[float], seeds: tuple[int, ...], kind: str
) -> None:
    """The networks of the first update do not fit: the job neither crashes nor is retried, with any launcher."""
    import torch

    error = {
        "torch": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has\nmore"),
        "driver": RuntimeError("CUDA error: out of memory\nmore"),
        "library": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    }[kind]

    def full(*arguments: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 1500 * 2**20)
    monkeypatch.setattr(worker, "make_build", full)
    monkeypatch.setattr(worker, "_keep_memory", lambda: None)
    monkeypatch.setattr(memory, "needed", lambda *_: None)
    gpu_job = replace(job, device="cuda", seeds=seeds, gpu_share=0.25)
    events: list[dict[str, object]] = []

    def restart(lower: Job) -> None:
        assert lower == replace(gpu_job, pack=1)
        raise SystemExit

    if len(seeds) == 1:
        number, ends, text = worker._carry_out(gpu_job, events.append, worker.Stop(), restart)
        assert (number, ends) == (EXIT_USER_ERROR, "error")
    else:
        with pytest.raises(SystemExit):
            worker._carry_out(gpu_job, events.append, worker.Stop(), restart)
        text = str(events.pop()["error"])
        assert text.endswith("; the worker goes on with 1 seed at a time")
        stopping = worker.Stop(is_requested=True)
        assert worker._carry_out(gpu_job, events.append, stopping, restart) == (EXIT_STOPPED, "stopped", "")
    assert text.startswith(f"a worker with {'1 seed' if len(seeds) == 1 else '2 seeds'} needs more memory of the GPU")
    memory_text = "it held 1.5 GiB and another 2.00 GiB, " if kind == "torch" else "it held 1.5 GiB, "
    assert memory_text in text and "it may use 2.0 GiB of the 7.8 GiB of Small GPU" in text
    assert ("choose a GPU with more memory" in text) == (len(seeds) == 1)
    assert "\n" not in text and str(error).splitlines()[0] in text
    assert worker._lacking(RuntimeError("other"), gpu_job) == "" == worker._lacking(error, job)
    assert worker._lacking(NoMemory("a model"), gpu_job) == "a model" == worker._lacking(NoMemory("a model"), job)
    monkeypatch.setattr(torch.cuda, "get_device_properties", full)
    if kind == "driver" and len(seeds) == 1:  # CUDA cannot even begin
        text = worker._carry_out(gpu_job, events.append, worker.Stop(), restart)[2]
        assert text.startswith("the GPU has no memory free for")


@pytest.fixture
def train_groups(job: Job, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, ...]]]:
    """Return a function: `train_groups(seeds, pack, failing)` returns the groups that a worker trains; groups with a
    failing seed raise."""

    def run(seeds: Sequence[int], pack: int, failing: Collection[int] = ()) -> list[tuple[int, ...]]:
        groups: list[tuple[int, ...]] = []

        def train(group: Job, *_: object) -> int:
            groups.append(group.seeds)
            if set(group.seeds) & set(failing):
                raise ValueError(f"seeds {group.seeds}")
            return len(group.seeds)

        monkeypatch.setattr(worker, "_train", train)
        monkeypatch.setattr(worker, "_keep_memory", lambda: None)
        try:
            worker.work(replace(job, seeds=tuple(seeds), pack=pack), lambda event: None, lambda: False)
        except ValueError as error:
            assert failing and str(error) == f"seeds {next(group for group in groups if {*group} & {*failing})}"
        else:
            assert not failing
        return groups

    return run


def test_only_seeds_at_the_same_step_train_together_and_one_group_s_error_leaves_the_others(
    job: Job, train_groups: Callable[..., list[tuple[int, ...]]]
) -> None:
    assert train_groups(range(5), 2) == [(0, 1), (2, 3), (4,)]
    assert train_groups(range(5), 2, failing=[1, 4]) == [(0, 1), (2, 3), (4,)]
    for seed, step in [
        (0, 250),
        (1, 250),
        (2, 250),
        (3, 500),
    ]:  # as after a group of three that ran out of memory
        checkpoints.save(run_of(job).with_name(f"seed-{seed}"), step, {})
    assert train_groups(range(6), 2) == [(0, 1), (2,), (3,), (4, 5)]
    assert train_groups(range(6), 6) == [(0, 1, 2), (3,), (4, 5)]
