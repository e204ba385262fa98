"""Bootstrap intervals against rliable: four aggregates, IQM curves of 50 points, pairwise probability of improvement.

    python -m benchmarks.statistics [--reps 50000] [--rliable-reps 1000 100 100] [--only aggregates curves improvement]

Scores are random, for six methods × five seeds × ten tasks. Both libraries run in this process on the same scores, one
after the other. rliable's time is proportional to the number of resamples (curves and pairs would take 20 minutes or
more each), so it is measured with fewer and scaled up; `--rliable-reps` sets their number for each of the three.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.harness import statistics
from guidebench.reports.statistics import aggregate

METHODS, SEEDS, TASKS = 6, 5, 10
WORK = ("aggregates", "curves", "improvement")
Scores = dict[str, np.ndarray]


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median wall-clock seconds of `repeats` calls."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def ours(work: str, curves: Scores, reps: int) -> object:
    scores = {name: curve[:, :, -1] for name, curve in curves.items()}
    if work == "aggregates":
        return aggregate(scores, reps)
    if work == "curves":
        return [statistics.intervals(curve, ["iqm"], reps) for curve in curves.values()]
    return [statistics.probability_of_improvement(*pair, reps) for pair in combinations(scores.values(), 2)]


def rliable(work: str, curves: Scores, reps: int) -> object:
    from rliable import library, metrics

    scores = {name: curve[:, :, -1] for name, curve in curves.items()}
    if work == "aggregates":
        functions = (
            metrics.aggregate_mean,
            metrics.aggregate_median,
            metrics.aggregate_iqm,
            metrics.aggregate_optimality_gap,
        )
        return library.get_interval_estimates(scores, lambda x: np.array([f(x) for f in functions]), reps=reps)
    if work == "curves":
        points = range(next(iter(curves.values())).shape[-1])
        function = lambda x: np.array([metrics.aggregate_iqm(x[..., point]) for point in points])  # noqa: E731
        return library.get_interval_estimates(curves, function, reps=reps)
    pairs = {f"{a},{b}": [scores[a], scores[b]] for a, b in combinations(scores, 2)}
    return library.get_interval_estimates(
        pairs, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=reps
    )


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    wording = {
        "aggregates": "four aggregates",
        "curves": "IQM curves of 50 points",
        "improvement": "P(improvement), pairs",
    }
    for work, row in figures["rows"].items():
        times = f"{row['ours_seconds']:.2f} s", f"{row['rliable_seconds']:,.0f} s"
        label = f"{wording[work]}, {figures['reps']:,} resamples: rliable"
        yield Line(label, *times, row["ratio"], "50" if work == "aggregates" else "200")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=50_000, help="resamples that the ratio is for (%(default)s)")
    parser.add_argument(
        "--rliable-reps", type=int, nargs=3, default=(1_000, 100, 100), help="resamples timed with rliable"
    )
    parser.add_argument("--points", type=int, default=50, help="points of a curve (default %(default)s)")
    parser.add_argument("--only", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    curves = {f"method {index}": rng.random((SEEDS, TASKS, args.points)) for index in range(METHODS)}

    rows = {}
    for work, few in zip(WORK, args.rliable_reps, strict=True):
        if work in args.only:
            rliable(work, curves, 5)  # warm up imports and caches
            ours(work, curves, 5)
            mine = seconds(partial(ours, work, curves, args.reps), repeats=5)
            measured = seconds(partial(rliable, work, curves, few), repeats=3)
            theirs = measured * args.reps / few
            rows[work] = {
                "ours_seconds": mine,
                "rliable_seconds": theirs,
                "rliable_reps": few,
                "rliable_measured_seconds": measured,
                "ratio": theirs / mine,
            }
    if args.json:
        print(json.dumps({"reps": args.reps, "rows": rows}))
        return
    print(f"{METHODS} methods x {SEEDS} seeds x {TASKS} tasks, {args.reps:,} resamples")
    for work, row in rows.items():
        scaled = f"{row['rliable_measured_seconds']:.2f} s for {row['rliable_reps']:,} resamples, scaled"
        print(f"{work}: rliable {row['rliable_seconds']:.0f} s ({scaled})")
        print(f"{work}: guidebench {row['ours_seconds']:.3f} s, {row['ratio']:.0f}x")


if __name__ == "__main__":
    main()
