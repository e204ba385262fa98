"""The process of one step of `python -m benchmarks.gpu`: it writes the rows that it measures to a file as they come.

It ends, with all processes that it started, when its standard input does: so none is left if its parent is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Row
from benchmarks.gpu.steps import EXIT_UNAVAILABLE, NAMES, Ask, Unavailable, step
from guidebench.harness import processes
from guidebench.harness.errors import UserError
from guidebench.harness.records.files import write_bytes


def imported() -> dict[str, str]:
    """Return the packages that this process has imported, with their versions."""
    roots = {name.partition(".")[0] for name in list(sys.modules)}
    known = metadata.packages_distributions()
    found = {}
    for package in sorted({package for root in roots for package in known.get(root, ())}):
        with contextlib.suppress(metadata.PackageNotFoundError):  # of a package whose records are damaged
            found[package] = metadata.version(package)
    return found


def measured_on(device: str) -> dict[str, Any]:
    """Return where a step is measured: provenance, driver, CUDA and load average."""
    from benchmarks.gpu.machine import driver
    from guidebench.harness.identity.provenance import provenance

    told: dict[str, Any] = {"driver": driver() if device != "cpu" else "", "load": os.getloadavg()[0]}
    if "torch" in sys.modules:
        told["cuda"] = sys.modules["torch"].version.cuda if device != "cpu" else None
    return provenance(device) | told


def follow_parent() -> None:
    """End this process and those that it started once its standard input ends."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--device", required=True)
    parser.add_argument("--deadline", type=float, required=True, help="by time.monotonic")
    parser.add_argument("--into", type=Path, required=True, help="file for what is measured")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--study", type=Path, required=True)
    asked = parser.parse_args()
    processes.begin()
    follow_parent()
    told: dict[str, Any] = {"rows": [], "reason": "", "measured_on": {}, "packages": {}}

    def keep(**values: Any) -> None:
        told.update(values)
        write_bytes(asked.into, json.dumps(told, allow_nan=False).encode())

    def tell(rows: Sequence[Row]) -> None:
        keep(rows=[dataclasses.asdict(row) for row in rows])

    chosen = step(asked.name)
    ask = Ask(asked.device, asked.deadline, asked.study, asked.output, chosen.settings)
    code = 0
    try:
        import torch

        if ask.full and not torch.cuda.is_available():
            raise Unavailable(f"torch {torch.__version__} finds no GPU")
        keep(measured_on=measured_on(ask.device))
        importlib.import_module(f"benchmarks.gpu.{chosen.module}").measure(ask, tell)
    except (Unavailable, UserError) as error:
        keep(reason=str(error))
        code = EXIT_UNAVAILABLE
    keep(packages=imported())
    processes.leave(code)


if __name__ == "__main__":
    main()
