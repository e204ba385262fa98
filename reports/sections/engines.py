"""The choice of estimator for aggregates over tasks, probabilities of improvement and performance profiles: our own
resampling, or rliable with its own plots.

rliable gets the same scores as our code: negated where lower is better, and rescaled to 0 to 1 over several tasks. So
tasks whose score has no known range have no aggregates with either.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.statistics import with_rliable
from guidebench.reports.summary import scoring
from guidebench.reports.summary.aggregates import Aggregate, Overview
from guidebench.reports.summary.summaries import Summary, with_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RLIABLE = "rliable"
"""Value of `bench report --statistics` that chooses rliable."""
PLOTTED = ("profiles-", "improvement-")
"""Name prefixes of our own figures that rliable's replace."""
METRICS = {"mean": "Mean", "median": "Median", "iqm": "IQM", "optimality_gap": "Optimality Gap"}
MOST = 15
"""Most pairs in a figure of probabilities."""
ROW_INCHES, BELOW_INCHES = 0.37, 0.55
"""Height of a row in the figure of aggregates, and position of its axis label below the rows."""
REMARK = (
    "Aggregates, performance profiles and probability of improvement are estimated and drawn by rliable: the line in a "
    "bar is the estimate, the bar its 95 % interval. P(X > Y): how often a run of X ends better than one of Y on the "
    "same task, ties counted half. Profiles: the share of runs whose final score is above τ (higher is better). Where "
    "they are shown, the IQM of the score over training and how often a run has each rank on a task (1 is best, ties "
    "share ranks) are by guidebench."
)


def with_rliable_s(summary: Summary, reps: int = with_rliable.REPS) -> Summary:
    """Return the summary with rliable's estimates, named as such in it and in its notes."""
    engine = with_rliable.version()
    overviews = tuple(_overview(each, reps) for each in summary.overviews)
    found: dict[tuple[str, str], dict[str, with_rliable.Estimate]] = {}
    for entry in summary.aggregates:
        scores = next(each.scores for each in overviews if each.scores.heading == entry.heading)
        key = entry.heading, entry.label
        if key not in found:
            own = statistics.name_seed(entry.label, 0)
            found[key] = with_rliable.aggregates(scores.final[entry.label], reps, own)
    aggregates = tuple(_replaced(entry, found[entry.heading, entry.label]) for entry in summary.aggregates)
    changed = replace(summary, aggregates=aggregates, overviews=overviews, engine=engine, engine_reps=reps)
    return with_notes(
        changed,
        [
            "Aggregates over tasks, probabilities of improvement and performance profiles, with their intervals, are "
            f"by {engine} with {reps:,} resamples. Everything else is by guidebench: rows, curves over training, "
            "ranks, and the tests that decide what is bold.",
        ],
    )


def _replaced(entry: Aggregate, found: Mapping[str, with_rliable.Estimate]) -> Aggregate:
    return replace(entry, interval=found[entry.metric].interval, error=found[entry.metric].error)


def _overview(each: Overview, reps: int) -> Overview:
    final = each.scores.final
    improvement = {}
    for first, second in combinations(final, 2):
        own = statistics.name_seed(f"{first}\n{second}", 0)
        one = with_rliable.improvement(final[first], final[second], reps, own)
        improvement[first, second] = one
        improvement[second, first] = Interval(1 - one.estimate, 1 - one.high, 1 - one.low)
    profiles = {
        label: with_rliable.profile(final[label], each.thresholds, reps, statistics.name_seed(label, 0))
        for label in each.profiles
    }
    return each._replace(improvement=improvement, profiles=profiles)


def drawings(summary: Summary, own: Sequence[Drawing]) -> list[Drawing]:
    """Return our own drawings, with rliable's (`rliable.plot_utils`) in place of those that show its estimates."""
    kept = [drawing for drawing in own if not drawing.name.startswith(PLOTTED)]
    for each in summary.overviews:
        for kind, figure, words in _plots(summary, each):
            name = figures.file_name(kind, each.scores.place, [drawing.name for drawing in kept])
            kept.append(Drawing(each.scores.heading, name, *_saved(figure), f"{each.scores.heading}: {words}"))
    return kept


def _plots(summary: Summary, each: Overview) -> Iterator[tuple[str, Figure, str]]:
    """Yield kind, figure and description of rliable's plots of an overview, for rows that have intervals."""
    import matplotlib

    matplotlib.use("Agg")  # its plots use pyplot, which would open windows
    from matplotlib import pyplot
    from rliable import plot_utils

    measure = scoring.mean_of(each.scores.score)
    entries = [entry for entry in summary.aggregates if entry.heading == each.scores.heading]
    points: dict[str, Any] = {}
    ends: dict[str, Any] = {}
    for label in dict.fromkeys(entry.label for entry in entries if np.isfinite(entry.interval.low)):
        intervals = [entry.interval for entry in entries if entry.label == label]
        points[figures.literal(label)] = [float(one.estimate) for one in intervals]
        ends[figures.literal(label)] = np.array([[one.low for one in intervals], [one.high for one in intervals]])
    if points:
        names = [METRICS[name] for name in statistics.METRICS]
        figure, _ = plot_utils.plot_interval_estimates(
            points,
            ends,
            names,
            row_height=ROW_INCHES,
            xlabel=f"final {measure}",
            xlabel_y_coordinate=-BELOW_INCHES / (ROW_INCHES * len(points)),
        )
        told = "; ".join(f"{label}: {', '.join(f'{x:.2f}' for x in values)}" for label, values in points.items())
        yield "aggregates", figure, f"{', '.join(names)} by {summary.engine}. {told}."
    profiles = {label: found for label, found in each.profiles.items() if np.isfinite(found.low).all()}
    if profiles:
        figure, axes = pyplot.subplots(figsize=(7, 4))
        plot_utils.plot_performance_profiles(
            {figures.literal(label): _held(found.estimate) for label, found in profiles.items()},
            np.repeat(each.thresholds, 2)[1:],
            {figures.literal(label): (_held(found.low), _held(found.high)) for label, found in profiles.items()},
            ax=axes,
            xlabel=rf"final {measure} ($\tau$)",
            legend=True,
            legendsize="medium",
        )
        yield "profiles", figure, f"performance profiles by {summary.engine} of {', '.join(profiles)}."
    pairs = {
        pair: each.improvement[pair]
        for pair in combinations(each.scores.final, 2)
        if np.isfinite(each.improvement[pair].low)
    }
    if 0 < len(pairs) <= MOST:
        figure, axes = pyplot.subplots(figsize=(4, 1 + 0.5 * len(pairs)))
        named = {"\n".join(map(figures.literal, pair)): found for pair, found in pairs.items()}
        plot_utils.plot_probability_of_improvement(
            {pair: float(found.estimate) for pair, found in named.items()},
            {pair: (float(found.low), float(found.high)) for pair, found in named.items()},
            pair_separator="\n",
            ax=axes,
        )
        told = "; ".join(f"{first} over {second}: {found.estimate:.2f}" for (first, second), found in pairs.items())
        yield "improvement", figure, f"probability of improvement by {summary.engine}. {told}."


def _held(values: Array) -> Array:
    """Return values [T], each constant up to the next threshold, as the points [2 T - 1] of a line."""
    return np.repeat(values, 2)[:-1]


def _saved(figure: Figure) -> tuple[bytes, bytes]:
    """Return PNG and PDF, as large as what is drawn; rliable puts its labels outside the canvas."""
    from matplotlib import pyplot

    png, pdf = io.BytesIO(), io.BytesIO()
    nothing = {"CreationDate": None, "Producer": None, "Creator": None}
    figure.savefig(png, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
    figure.savefig(pdf, format="pdf", bbox_inches="tight", metadata=nothing)
    pyplot.close(figure)
    return png.getvalue(), pdf.getvalue()
