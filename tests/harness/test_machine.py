"""What is known about GPUs without a GPU library: from the driver's program and the daemon of CUDA MPS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.harness import machine
from guidebench.harness.machine import Gpu

SMI = """#!/bin/sh
case "$*" in
  *--query-gpu=index,uuid,name,memory.total,memory.free,compute_mode*--format=csv,noheader,nounits*) ;;
  *) exit 2 ;;
esac
echo "0, GPU-8932f937, NVIDIA H200, 143771, 512, Default"
echo "1, GPU-aa, Tesla T4, 15360, 15000, Exclusive_Process"
echo "2, GPU-bb, NVIDIA A100 MIG 1g.5gb, [N/A], [N/A], Default"
"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a driver's program that lists three GPUs."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("nvidia_smi")
def test_gpus_are_told_with_their_free_memory_and_those_without_figures_are_left_out() -> None:
    assert machine.gpus() == [
        Gpu("0", "GPU-8932f937", "NVIDIA H200", 143771 * 2**20, 512 * 2**20, False),
        Gpu("1", "GPU-aa", "Tesla T4", 15360 * 2**20, 15000 * 2**20, True),
    ]


def test_without_a_driver_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpus() == []


def test_mps_runs_as_long_as_its_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not machine.mps_runs()
    daemon = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text(f"{daemon.pid}\n")
    assert machine.mps_runs()
    daemon.communicate()
    assert not machine.mps_runs()
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text("none")
    assert not machine.mps_runs()
