"""Aggregates with stratified bootstrap intervals beside rliable: six methods × five seeds × ten tasks, four aggregates.

    python -m benchmarks.bootstrap [--reps 50000] [--rliable-reps 2000]

Both run in this process on the same scores, one after the other. rliable's time is proportional to the number of
resamples, so it is measured with fewer and scaled up; `--rliable-reps 50000` measures it in full (about a minute).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from reports import statistics

METHODS, SEEDS, TASKS = 6, 5, 10


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The fastest of `repeats`, wall-clock."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def rliable_aggregates(scores: dict[str, np.ndarray], reps: int) -> object:
    from rliable import library, metrics

    functions = (
        metrics.aggregate_mean,
        metrics.aggregate_median,
        metrics.aggregate_iqm,
        metrics.aggregate_optimality_gap,
    )
    return library.get_interval_estimates(scores, lambda x: np.array([f(x) for f in functions]), reps=reps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=50_000, help="resamples that the ratio is for (%(default)s)")
    parser.add_argument("--rliable-reps", type=int, default=2_000, help="resamples measured of rliable (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    scores = {f"method {index}": rng.random((SEEDS, TASKS)) for index in range(METHODS)}

    rliable_aggregates(scores, 10)  # imports and caches
    statistics.aggregate(scores, 10)
    ours = seconds(lambda: statistics.aggregate(scores, args.reps), repeats=5)
    measured = seconds(lambda: rliable_aggregates(scores, args.rliable_reps), repeats=1)
    theirs = measured * args.reps / args.rliable_reps

    if args.json:
        found = {"reps": args.reps, "rliable_reps": args.rliable_reps, "ours_seconds": ours, "rliable_seconds": theirs}
        print(json.dumps({**found, "ratio": theirs / ours}))
        return
    print(f"{METHODS} methods x {SEEDS} seeds x {TASKS} tasks, 4 aggregates, {args.reps:,} resamples")
    print(f"rliable    {theirs:8.2f} s  ({measured:.2f} s for {args.rliable_reps:,} resamples, scaled)")
    print(f"guidebench {ours:8.2f} s  (fastest of 5)")
    print(f"ratio      {theirs / ours:8.0f}x")


if __name__ == "__main__":
    main()
