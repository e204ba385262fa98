"""Where a result comes from: commit, package versions, hardware."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness.identity import sources

if TYPE_CHECKING:
    from guidebench.harness.plan.config import Cell

PACKAGES = (
    "guidebench", "torch", "numpy", "gymnasium", "minigrid", "mujoco", "gymnasium-robotics", "ogbench", "safetensors",
    "pyarrow",
)  # fmt: skip


PACKAGED = ("harness", "suites", "baselines", "methods", "guidebench", ":(glob)results/*.py", ":(glob)*.py")
"""Where a file that git does not know yet can change a run; elsewhere lie studies and notes."""


@functools.cache
def commit() -> tuple[str, bool]:
    """(commit, whether the tree differs from it, new files of code included); ("", False) outside a checkout of this
    project."""
    root = sources.ROOT
    if not (root / ".git").exists():
        return _installed(), False
    try:
        head = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = [_status(root, "--untracked-files=no"), _status(root, "--untracked-files=normal", "--", *PACKAGED)]
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    return head.stdout.strip(), any(changed)


def _status(root: Path, *options: str) -> str:
    command = ["git", "-C", str(root), "status", "--porcelain", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()


def _installed() -> str:
    try:
        return f"guidebench {metadata.version('guidebench')}"
    except metadata.PackageNotFoundError:
        return ""


@functools.cache
def packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware(device: str) -> dict[str, Any]:
    """Processor, cores and device of this machine; no host name and no path."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    found = {"processor": processor, "cores": os.cpu_count(), "device": device}
    if device.startswith("cuda"):
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    return found


def opengl(cell: Cell) -> dict[str, str]:
    """Which OpenGL draws the frames that the cell's judge looks at, EGL on a GPU or OSMesa in software, whose pixels
    may differ; empty where no frames are looked at or none are drawn by OpenGL."""
    drawing = cell.section("drawing")
    backend = drawing.opengl(cell.names.task) if drawing else ""
    return {"opengl": backend} if backend else {}


def provenance(device: str, cell: Cell | None = None) -> dict[str, Any]:
    """What a run records of its origin; of a cell also the sources of its parts and the versions of its plug-ins."""
    head, dirty = commit()
    machine = hardware(device) | (opengl(cell) if cell else {})
    found = {"commit": head, "dirty": dirty, "packages": packages(), "hardware": machine}
    if cell is not None:
        found["packages"] = packages() | sources.plugins(cell.names)
        found["sources"] = sources.of(cell.names)
    return found
