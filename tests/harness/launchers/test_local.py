"""Where workers run: on CPU cores or on slots of the usable GPUs, and which seeds share a slot."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness import machine
from guidebench.harness.errors import Notice
from guidebench.harness.execution import Execution
from guidebench.harness.heartbeats import Pulse, Watch
from guidebench.harness.launchers import local
from guidebench.harness.launchers.base import Event, Slot
from guidebench.harness.launchers.local import Local
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.job import Job
from guidebench.harness.machine import Gpu, cores
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study
from tests.harness.launchers.scheduled import wait_until
from tests.harness.stopping import stop
from tests.refusals import check_refused

PLAN = ["suite=minigrid_doorkey", "profile=smoke", "method=uer,per", "seeds=[0,1,2,3,4]"]


def places(*overrides: str) -> list[tuple[str, str | None]]:
    return [(slot.device, slot.gpu) for slot in Local().slots(matrix.plan([*PLAN, *overrides]).execution)]


def test_without_a_gpu_there_is_a_slot_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert places() == [("cpu", None)] * cores() and places("workers=7") == [("cpu", None)] * 7


def test_gpus_are_those_named_or_those_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert places() == [("cuda", "2"), ("cuda", "3")] and places("gpus=0,1") == [("cuda", "0"), ("cuda", "1")]
    assert places("gpus=3", "per_gpu=2") == [("cuda", "3"), ("cuda", "3")]
    assert places("gpus=0,1", "workers=1") == [("cuda", "0")]
    assert places("device=cpu", "workers=1") == [("cpu", None)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937,1")
    assert places() == [("cuda", "GPU-8932f937"), ("cuda", "1")]


def packs(tmp_path: Path, slots: list[Slot], *overrides: str) -> list[tuple[str, tuple[int, ...]]]:
    plan = matrix.plan([*PLAN, f"output={tmp_path}", *overrides])
    return [(job.cell["method"], job.seeds) for job in study._jobs(plan, "study", StudyDirectory(tmp_path), slots)]


def test_on_a_cpu_every_seed_is_a_job_and_cells_take_turns(tmp_path: Path) -> None:
    assert packs(tmp_path, [Slot("cpu")])[:3] == [("uer", (0,)), ("per", (0,)), ("uer", (1,))]
    assert packs(tmp_path, [Slot("cpu")], "pack=3")[:2] == [("uer", (0, 1, 2)), ("per", (0, 1, 2))]


def test_on_a_gpu_all_seeds_of_a_cell_share_a_worker(tmp_path: Path) -> None:
    assert packs(tmp_path, [Slot("cuda", "0")]) == [("uer", (0, 1, 2, 3, 4)), ("per", (0, 1, 2, 3, 4))]


def test_only_seeds_that_stand_at_the_same_step_share_a_worker_and_finished_ones_are_left_out(tmp_path: Path) -> None:
    plan = matrix.plan([*PLAN, f"output={tmp_path}"])
    directory = StudyDirectory(tmp_path)
    for seed, step in [(0, 200), (2, 200), (3, 300)]:
        checkpoints.save(directory.run(plan.cells[0].directory, seed).path, step, {})
    directory.run(plan.cells[0].directory, 4).update(status="finished")
    (directory.run(plan.cells[0].directory, 4).path / "evaluations.parquet").touch()
    jobs = [job for job in packs(tmp_path, [Slot("cuda", "0")]) if job[0] == "uer"]
    assert jobs == [("uer", (0, 2)), ("uer", (1,)), ("uer", (3,))]


def test_a_device_cannot_be_misspelt() -> None:

    check_refused("device=gpu: expected one of 'auto', 'cpu', 'cuda'", matrix.plan, [*PLAN, "device=gpu"])
    assert Execution().device == "auto"


def gpu(free: int, exclusive: bool = False) -> Gpu:
    return Gpu("0", "GPU-a", "NVIDIA H200", 141 * 2**30, free, exclusive)


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Simulate two visible GPUs; return a function that starts a daemon of CUDA MPS."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    return lambda: (tmp_path / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))  # type: ignore[return-value]


def test_workers_share_a_gpu_only_if_told_or_under_mps(
    daemon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "cores", lambda: 12)
    assert places() == [("cuda", "0"), ("cuda", "1")]
    daemon()
    assert places() == [("cuda", "0"), ("cuda", "1")] * 3, "two cores each"
    monkeypatch.setattr(local, "cores", lambda: 96)
    assert len(places()) == 2 * local.SHARING and places("per_gpu=1") == [("cuda", "0"), ("cuda", "1")]


def test_a_gpu_that_others_fill_or_that_takes_one_process_is_refused_by_name(
    daemon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus: list[Gpu] = []
    monkeypatch.setattr(machine, "gpus", lambda: gpus)
    two = [Slot("cuda", "0"), Slot("cuda", "0")]
    local._usable(two)  # the driver reports no GPU
    gpus[:] = [gpu(free=300 * 2**20)]
    check_refused(
        r"GPU 0 \(NVIDIA H200\) has 300.* of 141.* free, and other processes hold", local._usable, [Slot("cuda", "0")]
    )
    local._usable([Slot("cuda", "1")])
    gpus[:] = [gpu(free=2**37, exclusive=True)]
    local._usable([Slot("cuda", "GPU-a")])
    check_refused(r"takes one process at a time .*2 workers are to share it; use per_gpu=1", local._usable, two)
    gpus[:] = [gpu(free=2**37)]
    with pytest.warns(Notice, match=r"2 workers share GPU 0 and take turns on it, since CUDA MPS does not run here"):
        local._usable(two)
    daemon()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        local._usable(two)


def test_workers_get_their_share_of_cores_and_of_a_gpu_s_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Job] = []

    class Ended:
        pid, stdout = 0, ()

        def poll(self) -> None:
            return None

        def wait(self) -> int:
            return 0

    def start(job: Job, slot: Slot, logs: Path, retried: bool, silent_after: float) -> object:
        started.append(job)
        process = Ended()
        process.pid = len(started)
        watch = Watch(os.getpid(), Pulse(silent_after))
        return local._Running(job, slot, process, watch, logs, 0, retried)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "_start", start)
    monkeypatch.setattr(local, "cores", lambda: 12)
    for slots, jobs, share, of_cores in [
        ([Slot("cuda", "0")] * 2, 3, 0.5, [6, 6, 6]),
        ([Slot("cuda", "0")] * 4, 1, 1.0, [12]),  # nobody to share with
        ([Slot("cuda", "0"), Slot("cuda", "1")], 1, 1.0, [12]),
        ([Slot("cpu")] * 12, 5, 1.0, [2, 2, 2, 2, 2]),
    ]:
        started.clear()
        workers = local.Processes(slots, tmp_path)
        workers.submit([Job("s", str(tmp_path), {"cell": "c"}, (seed,)) for seed in range(jobs)])
        while workers.open:
            workers.poll(1.0)
        assert [job.gpu_share for job in started] == [share] * jobs and [job.cores for job in started] == of_cores


def test_silence_is_judged_by_the_command_and_changes_no_cell(tmp_path: Path) -> None:
    plans = [matrix.plan([*PLAN, f"output={tmp_path}", *words]) for words in ([], ["silent_after=7"])]
    assert [cell.id for cell in plans[0].cells] == [cell.id for cell in plans[1].cells]
    jobs = [study._jobs(plan, "study", StudyDirectory(tmp_path), [Slot("cpu")])[0] for plan in plans]
    assert [job.silent_after for job in jobs] == [120.0, 7.0]


@pytest.fixture
def sleeper_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[local.Processes]:
    """Return a launcher with one worker that sleeps beside a second process and counts as hung after 1.5 s without a
    beat."""
    monkeypatch.setattr(local, "WORKER", "tests.harness.launchers.sleeper")
    workers = local.Processes([Slot("cpu")], tmp_path, silent_after=1.5)
    workers.submit([Job("s", str(tmp_path), {"cell": "c", "method": "m"}, (0,))])
    yield workers
    workers.cancel(now=True)
    while workers.open:
        workers.poll(0.2)


def event(workers: local.Processes, kind: str) -> Event:
    """Return the next event of a kind, within a minute."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        for next_event in workers.poll(0.2):
            if next_event.kind == kind:
                return next_event
    raise AssertionError(f"no event {kind!r}")


def exists(*processes: int) -> bool:
    return any(Path(f"/proc/{process}").exists() for process in processes)


def test_a_worker_that_is_stopped_is_killed_with_what_is_beside_it_and_retried_as_after_a_crash(
    sleeper_launcher: local.Processes,
) -> None:
    first_start = event(sleeper_launcher, "started").content
    stop(first_start["worker"])
    stop(first_start["beside"])
    error = str(event(sleeper_launcher, "retry").content["error"])
    assert error == "the worker gave no sign of life for 1.5 s and was killed: it is stopped (SIGSTOP)"
    second_start = event(sleeper_launcher, "started").content
    assert second_start["worker"] != first_start["worker"] and not exists(first_start["worker"], first_start["beside"])
    stop(second_start["worker"])
    assert "it is stopped" in str(event(sleeper_launcher, "crashed").content["error"])


def test_a_stop_kills_what_has_not_ended_in_time_with_what_is_beside_it(
    sleeper_launcher: local.Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.GRACE < 10.0
    monkeypatch.setattr(local, "GRACE", 0.5)
    start = event(sleeper_launcher, "started").content
    stop(start["beside"])  # this process holds the pipe of the worker, which the signal ends
    sleeper_launcher.cancel()
    event(sleeper_launcher, "stopped")
    wait_until(lambda: not exists(start["worker"], start["beside"]))
