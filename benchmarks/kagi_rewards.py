"""The time of KAGI's dense rewards of stored states, from their observations to rewards.

    python -m benchmarks.kagi_rewards [--json] [--rounds 20] [--states 10000]

Observations are read for the gripper's tip, which is projected into two views, and the rewards of episodes of forty
states follow from six waypoints each, on one thread. Times are processor time. There is no peer: the paper's code is
not public.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.methods.kagi.rewards import Shape, dense
from guidebench.methods.kagi.sight import Sight
from guidebench.suites.bin_sorting import BinSorting

EPISODE, WAYPOINTS = 40, 6


def measure(rounds: int, states: int) -> dict[str, Any]:
    """Return milliseconds for all states, by the true projection: the median and the largest of the rounds."""
    suite, rng = BinSorting(observation="state"), np.random.default_rng(0)
    sight, shape = Sight(suite, "sorting", 100, False), Shape(0.1, 15.0)
    observations = rng.uniform(-1, 1, (states, *suite.spaces("sorting")[0].shape)).astype(np.float32)
    ways = rng.uniform(0, 100, (-(-states // EPISODE), WAYPOINTS, 3))
    spent = []
    for _ in range(rounds):
        begun = time.process_time()
        tips = sight.tips(observations)
        for number, way in enumerate(ways):
            dense(tips[number * EPISODE : (number + 1) * EPISODE], way, shape)
        spent.append(1000 * (time.process_time() - begun))
    return {"states": states, "milliseconds": statistics.median(spent), "slowest": max(spent)}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    label = f"KAGI's rewards of {figures['states']:,} stored states, milliseconds"
    yield Line(label, f"{figures['milliseconds']:.1f} ms", "", figures["milliseconds"], "<50")


def main() -> None:
    parser = argparse.ArgumentParser(description="time of KAGI's dense rewards")
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--states", type=int, default=10_000)
    options = parser.parse_args()
    figures = measure(options.rounds, options.states)
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{figures['states']:,} states: {figures['milliseconds']:.1f} ms (slowest {figures['slowest']:.1f})")


if __name__ == "__main__":
    main()
