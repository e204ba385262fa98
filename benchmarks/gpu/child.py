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
    distributions = metadata.packages_distributions()
    versions = {}
    for package in sorted({package for root in roots for package in distributions.get(root, ())}):
        with contextlib.suppress(metadata.PackageNotFoundError):  # of a package whose records are damaged
            versions[package] = metadata.version(package)
    return versions


def measured_on(device: str) -> dict[str, Any]:
    """Return a description of the machine: provenance, driver, CUDA and load average."""
    from benchmarks.gpu.machine import driver
    from guidebench.harness.identity.provenance import provenance

    extra: dict[str, Any] = {"driver": driver() if device != "cpu" else "", "load": os.getloadavg()[0]}
    if "torch" in sys.modules:
        extra["cuda"] = sys.modules["torch"].version.cuda if device != "cpu" else None
    return provenance(device) | extra


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
    options = parser.parse_args()
    processes.begin()
    follow_parent()
    report: dict[str, Any] = {"rows": [], "reason": "", "measured_on": {}, "packages": {}}

    def keep(**values: Any) -> None:
        report.update(values)
        write_bytes(options.into, json.dumps(report, allow_nan=False).encode())

    def tell(rows: Sequence[Row]) -> None:
        keep(rows=[dataclasses.asdict(row) for row in rows])

    chosen = step(options.name)
    ask = Ask(options.device, options.deadline, options.study, options.output, chosen.settings)
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
