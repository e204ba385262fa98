"""Rendering OGBench's scene from snapshots against the package's own `env.render()`, both with this machine's OpenGL.

    python -m benchmarks.frames [--json] [--rounds 5] [--size 200]

Each round renders the same steps of an episode with random actions, ours as one clip from snapshots and the peer's
after every step. A round's ratio uses processor time, which other processes do not affect; wall-clock time is reported
too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from benchmarks.table import Line
from guidebench.suites.mujoco import gl
from guidebench.suites.ogbench_scene import SceneDrawing
from guidebench.suites.ogbench_scene.task import Scene


def measure(rounds: int, size: int, moments: int) -> dict[str, Any]:
    """Return seconds per frame of our drawer and of the package, and the ratio of their speeds."""
    mujoco.gl_context.GLContext = gl.context  # both use the same OpenGL, whatever MUJOCO_GL says
    task, random = Scene("task3"), np.random.default_rng(0)
    env = task._env
    env._render_width = env._render_height = size
    env.model.vis.global_.offwidth = env.model.vis.global_.offheight = size
    drawer = SceneDrawing(size=size).spawn("task3")
    clock_times: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
    drawer(task.snapshot()[None])
    env.render()
    for _ in range(rounds):
        snapshots, taken = [], np.zeros(2)
        for _ in range(moments):
            task.step(np.float32(random.uniform(-1, 1, 5)))
            snapshots.append(task.snapshot())
            begun = _clocks()
            env.render()
            taken += _clocks() - begun
        begun = _clocks()
        drawer(np.stack(snapshots))
        clock_times["ours"].append(tuple((_clocks() - begun) / moments))
        clock_times["peer"].append(tuple(taken / moments))
    ratios = [
        [peer / ours for ours, peer in zip(*pair, strict=True)] for pair in zip(*clock_times.values(), strict=True)
    ]
    return {
        "opengl": gl.backend(),
        "size": size,
        "rounds": {name: [wall for wall, _ in rows] for name, rows in clock_times.items()},
        **{f"{name}_seconds": statistics.median(wall for wall, _ in rows) for name, rows in clock_times.items()},
        **{
            f"{name}_processor_seconds": statistics.median(processor for _, processor in rows)
            for name, rows in clock_times.items()
        },
        "wall_ratio": statistics.median(wall for wall, _ in ratios),
        "ratio": statistics.median(processor for _, processor in ratios),
        "ratio_lowest": min(processor for _, processor in ratios),
    }


def _clocks() -> Any:
    return np.array([time.perf_counter(), time.process_time()])


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    times = [f"{1e3 * figures[f'{name}_seconds']:.0f} ms" for name in ("ours", "peer")]
    label = f"OGBench frame from a snapshot, {figures['size']} px, {figures['opengl']}: env.render()"
    yield Line(label, *times, figures["ratio"], "8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=200, help="pixels along a frame's side (default %(default)s)")
    parser.add_argument("--moments", type=int, default=16, help="frames of a round (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(options.rounds, options.size, options.moments)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"OGBench scene, {options.size} x {options.size}, {figures['opengl']}")
    for name in ("ours", "peer"):
        processor_ms = 1e3 * figures[f"{name}_processor_seconds"]
        print(f"{name:6}{1e3 * figures[f'{name}_seconds']:8.1f} ms a frame, {processor_ms:.1f} of the processor's")
    others = f"lowest {figures['ratio_lowest']:.1f}; by the wall clock {figures['wall_ratio']:.1f}"
    print(f"ratio {figures['ratio']:8.1f}  ({others})")


if __name__ == "__main__":
    main()
