"""How near KAGI's waypoints come to the block and to its place in bin sorting: those of the hand-written chat, and, as
the best that tiles and lines allow, those of the oracle.

    python -m benchmarks.kagi_waypoints [--json] [--layouts 50] [--grid 6] [--picture PATH]

Each layout of a task is drawn at 100 pixels and asked about once, with the gripper's place as the guide tells it, five
grasp candidates within 1.5 cm of the block's middle and five target candidates within 4 cm of the spot where the
scripted policy would release it.
`--picture` writes what the chat is shown of one layout as a PNG file and measures nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Array, Question
from guidebench.methods.kagi import prompts, reading
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.oracle import PoseReader
from guidebench.methods.kagi.questions import Candidates, WaypointQuestion
from guidebench.methods.kagi.scripted import ViewReader
from guidebench.suites.bin_sorting import BinDrawing, BinSorting
from guidebench.suites.bin_sorting.task import is_at

TASKS = ("forward", "backward", "other")
FIRST = 1_000
"""Seed of the first layout; tests play others."""
SUITE = BinSorting(observation="state")


def places(points: Array) -> Array:
    """Return (u, v, h), float [n, 3], of points [n, 3] of the world."""
    above, beside = (SUITE.project("forward", camera, points, 1) for camera in SUITE.cameras_of("forward"))
    return np.concatenate([above, beside[:, 1:]], axis=1)


def point(place: Array) -> Array:
    """Return the point of the world, metres [3], that both views show at (u, v, h), by Newton's method."""
    found = np.array([0.42, 0.0, 0.05])
    for _ in range(20):
        steps = found + np.concatenate([np.zeros((1, 3)), 1e-5 * np.eye(3)])
        shown = places(steps)
        found = found + np.linalg.solve(((shown[1:] - shown[0]) / 1e-5).T, place - shown[0])
    return found


def asked(task: Any, name: str, seed: int, grid: Grid, rng: np.random.Generator) -> tuple[WaypointQuestion, Array]:
    """Begin layout `seed`; return the question about it, and (u, v, h) of block and spot, float [2, 3]."""
    tip = places(SUITE.tip(name, task.reset(seed)[None]))[0].tolist()
    located = SUITE.located(name, task.snapshot())
    around = [
        places(where + np.concatenate([rng.uniform(-reach, reach, (5, 2)), np.zeros((5, 1))], 1))[:, :2]
        for where, reach in zip(located, (0.015, 0.04), strict=True)
    ]
    return WaypointQuestion(task.instruction, Candidates(*(each.tolist() for each in around)), grid, tip), places(
        located
    )


def measure(layouts: int, grid: Grid) -> dict[str, Any]:
    """Return figures by task and chat."""
    draw, found = BinDrawing(camera="both").spawn("forward"), {}
    for name in TASKS:
        task: Any = SUITE.make(name)
        rows: dict[str, list[list[float]]] = {"scripted": [], "oracle": []}
        for seed in range(FIRST, FIRST + layouts):
            rng = np.random.default_rng(seed)
            about, truth = asked(task, name, seed, grid, rng)
            shown = prompts.message(about, draw(task.snapshot()[None])[0])
            keys, events = np.zeros(1, np.int64), np.zeros((1, 0), bool)
            told = Question(0, keys, None, events, about.content(), measures=truth.astype(np.float32))
            answers = {"oracle": PoseReader(0.0)(told, rng)}
            try:
                answers["scripted"] = reading.selected(ViewReader(0.0, 0.0)((shown,)), grid, about.candidates)
            except Misread:
                rows["scripted"].append([np.nan] * 6)
            for chat, answer in answers.items():
                assert answer is not None, "both are in view"
                rows[chat].append(_distances(answer, truth, about, task))
        found[name] = {chat: _summary(np.array(each)) for chat, each in rows.items()}
    return found


def _distances(answer: dict[str, Any], truth: Array, about: WaypointQuestion, task: Any) -> list[float]:
    """Return how far the waypoint nearest to the block is from it, and the last one from the spot, in pixels of 100 and
    in centimetres; whether a block at the last one would be at its place; and the selected candidate's distance."""
    waypoints = np.array(answer["waypoints"])
    ends = waypoints[np.linalg.norm(waypoints - truth[0], axis=1).argmin()], waypoints[-1]
    pixels = [100 * float(np.linalg.norm(end - place)) for end, place in zip(ends, truth, strict=True)]
    metres = [float(np.linalg.norm(point(end) - point(place))) for end, place in zip(ends, truth, strict=True)]
    x, y, _ = point(np.array([*ends[1][:2], truth[1][2]]))
    selected = np.subtract(about.candidates.grasp[answer["grasp"] - 1], truth[0][:2])
    placed = is_at(np.array([x, y, 0.02]), task._place)
    return [*pixels, *(100 * each for each in metres), float(placed), 100 * float(np.linalg.norm(selected))]


def _summary(rows: Array) -> dict[str, Any]:
    names = ("block_pixels", "spot_pixels", "block_cm", "spot_cm", "in_place", "grasp_pixels")
    usable = np.isfinite(rows).all(1)
    good = rows[usable]
    return {
        "usable": float(usable.mean()),
        **{name: [float(np.median(column)), float(column.max())] for name, column in zip(names, good.T, strict=True)},
        "in_place": float(good[:, 4].mean()),
    }


def picture(path: Path, grid: Grid) -> None:
    """Write the two annotated views of a layout side by side."""
    from PIL import Image

    task: Any = SUITE.make("forward")
    about, _ = asked(task, "forward", 1, grid, np.random.default_rng(2))
    frame = BinDrawing(camera="both", size=400).spawn("forward")(task.snapshot()[None])[0]
    images = [part for part in prompts.message(about, frame).content if not isinstance(part, str)]
    Image.fromarray(np.concatenate(images, 1)).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--layouts", type=int, default=50, help="layouts of each task (default 50)")
    parser.add_argument("--grid", type=int, default=6, help="tiles along a side of the view from above (default 6)")
    parser.add_argument("--picture", type=Path, help="write the annotated views of one layout to this file")
    given = parser.parse_args()
    if given.picture:
        picture(given.picture, Grid(given.grid))
        return
    found = measure(given.layouts, Grid(given.grid))
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print("task      chat       usable  block px     spot px      block cm     spot cm      in place  grasp px")
    for name, chats in found.items():
        for chat, row in chats.items():
            pairs = ("block_pixels", "spot_pixels", "block_cm", "spot_cm")
            cells = "".join(f"{row[each][0]:5.1f} ({row[each][1]:4.1f}) " for each in pairs)
            print(
                f"{name:10}{chat:10}{row['usable']:7.0%}  {cells} {row['in_place']:7.0%}  "
                f"{row['grasp_pixels'][0]:5.1f} ({row['grasp_pixels'][1]:.1f})"
            )


if __name__ == "__main__":
    main()
