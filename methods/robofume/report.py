"""A section of the report: how often a success classifier was wrong, over training and in all (RoboFuME, KAGI)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import Section, Source, quantities, training
from guidebench.reports.sections.quantities import Quantities
from guidebench.reports.sections.training import SUCCESS_PANEL, Panel

if TYPE_CHECKING:
    import pandas as pd

POSITIVE, NEGATIVE, UNANSWERED = "false positives", "false negatives", "unanswered"
PANELS = (
    SUCCESS_PANEL,
    *(Panel(rate, {rate: ""}, "classified", bins=True, share=True) for rate in (POSITIVE, NEGATIVE)),
)
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


def wrong(source: Source) -> list[Quantities]:
    """Return the error rates of the classifiers, one row per cell that has the log `classified`."""
    return quantities.of_runs(source, source.rows("classified", *COUNTS), of_run)


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return the error rates of one run, given its records of the log `classified`; NaN for a share of no
    states."""
    states, successes, positives, negatives, unanswered = (float(rows[name].sum()) for name in COUNTS)
    return {
        POSITIVE: _share(positives, states - successes),
        NEGATIVE: _share(negatives, successes),
        UNANSWERED: _share(unanswered, states),
    }


def _share(part: float, total: float) -> float:
    return part / total if total else float("nan")


def drawings(error_rates: Sequence[Quantities], source: Source) -> list[Drawing]:
    """Draw by task each row's success rate, and its classifier's rates over training."""
    rows = source.rows("classified", *COUNTS)
    none = (rows["states"] - rows["successes"]).where(lambda count: count > 0)
    some = rows["successes"].where(lambda count: count > 0)
    shares = rows.assign(**{POSITIVE: rows["false_positives"] / none, NEGATIVE: rows["false_negatives"] / some})
    cells = {rates.log.cell.id for rates in error_rates}
    title = "The success classifier's errors"
    return training.beside(source, PANELS, {"classified": shares}, cells, "classifier", title)


SECTIONS = (
    Section(
        name="classifier",
        title="Errors of the success classifier",
        order=815,
        needs=("classified",),
        words=WORDS,
        load=wrong,
        listings=partial(quantities.listing, heading="The success classifier", note=NOTE),
        drawings=drawings,
    ),
)
"""RoboFuME's section of a report, also KAGI's."""
