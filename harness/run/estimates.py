"""Hours that a plan will take on this machine, with how far they may be off, and what its models will be asked.

An estimate rests on the best that is known of a cell: how long a run of it took here, how long its own updates took
when a few of them were timed, or else operation counts, scaled by what was timed of other cells.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from guidebench.harness.launchers.local import Slot
from guidebench.harness.machine import cores
from guidebench.harness.models import keeping
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage
from guidebench.harness.parts import AskingPart, Part, ReplayPart
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.plan.names import Chosen
from guidebench.harness.run import timing
from guidebench.harness.run.timing import Basis, Timing

SECONDS = 1.5
"""For which a cell's own updates are timed; starting, loading and evaluating it once come on top."""
TIMED = 4
"""Most cells that are timed for an estimate: those whose parts or tasks differ, the longest first."""
MANY = 500
"""Cells of a plan from which on none is timed or looked up, so that a dry run stays quick."""
COUNTED = 2.5
"""Seconds that runs took for every second of operation counts: the middle of the studies in `results/measured`."""
SPREAD: Mapping[str, tuple[float, float]] = {
    "recorded": (0.8, 1.3), "timed": (0.8, 2.5), "scaled": (0.5, 3.0), "counted": (0.4, 3.0),
}  # fmt: skip
"""Factors within which runs lay: of whole runs, by their spread over seeds; of a few timed seconds and of counts, by
the studies in `results/measured`, which took .5 to 2.9 times `COUNTED` times the counts."""


class Cost(NamedTuple):
    """What one job of a cell, all seeds that a worker packs together, takes."""

    seconds: float
    """Of its worker."""
    judging: float
    """Seconds of another core, which draws and judges beside it."""
    basis: Literal["recorded", "timed", "scaled", "counted"]


class Span(NamedTuple):
    """Hours, and the least and most that they may turn out to be."""

    hours: float
    low: float
    high: float


def costs(plan: Plan, places: Sequence[Slot]) -> list[Cost]:
    """What a job of each cell of a plan takes; some of the cells are timed."""
    seeds, device = packed(plan, places), places[0].device
    found: dict[str, Cost] = {}
    few = len(plan.cells) <= MANY
    for cell in plan.cells if few and timing.remembered() else ():
        if (known := timing.kept(cell, seeds, device)) is not None:
            found[cell.id] = _cost(cell, *known)
    chosen = _chosen([cell for cell in plan.cells if cell.id not in found]) if few and SECONDS else []
    for cell, timed in zip(chosen, timing.timed(chosen, seeds, device, SECONDS) if chosen else [], strict=True):
        if timed is not None:
            found[cell.id] = _cost(cell, timed, "timed")
            timing.keep(cell, seeds, device, timed, "timed")
    ratios: dict[Any, list[float]] = {}
    for cell in plan.cells:
        if cell.id in found:
            for alike in _alike(cell):
                ratios.setdefault(alike, []).append(found[cell.id].seconds / counted(cell))
    for cell in plan.cells:
        if cell.id not in found:
            known_ratios = next((ratios[alike] for alike in _alike(cell) if alike in ratios), None)
            if known_ratios is None:
                found[cell.id] = Cost(COUNTED * counted(cell), 0.0, "counted")
            else:
                found[cell.id] = Cost(float(np.median(known_ratios)) * counted(cell), 0.0, "scaled")
    return [found[cell.id] for cell in plan.cells]


def _cost(cell: Cell, timed: Timing, basis: Basis) -> Cost:
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    return Cost(timed.training + evaluations * timed.evaluation, timed.judging, basis)


def packed(plan: Plan, places: Sequence[Slot]) -> int:
    """Most seeds of a cell that a worker trains together."""
    return min(plan.execution.pack or (len(plan.seeds) if places[0].device != "cpu" else 1), len(plan.seeds))


def _alike(cell: Cell) -> tuple[Any, ...]:
    """By what other cells tell how far counts are off for this one, the nearest first."""
    return (_kind(cell), cell.learner, "any")


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Cells alike in this cost alike as far as operation counts tell."""
    return (cell.section("suite"), cell.names.task, cell.names.parts)


def _chosen(cells: Sequence[Cell]) -> list[Cell]:
    """A cell of each kind, the longest first; one of each learner before a second of any, since the cells that are not
    timed are scaled by those with the same learner."""
    first = {_kind(cell): cell for cell in reversed(cells)}
    before: Counter[str] = Counter()
    turns: list[tuple[int, Cell]] = []
    for cell in sorted(first.values(), key=counted, reverse=True):
        turns.append((before[cell.learner], cell))
        before[cell.learner] += 1
    return [cell for _, cell in sorted(turns, key=lambda turn: turn[0])][:TIMED]


def elapsed(plan: Plan, found: Sequence[Cost], places: Sequence[Slot]) -> Span:
    """Hours until a plan is done, from the start, on these places: workers share the cores that there are."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    hours = [_scheduled(found, jobs, len(places), _edge(side)) / 3600 for side in (None, 0, 1)]
    return Span(*hours)


def _edge(side: int | None) -> Mapping[str, float]:
    return {basis: 1.0 if side is None else edges[side] for basis, edges in SPREAD.items()}


def _scheduled(found: Sequence[Cost], jobs: int, workers: int, factors: Mapping[str, float]) -> float:
    """Seconds until all jobs are done, each begun as soon as a worker is free, in the order in which they are begun."""
    at_once = min(workers, jobs * len(found))
    busy, total = sum(cost.seconds + cost.judging for cost in found), sum(cost.seconds for cost in found)
    slower = max(1.0, at_once * (busy / total if total else 1.0) / cores())
    free = [0.0] * at_once
    for _, cost in itertools.product(range(jobs), found):
        heapq.heappush(free, heapq.heappop(free) + slower * factors[cost.basis] * cost.seconds)
    return max(free)


def span(cost: Cost) -> tuple[float, float]:
    """The least and most seconds of a worker that a job may take."""
    low, high = SPREAD[cost.basis]
    return low * cost.seconds, high * cost.seconds


def counted(cell: Cell) -> float:
    """Seconds that one run of `cell` takes by operation counts, on one core of the machine whose costs suites and
    learners state (AMD EPYC, Zen 4)."""
    return _counted(*_key(cell))


def questions(cell: Cell) -> Usage | None:
    """About what one run of `cell` asks of foundation models, all together; None where it asks none."""
    found = by_model(cell)
    return functools.reduce(Usage.plus, (usage for _, usage in found)) if found else None


def by_model(cell: Cell) -> list[tuple[str, Usage]]:
    """The foundation models that one run of `cell` asks, by role: the name of each, and about what it is asked, by the
    prices of its recipe or settings. Of a judge it is the least: clips that end with an episode, and tokens of prompts
    and answers, come on top. Of other models it is what the part that asks them says (`asked(parts, role)` of its
    configuration)."""
    return [
        (cell.called(part), _priced(cell.section(part.role), usage))
        for part in cell.models
        if (usage := _asked(part, cell.sections))
    ]


def all_questions(runs: Iterable[tuple[Cell, float]]) -> Usage:
    """About what so many runs of each cell ask, in whole and in part, of all models together."""
    total = Usage()
    for cell, count in runs:
        if (usage := questions(cell)) is not None:
            calls, read, written, images, seconds, usd = (amount * count for amount in usage)
            total = total.plus(Usage(round(calls), round(read), round(written), round(images), seconds, usd))
    return total


def _asked(part: Chosen, parts: Mapping[str, Any]) -> Usage | None:
    """What a run asks of the model in a role, if that is a foundation model."""
    model = parts[part.role]
    if not keeping.recorded(model):
        return None
    needing = [other for other in parts.values() if isinstance(other, Part) and part.role in other.needs]
    told = [other.asked(parts, part.role) for other in needing if isinstance(other, AskingPart)]
    found = [usage for usage in told if usage is not None]
    length = max((other.judged_transitions for other in needing if isinstance(other, ReplayPart)), default=0)
    if clips := parts["training"].steps // length if length else 0:
        recipe = recipes.recipe(model.model)
        images = clips * length
        found.append(Usage(clips, tokens_in=images * (recipe.tokens_per_image if recipe else 0), images=images))
    return functools.reduce(Usage.plus, found) if found else None


def _priced(model: Any, usage: Usage) -> Usage:
    """With what it costs; a model that runs here costs nothing."""
    if model.backend == "transformers":
        return usage
    usd = 0.0
    for name, side in (("price_in", usage._replace(tokens_out=0)), ("price_out", usage._replace(tokens_in=0))):
        own = model.price_in if name == "price_in" else model.price_out
        tokens = side.tokens_in + side.tokens_out
        usd += recipes.price(model.model, side) if own is None else tokens * own / recipes.MILLION
    return usage._replace(usd=usd)


def _key(cell: Cell) -> tuple[object, ...]:
    """What the estimate depends on; most cells of a matrix share it."""
    return (
        cell.section("suite"),
        cell.names.task,
        tuple(cell.section(part.role) for part in cell.names.of("learner")),
        cell.section("training"),
        cell.section("evaluation"),
    )


@functools.lru_cache(maxsize=4096)
def _counted(suite, task, learners, training, evaluation) -> float:  # type: ignore[no-untyped-def]
    observations, actions = suite.spaces(task)
    step = suite.seconds_per_step(task)
    train = training.steps * (step + sum(learner.seconds_per_step(observations, actions) for learner in learners))
    # Greedy episodes end early, at the goal or in a cycle: a few dozen steps, drawn from measured runs.
    evaluations = -(-training.steps // evaluation.every)
    evaluate = (
        evaluations
        * evaluation.episodes
        * EVALUATION_STEPS
        * (step + max(learner.seconds_per_action(observations, actions) for learner in learners))
    )
    return float(train + evaluate)


EVALUATION_STEPS = 60
