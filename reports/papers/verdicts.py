"""What "reproduced" means, said once, and what keeps a number of ours from being compared with a published one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from reports import judges
from reports.statistics import Interval
from results import Cell

if TYPE_CHECKING:
    from reports.papers.layouts import Paper
    from reports.summary import Row

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_COMPARABLE = "not comparable"
PUBLISHED_ONLY = "published only"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, NOT_COMPARABLE, PUBLISHED_ONLY, NOT_RUN)

DEFINITION = (
    "Reproduced: our 95 % interval covers the published value; where the claim is a difference (a gain, a saving), our "
    "interval of the difference excludes zero on the published side. Not comparable: ours is shown, and the letters "
    "say what differs. Published only: no run of ours can have it, as on a real robot. Not run: no chosen study has it."
)
_ROUNDING = 1e-9
"""Of the arithmetic of means, not of what a paper printed."""
SCRIPTED = ("scripted", "oracle")


def agrees(published: float, ours: Interval, difference: bool) -> bool:
    """Whether ours bears the published value out. A difference that was published as zero is a value like others."""
    if difference and published != 0:
        return bool(ours.low > 0) if published > 0 else bool(ours.high < 0)
    return bool(ours.low - _ROUNDING <= published <= ours.high + _ROUNDING)


def verdict(published: float, ours: Interval, difference: bool, reasons: Collection[str]) -> str:
    """REPRODUCED, NOT_REPRODUCED or, for any reason at all, NOT_COMPARABLE."""
    if reasons:
        return NOT_COMPARABLE
    return REPRODUCED if agrees(published, ours, difference) else NOT_REPRODUCED


def reasons(row: Row, paper: Paper, wanted_task: str, models: Collection[str], overridden: str) -> list[str]:
    """Why a row of ours is not what the paper ran; `models`: those meant, `overridden`: settings of the command line,
    besides those meant."""
    cell = row.cell
    found = []
    if cell.profile != "paper":
        found.append(f"profile {cell.profile}")
    if cell.task != wanted_task:
        found.append(f"task {cell.task} instead of {wanted_task}")
    if cell.suite.startswith("metaworld"):
        found.append("MetaWorld v3; the paper used v2")
    found.extend(_answers(cell, paper, models))
    budget = paper.budgets.get(cell.suite, 0)
    if cell.steps < budget:
        found.append(f"{cell.steps:,} of {budget:,} steps")
    elif row.last < cell.steps:
        found.append(f"unfinished, at step {row.last:,} of {cell.steps:,}")
    if overridden:
        found.append(overridden)
    if not np.isfinite(row.final.low):
        found.append("one seed, so no interval")
    return found


def _answers(cell: Cell, paper: Paper, models: Collection[str]) -> Iterable[str]:
    """Of what judges, or teaches."""
    kind = judges.answering(cell)
    if kind == "teacher" and cell.backend == "oracle" and cell.method in paper.privileged:
        return
    if cell.backend in SCRIPTED:
        yield f"{kind} {cell.model}, {cell.backend}"
    elif cell.backend == "external":
        yield "runs logged elsewhere"
    elif cell.backend:
        if cell.model not in models:
            yield f"model {cell.model}"
        yield "prompts of our own"
