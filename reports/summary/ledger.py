"""Questions to foundation models and their cost, per label and task, from the records `ledger` of runs.

Hand-written models, oracles and persons are left out: they cost nothing, and `judges` reports the times of judges.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError, count
from guidebench.harness.records import schema
from guidebench.reports.summary import judges
from guidebench.reports.summary.listings import Listing, maybe
from guidebench.results import CellRecord, StageRecord, StudyRecord

if TYPE_CHECKING:
    import pandas as pd

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


def is_billed(cell: CellRecord) -> bool:
    """Return whether a cell asks a foundation model itself, not only in a pre-training stage."""
    own = {part.backend for part in cell.parts.values()} if cell.parts else set(cell.backend.split("+"))
    return bool(own - {"", *judges.KINDS})


def asks(stage: StageRecord) -> bool:
    """Return whether a pre-training stage asks a foundation model."""
    return bool({part.backend for part in stage.parts.values()} - {"", *judges.KINDS})


class Answered(NamedTuple):
    """The number of a cell's questions to models that are complete, over its runs, and of those without an answer."""

    questions: int
    failures: int
    unread: str = ""
    """Why the number is unknown: the error in the ledger's file."""

    @property
    def share(self) -> float:
        return 1 - self.failures / self.questions if self.questions else 1.0

    @property
    def enough(self) -> bool:
        """Return whether a row with this cell may be ranked and marked as leading."""
        return not self.unread and self.share >= schema.ENOUGH_ANSWERED

    def __str__(self) -> str:
        if self.unread:
            return f"how many questions to models got no answer cannot be read: {self.unread}"
        counted = f"{self.failures:,} of {count(self.questions, 'question')}"
        return f"{counted} to models got no answer ({100 * self.failures / max(1, self.questions):.1f} %)"


def answered(study: StudyRecord) -> dict[str, Answered]:
    """Return cell id -> its questions and those of its stages in the study, for cells that ask a foundation model and
    whose runs counted them. An unreadable ledger affects its own cell, and those that begin from it, only."""
    own = _of_cells(study)
    every = dict(own)
    for cell in study.cells:
        if found := [own[id] for id in (*(stage.id for stage in cell.stages), cell.id) if id in own]:
            every[cell.id] = Answered(
                sum(each.questions for each in found), sum(each.failures for each in found),
                next((each.unread for each in found if each.unread), ""),
            )  # fmt: skip
    return every


def _of_cells(study: StudyRecord) -> dict[str, Answered]:
    """Return cell id -> its own questions."""
    asking = results.select(study, is_billed)
    try:
        return _answered(asking)
    except UserError as error:
        if len(asking.cells) > 1:
            alone = (results.select(asking, partial(operator.eq, cell)) for cell in asking.cells)
            return {id: each for one in alone for id, each in _of_cells(one).items()}
        return {asking.cells[0].id: Answered(0, 0, str(error))}


def _answered(study: StudyRecord) -> dict[str, Answered]:
    rows = results.load(study, what="ledger") if study.cells else None
    if rows is None or "questions" not in rows:
        return {}
    last = rows[rows["questions"].notna()].sort_values("step").groupby(["cell", "seed"]).tail(1)
    sums = last.groupby("cell")[["questions", "failures"]].sum()
    return {str(cell): Answered(int(row["questions"]), int(row["failures"])) for cell, row in sums.iterrows()}


def spent(
    cells: Iterable[CellRecord], rows: pd.DataFrame, apart: pd.DataFrame, labels: Mapping[str, str]
) -> list[Spent]:
    """Return one entry per cell that asks a foundation model and has a record in `ledger`, followed by one for each
    role of a cell that asks in several. `apart`: records of `spending`; `labels`: cell id -> row label."""
    found = []
    for cell in filter(is_billed, cells):
        label, where = labels.get(cell.id, cell.label), f"{cell.suite}/{cell.task}"
        last = rows[rows["cell"] == cell.id].sort_values("step").groupby("seed").tail(1)
        if not last.empty:
            found.append(Spent(label, where, f"{cell.model} ({cell.backend})", len(last), **_sums(last)))
        mine = apart[apart["cell"] == cell.id].sort_values("step")
        for role, own in mine.groupby("role") if not mine.empty else ():
            part = cell.parts.get(str(role))
            named = f"{role}: {part.model} ({part.backend})" if part is not None else str(role)
            last = own.groupby("seed").tail(1)
            found.append(Spent(label, where, named, len(last), **_sums(last)))
    return found


def _sums(last: pd.DataFrame) -> dict[str, Any]:
    return {name: kind(last[name].sum()) for name, kind in schema.LEDGER.items()}


def listings(found: Sequence[Spent]) -> list[Listing]:
    """Return a table of questions to foundation models and their cost, with fewer columns on the terminal; nothing if
    none was asked."""
    if not found:
        return []
    whole = Listing(
        "Model calls and their cost",
        ("Task", "Model", "Calls", "Without answer", "Tokens in", "Tokens out", "Images", "Model's seconds", "USD",
         "Calls billed", "USD billed"),
        [
            (
                each.label, each.where, each.model, f"{each.calls:,}", f"{each.failures:,}", f"{each.tokens_in:,}",
                f"{each.tokens_out:,}", f"{each.images:,}", maybe(each.seconds, 1), maybe(each.usd, 4),
                f"{each.billed_calls:,}", maybe(each.billed_usd, 4),
            )
            for each in found
        ],
        on="page",
        words=2,
        note=REMARK,
    )  # fmt: skip
    brief = Listing(
        "model calls and their cost",
        ("model", "calls", "without\nanswer", "tokens\nin / out", "images", "model's\nseconds", "USD",
         "calls\nbilled", "USD\nbilled"),
        [
            (
                f"{each.label} on {each.where}", each.model, f"{each.calls:,}", f"{each.failures:,}",
                f"{each.tokens_in:,} / {each.tokens_out:,}", f"{each.images:,}", maybe(each.seconds, 1),
                maybe(each.usd, 4), f"{each.billed_calls:,}", maybe(each.billed_usd, 4),
            )
            for each in found
        ],
        on="terminal",
    )  # fmt: skip
    return [whole, brief]
