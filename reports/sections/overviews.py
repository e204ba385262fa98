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
    drawings: list[Drawing] = []

    def add(kind: str, scores: Scores, picture: tuple[bytes, bytes], words: str, chart: Chart | None = None) -> None:
        name = figures.file_name(kind, scores.place)
        drawings.append(Drawing(scores.heading, name, *picture, words, chart))

    for overview in overviews:
        few = len(overview.scores.final) <= MOST
        if overview.efficiency and len(overview.scores.steps) > 1:
            chart = _efficiency(overview)
            add("efficiency", overview.scores, *_lines(chart, places), chart)
        if overview.profiles:
            add("profiles", overview.scores, *_lines(_profiles(overview), places))
        if overview.improvement and few:
            add(
                "improvement", overview.scores, *_matrix(_improvement(overview), IMPROVEMENT, "over a run of", overview)
            )
        if overview.ranks is not None and few:
            add("ranks", overview.scores, *_matrix(_ranks(overview, overview.ranks), RANKS, "rank", overview))
    return figures.numbered(drawings)


def _lines(chart: Chart, places: Mapping[str, int]) -> tuple[tuple[bytes, bytes], str]:
    """Draw a chart of lines; return PNG and PDF, and a text with its values at the start, the middle and the end."""
    samples = {
        label: np.interp([x[0], (x[0] + x[-1]) / 2, x[-1]], x, values.estimate) for label, x, values in chart.curves
    }
    words = "; ".join(f"{label}: {', '.join(f'{value:.2f}' for value in values)}" for label, values in samples.items())
    description = f"{chart.title}: {chart.ylabel} against {chart.xlabel}, at the start, the middle and the end"
    return figures.lines(chart, places), f"{description}. {words}."


def _matrix(cells: Cells, title: str, xlabel: str, overview: Overview) -> tuple[tuple[bytes, bytes], str]:
    """Draw a matrix of percentages; return PNG and PDF, and a text with all of its cells."""
    beside = cells.intervals or [[""] * len(cells.columns) for _ in cells.rows]
    words = "; ".join(
        f"{label}: {', '.join(f'{text} [{end}]' if end else text for text, end in zip(texts, ends, strict=True))}"
        for label, texts, ends in zip(cells.rows, cells.texts, beside, strict=True)
    )
    heading = overview.scores.heading
    return figures.heat_map(f"{title}\n{heading}", cells, xlabel), f"{heading}: {title}. {words}."


def _efficiency(overview: Overview) -> Chart:
    curves = [Curve(label, overview.scores.steps, values) for label, values in overview.efficiency.items()]
    return Chart(
        overview.scores.heading, overview.scores.unit, f"IQM of the {scoring.mean_of(overview.scores.score)}", curves
    )


def _profiles(overview: Overview) -> Chart:
    curves = [Curve(label, overview.thresholds, values) for label, values in overview.profiles.items()]
    across = f"final {scoring.mean_of(overview.scores.score)} τ"
    return Chart(overview.scores.heading, across, "share of runs above τ", curves, steps=True)


def _improvement(overview: Overview) -> Cells:
    labels = list(overview.scores.final)
    values = np.full((len(labels), len(labels)), np.nan)
    bold = np.zeros(values.shape, bool)
    intervals = [[""] * len(labels) for _ in labels]
    for (first, second), interval in overview.improvement.items():
        place = labels.index(first), labels.index(second)
        values[place] = interval.estimate
        bold[place] = (first, second) in overview.significant
        if np.isfinite(interval.low):
            intervals[place[0]][place[1]] = f"{100 * interval.low:.0f}–{100 * interval.high:.0f}"
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


def _ranks(overview: Overview, ranks: pd.DataFrame) -> Cells:
    labels = list(overview.scores.final)
    values = ranks.pivot(index="method", columns="rank", values="probability").loc[labels].to_numpy()
    return Cells(
        values,
        [[f"{100 * value:.0f}" for value in row] for row in values],
        np.zeros(values.shape, bool),
        labels,
        [str(rank) for rank in range(1, len(labels) + 1)],
        scale=(0.0, 1.0),
    )
