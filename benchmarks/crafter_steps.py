"""Crafter's steps per second beside the package's `env.step`, and the time of a text and of a caption.

    python -m benchmarks.crafter_steps [--json] [--rounds 5] [--steps 2000]

Each round steps every kind of observation and then the package on one thread, with the same random actions; resets are
left out, and measured apart, in turns with the package's. A ratio is the median of the rounds' ratios. Beside the
observations, `pictures` draws one picture per step from snapshots, as a model is shown them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import crafter
import numpy as np

from benchmarks.table import Line
from guidebench.suites.crafter import Crafter
from guidebench.suites.crafter.captions import before, caption
from guidebench.suites.crafter.drawing import CrafterDrawer

KINDS = ("symbols", "text", "semantic", "pixels", "grey", "grey_text")


def ours(task: Any, actions: list[int], drawer: Any = None) -> float:
    """Return steps per second without resets; with a drawer, a picture is drawn for each."""
    spent = 0.0
    task.reset(0)
    for action in actions:
        start = time.perf_counter()
        step = task.step(action)
        if drawer is not None:
            drawer(task.snapshot()[None])
        spent += time.perf_counter() - start
        if step.terminated or step.truncated:
            task.reset()
    return len(actions) / spent


def package(environment: Any, actions: list[int]) -> float:
    spent = 0.0
    environment._episode = 0
    environment.reset()
    for action in actions:
        start = time.perf_counter()
        done = environment.step(action)[2]
        spent += time.perf_counter() - start
        if done:
            environment.reset()
    return len(actions) / spent


def seconds(work: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - start) / count


def measure(rounds: int, steps: int) -> dict[str, Any]:
    actions = np.random.default_rng(0).integers(0, 17, steps).tolist()
    tasks = {kind: Crafter(observation=kind).make("game") for kind in KINDS}  # type: ignore[arg-type]
    drawer, environment = CrafterDrawer(64), crafter.Env(seed=0)
    package(environment, actions[:100])  # numba compiles
    rates: dict[str, list[float]] = {name: [] for name in (*KINDS, "pictures")}
    peers = []
    for _ in range(rounds):
        for kind, task in tasks.items():
            rates[kind].append(ours(task, actions))
        rates["pictures"].append(ours(tasks["symbols"], actions, drawer))
        peers.append(package(environment, actions))
    task = tasks["symbols"]
    task.reset(0)
    player = task._game.player
    spaces = {kind: Crafter(observation=kind).spaces("game")[0] for kind in KINDS}  # type: ignore[arg-type]

    def captioned() -> str:
        """Return the caption of `do`, which takes longest. Every step makes one, so its time is part of all figures."""
        return caption(before(player, "do"), player, "do")

    return {
        "steps": steps,
        "rounds": rounds,
        "package_per_second": statistics.median(peers),
        "kinds": {
            name: {
                "per_second": statistics.median(kind_rates),
                "ratio": statistics.median(a / b for a, b in zip(kind_rates, peers, strict=True)),
                "ratio_lowest": min(a / b for a, b in zip(kind_rates, peers, strict=True)),
            }
            for name, kind_rates in rates.items()
        },
        "text_seconds": statistics.median(seconds(task.text, 200) for _ in range(rounds)),
        "caption_seconds": statistics.median(seconds(captioned, 200) for _ in range(rounds)),
        "snapshot_seconds": statistics.median(seconds(task.snapshot, 200) for _ in range(rounds)),
        "resets": reset_times(task, environment, rounds),
        "transition_bytes": {kind: int(np.prod(space.shape)) * space.numpy.itemsize for kind, space in spaces.items()},
    }


def reset_times(task: Any, environment: Any, rounds: int) -> dict[str, float]:
    """Return the seconds of a reset of ours and of the package, measured in turns, and their ratio."""
    times = np.array([(seconds(task.reset, 4), seconds(environment.reset, 4)) for _ in range(rounds)])
    own_seconds, package_seconds = np.median(times, axis=0).tolist()
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    return {"seconds": own_seconds, "package_seconds": package_seconds, "ratio": ratio}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for kind, goal in (("symbols", "4"), ("pixels", ""), ("pictures", "1.5")):
        row = figures["kinds"][kind]
        yield Line(
            f"Crafter, steps with {kind}: package",
            f"{row['per_second']:,.0f}/s",
            f"{figures['package_per_second']:,.0f}/s",
            row["ratio"],
            goal,
        )
    resets = figures["resets"]
    yield Line(
        "Crafter, a reset, which makes a world: package",
        f"{1e3 * resets['seconds']:.1f} ms",
        f"{1e3 * resets['package_seconds']:.1f} ms",
        resets["ratio"],
        "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each contender in a round (default 2000)")
    options = parser.parse_args()
    figures = measure(options.rounds, options.steps)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"package: {figures['package_per_second']:,.0f} steps/s")
    for name, row in figures["kinds"].items():
        print(f"{name:10}{row['per_second']:10,.0f} steps/s{row['ratio']:8.2f}{row['ratio_lowest']:8.2f}")
    for name in ("text", "caption", "snapshot"):
        print(f"{name:10}{1e6 * figures[f'{name}_seconds']:10,.1f} µs")
    resets = figures["resets"]
    print(f"reset     {1e3 * resets['seconds']:10,.1f} ms, package {1e3 * resets['package_seconds']:,.1f} ms")
    print("bytes of an observation: " + ", ".join(f"{k} {v:,}" for k, v in figures["transition_bytes"].items()))


if __name__ == "__main__":
    main()
