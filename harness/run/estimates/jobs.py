"""Costs of the jobs of a plan, each from the best available basis, and which cells are timed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop import env_workers
from guidebench.harness.loop.job import Job
from guidebench.harness.machine import cores
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run.estimates.measuring import timed
from guidebench.harness.run.estimates.operations import counted
from guidebench.harness.run.estimates.timings import Basis, Setup, Timing, cached_timing, directory, keep

SECONDS = 1.5
"""Seconds for which a cell's cycles are timed, and its evaluation; 0 times nothing."""
TIMED = 4
"""Maximum number of cells that are timed for an estimate: those whose parts or tasks differ, the longest first."""
MANY = 500
"""Maximum number of cells of a plan in which cells are timed or looked up, so that a dry run stays fast."""
COUNTED = 2.5
"""Measured seconds per second estimated by operation counts: the median of the studies in `results/measured`."""


class Cost(NamedTuple):
    """The time of one job of a cell, for all seeds that a worker packs."""

    seconds: float
    """Seconds from the beginning of the worker to its end, on cores of its own."""
    beside: float
    """Processor seconds of the processes beside it, which draw, judge and step tasks in parallel."""
    basis: Literal["recorded", "timed", "scaled", "counted"]


def costs(plan: Plan, places: Sequence[Slot]) -> list[Cost]:
    """Return the cost of a job of each cell of a plan; some cells that have no cached timing are timed now."""
    costs_by_id = cached_costs(plan, places)
    if len(plan.trained) <= MANY and SECONDS:
        timed_cells = _cells_to_time([cell for cell in plan.trained if cell.id not in costs_by_id])
        setups = [setup(plan, places, cell) for cell in timed_cells]
        for cell, cell_setup, timing in zip(
            timed_cells, setups, timed(timed_cells, setups, SECONDS) if timed_cells else [], strict=True
        ):
            if timing is not None:
                costs_by_id[cell.id] = _cost(cell, timing, "timed")
                keep(cell, cell_setup, timing, "timed")
    return completed(plan, costs_by_id)


def cached_costs(plan: Plan, places: Sequence[Slot]) -> dict[str, Cost]:
    """Return cell id -> cost of the cells of a plan with a cached timing. It takes no longer than reading a file for
    each."""
    costs_by_id: dict[str, Cost] = {}
    for cell in plan.trained if len(plan.trained) <= MANY and directory("timings").is_dir() else ():
        if (timing := cached_timing(cell, setup(plan, places, cell))) is not None:
            costs_by_id[cell.id] = _cost(cell, *timing)
    return costs_by_id


def completed(plan: Plan, costs_by_id: Mapping[str, Cost]) -> list[Cost]:
    """Return the cost of each cell of a plan: the one in `costs_by_id`, else by operation counts, scaled by those of
    similar cells in `costs_by_id`."""
    ratios: dict[Any, list[float]] = {}
    for cell in plan.trained:
        if cell.id in costs_by_id:
            for alike in _alike(cell):
                ratios.setdefault(alike, []).append(costs_by_id[cell.id].seconds / counted(cell))
    all_costs = []
    for cell in plan.trained:
        ratio = next((ratios[alike] for alike in _alike(cell) if alike in ratios), None)
        if cell.id in costs_by_id:
            all_costs.append(costs_by_id[cell.id])
        elif ratio is None:
            all_costs.append(Cost(COUNTED * counted(cell), 0.0, "counted"))
        else:
            all_costs.append(Cost(float(np.median(ratio)) * counted(cell), 0.0, "scaled"))
    return all_costs


def _cost(cell: Cell, timing: Timing, basis: Basis) -> Cost:
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    # The worker waits for answers that come later than they are due.
    seconds = max(timing.training, timing.judging) + evaluations * timing.evaluation
    return Cost(seconds, timing.judging + timing.stepping, basis)


def packed(plan: Plan, places: Sequence[Slot]) -> int:
    """Return the maximum number of seeds of a cell in one worker."""
    return min(plan.execution.pack or (len(plan.seeds) if places[0].device != "cpu" else 1), len(plan.seeds))


def setup(plan: Plan, places: Sequence[Slot], cell: Cell) -> Setup:
    """Return the setup of a worker of a cell if the plan runs on these slots."""
    execution, device, seeds = plan.execution, places[0].device, packed(plan, places)
    at_once = min(len(places), -(-len(plan.seeds) // seeds) * len(plan.trained))
    job = Job(
        "", "", {}, tuple(range(seeds)), device, env_workers=execution.env_workers, cores=max(1, cores() // at_once)
    )
    return Setup(seeds, device, env_workers.processes(job, cell, 0) if env_workers.spread(job) else 0)


def _alike(cell: Cell) -> tuple[Any, ...]:
    """Return keys of similar cells, whose ratio of measured to counted time applies to this cell, closest first."""
    learns = cell.section("agent").learns
    return (_kind(cell), (cell.learner, learns), learns)


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Return a key; cells with equal keys have the same ratio of measured to counted time."""
    return (cell.section("suite"), cell.names.task, cell.names.parts)


def _cells_to_time(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells to time: one of each kind, the longest first, and one of each learner before a second of any,
    since cells that are not timed are scaled by those with the same learner."""
    first = {_kind(cell): cell for cell in reversed(cells)}
    before: Counter[str] = Counter()
    turns: list[tuple[int, Cell]] = []
    for cell in sorted(first.values(), key=counted, reverse=True):
        turns.append((before[cell.learner], cell))
        before[cell.learner] += 1
    return [cell for _, cell in sorted(turns, key=lambda turn: turn[0])][:TIMED]
