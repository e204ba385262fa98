"""DoorKey's steps per second against FullyObsWrapper, and its frames per second against get_frame.

    python benchmarks/doorkey_steps.py [--json] [--rounds 7]

Each round runs ours and then the peer on one thread, with the same random actions, resetting when an episode ends; a
ratio is the median of the rounds' ratios. Our frames are 32-frame clips rendered from snapshots without highlight; the
peer's are `get_frame(highlight=False)` with a warm tile cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from minigrid.envs.doorkey import DoorKeyEnv
from minigrid.wrappers import FullyObsWrapper

from benchmarks.table import Line
from guidebench.suites.minigrid_doorkey import DoorKeyDrawing, MiniGridDoorKey, Sprite
from guidebench.suites.minigrid_doorkey.task import DoorKey

SIZES = (8, 12, 16)
TILE_SIZE = 32
CLIP = 32
TO_MINIGRID = (0, 1, 2, 3, 5)


def ours_steps(task: DoorKey, actions: list[int]) -> None:
    for action in actions:
        step = task.step(action)
        if step.terminated or step.truncated:
            task.reset()


def peer_steps(environment: FullyObsWrapper, actions: list[int]) -> None:
    for action in actions:
        _, _, terminated, truncated, _ = environment.step(TO_MINIGRID[action])
        if terminated or truncated:
            environment.reset()


def rate(work: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def compare(ours: Callable[[], float], peer: Callable[[], float], rounds: int) -> dict[str, float]:
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return {
        "ours_per_second": statistics.median(a for a, _ in pairs),
        "peer_per_second": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(a / b for a, b in pairs),
        "ratio_lowest": min(a / b for a, b in pairs),
    }


def steps(size: int, rounds: int) -> dict[str, float]:
    task, environment = DoorKey(size), FullyObsWrapper(DoorKeyEnv(size=size, render_mode="rgb_array"))
    task.reset(0)
    environment.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 5, 30 * size * size).tolist()  # three episodes' worth
    many = actions * 20
    return compare(
        lambda: rate(lambda: ours_steps(task, many), len(many)),
        lambda: rate(lambda: peer_steps(environment, actions), len(actions)),
        rounds,
    )


def frames(size: int, rounds: int) -> dict[str, float]:
    task, environment = DoorKey(size), DoorKeyEnv(size=size)
    task.reset(0)
    environment.reset(seed=0)
    snapshots = []
    for action in np.random.default_rng(0).integers(0, 5, CLIP).tolist():
        task.step(action)
        environment.step(TO_MINIGRID[action])
        snapshots.append(task.snapshot())
    name, clip = f"{size}x{size}", np.stack(snapshots)
    drawer = DoorKeyDrawing(tile_size=TILE_SIZE).spawn(name)
    judge, drawn = Sprite().spawn(MiniGridDoorKey(), name), drawer(clip)
    environment.get_frame(highlight=False, tile_size=TILE_SIZE)
    judge([drawn])
    figures = compare(
        lambda: rate(lambda: [drawer(clip) for _ in range(10)], 10 * CLIP),
        lambda: rate(lambda: [environment.get_frame(highlight=False, tile_size=TILE_SIZE) for _ in range(CLIP)], CLIP),
        rounds,
    )
    seconds = statistics.median(1 / rate(lambda: judge([drawn]), 1) for _ in range(3 * rounds))
    return {**figures, "sprite_seconds_per_clip": seconds}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for name, entry in figures["sizes"].items():
        for kind, goal in (("steps", "15"), ("frames", "")):
            row = entry[kind]
            rates = [f"{row[key]:,.0f}/s" for key in ("ours_per_second", "peer_per_second")]
            yield Line(f"DoorKey {name}, {kind}: MiniGrid", *rates, row["ratio"], goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="edges of the rooms (default %(default)s)")
    options = parser.parse_args()
    figures: dict[str, Any] = {"tile_size": TILE_SIZE, "clip": CLIP, "rounds": options.rounds, "sizes": {}}
    for size in options.sizes:
        figures["sizes"][f"{size}x{size}"] = {
            "steps": steps(size, options.rounds),
            "frames": frames(size, options.rounds),
        }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'':8}{'':8}{'ours /s':>12}{'MiniGrid /s':>14}{'ratio':>8}{'lowest':>8}")
    for name, size_figures in figures["sizes"].items():
        for kind in ("steps", "frames"):
            row = size_figures[kind]
            numbers = f"{row['ours_per_second']:12,.0f}{row['peer_per_second']:14,.0f}"
            print(f"{name:8}{kind:8}{numbers}{row['ratio']:8.1f}{row['ratio_lowest']:8.1f}")
        milliseconds = 1000 * size_figures["frames"]["sprite_seconds_per_clip"]
        print(f"{name:8}sprite  {milliseconds:12.2f} ms a clip of {CLIP} frames")


if __name__ == "__main__":
    main()
