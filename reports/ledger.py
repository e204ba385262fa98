"""What foundation models were asked and what that cost, per label and task: from the rows `ledger` that runs wrote.

Hand-written models, oracles and persons are left out: they cost nothing, and the times of judges stand with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from guidebench import results
from guidebench.harness.errors import count
from guidebench.harness.records import schema
from guidebench.reports import judges
from guidebench.results import Cell, Study

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


class Answered(NamedTuple):
    """How many of a cell's questions to models ended, over its runs, and how many without an answer."""

    questions: int
    failures: int

    @property
    def share(self) -> float:
        return 1 - self.failures / self.questions if self.questions else 1.0

    @property
    def enough(self) -> bool:
        """Whether a row of it may be ranked and marked as leading."""
        return self.share >= schema.ENOUGH_ANSWERED

    def __str__(self) -> str:
        counted = f"{self.failures:,} of {count(self.questions, 'question')}"
        return f"{counted} to models got no answer ({100 * self.failures / max(1, self.questions):.1f} %)"


def answered(study: Study) -> dict[str, Answered]:
    """Cell id -> its questions, of the cells that ask a foundation model and whose runs counted them."""
    cells = [cell for cell in study.cells if is_billed(cell)]
    rows = results.load(study, what="ledger") if cells else None
    if rows is None or "questions" not in rows:
        return {}
    last = rows[rows["questions"].notna()].sort_values("step").groupby(["cell", "seed"]).tail(1)
    sums = last.groupby("cell")[["questions", "failures"]].sum()
    wanted = {cell.id for cell in cells}
    return {
        str(cell): Answered(int(row["questions"]), int(row["failures"]))
        for cell, row in sums.iterrows()
        if cell in wanted
    }


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
