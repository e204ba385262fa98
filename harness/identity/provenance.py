"""Provenance of a run: commit, package versions, hardware."""

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
    from guidebench.harness.plan.names import Names

PACKAGES = (
    "guidebench", "torch", "numpy", "gymnasium", "minigrid", "mujoco", "gymnasium-robotics", "ogbench", "safetensors",
    "pyarrow", "crafter", "opensimplex",
)  # fmt: skip


PACKAGED = ("harness", "suites", "baselines", "methods", "guidebench", ":(glob)results/*.py", ":(glob)*.py")
"""Paths where an untracked file can change a run; untracked files elsewhere, such as studies, are ignored."""


@functools.cache
def commit() -> tuple[str, bool]:
    """Return the commit and whether the working tree differs from it, untracked code files included; outside a checkout
    of this project, the installed version or "", and False."""
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
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def hardware(device: str) -> dict[str, Any]:
    """Return processor, cores and device of this machine, without host name or paths."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    description = {"processor": processor, "cores": os.cpu_count(), "device": device}
    if device.startswith("cuda"):
        import torch

        description["gpu"] = torch.cuda.get_device_name()
    return description


def opengl(cell: Cell) -> dict[str, str]:
    """Return the OpenGL backend that draws the cell's frames, EGL on a GPU or OSMesa in software, whose pixels may
    differ; empty if no part sees frames or OpenGL does not draw them."""
    drawing = cell.section("drawing")
    backend = drawing.opengl(cell.names.task) if drawing else ""
    return {"opengl": backend} if backend else {}


def code(names: Names, snapshot: sources.Sources | None = None) -> dict[str, str]:
    """Return what must be equal on two machines so that both train a cell of these names alike: group of modules ->
    digest, and `package NAME` -> version. `snapshot`: of the sources, for many cells; None takes a new one."""
    versions = {f"package {name}": version for name, version in packages().items()}
    return versions | (snapshot or sources.Sources()).of(names)


def absent_models(cell: Cell) -> list[str]:
    """Return the roles of models whose files are not on this machine."""
    models = {part.role for part in cell.models}
    return [part.role for part in cell.file_parts if part.role in models and cell.section(part.role).content() is None]


def provenance(device: str, cell: Cell | None = None) -> dict[str, Any]:
    """Return the provenance of a run; with a cell, also the source digests of its parts and the versions of its
    plug-ins."""
    head, dirty = commit()
    machine = hardware(device) | (opengl(cell) if cell else {})
    record = {"commit": head, "dirty": dirty, "packages": packages(), "hardware": machine}
    if cell is not None:
        record["packages"] = packages() | sources.plugins(cell.names)
        record["sources"] = sources.of(cell.names)
    return record
