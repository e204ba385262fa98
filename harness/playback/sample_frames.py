"""Sample frames of a perturbation matrix: one episode of each task, drawn with each perturbation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.study import frames_file

SEED = 0
GAP = 8
"""Width of the white gap between two frames in pixels."""


def write(plan: Plan, directory: Path) -> None:
    """Write a PNG for each task and perturbation of `plan` below `directory`: frames of one episode, left to right."""
    import imageio.v2 as imageio

    judged_tasks = [
        (cell.names.suite, cell.names.task, plan.matrix[cell.id].name, cell)
        for cell in plan.cells
        if cell.id in plan.matrix
    ]
    snapshots = {(suite, task): moments(cell) for suite, task, _, cell in judged_tasks}
    for suite, task, name, cell in judged_tasks:
        file = directory / frames_file(suite, task, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        imageio.imwrite(file, strip(cell.section("drawing").spawn(task)(snapshots[suite, task])))


def moments(cell: Cell) -> Array:
    """Return snapshots [m, n] of an episode of random actions on a fixed layout: its start and the first occurrence of
    each event, or its end if no event occurs."""
    suite, names = cell.section("suite"), cell.names
    task, (_, actions) = suite.make(names.task), suite.spaces(names.task)
    rng = np.random.default_rng(SEED)
    task.reset(SEED)
    snapshots = [task.snapshot()]
    occurred = np.zeros(len(suite.events), bool)
    is_over = False
    while not is_over:
        action = rng.integers(actions.count) if actions.discrete else rng.uniform(-1, 1, actions.shape)
        step = task.step(action)
        is_over = step.terminated or step.truncated
        new = task.events() & ~occurred
        occurred |= new
        if new.any() or (is_over and len(snapshots) == 1):
            snapshots.append(task.snapshot())
    return np.stack(snapshots)


def strip(frames: Array) -> Array:
    """Return frames, uint8 [m, height, width, 3], side by side with white gaps."""
    gap = np.full((frames.shape[1], GAP, 3), 255, np.uint8)
    return np.concatenate([part for frame in frames for part in (gap, frame)][1:], axis=1)
