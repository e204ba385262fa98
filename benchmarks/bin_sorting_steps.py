"""Bin sorting's steps per second without drawing, and its frames per second from snapshots.

    python -m benchmarks.bin_sorting_steps [--json] [--rounds 5] [--steps 400]

Each round takes the same random actions at 10 Hz on one thread, and follows the scripted policy, whose gripper holds
something; resets are left out, and measured apart. Then it draws snapshots of the policy's episode at 100 pixels with
the arm's own meshes and with coarse ones, both without shadows. All rates are of processor time. There is no peer: the
published simulator is another engine with another robot.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.housekeep_steps import spread
from benchmarks.table import Line
from guidebench.suites.bin_sorting import BinDrawing, BinSorting
from guidebench.suites.mujoco import gl

FRAMES = 20


def measure(rounds: int, steps: int) -> dict[str, Any]:
    """Return rates per second of steps, and of frames of both kinds."""
    from guidebench.suites.bin_sorting import drawing, dynamics
    from guidebench.suites.mujoco.drawing import ModelDrawer

    task: Any = BinSorting(observation="state").make("sorting")
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 7))
    own_mesh_drawer = ModelDrawer(dynamics.model(), drawing.SNAPSHOT, "side", (100, 100), rows=drawing.ROWS)
    drawers = {"own_meshes": own_mesh_drawer, "coarse_meshes": BinDrawing().spawn("sorting")}
    rates: dict[str, list[float]] = {name: [] for name in ("random", "policy", *drawers)}
    resets: list[float] = []
    for _ in range(rounds):
        for kind in ("random", "policy"):
            spent, shots = 0.0, []
            for number, action in enumerate(actions):
                if number % task.max_steps == 0:
                    begun = time.process_time()
                    task.reset(number)
                    resets.append(time.process_time() - begun)
                chosen = action if kind == "random" else task.expert()
                begun = time.process_time()
                task.step(chosen)
                spent += time.process_time() - begun
                shots.append(task.snapshot())
            rates[kind].append(steps / spent)
        clip = np.stack(shots[:FRAMES])
        for name, drawer in drawers.items():
            drawer(clip[:1])
            begun = time.process_time()
            drawer(clip)
            rates[name].append(len(clip) / (time.process_time() - begun))
    return {
        "opengl": gl.backend(),
        "steps": steps,
        "rounds": rounds,
        "kinds": {name: spread(kind_rates) for name, kind_rates in rates.items()},
        "reset_seconds": statistics.median(resets),
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for kind, label, goal in (
        ("random", "steps a second at 10 Hz, random actions", "250"),
        ("policy", "steps a second at 10 Hz, scripted policy", "250"),
        ("coarse_meshes", "frames a second, 100 px", ""),
    ):
        rate = figures["kinds"][kind]["per_second"]
        yield Line(f"bin sorting, {label}", f"{rate:,.0f}/s", "", rate, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--steps", type=int, default=400, help="steps of each kind in a round (default 400)")
    options = parser.parse_args()
    figures = measure(options.rounds, options.steps)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, row in figures["kinds"].items():
        print(f"{name:14}{row['per_second']:8.0f} a second  ({row['lowest']:.0f} to {row['highest']:.0f})")
    print(f"reset         {1e3 * figures['reset_seconds']:8.1f} ms")


if __name__ == "__main__":
    main()
