"""A command whose processes are stopped (SIGSTOP) names them and continues or ends; no process is left behind."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guidebench.harness import fork_server
from guidebench.harness.heartbeats import STOPPING
from guidebench.harness.records import leases
from tests.harness.launchers import scheduled
from tests.harness.stopping import stop
from tests.programs import start_bench


class Command:
    """A command whose worker trains beside a process that steps the task of one of two seeds."""

    def __init__(self, study: Path) -> None:
        self.study, self._printed = study, study.with_suffix(".out")
        with open(self._printed, "w") as out:
            self.process: fork_server.Process = start_bench(
                "run", "suite=classic", "task=Pendulum-v1", "method=sac", "profile=smoke", "training.steps=1000000",
                "seeds=2", "pack=2", "workers=1", "env_workers=1", "silent_after=2", "checkpoint_every=100",
                "probes=0", "report=false", f"output={study}", stdout=out, stderr=out,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            )  # fmt: skip

    @property
    def out(self) -> str:
        return self._printed.read_text()

    def training(self) -> tuple[int, int]:
        """Wait until a worker has a checkpoint, and return the worker and the process beside it."""
        scheduled.wait_until(lambda: [*self.study.glob("*/*/*/seed-0/checkpoint-*")], describe=lambda: self.out)
        holder = leases.holder(next(self.study.glob("*/*/*/seed-0")))
        (beside,) = (process for process in group(holder.pid) if process != holder.pid)
        return holder.pid, beside


def group(leader: int) -> list[int]:
    """Return the ids of the processes of a process group."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == leader:
                processes.append(int(folder.name))
        except ProcessLookupError:
            continue
    return processes


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    started = Command(tmp_path / "study")
    yield started
    started.process.kill()
    started.process.wait()


def test_a_stopped_process_of_tasks_is_told_in_one_line_and_its_worker_started_again_and_a_stop_leaves_none(
    command: Command,
) -> None:
    worker, beside = command.training()
    stop(beside)
    scheduled.wait_until(lambda: ": resumed at step" in command.out, describe=lambda: command.out)
    (line,) = (line for line in command.out.splitlines() if "crashed" in line)
    assert "retried once: RuntimeError: a process that steps tasks beside the worker (env_workers), asked for" in line
    assert "gave no sign of life for 2 s and was killed: it is stopped (SIGSTOP)" in line
    assert not group(worker)
    worker, beside = command.training()
    stop(worker)  # a stopped worker gets no signal
    stop(beside)
    began = time.monotonic()
    os.kill(command.process.pid, signal.SIGINT)
    assert command.process.wait(60) == 130 and time.monotonic() - began < STOPPING + 2.0, command.out
    assert "stopped; the same command continues" in command.out and not group(worker)
