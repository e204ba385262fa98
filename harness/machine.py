"""CPU cores and GPUs that this process may use, and what other processes leave of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

SECONDS = 20.0
"""Seconds that NVIDIA's programs may take to answer."""


class Gpu(NamedTuple):
    """A GPU of this machine, as the driver describes it."""

    number: str
    uuid: str
    name: str
    total: int
    """Memory in bytes."""
    free: int
    """Memory in bytes that no process holds."""
    exclusive: bool
    """Whether only one process at a time may use it (compute mode Exclusive_Process)."""


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Return the GPUs visible to CUDA, as CUDA_VISIBLE_DEVICES names them, without importing torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [part.strip() for part in named.split(",") if part.strip() not in ("", "-1")]
    # CUDA numbers the visible devices from 0: in a container with only /dev/nvidia3, that device is GPU 0.
    return [str(index) for index in range(sum(p.name[6:].isdigit() for p in Path("/dev").glob("nvidia[0-9]*")))]


def gpus() -> list[Gpu]:
    """Return the GPUs that nvidia-smi lists, without using their memory; [] where it is missing or fails."""
    query = "index,uuid,name,memory.total,memory.free,compute_mode"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    devices = []
    for line in output.splitlines():
        fields = [field.strip() for field in line.split(",")]
        with contextlib.suppress(ValueError):  # such as [N/A] or [Not Supported]
            number, uuid, name, total, free, mode = fields
            devices.append(Gpu(number, uuid, name, int(total) * 2**20, int(free) * 2**20, mode == "Exclusive_Process"))
    return devices


def mps_runs() -> bool:
    """Return whether NVIDIA's Multi-Process Service runs here, by which kernels of several processes share a GPU at the
    same time instead of taking turns."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
    try:
        os.kill(int((folder / "nvidia-cuda-mps-control.pid").read_text()), 0)
    except PermissionError:  # it runs for another user
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True
