"""The claims of a study beside its runs: the numbers about which each claim speaks, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from guidebench.harness.claims import Claim, Claims, ClaimScore, Row, claim_score, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.statistics import Sample, evaluation_weights, joined, trends
from guidebench.harness.statistics.verdicts import ClaimScores, Pair, Verdict, verdicts
from guidebench.reports.summary import scoring
from guidebench.reports.summary.records import value_of
from guidebench.results import CellRecord
from guidebench.results.claims import ClaimedRow

if TYPE_CHECKING:
    import pandas as pd

EVALUATED = ("score", "success", "return")
"""Quantities that are columns of evaluation records; every other one is an outcome."""
Look = Literal["none", "first", "all"]
Records = Callable[[str], "pd.DataFrame"]
"""Function from the name of a log, `evaluations` or `outcomes`, to its records of the claims' cells."""


class TestedClaim(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    statement: str
    """The claim in words."""
    verdict: Verdict | None
    note: str
    """Why there is no verdict; "" if there is one."""


class ClaimedStudy(NamedTuple):
    """What the runs of a study say of its claims."""

    record: Claims
    rows: Mapping[str, ClaimedRow]
    """Row, its words joined by a space -> its cells and seeds."""
    look: Look
    """The runs that were tested: none, those of the first of two looks, or all."""
    seeds: tuple[int, ...]
    """The seeds that were tested."""
    claims: tuple[TestedClaim, ...]

    @property
    def cells(self) -> tuple[CellRecord, ...]:
        return tuple({cell.id: cell for row in self.rows.values() for cell in row.cells}.values())


def judged(record: Claims, rows: Mapping[str, ClaimedRow], records: Records) -> ClaimedStudy:
    """Return the verdicts on the claims of a study: after all of its runs, or after the first of two looks if those of
    that look have finished. A claim whose numbers are missing has a note instead."""
    missing = {seed for row in rows.values() for seed in row.missing}
    look, seeds = _look(record, missing)
    scores: list[ClaimScores] = []
    notes: list[str] = []
    for claim in record.claims:
        note, numbers, bounds = "not tested yet" if look == "none" else "", None, (-np.inf, np.inf)
        if look != "none":
            try:
                numbers, bounds = _scores(claim, rows, records, seeds)
            except UserError as error:
                note = str(error)
        notes.append(note)
        scores.append(ClaimScores(numbers, 1 if claim.direction == "higher" else -1, claim.primary, bounds))
    claim_verdicts = verdicts(scores, record.level, record.delta)
    return ClaimedStudy(
        record, rows, look, seeds,
        tuple(
            TestedClaim(claim, statement(claim), verdict, note)
            for claim, verdict, note in zip(record.claims, claim_verdicts, notes, strict=True)
        ),
    )  # fmt: skip


def _look(record: Claims, missing: set[int]) -> tuple[Look, tuple[int, ...]]:
    if not missing:
        return "all", record.seeds
    if record.looks > 1 and not missing & {*record.first_look}:
        return "first", record.first_look
    return "none", ()


def statement(claim: Claim) -> str:
    """Return a claim in words.

    >>> rows = ("method=vlm_rb",), ("method=uer",)
    >>> statement(Claim(*rows, None, "late success", "higher", True))
    'late success of vlm_rb exceeds that of uer'
    >>> statement(Claim(("method=vlm_rb", "replay.lambda_max=0,0.5"), None, None, "area success", "higher", False))
    'area success of vlm_rb rises with replay.lambda_max over 0, 0.5'
    """
    is_higher = claim.direction == "higher"
    if claim.second is not None:
        verb = "exceeds" if is_higher else "is below"
        return f"{claim.score} of {row_name(claim.first)} {verb} that of {row_name(claim.second)}"
    swept = [word for word in claim.first if "," in word]
    rest = row_name(tuple(word for word in claim.first if word not in swept))
    over = "; ".join(
        f"{name} over {', '.join(texts.split(','))}" for name, _, texts in (w.partition("=") for w in swept)
    )
    verb = "rises" if is_higher else "falls"
    return f"{claim.score}{f' of {rest}' if rest else ''} {verb} with {over or 'the values of its sweep'}"


def row_name(row: Row) -> str:
    """Return the words of a row, without the name of the setting `method`."""
    return ", ".join(word.removeprefix("method=") for word in row)


def _scores(
    claim: Claim, rows: Mapping[str, ClaimedRow], records: Records, seeds: Sequence[int]
) -> tuple[Pair | trends.Changes, tuple[float, float]]:
    """Return the numbers of a claim's rows, with the least and the greatest possible difference. Raise UserError for
    numbers that are missing or do not fit each other."""
    score = claim_score(claim.score)
    cells = {key_of(row): rows[key_of(row)].cells for row in claim.rows}
    bounds = _bounds(score, [cell for of in cells.values() for cell in of])

    def sample(of: Sequence[CellRecord]) -> Sample:
        return joined([_sample(cell, score, records, seeds) for cell in of])

    try:
        if claim.second is None:
            swept = cells[key_of(claim.first)]
            settings = _swept(claim.first, swept)
            return trends.changes(settings, [sample([cell]) for cell in swept]), bounds
        tasks = {row: sorted(cell.task_id for cell in of) for row, of in cells.items()}
        if len({tuple(names) for names in tasks.values()}) > 1:
            listed = "; ".join(f"{row}: {', '.join(names)}" for row, names in tasks.items())
            raise UserError(f"its rows have different tasks ({listed})")
        of_rows = [sample(sorted(of, key=lambda cell: cell.task_id)) for of in cells.values()]
        return Pair(*of_rows), bounds
    except ValueError as error:
        raise UserError(str(error)) from None


def _bounds(score: ClaimScore, cells: Sequence[CellRecord]) -> tuple[float, float]:
    """Return the least and the greatest difference of a score. Raise UserError if its tasks have different scores."""
    if score.quantity == "success":
        return -1.0, 1.0
    if len({cell.score for cell in cells}) > 1 and score.quantity == "score":
        names = ", ".join(sorted({scoring.title(cell.score) for cell in cells}))
        raise UserError(f"its tasks have different scores ({names}) or ranges of it; claim success or an outcome")
    if score.quantity in ("score", cells[0].score.name):
        return scoring.bounds(cells[0].score)
    return -np.inf, np.inf


def _sample(cell: CellRecord, score: ClaimScore, records: Records, seeds: Sequence[int]) -> Sample:
    """Return the numbers of a cell's runs, [seeds, 1], with the variances of their episodes. Raise UserError if a run
    has none, or evaluations at other steps than the other runs."""
    numbers = _numbers(cell, score.quantity, records, seeds)
    table = numbers.groupby(["seed", "step"])["number"].agg(["mean", "var", "size"])
    means = table["mean"].unstack("step").reindex([*seeds])
    if means.isna().any(axis=None):
        lacking = ", ".join(str(seed) for seed in means.index[means.isna().any(axis=1)])
        raise UserError(
            f"{cell.task_id}, {cell.label}: the evaluations of seed {lacking} have no {score.quantity} at steps at "
            f"which other seeds have it"
        )
    weights = evaluation_weights(score.timing, means.columns.to_numpy())
    counts = table["size"].unstack("step").reindex([*seeds]).to_numpy(float)
    variances = table["var"].unstack("step").reindex([*seeds]).to_numpy(float) / counts
    used = weights > 0
    is_rate = score.quantity == "success" or (score.quantity == "score" and cell.score.name == "success")
    return Sample(
        (means.to_numpy(float) @ weights)[:, None],
        (variances[:, used] @ weights[used] ** 2)[:, None],
        counts[:, -1:] if is_rate and score.timing == "final" else None,
    )


def _numbers(cell: CellRecord, quantity: str, records: Records, seeds: Sequence[int]) -> pd.DataFrame:
    """Return seed, step and number of each evaluation episode of a cell's runs. Raise UserError if there are none."""
    column = "score" if quantity == cell.score.name else quantity
    log = "evaluations" if column in EVALUATED else "outcomes"
    rows = records(log)
    rows = rows[(rows["cell"] == cell.id) & rows["seed"].isin(seeds)]
    if log == "outcomes":
        names = sorted(map(str, rows["outcome"].unique()))
        rows, column = rows[rows["outcome"] == quantity], "value"
        if rows.empty:
            outcomes = f"its outcomes are {', '.join(names)}" if names else "it has none"
            raise UserError(
                f"{cell.task_id}, {cell.label}: no evaluation has the outcome {quantity!r} ({outcomes}); a claim may "
                f"also name {', '.join(EVALUATED)}"
            )
    return rows[["seed", "step"]].assign(number=rows[column].astype(float))


def _swept(row: Row, cells: Sequence[CellRecord]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the value of the swept setting in each cell. Raise UserError unless the cells differ in one number."""
    if len({cell.task_id for cell in cells}) > 1:
        raise UserError("a trend is tested on one task; claim one for each task")
    by_name = {name: [value_of(cell.settings.get(name)) for cell in cells] for name in cells[0].settings}
    differing = {name: of for name, of in by_name.items() if len(set(map(str, of))) > 1}
    typed = {word.partition("=")[0] for word in row}
    swept = {name: of for name, of in differing.items() if name in typed} or differing
    if len(swept) != 1:
        raise UserError(
            f"a trend needs one setting that differs between its cells; {key_of(row)!r} has "
            f"{', '.join(swept) or 'none'}"
        )
    name, numbers = next(iter(swept.items()))
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise UserError(f"a trend needs numbers; {name} has {', '.join(map(str, numbers))}")
    return np.array(numbers, float)
