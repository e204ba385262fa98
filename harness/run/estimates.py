"""Estimates of a plan: its hours on this machine, with an interval, and its calls to models.

The duration of a cell is estimated from the best available basis: a recorded run on this machine, a few seconds of its
updates timed here, or operation counts, scaled by the timings of other cells.
"""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from guidebench.harness.launchers.base import Slot
from guidebench.harness.machine import cores
from guidebench.harness.models import keeping
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage
from guidebench.harness.parts import AskingPart, Part, ReplayPart
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.plan.names import Chosen
from guidebench.harness.run import timing
from guidebench.harness.run.timing import Basis, Timing

SECONDS = 1.5
"""Seconds for which a cell's updates are timed, without starting, loading and one evaluation."""
TIMED = 4
"""Maximum number of cells that are timed for an estimate: those whose parts or tasks differ, the longest first."""
MANY = 500
"""Maximum number of cells of a plan in which cells are timed or looked up, so that a dry run stays fast."""
COUNTED = 2.5
"""Measured seconds per second estimated by operation counts: the median of the studies in `results/measured`."""
SPREAD: Mapping[str, tuple[float, float]] = {
    "recorded": (0.8, 1.3), "timed": (0.8, 2.5), "scaled": (0.5, 3.0), "counted": (0.4, 3.0),
}  # fmt: skip
"""Basis -> minimum and maximum ratio of actual to estimated time: for recorded runs, by their spread over seeds; for
timings and counts, by the studies in `results/measured`, which took .5 to 2.9 times `COUNTED` times the counts."""


class Cost(NamedTuple):
    """The time of one job of a cell, for all seeds that a worker packs."""

    seconds: float
    """Seconds of the worker."""
    judging: float
    """Seconds of another process, which draws and judges in parallel."""
    basis: Literal["recorded", "timed", "scaled", "counted"]


class Span(NamedTuple):
    """Estimated hours, with a lower and an upper bound."""

    hours: float
    low: float
    high: float


def costs(plan: Plan, places: Sequence[Slot]) -> list[Cost]:
    """Return the cost of a job of each cell of a plan; some of the cells are timed."""
    seeds, device = packed(plan, places), places[0].device
    found: dict[str, Cost] = {}
    few = len(plan.trained) <= MANY
    for cell in plan.trained if few and timing.remembered() else ():
        if (known := timing.kept(cell, seeds, device)) is not None:
            found[cell.id] = _cost(cell, *known)
    chosen = _chosen([cell for cell in plan.trained if cell.id not in found]) if few and SECONDS else []
    for cell, timed in zip(chosen, timing.timed(chosen, seeds, device, SECONDS) if chosen else [], strict=True):
        if timed is not None:
            found[cell.id] = _cost(cell, timed, "timed")
            timing.keep(cell, seeds, device, timed, "timed")
    ratios: dict[Any, list[float]] = {}
    for cell in plan.trained:
        if cell.id in found:
            for alike in _alike(cell):
                ratios.setdefault(alike, []).append(found[cell.id].seconds / counted(cell))
    for cell in plan.trained:
        if cell.id not in found:
            known_ratios = next((ratios[alike] for alike in _alike(cell) if alike in ratios), None)
            if known_ratios is None:
                found[cell.id] = Cost(COUNTED * counted(cell), 0.0, "counted")
            else:
                found[cell.id] = Cost(float(np.median(known_ratios)) * counted(cell), 0.0, "scaled")
    return [found[cell.id] for cell in plan.trained]


def _cost(cell: Cell, timed: Timing, basis: Basis) -> Cost:
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    return Cost(timed.training + evaluations * timed.evaluation, timed.judging, basis)


def packed(plan: Plan, places: Sequence[Slot]) -> int:
    """Return the maximum number of seeds of a cell in one worker."""
    return min(plan.execution.pack or (len(plan.seeds) if places[0].device != "cpu" else 1), len(plan.seeds))


def _alike(cell: Cell) -> tuple[Any, ...]:
    """Return keys of similar cells, whose ratio of measured to counted time applies to this cell, closest first."""
    learns = cell.section("agent").learns
    return (_kind(cell), (cell.learner, learns), learns)


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Return a key; cells with equal keys have the same ratio of measured to counted time."""
    return (cell.section("suite"), cell.names.task, cell.names.parts)


def _chosen(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells to time: one of each kind, the longest first, and one of each learner before a second of any,
    since cells that are not timed are scaled by those with the same learner."""
    first = {_kind(cell): cell for cell in reversed(cells)}
    before: Counter[str] = Counter()
    turns: list[tuple[int, Cell]] = []
    for cell in sorted(first.values(), key=counted, reverse=True):
        turns.append((before[cell.learner], cell))
        before[cell.learner] += 1
    return [cell for _, cell in sorted(turns, key=lambda turn: turn[0])][:TIMED]


def elapsed(plan: Plan, found: Sequence[Cost], places: Sequence[Slot]) -> Span:
    """Return the hours of a plan from its beginning on these slots, whose workers share the available cores."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    places_of = {cell.id: place for place, cell in enumerate(plan.trained)}
    after = [places_of[cell.stage.id] if cell.stage else None for cell in plan.trained]
    hours = [_scheduled(found, after, jobs, len(places), _edge(side)) / 3600 for side in (None, 0, 1)]
    return Span(*hours)


def _edge(side: int | None) -> Mapping[str, float]:
    return {basis: 1.0 if side is None else edges[side] for basis, edges in SPREAD.items()}


def _scheduled(
    found: Sequence[Cost], after: Sequence[int | None], jobs: int, workers: int, factors: Mapping[str, float]
) -> float:
    """Return the seconds until all jobs are done if each begins, in order, as soon as a worker is free and the same job
    of its stage is done. `after`: the place of each cell's stage, which comes before it."""
    at_once = min(workers, jobs * len(found))
    busy, total = sum(cost.seconds + cost.judging for cost in found), sum(cost.seconds for cost in found)
    slower = max(1.0, at_once * (busy / total if total else 1.0) / cores())
    free = [0.0] * at_once
    for _ in range(jobs):
        ends: list[float] = []
        for cost, stage in zip(found, after, strict=True):
            begins = max(heapq.heappop(free), ends[stage] if stage is not None else 0.0)
            ends.append(begins + slower * factors[cost.basis] * cost.seconds)
            heapq.heappush(free, ends[-1])
    return max(free)


def span(cost: Cost) -> tuple[float, float]:
    """Return the lower and upper bound of a job's seconds."""
    low, high = SPREAD[cost.basis]
    return low * cost.seconds, high * cost.seconds


def counted(cell: Cell) -> float:
    """Return the seconds of one run of `cell` by operation counts, on one core of the reference machine of suites and
    learners (AMD EPYC, Zen 4)."""
    return _counted(*_key(cell))


def questions(cell: Cell) -> Usage | None:
    """Return the estimated usage of all foundation models by one run of `cell`, or None if it uses none."""
    found = by_model(cell)
    return functools.reduce(Usage.plus, (usage for _, usage in found)) if found else None


def by_model(cell: Cell) -> list[tuple[str, Usage]]:
    """Return name and estimated usage, by role, of the foundation models that one run of `cell` calls, priced by recipe
    or settings. For a judge it is a lower bound, without clips cut short by the end of an episode and without tokens of
    prompts and answers. For other models it is the estimate of the part that uses them (`asked` of its
    configuration)."""
    return [
        (cell.called(part), priced(cell.section(part.role), usage))
        for part in cell.models
        if (usage := _asked(part, cell))
    ]


def all_questions(runs: Iterable[tuple[Cell, float]]) -> Usage:
    """Return the estimated usage of all models by the given number of runs of each cell, which may be fractional."""
    total = Usage()
    for cell, count in runs:
        if (usage := questions(cell)) is not None:
            calls, read, written, images, seconds, usd = (amount * count for amount in usage)
            total = total.plus(Usage(round(calls), round(read), round(written), round(images), seconds, usd))
    return total


def _asked(part: Chosen, cell: Cell) -> Usage | None:
    """Return a run's estimated usage of the model in a role, or None if it is no foundation model."""
    parts, model = cell.sections, cell.section(part.role)
    if not keeping.recorded(model):
        return None
    there = config.there(cell)
    needing = [other for other in parts.values() if isinstance(other, Part) and part.role in other.needs]
    told = [other.asked(there, part.role) for other in needing if isinstance(other, AskingPart)]
    found = [usage for usage in told if usage is not None]
    length = max((other.judged_transitions for other in needing if isinstance(other, ReplayPart)), default=0)
    if clips := parts["training"].steps // length if length else 0:
        recipe = recipes.recipe(model.model)
        images = clips * length
        found.append(Usage(clips, tokens_in=images * (recipe.tokens_per_image if recipe else 0), images=images))
    return functools.reduce(Usage.plus, found) if found else None


def priced(model: Any, usage: Usage) -> Usage:
    """Return the usage with its price; a model that runs on this machine is free."""
    if model.backend == "transformers":
        return usage
    usd = 0.0
    for name, side in (("price_in", usage._replace(tokens_out=0)), ("price_out", usage._replace(tokens_in=0))):
        own = model.price_in if name == "price_in" else model.price_out
        tokens = side.tokens_in + side.tokens_out
        usd += recipes.price(model.model, side) if own is None else tokens * own / recipes.MILLION
    return usage._replace(usd=usd)


def _key(cell: Cell) -> tuple[object, ...]:
    """Return everything that the operation counts depend on, as a cache key."""
    return (
        cell.section("suite"),
        cell.names.task,
        cell.section("agent"),
        tuple(cell.section(part.role) for part in cell.names.of("learner")),
        cell.section("training"),
        cell.section("evaluation"),
    )


@functools.lru_cache(maxsize=4096)
def _counted(suite, task, agent, learners, training, evaluation) -> float:  # type: ignore[no-untyped-def]
    observations, actions = suite.spaces(task)
    observations = agent.observes(observations, actions)
    step = suite.seconds_per_step(task)
    steps = training.steps if agent.learns else 0
    train = steps * (step + sum(learner.seconds_per_step(observations, actions) for learner in learners))
    # Greedy episodes end early, at the goal or in a cycle: after a few dozen steps in measured runs.
    evaluations = -(-training.steps // evaluation.every)
    evaluate = (
        evaluations
        * evaluation.episodes
        * EVALUATION_STEPS
        * (step + max((learner.seconds_per_action(observations, actions) for learner in learners), default=0.0))
    )
    return float(train + evaluate)


EVALUATION_STEPS = 60
