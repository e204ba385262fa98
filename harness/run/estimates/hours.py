"""Hours of a plan, with an interval, from the costs of its jobs: workers share the cores, and stages come first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guidebench.harness.launchers.base import Slot
from guidebench.harness.machine import cores
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run.estimates.jobs import Cost, packed

SPREAD: Mapping[str, tuple[float, float]] = {
    "recorded": (0.8, 1.3), "timed": (0.8, 2.5), "scaled": (0.5, 3.0), "counted": (0.4, 3.0),
}  # fmt: skip
"""Basis -> minimum and maximum ratio of actual to estimated time: for recorded runs, by their spread over seeds; for
timings and counts, by the studies in `results/measured`, which took .5 to 2.9 times `COUNTED` times the counts."""


class Span(NamedTuple):
    """Estimated hours, with a lower and an upper bound."""

    hours: float
    low: float
    high: float


def elapsed(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> Span:
    """Return the hours of a plan from its beginning on these slots, whose workers share the available cores."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    places_of = {cell.id: place for place, cell in enumerate(plan.trained)}
    after = [places_of[cell.stage.id] if cell.stage else None for cell in plan.trained]
    hours = [_scheduled(job_costs, after, jobs, len(places), _edge(side)) / 3600 for side in (None, 0, 1)]
    return Span(*hours)


def core_hours(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> float:
    """Return the hours of one core, or of a GPU beside the cores, that a plan takes."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    return jobs * sum(cost.seconds + cost.beside for cost in job_costs) / 3600


def slowdown(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> float:
    """Return the factor by which a worker is slower than on cores of its own, since others run at the same time."""
    return _slowdown(job_costs, -(-len(plan.seeds) // packed(plan, places)), len(places))


def _slowdown(job_costs: Sequence[Cost], jobs: int, workers: int) -> float:
    busy, total = sum(cost.seconds + cost.beside for cost in job_costs), sum(cost.seconds for cost in job_costs)
    return max(1.0, min(workers, jobs * len(job_costs)) * (busy / total if total else 1.0) / cores())


def _edge(side: int | None) -> Mapping[str, float]:
    return {basis: 1.0 if side is None else edges[side] for basis, edges in SPREAD.items()}


def _scheduled(
    job_costs: Sequence[Cost], after: Sequence[int | None], jobs: int, workers: int, factors: Mapping[str, float]
) -> float:
    """Return the seconds until all jobs are done if each begins, in order, as soon as a worker is free and the same job
    of its stage is done. `after`: the place of each cell's stage, which comes before it."""
    slower = _slowdown(job_costs, jobs, workers)
    free = [0.0] * min(workers, jobs * len(job_costs))
    for _ in range(jobs):
        ends: list[float] = []
        for cost, stage in zip(job_costs, after, strict=True):
            begins = max(heapq.heappop(free), ends[stage] if stage is not None else 0.0)
            ends.append(begins + slower * factors[cost.basis] * cost.seconds)
            heapq.heappush(free, ends[-1])
    return max(free)
