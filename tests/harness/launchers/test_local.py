"""Where workers go: CPU cores, or slots of the GPUs that may be used; and which seeds share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from guidebench.harness.execution import Execution
from guidebench.harness.launchers.base import Slot
from guidebench.harness.launchers.local import Local
from guidebench.harness.loop import checkpoints
from guidebench.harness.machine import cores
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study

PLAN = ["suite=minigrid_doorkey", "profile=smoke", "method=uer,per", "seeds=[0,1,2,3,4]"]


def places(*overrides: str) -> list[tuple[str, str | None]]:
    return [(slot.device, slot.gpu) for slot in Local().slots(matrix.plan([*PLAN, *overrides]).execution)]


def test_without_a_gpu_there_is_a_slot_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert places() == [("cpu", None)] * cores()
    assert places("workers=7") == [("cpu", None)] * 7


def test_gpus_are_those_named_or_those_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert places() == [("cuda", "2"), ("cuda", "3")]
    assert places("gpus=0,1") == [("cuda", "0"), ("cuda", "1")]
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
    jobs = [job for job in packs(tmp_path, [Slot("cuda", "0")]) if job[0] == "uer"]
    assert jobs == [("uer", (0, 2)), ("uer", (1,)), ("uer", (3,))]


def test_a_device_cannot_be_misspelt() -> None:
    from guidebench.harness.errors import UserError

    with pytest.raises(UserError, match="device=gpu: expected one of 'auto', 'cpu', 'cuda'"):
        matrix.plan([*PLAN, "device=gpu"])
    assert Execution().device == "auto"
