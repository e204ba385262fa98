"""The claims of a study, written down before its runs, and what the runs say of each: first in its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench import results
from guidebench.harness.claims import key_of
from guidebench.harness.errors import count
from guidebench.harness.statistics import Interval
from guidebench.harness.statistics.verdicts import Verdict
from guidebench.reports.rendering import tables as formats
from guidebench.reports.sections import Source
from guidebench.reports.summary import claims, export, judges, scoring
from guidebench.reports.summary.claims import ClaimedStudy, TestedClaim, row_name
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listing
from guidebench.results.claims import ClaimedRow, claimed_rows

if TYPE_CHECKING:
    import pandas as pd

INSTRUMENT = (
    "Hand-written models answer here: this study shows whether the instrument tells methods apart, and supports or "
    "contradicts no paper."
)
EXPLORATORY = "Only these claims were written down before the runs; everything else in this report is exploratory."
SCORES = (
    "Area: mean height of the curve over training. Final: the last evaluation. Late: mean of the last three. "
    "p: exact unpaired permutation test, two-sided; a claim is shown if p is below its level."
)
LISTED = 6
"""Most seeds that a sentence lists."""


def load(source: Source) -> ClaimedStudy | None:
    """Return what the runs of a study say of its claims; None for a study without claims."""
    study = source.unbounded[0] if source.unbounded else source.study
    if study.claims is None:
        return None
    of_rows = claimed_rows(study, study.claims)
    ids = {cell for cells in study.claims.rows.values() for cell in cells}
    is_shown = ids <= {cell.id for cell in source.study.cells}
    claimed_cells = results.select(study, lambda cell: cell.id in ids)

    def records(log: str) -> pd.DataFrame:
        return source.rows(log) if is_shown else results.load(claimed_cells, log=log)

    return claims.judged(study.claims.content, of_rows, records)


def remarks(claimed: ClaimedStudy | None) -> list[str]:
    """Return the paragraphs above the claims: what they rest on, and what is missing."""
    if claimed is None:
        return []
    record = claimed.record
    names = {key_of(row): row_name(row) for row in record.rows}
    is_scripted = any(part.backend in judges.INSTRUMENTS for cell in claimed.cells for part in cell.answering)
    primary = sum(claim.primary for claim in record.claims)
    looks = "one look at the runs"
    if record.looks > 1:
        looks = f"two looks, after {len(record.first_look)} and after {record.n} seeds"
    level = f"each at the level {record.level:g}" if record.looks > 1 else f"at the level {record.level:g}"
    hard = f"Difficulty {record.difficulty}. " if record.difficulty else ""
    corrected = f"{count(primary, 'primary claim')}, {'each ' * (primary > 1)}at {record.level / primary:.3g}"
    if primary < len(record.claims):
        corrected += ", and the secondary ones by Holm's method"
    design = (
        f"{hard}{record.n} seeds a row; made to find a difference δ of {record.delta:g}, with a deviation σ of at "
        f"most {record.sigma:g} between seeds; {looks}, {level}; {corrected}."
    )
    strangers = [f"{names[row]}: {_listed(of.strangers)}" for row, of in claimed.rows.items() if of.strangers]
    drawn = f"The seeds follow from the claims (digest {record.digest[:12]})"
    seeds = f"{drawn}, and the runs of these rows have no others."
    if strangers:
        seeds = f"{drawn}. Seeds that do not, and are left out of the tests: {'; '.join(strangers)}."
    paragraphs = [INSTRUMENT] if is_scripted else []
    paragraphs += [design, seeds, _tuning(claimed), *_missing(claimed, names), f"{EXPLORATORY} {SCORES}"]
    return [text for text in paragraphs if text]


def _tuning(claimed: ClaimedStudy) -> str:
    """Return how many runs tuned each row."""
    tuning = claimed.record.tuning
    if tuning is None:
        return "No row was tuned."
    tuned = [
        f"{row_name(tuple(name.split()))} ({len(grid)} settings, of which {', '.join(tuning.chosen[name])} did best)"
        if name in tuning.chosen
        else f"{row_name(tuple(name.split()))} ({len(grid)} settings)"
        for name, grid in tuning.grids.items()
    ]
    return (
        f"{count(tuning.runs, 'run')} tuned each of {', '.join(tuned)}, by {tuning.score} on "
        f"{count(tuning.seeds, 'seed')} that the study does not use; other rows were not tuned."
    )


def _missing(claimed: ClaimedStudy, names: dict[str, str]) -> list[str]:
    """Return which runs are missing, and what is tested without them."""
    lacking = [f"{names[row]}: {_states(of, claimed.record.n)}" for row, of in claimed.rows.items() if of.missing]
    if not lacking:
        return []
    tested = "no claim is tested before all runs of the study are finished"
    if claimed.record.looks > 1:
        tested = "no claim is tested before the runs of the first look are finished"
    if claimed.look == "first":
        tested = f"the verdicts below are those of the first look, at {len(claimed.seeds)} seeds"
    return [f"The study is not complete, so {tested}. Missing: {'; '.join(lacking)}."]


def _states(of: ClaimedRow, n: int) -> str:
    states = dict.fromkeys(of.missing.values())
    groups = (f"{state} {_listed([seed for seed, its in of.missing.items() if its == state])}" for state in states)
    return f"{len(of.missing)} of {n} seeds ({'; '.join(groups)})"


def _listed(seeds: Sequence[int]) -> str:
    numbers = ", ".join(map(str, seeds[:LISTED]))
    return numbers if len(seeds) <= LISTED else f"{numbers} and {len(seeds) - LISTED} more"


def listings(claimed: ClaimedStudy | None) -> list[Listing]:
    """Return the table of claims and their verdicts."""
    if claimed is None:
        return []
    lines = []
    for number, tested in enumerate(claimed.claims, 1):
        kind = "" if tested.claim.primary else " (secondary)"
        lines.append((f"{number}. {tested.statement}{kind}", *_cells(tested, claimed.record.delta)))
    columns = ("verdict", "difference", "p", "level", "from its placebo")
    return [Listing("Claims and their verdicts", columns, lines, words=1, subject="claim")]


def _cells(tested: TestedClaim, delta: float) -> tuple[str, ...]:
    verdict = tested.verdict
    if verdict is None:
        return (tested.note, "—", "—", "—", "—")
    digits = _digits(verdict)
    placebo = "—"
    if verdict.placebo is not None:
        placebo = f"{formats.spread(verdict.placebo.difference, digits)}, p {formats.p_value(verdict.placebo.p)}"
    return (
        finding(verdict, delta),
        formats.spread(verdict.contrast.difference, digits),
        formats.p_value(verdict.contrast.p),
        f"{verdict.error:.3g}",
        placebo,
    )


def finding(verdict: Verdict, delta: float) -> str:
    """Return a verdict in words."""
    if verdict.finding != "no difference of δ":
        return verdict.finding
    low, high = (formats.number(end, _digits(verdict)) for end in verdict.equivalence[1:])
    return f"no difference of {delta:g} ({100 * (1 - 2 * verdict.error):.3g} % interval [{low}, {high}])"


def _digits(verdict: Verdict) -> int:
    contrasts = [verdict.contrast, *([] if verdict.placebo is None else [verdict.placebo])]
    return scoring.digits(contrast.difference for contrast in contrasts)


def tables(claimed: ClaimedStudy | None) -> list[Grid]:
    """Return the numbers of the claims that have verdicts, for LaTeX."""
    if claimed is None or not (verdicts := [tested for tested in claimed.claims if tested.verdict]):
        return []
    names = ("difference", "p", "level", "from its placebo", "p beside its placebo")
    lines = {f"{tested.statement}: {tested.verdict.finding}": _estimates(tested.verdict) for tested in verdicts
             if tested.verdict}  # fmt: skip
    note = f"δ = {claimed.record.delta:g}, {len(claimed.seeds)} seeds a row."
    brackets = "the interval of differences that the exact test does not reject at the claim's level"
    digits = {"p": 4, "level": 4, "p beside its placebo": 4}
    return [Grid("Claims", names, lines, note, digits, on="latex", brackets=brackets)]


def _estimates(verdict: Verdict) -> tuple[Interval, ...]:
    placebo = verdict.placebo
    nothing = _point(np.nan)
    return (
        verdict.contrast.difference,
        _point(verdict.contrast.p),
        _point(verdict.error),
        nothing if placebo is None else placebo.difference,
        nothing if placebo is None else _point(placebo.p),
    )


def _point(number: float) -> Interval:
    return Interval(np.asarray(number), np.asarray(np.nan), np.asarray(np.nan))


def plain(claimed: ClaimedStudy | None) -> dict[str, Any] | None:
    """Return the claims and their verdicts as JSON data; None for a study without claims."""
    if claimed is None:
        return None
    record = claimed.record
    return {
        "digest": record.digest,
        "difficulty": record.difficulty,
        "settings": list(record.settings),
        "n": record.n,
        "delta": record.delta,
        "sigma": record.sigma,
        "alpha": record.alpha,
        "looks": record.looks,
        "level": record.level,
        "tuning_runs": 0 if record.tuning is None else record.tuning.runs,
        "tuned_rows": [] if record.tuning is None else list(record.tuning.grids),
        "look": claimed.look,
        "seeds": list(claimed.seeds),
        "rows": [
            {
                "row": row,
                "cells": [cell.id for cell in of.cells],
                "missing": [{"seed": seed, "status": status} for seed, status in of.missing.items()],
                "other_seeds": list(of.strangers),
            }
            for row, of in claimed.rows.items()
        ],
        "claims": [
            {
                "statement": tested.statement,
                "first": key_of(tested.claim.first),
                "second": tested.claim.second and key_of(tested.claim.second),
                "placebo": tested.claim.placebo and key_of(tested.claim.placebo),
                "score": tested.claim.score,
                "direction": tested.claim.direction,
                "primary": tested.claim.primary,
                "verdict": _verdict(tested.verdict, record.delta),
                "note": tested.note,
            }
            for tested in claimed.claims
        ],
    }


def _verdict(verdict: Verdict | None, delta: float) -> dict[str, Any] | None:
    if verdict is None:
        return None
    placebo = verdict.placebo
    return {
        "finding": verdict.finding.replace("δ", f"{delta:g}"),
        "difference": export.spread(verdict.contrast.difference),
        "p": export.number(verdict.contrast.p),
        "level": verdict.error,
        "equivalence": export.spread(verdict.equivalence),
        "from_placebo": None if placebo is None else export.spread(placebo.difference),
        "p_of_placebo": None if placebo is None else export.number(placebo.p),
        "differs_from_placebo": verdict.differs_from_placebo,
    }
