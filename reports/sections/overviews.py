"""Figures that compare methods over tasks, with rliable's conventions (Agarwal et al. 2021).

A suite with several tasks has the IQM over training, performance profiles, probability of improvement and ranks. A
single task has only the probability of improvement, since its learning curves and table show the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Cells, Chart, Curve, Drawing
from guidebench.reports.rendering.legends import PAIRS
from guidebench.reports.summary import scoring
from guidebench.reports.summary.aggregates import Overview, Scores

if TYPE_CHECKING:
    import pandas as pd

REMARK = (
    "Probability of improvement: how often a run of the row ends better than one of the column on the same task, ties "
    "counted half, in percent, and below it the 95 % bootstrap interval; bold where the mean final score of the two "
    f"differs ({PAIRS}). Over several tasks also: the IQM of the score over training; the share of runs whose final "
    "score is above each value (higher is better); how often a run has each rank on a task (1 is best, ties share "
    "ranks). Bands are pointwise 95 % bootstrap intervals, stratified by task."
)
IMPROVEMENT = "probability of improvement, %"
RANKS = "share of runs with each rank, %"
MOST = 10
"""Most rows of a matrix of percentages at a column's width."""


def drawings(overviews: Sequence[Overview], places: Mapping[str, int]) -> list[Drawing]:
    """Draw up to four figures per overview, without matrices of more rows than `MOST`; `places` as from
    `figures.styles`."""
    drawn: list[Drawing] = []

    def add(kind: str, scores: Scores, picture: tuple[bytes, bytes], words: str, chart: Chart | None = None) -> None:
        name = figures.file_name(kind, scores.place, [drawing.name for drawing in drawn])
        drawn.append(Drawing(scores.heading, name, *picture, words, chart))

    for each in overviews:
        few = len(each.scores.final) <= MOST
        if each.efficiency and len(each.scores.steps) > 1:
            chart = _efficiency(each)
            add("efficiency", each.scores, *_lines(chart, places), chart)
        if each.profiles:
            add("profiles", each.scores, *_lines(_profiles(each), places))
        if each.improvement and few:
            add("improvement", each.scores, *_matrix(_improvement(each), IMPROVEMENT, "over a run of", each))
        if each.ranks is not None and few:
            add("ranks", each.scores, *_matrix(_ranks(each, each.ranks), RANKS, "rank", each))
    return drawn


def _lines(chart: Chart, places: Mapping[str, int]) -> tuple[tuple[bytes, bytes], str]:
    """Draw the picture, and describe its start, middle and end."""
    shown = {
        label: np.interp([x[0], (x[0] + x[-1]) / 2, x[-1]], x, values.estimate) for label, x, values in chart.curves
    }
    words = "; ".join(f"{label}: {', '.join(f'{value:.2f}' for value in values)}" for label, values in shown.items())
    what = f"{chart.title}: {chart.ylabel} against {chart.xlabel}, at the start, the middle and the end"
    return figures.lines(chart, places), f"{what}. {words}."


def _matrix(cells: Cells, what: str, xlabel: str, each: Overview) -> tuple[tuple[bytes, bytes], str]:
    """Draw the picture, and describe its rows."""
    beside = cells.intervals or [[""] * len(cells.columns) for _ in cells.rows]
    words = "; ".join(
        f"{label}: {', '.join(f'{text} [{ends}]' if ends else text for text, ends in zip(texts, own, strict=True))}"
        for label, texts, own in zip(cells.rows, cells.texts, beside, strict=True)
    )
    return figures.heat_map(f"{what}\n{each.scores.heading}", cells, xlabel), f"{each.scores.heading}: {what}. {words}."


def _efficiency(each: Overview) -> Chart:
    curves = [Curve(label, each.scores.steps, values) for label, values in each.efficiency.items()]
    return Chart(each.scores.heading, each.scores.unit, f"IQM of the {scoring.mean_of(each.scores.score)}", curves)


def _profiles(each: Overview) -> Chart:
    curves = [Curve(label, each.thresholds, values) for label, values in each.profiles.items()]
    across = f"final {scoring.mean_of(each.scores.score)} τ"
    return Chart(each.scores.heading, across, "share of runs above τ", curves, steps=True)


def _improvement(each: Overview) -> Cells:
    labels = list(each.scores.final)
    values = np.full((len(labels), len(labels)), np.nan)
    bold = np.zeros(values.shape, bool)
    intervals = [[""] * len(labels) for _ in labels]
    for (first, second), found in each.improvement.items():
        place = labels.index(first), labels.index(second)
        values[place] = found.estimate
        bold[place] = (first, second) in each.significant
        if np.isfinite(found.low):
            intervals[place[0]][place[1]] = f"{100 * found.low:.0f}–{100 * found.high:.0f}"
    return Cells(
        values,
        [["–" if np.isnan(value) else f"{100 * value:.0f}" for value in row] for row in values],
        bold,
        [f"{number}  {label}" for number, label in enumerate(labels, 1)],
        [str(number) for number in range(1, len(labels) + 1)],
        scale=(0.0, 1.0),
        colours=figures.DIVERGING,
        intervals=intervals,
    )


def _ranks(each: Overview, ranks: pd.DataFrame) -> Cells:
    labels = list(each.scores.final)
    values = ranks.pivot(index="method", columns="rank", values="probability").loc[labels].to_numpy()
    return Cells(
        values,
        [[f"{100 * value:.0f}" for value in row] for row in values],
        np.zeros(values.shape, bool),
        labels,
        [str(rank) for rank in range(1, len(labels) + 1)],
        scale=(0.0, 1.0),
    )
