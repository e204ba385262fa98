"""Nearest neighbours of the guide `apt`: points per second, beside a loop over the points with NumPy.

    python -m benchmarks.apt_neighbours [--json] [--rounds 25]

A point is a transition's features; its reward is the logarithm of its mean distance to the 12 nearest among the others.
Sizes are those of a batch of 64 with three-step returns: 192 points of 512 features (paper) or of 128 (quick) among
themselves, and 192 of 512 among a sample of 1,024. Both sides compute distances in float32, leave out the point itself
and give equal rewards, which is checked first. They alternate in turns of five batches, with one thread, and are timed
by processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.table import Line
from guidebench.baselines.guides.apt.entropy import nearest, not_counted, reward
from guidebench.harness.interfaces import Array

K = 12
SIZES = ((192, 0, 512), (192, 0, 128), (192, 1_024, 512))
"""Points, particles of a sample (0: the points themselves), features."""
SCALE = np.ones(1)
BATCHES = 5
"""Batches of a turn."""


def ours(points: Array, particles: Array, row_numbers: Array, numbers: Array) -> Array:
    """Return rewards [1, N] as the guide computes them."""
    left_out = torch.from_numpy(not_counted(row_numbers, numbers))
    features = torch.from_numpy(points)
    away = nearest(features, features if particles is points else torch.from_numpy(particles), left_out, K)
    return reward(away.numpy(), SCALE, 1.0)


def loop(points: Array, particles: Array, row_numbers: Array, numbers: Array) -> Array:
    """Return the same rewards [1, N], point by point."""
    rewards = np.empty((1, points.shape[1]))
    for place, (point, number) in enumerate(zip(points[0], row_numbers[0], strict=True)):
        away = np.linalg.norm(particles[0] - point, axis=1)
        away[numbers[0] == number] = np.inf
        rewards[0, place] = np.log(1.0 + np.partition(away, K)[:K].mean())
    return rewards


def measure(rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    load, rows = os.getloadavg()[0], []
    for count, sample, features in SIZES:
        rng = np.random.default_rng(0)
        points = np.tanh(rng.standard_normal((1, count, features), np.float32))
        particles = np.tanh(rng.standard_normal((1, sample, features), np.float32)) if sample else points
        row_numbers = np.arange(count)[None]
        arguments = (points, particles, row_numbers, np.arange(sample)[None] + count if sample else row_numbers)
        np.testing.assert_allclose(ours(*arguments), loop(*arguments), rtol=1e-5)
        times: dict[str, list[float]] = {"ours": [], "loop": []}
        ways: tuple[tuple[str, Callable[..., Array]], ...] = (("ours", ours), ("loop", loop))
        for number in range(rounds):
            for name, way in ways[:: 1 if number % 2 else -1]:
                start = time.process_time()
                for _ in range(BATCHES):
                    way(*arguments)
                times[name].append((time.process_time() - start) / BATCHES)
        ratios = sorted(b / a for a, b in zip(times["ours"], times["loop"], strict=True))
        rows.append({
            "points": count, "among": sample or count, "features": features,
            **{f"{name}_per_second": count / statistics.median(taken) for name, taken in times.items()},
            "ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1],
        })  # fmt: skip
    return {"rounds": rounds, "neighbours": K, "load": [load, os.getloadavg()[0]], "rows": rows}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        rates = [f"{row[f'{way}_per_second']:,.0f}/s" for way in ("ours", "loop")]
        label = f"APT's reward, {row['points']} points of {row['features']} among {row['among']:,}: a loop over points"
        yield Line(label, *rates, row["ratio"], "5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25, help="turns of each (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"points per second with {K} neighbours, {options.rounds} rounds, load {figures['load']}")
    for row in figures["rows"]:
        sizes = f"{row['points']} among {row['among']:,}, {row['features']} features"
        rates = f"{row['ours_per_second']:10,.0f}/s{row['loop_per_second']:10,.0f}/s"
        print(f"{sizes:32}{rates}{row['ratio']:7.1f}  ({row['lowest']:.1f} to {row['highest']:.1f})")


if __name__ == "__main__":
    main()
