"""A section of the report: how often a success classifier was wrong, over training and in all (RoboFuME, KAGI)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures, tables
from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import Section, Source, training
from guidebench.reports.summary import grids
from guidebench.reports.summary.listings import Listing

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.summary.rows import ReportRow

POSITIVE, NEGATIVE, UNANSWERED = "false positives", "false negatives", "unanswered"
RATES = (POSITIVE, NEGATIVE, UNANSWERED)
COUNTS = ("states", "successes", "false_positives", "false_negatives", "unanswered")
"""Columns of the log `classified` that are read."""
NOTE = (
    "Means over runs of the shares in all judged states of a run: of states without success, those that were called "
    "one; of successes, those that were not; and of all states, those without a usable answer, which count as no "
    "success. A dash where a run has no such state."
)
WORDS = (
    "Below the success rate: the share of judged states without success that the classifier called a success, and the "
    f"share of successes that it did not, over parts of training. {training.REMARK}"
)


class Wrong(NamedTuple):
    """How often a row's classifier was wrong on one task."""

    row: ReportRow
    label: str
    rates: dict[str, Interval]
    """Name of `RATES` -> the mean over runs; NaN where a run has no such state."""


def wrong(source: Source) -> list[Wrong]:
    """Return the classifiers' rates, one entry per row with the log."""
    rows = source.rows("classified", *COUNTS)
    found = []
    for row in source.summary.rows:
        mine = rows[rows["cell"] == row.cell.id]
        if not mine.empty:
            runs = [of_run(each) for _, each in mine.groupby("seed")]
            over = {name: np.array([run[name] for run in runs]) for name in RATES}
            rates = {name: grids.over_runs(values, source.resamples, row.label) for name, values in over.items()}
            found.append(Wrong(row, row.label, rates))
    return found


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return `RATES` of one run's records `classified`; NaN for shares of no state."""
    states, successes, positives, negatives, unanswered = (float(rows[name].sum()) for name in COUNTS)
    return {
        POSITIVE: _share(positives, states - successes),
        NEGATIVE: _share(negatives, successes),
        UNANSWERED: _share(unanswered, states),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def listings(found: Sequence[Wrong]) -> list[Listing]:
    """Return a table for the page of how often each row's classifier was wrong."""
    lines = [
        (each.label, each.row.task_id, *(tables.spread(value) for value in each.rates.values()))
        for each in sorted(found, key=lambda each: each.row.task_id)
    ]
    return [Listing("The success classifier", ("task", *RATES), lines, on="page", words=1, note=NOTE)] if lines else []


def drawings(found: Sequence[Wrong], source: Source) -> list[Drawing]:
    """Draw by task each row's success rate, and its classifier's rates over training."""
    rows, drawn = source.rows("classified", *COUNTS), list[Drawing]()
    none = (rows["states"] - rows["successes"]).where(lambda count: count > 0)
    some = rows["successes"].where(lambda count: count > 0)
    shares = rows.assign(**{POSITIVE: rows["false_positives"] / none, NEGATIVE: rows["false_negatives"] / some})
    for where in dict.fromkeys(each.row.task_id for each in found):
        here = [each.row for each in found if each.row.task_id == where and each.label in source.places]
        charts = [training.chart(figures.SUCCESS, [training.success(row, row.label) for row in here], share=True)]
        for name in (POSITIVE, NEGATIVE):
            known = [(row, shares[(shares["cell"] == row.cell.id) & shares[name].notna()]) for row in here]
            curves = [
                training.binned(mine, name, int(row.steps[-1]), row.label, source.resamples)
                for row, mine in known
                if not mine.empty
            ]
            charts.append(training.chart(name, curves, share=True))
        file = figures.file_name("classifier", where, [each.name for each in drawn])
        made = training.drawing(where, file, f"The success classifier's errors\n{where}", charts, source.places)
        drawn += [made] if made else []
    return drawn


SECTIONS = (
    Section(
        name="classifier",
        title="Errors of the success classifier",
        order=815,
        needs=("classified",),
        words=WORDS,
        load=wrong,
        listings=listings,
        drawings=drawings,
    ),
)
"""RoboFuME's section of a report, also KAGI's."""
