"""What foundation models were asked and what that cost, per label and task: from the rows `ledger` that runs wrote.

Hand-written models, oracles and persons are left out: they cost nothing, and the times of judges stand with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import results
from harness.records import schema
from reports import judges
from results import Cell, Study

REMARK = (
    "Sums over runs, as if no answer had come from a cassette; billed: what was really asked of the model for what the "
    "runs used. What crashes lost, and the clips of probes, stand in the study's cassette alone (bench models stats)."
)


class Spent(NamedTuple):
    """One label on one task, summed over its runs."""

    label: str
    where: str
    model: str
    runs: int
    failures: int
    """Questions without a usable answer."""
    calls: int
    tokens_in: int
    tokens_out: int
    images: int
    seconds: float
    usd: float
    billed_calls: int
    billed_tokens_in: int
    billed_tokens_out: int
    billed_images: int
    billed_seconds: float
    billed_usd: float


def is_billed(cell: Cell) -> bool:
    """Whether a foundation model is among what a cell asks."""
    return bool(set(cell.backend.split("+")) - {"", *judges.KINDS})


def spent(study: Study, labels: Mapping[str, str]) -> list[Spent]:
    """One entry per cell that asks a foundation model and has a row of some run; `labels`: cell id -> row label."""
    cells = [cell for cell in study.cells if is_billed(cell)]
    if not cells:
        return []
    rows = results.load(study, what="ledger")
    found = []
    for cell in cells:
        last = rows[rows["cell"] == cell.id].sort_values("step").groupby("seed").tail(1)
        if not last.empty:
            sums = {name: kind(last[name].sum()) for name, kind in schema.LEDGER.items()}
            label = labels.get(cell.id, cell.label)
            model = f"{cell.model} ({cell.backend})"
            found.append(Spent(label, f"{cell.suite}/{cell.task}", model, len(last), **sums))
    return found
