"""Processes of benchmarks: new interpreters, or, in tests, forks of one that has imported torch."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness import fork_server

ROOT = Path(__file__).resolve().parents[1]


def start(
    python: str, module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None, **streams: Any
) -> fork_server.Process:
    """Start `python -P -m module arguments` in the root of the tree; `streams` are those of `subprocess.Popen`."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    env |= environment or {}
    if python == sys.executable and fork_server.is_running():
        with contextlib.chdir(ROOT):
            return fork_server.start(__name__, module, *arguments, env=env, text=True, **streams)
    return subprocess.Popen([python, "-P", "-m", module, *arguments], env=env, cwd=ROOT, text=True, **streams)


def main(module: str, *arguments: str) -> int:
    """Run `python -m module arguments` within a process that the fork server has forked."""
    sys.argv[:] = [module, *arguments]
    return importlib.import_module(module).main() or 0
