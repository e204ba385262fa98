"""Milliseconds that the column "seeds needed" of a table of differences takes for a row, in one thread.

    python -m benchmarks.seeds_needed [--rows 60] [--seeds 3 5 7 10] [--json]

Scores are drawn at random: half of the rows lie 0 to 3 standard deviations above the baseline, where the number ranges
from 4 seeds to more than 100, and half need about eight, which takes longest, since all relabellings of up to seven
seeds are tried before the t test. Seconds are those of the processor, so that other work does not count; the
relabellings and draws that all rows share are made before.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.harness.statistics import seeds_needed
from guidebench.harness.statistics.resampling import Array

SEEDS = (3, 5, 7, 10)
EIGHT = 1.6
"""Gap, in standard deviations of the seeds at hand, with which about eight seeds are needed."""


def scores(seeds: int, rows: int) -> Iterator[tuple[Array, Array]]:
    """Yield the scores of both sides, [seeds] each, of every row."""
    rng = np.random.default_rng(seeds)
    for row in range(rows):
        first, second = rng.normal(size=(2, seeds))
        if row % 2:
            first, second = ((side - side.mean()) / side.std() for side in (first, second))
        yield first + (EIGHT if row % 2 else 3 * row / rows), second


def measure(seeds: int, rows: int) -> dict[str, Any]:
    """Return the milliseconds of a row: median and maximum over rows, and the share of rows above seven seeds."""
    milliseconds, numbers = [], []
    for pair in [*scores(seeds, 2), *scores(seeds, rows)]:
        started = time.process_time()
        numbers.append(seeds_needed(*pair))
        milliseconds.append(1e3 * (time.process_time() - started))
    del milliseconds[:2], numbers[:2]
    return {
        "seeds": seeds, "rows": rows, "median_milliseconds": float(np.median(milliseconds)),
        "maximum_milliseconds": max(milliseconds), "above_seven": float(np.mean(np.array(numbers) > 7)),
    }  # fmt: skip


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        label = f"seeds needed, a row of {row['seeds']} seeds a side, median (most of {row['rows']} rows)"
        times = f"{row['median_milliseconds']:.1f} ms ({row['maximum_milliseconds']:.1f} ms)"
        yield Line(label, times, "", row["maximum_milliseconds"], "<20")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60, help="rows that are timed (default %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="seeds a side")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args(argv)
    figures = {"rows": [measure(seeds, args.rows) for seeds in args.seeds]}
    if args.json:
        print(json.dumps(figures))
        return
    for row in figures["rows"]:
        print(
            f"{row['seeds']} seeds a side, {row['rows']} rows: median {row['median_milliseconds']:.1f} ms, most "
            f"{row['maximum_milliseconds']:.1f} ms; {row['above_seven']:.0%} of the rows need more than seven seeds"
        )


if __name__ == "__main__":
    main()
