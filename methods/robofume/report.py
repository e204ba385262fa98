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


class ErrorRates(NamedTuple):
    """How often a row's classifier was wrong on one task."""

    row: ReportRow
    label: str
    rates: dict[str, Interval]
    """Name of `RATES` -> the mean over runs; NaN where a run has no such state."""


def wrong(source: Source) -> list[ErrorRates]:
    """Return the error rates of the classifiers, one for each row that has the log `classified`."""
    rows = source.rows("classified", *COUNTS)
    error_rates = []
    for row in source.summary.rows:
        records = rows[rows["cell"] == row.cell.id]
        if not records.empty:
            runs = [of_run(run) for _, run in records.groupby("seed")]
            over = {name: np.array([run[name] for run in runs]) for name in RATES}
            rates = {name: grids.over_runs(shares, source.resamples, row.label) for name, shares in over.items()}
            error_rates.append(ErrorRates(row, row.label, rates))
    return error_rates


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `RATES` of one run, given its records of the log `classified`; NaN for a share of no
    states."""
    states, successes, positives, negatives, unanswered = (float(rows[name].sum()) for name in COUNTS)
    return {
        POSITIVE: _share(positives, states - successes),
        NEGATIVE: _share(negatives, successes),
        UNANSWERED: _share(unanswered, states),
    }


def _share(part: float, total: float) -> float:
    return part / total if total else float("nan")


def listings(error_rates: Sequence[ErrorRates]) -> list[Listing]:
    """Return a table for the page of how often each row's classifier was wrong."""
    lines = [
        (
            row_error_rates.label,
            row_error_rates.row.task_id,
            *(tables.spread(interval) for interval in row_error_rates.rates.values()),
        )
        for row_error_rates in sorted(error_rates, key=lambda row_error_rates: row_error_rates.row.task_id)
    ]
    return [Listing("The success classifier", ("task", *RATES), lines, on="page", words=1, note=NOTE)] if lines else []


def drawings(error_rates: Sequence[ErrorRates], source: Source) -> list[Drawing]:
    """Draw by task each row's success rate, and its classifier's rates over training."""
    rows, task_figures = source.rows("classified", *COUNTS), list[Drawing]()
    none = (rows["states"] - rows["successes"]).where(lambda count: count > 0)
    some = rows["successes"].where(lambda count: count > 0)
    shares = rows.assign(**{POSITIVE: rows["false_positives"] / none, NEGATIVE: rows["false_negatives"] / some})
    for task in dict.fromkeys(rates.row.task_id for rates in error_rates):
        task_rows = [rates.row for rates in error_rates if rates.row.task_id == task and rates.label in source.places]
        charts = [training.chart(figures.SUCCESS, [training.success(row, row.label) for row in task_rows], share=True)]
        for name in (POSITIVE, NEGATIVE):
            row_shares = [(row, shares[(shares["cell"] == row.cell.id) & shares[name].notna()]) for row in task_rows]
            curves = [
                training.binned(records, name, int(row.steps[-1]), row.label, source.resamples)
                for row, records in row_shares
                if not records.empty
            ]
            charts.append(training.chart(name, curves, share=True))
        file = figures.file_name("classifier", task, [figure.name for figure in task_figures])
        chart_figure = training.drawing(task, file, f"The success classifier's errors\n{task}", charts, source.places)
        task_figures += [chart_figure] if chart_figure else []
    return task_figures


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
