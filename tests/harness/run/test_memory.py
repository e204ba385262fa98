"""As many seeds train at the same time as fit into memory; a lack of memory does not end a run."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.identity.cells import record
from guidebench.harness.launchers import base, job_files, local
from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records.files import read_json
from guidebench.harness.run import memory
from guidebench.harness.run.memory import CONTEXT, Need, fitting
from tests import programs
from tests.harness.models import tiny_models
from tests.harness.run.test_resume import rows

MIB = 2**20
HUNGRY = """
    import os
    import resource
    from dataclasses import dataclass
    from pathlib import Path
    from typing import ClassVar

    import torch

    from guidebench.baselines.replay.uer import Uer, UerSampler
    from guidebench.harness.registry import register

    EACH = 200 * 2**20

    @register.replay("hungry")
    @dataclass(frozen=True)
    class Hungry(Uer):
        '''Uniform; each seed holds 200 MiB, and a worker may hold those of two.'''
        version: ClassVar[int] = 1

        def spawn(self, build):
            sampler = super().spawn(build)
            if os.environ.get("MEMORY_OF_TWO"):
                status = Path("/proc/self/status").read_text()
                used = 1024 * int(next(line for line in status.splitlines() if line.startswith("VmData")).split()[1])
                resource.setrlimit(resource.RLIMIT_DATA, (used + 5 * EACH // 2, resource.RLIM_INFINITY))
                sampler.held = torch.empty(len(build.seeds) * EACH, dtype=torch.uint8)
                resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return sampler
"""
BESIDE = """
    import os
    import resource
    from dataclasses import dataclass
    from pathlib import Path
    from typing import ClassVar

    import torch

    from guidebench.harness.models.judges.transformers_ import Transformers
    from guidebench.harness.registry import register
    from guidebench.methods.vlm_rb import VlmRb

    EACH = 100 * 2**20

    @register.replay("noted")
    @dataclass(frozen=True)
    class Noted(VlmRb):
        '''VLM-RB; a file tells how many seeds train together.'''
        version: ClassVar[int] = 1

        def spawn(self, build):
            Path(os.environ["SEEDS_TOGETHER"]).write_text(str(len(build.seeds)))
            return super().spawn(build)

    @register.judge("beside")
    @dataclass(frozen=True)
    class Beside(Transformers):
        '''A model that needs 400 MiB of 600 MiB, of which each seed has 100 MiB.'''
        version: ClassVar[int] = 1

        def spawn_model(self, device):
            seeds = int(Path(os.environ["SEEDS_TOGETHER"]).read_text())
            status = Path("/proc/self/status").read_text()
            used = 1024 * int(next(line for line in status.splitlines() if line.startswith("VmData")).split()[1])
            limit = used + max(0, 6 - seeds) * EACH + EACH // 2
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
            try:
                torch.empty(4 * EACH, dtype=torch.uint8)
            finally:
                resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return super().spawn_model(device)
"""


def cell():
    (planned_cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer"]).cells
    return planned_cell


def test_seeds_are_grouped_so_that_groups_fit_and_are_equally_large() -> None:
    need, gib = Need(fixed=300 * MIB, seed=500 * MIB), 2**30
    # of 10 GiB, 9 GiB may be used: 9216 - 700 - 300 = 8216 MiB, so 16 seeds of 500 MiB
    assert CONTEXT == 700 * MIB and fitting(need, 10 * gib, 20) == 10  # two groups of ten rather than 16 and 4
    assert fitting(need, 10 * gib, 16) == 16 and fitting(need, 10 * gib, 5) == 5
    assert fitting(need, 10 * gib, 17) == 9
    assert fitting(need, gib, 5) == 1 and fitting(need, 0, 5) == 1, (
        "a single seed that does not fit raises its own error"
    )
    assert fitting(Need(300 * MIB, 0), 10 * gib, 5) == 5


def test_a_measurement_is_remembered_for_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    measured_cells = []

    def measured(of):
        measured_cells.append(of)
        return Need(1, 2)

    assert memory.needed(cell(), "One", measured) == memory.needed(cell(), "One", measured) == Need(1, 2)
    assert len(measured_cells) == 1
    memory.needed(cell(), "Another", measured)
    assert len(measured_cells) == 2
    for file in (tmp_path / "memory").iterdir():
        file.write_text('{"schema": 1, "fixed": "much"}')
    assert memory.needed(cell(), "One", measured) == Need(1, 2) and len(measured_cells) == 3
    assert memory.needed(cell(), "Third", lambda of: None) is None


def test_a_measurement_that_fails_is_none() -> None:
    assert memory.in_process(cell()) is None  # without a GPU, or after measuring
    assert not [*Path.cwd().glob("seed-*")]


@pytest.mark.gpu
def test_a_cell_s_memory_is_measured_on_a_gpu(tmp_path: Path) -> None:
    need = memory.in_process(cell())
    assert need is not None and 0 < need.fixed + need.seed < 8 * 2**30


SMALL = ("profile=smoke", "evaluation.episodes=1", "learner.hidden=[8]", "learner.batch_size=8")
HUNGRY_RUN = (
    *SMALL, "suite=classic", "task=CartPole-v1", "training.steps=600", "evaluation.every=300", "method=uer",
    "replay=hungry",
)  # fmt: skip


@pytest.mark.slow
def test_a_worker_with_a_job_file_goes_on_with_half_as_many_too(
    plugin: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("hungry_replay", HUNGRY, {"replay": "hungry"})
    monkeypatch.setenv("MEMORY_OF_TWO", "1")
    (planned,) = matrix.plan([*HUNGRY_RUN, f"output={tmp_path}"]).cells
    path = job_files.put(tmp_path, Job("study", str(tmp_path), record(planned), (0, 1, 2)))
    done = programs.run(local.WORKER, str(path), "--attached", env=base.environment(Slot("cpu")), timeout=200)
    assert done.code == 0, done.err
    events = [*job_files.Hearing(path)]
    groups = ["started", "trained"] * 2
    assert [kind for kind, _ in events if kind != "progress"] == ["notice", *groups, "finished"]
    assert str(events[0][1]["error"]).endswith("; the worker goes on with 2 seeds at a time")
    assert [read_json(run / "run.json")["status"] for run in tmp_path.glob("*/*/*/seed-*")] == ["finished"] * 3


@pytest.mark.release
def test_a_worker_whose_seeds_do_not_fit_goes_on_with_half_of_them_and_stops_and_resumes_as_any_other(
    plugin: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is limited by a real limit of the process; PyTorch's error on a GPU is handled alike."""
    plugin("hungry_replay", HUNGRY, {"replay": "hungry"})

    command = ["run", *HUNGRY_RUN, "seeds=5", "pack=5", "checkpoint_every=200", "report=false"]
    unlimited = programs.bench(*command, f"output={tmp_path / 'whole'}")
    assert unlimited.code == 0 and "at a time" not in unlimited.out + unlimited.err
    monkeypatch.setenv("MEMORY_OF_TWO", "1")
    command.append(f"output={tmp_path / 'lower'}")
    process = programs.start_bench(*command, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "started" in line:
            break
    output = "".join(lines)
    assert "a worker with 5 seeds needs more memory than this machine has for it (" in output
    assert (
        "the worker goes on with 3 seeds at a time" in output and "the worker goes on with 2 seeds at a time" in output
    )
    os.kill(process.pid, signal.SIGINT)
    process.stdout.read()
    process.wait(60)
    assert process.returncode == 130
    assert [*(tmp_path / "lower").glob("*/*/*/seed-*/checkpoint-*")], "the new process heard the signal"
    resumed = programs.bench(*command)
    assert resumed.code == 0, resumed.out + resumed.err
    assert len(rows(tmp_path / "lower")) >= 5 and rows(tmp_path / "lower") == rows(tmp_path / "whole")


@pytest.mark.release
@pytest.mark.parametrize("share", ["true", "false"])
def test_a_model_that_does_not_fit_beside_the_seeds_halves_them_whoever_loads_it(
    plugin: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str
) -> None:
    """The limit of the loading process is real, and PyTorch's allocator runs into it."""
    pytest.importorskip("transformers")
    plugin("beside_judge", BESIDE, {"replay": "noted", "judge": "beside"})
    (tmp_path / "together").write_text("0")  # the command's first question is asked before any seed trains
    monkeypatch.setenv("SEEDS_TOGETHER", str(tmp_path / "together"))
    model = tiny_models.qwen_vl(tmp_path / "model")
    command = [
        "run", *SMALL, "suite=minigrid_doorkey", "task=5x5", "training.steps=120", "evaluation.every=120",
        "learner.channels=4", "learner.learning_starts=64", "method=vlm_rb", "replay=noted", "replay.clip_length=4",
        "drawing.tile_size=8", "judge=beside", f"judge.model={model}", "judge.prompt=Does it move?",
        "judge.dtype=float32", "judge.delay=64", f"models.share={share}", "seeds=3", "pack=3", "probes=0",
        "report=false", f"output={tmp_path / 'study'}",
    ]  # fmt: skip
    done = programs.bench(*command)
    assert done.code == 0, done.out + done.err
    assert f"judge.model={model}: it needs more memory than the machine has free for it (" in done.out, done.out
    assert done.out.count("the worker goes on with 2 seeds at a time") == 1
    assert len(rows(tmp_path / "study")) == 3 and (tmp_path / "together").read_text() == "1"
