"""CPU cores and GPUs that this process may use."""

from __future__ import annotations

import os
from pathlib import Path


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
