"""Duration of whole `bench` processes: `--help`, and `--dry-run` of 10,000 cells.

    python -m benchmarks.command_line [--repeats 15]

Figures are medians over repeats, without the first, which may read modules from a cold disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import benchmark_process
from benchmarks.table import Line


def matrix(cells: int) -> list[str]:
    """Return a command with `cells` cells, a square number: a grid of two settings."""
    side = round(cells**0.5)
    rates = ",".join(f"{1e-5 * (1 + number / side):.9f}" for number in range(side))
    shares = ",".join(f"{0.5 * (1 + number) / side:.9f}" for number in range(side))
    names = ["run", "suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "judge=sprite"]
    return [*names, f"learner.lr={rates}", f"replay.lambda_max={shares}", "--dry-run"]


def seconds(arguments: Sequence[str], repeats: int) -> float:
    """Return the median duration of whole processes; their output is read and dropped."""
    times = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        process = benchmark_process.start(sys.executable, "guidebench.__main__", arguments, stdout=subprocess.PIPE)
        with process.stdout as output:
            output.read()
        if code := process.wait():
            raise RuntimeError(f"bench {' '.join(arguments)} ended with exit code {code}")
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def measure(repeats: int, cells: int) -> dict[str, Any]:
    return {
        "help_seconds": seconds(["--help"], repeats),
        "list_seconds": seconds(["list"], repeats),
        "dry_run_cells": cells,
        "dry_run_seconds": seconds(matrix(cells), max(1, repeats // 3)),
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for name, goal in (("help", "<0.25"), ("dry_run", "<2")):
        taken = figures[f"{name}_seconds"]
        yield Line(f"bench --{name.replace('_', '-')}, seconds", f"{taken:.3f} s", "", taken, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="processes for --help; a third for the dry run")
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    figures = measure(options.repeats, options.cells)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"bench --help                    {figures['help_seconds']:6.3f} s")
    print(f"bench list                      {figures['list_seconds']:6.3f} s")
    print(f"bench run … --dry-run           {figures['dry_run_seconds']:6.3f} s  ({options.cells:,} cells)")


if __name__ == "__main__":
    main()
