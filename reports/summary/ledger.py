"""Questions to foundation models and their cost, per label and task, from the records `ledger` of runs.

Hand-written models, oracles and persons are left out: they cost nothing, and `judges` reports the times of judges.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError, count
from guidebench.harness.parts import TEXT
from guidebench.harness.records import role_counts, schema
from guidebench.harness.records.parts import RecordedPart
from guidebench.harness.records.role_counts import RoleCount
from guidebench.reports.summary import judges
from guidebench.reports.summary.listings import Listing, maybe
from guidebench.results import CellRecord, StageRecord, StudyRecord

if TYPE_CHECKING:
    import pandas as pd

REMARK = (
    "Sums over runs, as if no answer had come from a cassette; billed: every call that was really sent for the runs' "
    "questions, those included whose answers were lost when a run was stopped or killed. The first call to each model, "
    "before training, and the clips of probes are in neither; bench models stats counts them apart. Read at first: "
    "share of the questions whose first reply could be read; in all: after retries and repairs too. As text: what the "
    "row of the same task, method, role and model has whose chat answers in text; not asked: the study has none."
)


NO_COUNT = RoleCount(0, 0)


def _share(tally: RoleCount) -> str:
    """Return the share of questions with an answer that took no retry, or "—" where it is unknown.

    >>> _share(RoleCount(8, 2, retried=2)), _share(RoleCount(8, 2))
    ('50.0 %', '—')
    """
    if tally.retried is None or not tally.questions:
        return "—"
    return f"{100 * (tally.questions - tally.failures - tally.retried) / tally.questions:.1f} %"


class Spent(NamedTuple):
    """Calls to one model and their cost, for one row, summed over its runs."""

    label: str
    task_id: str
    model: str
    runs: int
    failures: int
    """Questions without a usable answer, those that a fallback stands for included."""
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
    answers: str = ""
    """Form of a chat's answers: text, schema or choice; "" for several roles and for models that are no chats."""
    readable: RoleCount = NO_COUNT
    """Questions, those without a usable answer, and those whose answer came after one that could not be read."""
    as_text: RoleCount = NO_COUNT
    """The same of the row of this task, method, role and model whose chat answers in text, where this one does not; no
    question without such a row."""

    @property
    def shares(self) -> tuple[str, str, str]:
        """Return the shares of questions whose first reply could be read, of those answered after retries too, and of
        those whose first reply could be read as text, in words; "—" where records lack them."""
        lacks_text = self.answers not in ("", TEXT) and not self.as_text.questions
        first = "not asked" if lacks_text else _share(self.as_text)
        return _share(self.readable), _share(self.readable._replace(retried=0)), first


def is_billed(cell: CellRecord) -> bool:
    """Return whether a cell asks a foundation model itself, not only in a pre-training stage."""
    backends = {part.backend for part in cell.parts.values()} if cell.parts else set(cell.backend.split("+"))
    return bool(backends - {"", *judges.KINDS})


def asks(stage: StageRecord) -> bool:
    """Return whether a pre-training stage asks a foundation model."""
    return bool({part.backend for part in stage.parts.values()} - {"", *judges.KINDS})


class Answered(NamedTuple):
    """The number of a cell's finished questions to models, over its runs, and of those without a usable answer."""

    questions: int
    failures: int
    unread: str = ""
    """The error in the ledger's file, because of which the numbers are unknown; else ""."""
    roles: tuple[tuple[str, RoleCount], ...] = ()
    """The numbers of each role that a foundation model fills, stages included; () where records lack them."""
    remarks: tuple[str, ...] = ()
    """What asking parts say of a run with too few answers, such as `routed without scores`."""

    def plus(self, other: Answered) -> Answered:
        """Return the sum of these numbers and those of another cell, such as of a stage and of the cell that begins
        from it."""
        return Answered(
            self.questions + other.questions, self.failures + other.failures, self.unread or other.unread,
            self.roles + other.roles, tuple(dict.fromkeys(self.remarks + other.remarks)),
        )  # fmt: skip

    @property
    def share(self) -> float:
        return 1 - self.failures / self.questions if self.questions else 1.0

    @property
    def enough(self) -> bool:
        """Return whether a row with this cell may be ranked and marked as leading: whether nine in ten of all
        questions, and of those in each role, were answered, and no part remarks otherwise."""
        return not (self.unread or self.remarks or self.short) and role_counts.enough(self.questions, self.failures)

    @property
    def short(self) -> list[tuple[str, RoleCount]]:
        """Return the roles in which too few questions were answered."""
        return [(role, tally) for role, tally in self.roles if not role_counts.enough(tally.questions, tally.failures)]

    def __str__(self) -> str:
        if self.unread:
            return f"how many questions to models got no answer cannot be read: {self.unread}"
        counted = f"{self.failures:,} of {count(self.questions, 'question')}"
        texts = [f"{counted} to models got no answer ({100 * self.failures / max(1, self.questions):.1f} %)"]
        if len(self.roles) > 1 and (short := self.short):
            texts.append(", ".join(f"{tally.failures:,} of {tally.questions:,} as {role}" for role, tally in short))
        return "; ".join([*self.remarks, *texts])


def by_role(
    texts: Iterable[Any], parts: Mapping[str, RecordedPart]
) -> tuple[tuple[tuple[str, RoleCount], ...], tuple[str, ...]]:
    """Return the questions of runs in each role that a foundation model fills, and the remarks of asking parts on the
    runs. `texts`: last value of each run's column `roles`; `parts`: role -> part of the cell. Raise ValueError for an
    invalid value."""
    sums: dict[str, RoleCount] = {}
    remarks: dict[str, None] = {}
    for text in texts:
        for role, tally in role_counts.read(text).items():
            remarks |= dict.fromkeys([tally.remark] if tally.remark else [])
            if parts and (role not in parts or parts[role].backend in ("", *judges.KINDS)):
                continue
            sums[role] = sums.get(role, RoleCount(0, 0, retried=0)).plus(tally)
    return tuple(sums.items()), tuple(remarks)


def answered(study: StudyRecord) -> dict[str, Answered]:
    """Return cell id -> the numbers of its questions and of those of its stages in the study, for cells that ask a
    foundation model and whose runs counted them. An unreadable ledger affects only its own cell and those that begin
    from it."""
    by_cell = _of_cells(study)
    totals = dict(by_cell)
    for cell in study.cells:
        if parts := [by_cell[id] for id in (*(stage.id for stage in cell.stages), cell.id) if id in by_cell]:
            totals[cell.id] = functools.reduce(Answered.plus, parts)
    return totals


def _of_cells(study: StudyRecord) -> dict[str, Answered]:
    """Return cell id -> the numbers of its own questions, without those of stages."""
    asking_study = results.select(study, is_billed)
    try:
        return _answered(asking_study)
    except UserError as error:
        if len(asking_study.cells) > 1:
            single_studies = (
                results.select(asking_study, functools.partial(operator.eq, cell)) for cell in asking_study.cells
            )
            return {id: answers for part in single_studies for id, answers in _of_cells(part).items()}
        return {asking_study.cells[0].id: Answered(0, 0, str(error))}


def _answered(study: StudyRecord) -> dict[str, Answered]:
    rows = results.load(study, log="ledger") if study.cells else None
    if rows is None or "questions" not in rows:
        return {}
    last = rows[rows["questions"].notna()].sort_values("step").groupby(["cell", "seed"]).tail(1)
    parts = {cell.id: cell.parts for cell in study.cells}
    by_cell = {}
    for cell, cell_rows in last.groupby("cell"):
        texts = cell_rows.get(schema.ROLES, ())
        try:
            roles, remarks = by_role(texts, parts[str(cell)])
        except ValueError as error:
            raise UserError(
                f"{study.directory}: a ledger's column {schema.ROLES!r}: {error}; restore the file"
            ) from None
        sums = int(cell_rows["questions"].sum()), int(cell_rows["failures"].sum())
        by_cell[str(cell)] = Answered(*sums, roles=roles, remarks=remarks)
    return by_cell


def spent(
    cells: Iterable[CellRecord], rows: pd.DataFrame, spending: pd.DataFrame, labels: Mapping[str, str]
) -> list[Spent]:
    """Return the cost of each cell that asks a foundation model, followed by that of each role for a cell that asks in
    several. `rows`: records of `ledger`; `spending`: records of `spending`; `labels`: cell id -> row label."""
    spendings: list[Spent] = []
    in_text: dict[tuple[str, ...], RoleCount] = {}
    places: list[tuple[str, ...]] = []

    def add(cell: CellRecord, model: str, last: pd.DataFrame, tallies: Mapping[str, RoleCount]) -> None:
        """Add the cost of the roles of `tallies` in the last records of runs."""
        answers = [_form(cell, role) for role in tallies]
        form = answers[0] if len(answers) == 1 else ""
        readable = functools.reduce(RoleCount.plus, tallies.values()) if tallies else NO_COUNT
        place = (cell.task_id, cell.method, *tallies, *(cell.parts[role].model for role in tallies if cell.parts))
        if form == TEXT:
            in_text[place] = in_text.get(place, RoleCount(0, 0, retried=0)).plus(readable)
        places.append(place)
        label = labels.get(cell.id, cell.label)
        spendings.append(Spent(label, cell.task_id, model, len(last), **_sums(last), answers=form, readable=readable))

    for cell in filter(is_billed, cells):
        last = rows[rows["cell"] == cell.id].sort_values("step").groupby("seed").tail(1)
        tallies = _tallies(last, cell)
        if not last.empty:
            add(cell, f"{cell.model} ({cell.backend})", last, tallies)
        cell_spending = spending[spending["cell"] == cell.id].sort_values("step")
        for role, role_rows in cell_spending.groupby("role") if not cell_spending.empty else ():
            part = cell.parts.get(str(role))
            model_text = f"{role}: {part.model} ({part.backend})" if part is not None else str(role)
            mine = {str(role): tallies[str(role)]} if str(role) in tallies else {}
            add(cell, model_text, role_rows.groupby("seed").tail(1), mine)
    return [
        spending if spending.answers in ("", TEXT) else spending._replace(as_text=in_text.get(place, NO_COUNT))
        for spending, place in zip(spendings, places, strict=True)
    ]


def _tallies(last: pd.DataFrame, cell: CellRecord) -> dict[str, RoleCount]:
    """Return role -> counts of its questions, from the last records of a cell's runs; {} where they cannot be read,
    which the table of rows reports."""
    try:
        return dict(by_role(last.get(schema.ROLES, ()), cell.parts)[0])
    except ValueError:
        return {}


def _form(cell: CellRecord, role: str) -> str:
    """Return the form of the answers of the chat in a role; "" of another model."""
    part = cell.parts.get(role)
    if part is None or part.kind != "chat":
        return ""
    return str(cell.settings.get(f"{role}.answer", {}).get("value", TEXT))


def _sums(last: pd.DataFrame) -> dict[str, Any]:
    return {name: kind(last[name].sum()) for name, kind in schema.LEDGER.items()}


def listings(spendings: Sequence[Spent]) -> list[Listing]:
    """Return tables of the calls to foundation models and their cost: one for the page, and one with fewer columns for
    the terminal; empty if there are none."""
    if not spendings:
        return []
    full = Listing(
        "Model calls and their cost",
        ("Task", "Model", "Answers", "Read at first", "Read in all", "As text, at first", "Calls", "Without answer",
         "Tokens in", "Tokens out", "Images", "Model's seconds", "USD",
         "Calls billed", "USD billed"),
        [
            (
                spending.label, spending.task_id, spending.model, spending.answers, *spending.shares,
                f"{spending.calls:,}", f"{spending.failures:,}", f"{spending.tokens_in:,}",
                f"{spending.tokens_out:,}", f"{spending.images:,}", maybe(spending.seconds, 1), maybe(spending.usd, 4),
                f"{spending.billed_calls:,}", maybe(spending.billed_usd, 4),
            )
            for spending in spendings
        ],
        on="page",
        words=3,
        note=REMARK,
    )  # fmt: skip
    brief = Listing(
        "model calls and their cost",
        ("model", "read\nfirst / all", "calls", "without\nanswer", "tokens\nin / out", "images", "model's\nseconds",
         "USD", "calls\nbilled", "USD\nbilled"),
        [
            (
                f"{spending.label} on {spending.task_id}", spending.model, " / ".join(spending.shares[:2]),
                f"{spending.calls:,}",
                f"{spending.failures:,}",
                f"{spending.tokens_in:,} / {spending.tokens_out:,}", f"{spending.images:,}", maybe(spending.seconds, 1),
                maybe(spending.usd, 4), f"{spending.billed_calls:,}", maybe(spending.billed_usd, 4),
            )
            for spending in spendings
        ],
        on="terminal",
    )  # fmt: skip
    return [full, brief]


def plain(spendings: Sequence[Spent]) -> list[dict[str, Any]]:
    """Return the costs as JSON data; the key of the task is `where`."""
    records = [spending._asdict() for spending in spendings]
    for record in records:
        for name in ("readable", "as_text"):
            record[name] = {key: number for key, number in record[name]._asdict().items() if key != "remark"}
    return [{"label": record.pop("label"), "where": record.pop("task_id"), **record} for record in records]
