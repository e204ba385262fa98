"""The choice of estimator for aggregates over tasks, probabilities of improvement and performance profiles: our own
resampling, or rliable with its own plots.

rliable gets the same scores as our code: negated where lower is better, and rescaled to 0 to 1 over several tasks. So
tasks whose score has no known range have no aggregates with either.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
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
from guidebench.reports.summary.aggregates import Overview
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
    """Return the summary with rliable's estimates in place of ours for aggregates, improvement and profiles; a note
    says so."""
    engine = with_rliable.version()
    overviews = tuple(_overview(overview, reps) for overview in summary.overviews)
    estimates: dict[tuple[str, str], dict[str, with_rliable.Estimate]] = {}
    for aggregate in summary.aggregates:
        scores = next(overview.scores for overview in overviews if overview.scores.heading == aggregate.heading)
        key = aggregate.heading, aggregate.label
        if key not in estimates:
            seed = statistics.name_seed(aggregate.label, 0)
            estimates[key] = with_rliable.aggregates(scores.final[aggregate.label], reps, seed)
    aggregates = tuple(
        replace(aggregate, **estimates[aggregate.heading, aggregate.label][aggregate.metric]._asdict())
        for aggregate in summary.aggregates
    )
    changed = replace(summary, aggregates=aggregates, overviews=overviews, engine=engine, engine_reps=reps)
    return with_notes(
        changed,
        [
            "Aggregates over tasks, probabilities of improvement and performance profiles, with their intervals, are "
            f"by {engine} with {reps:,} resamples. Everything else is by guidebench: rows, curves over training, "
            "ranks, and the tests that decide what is bold.",
        ],
    )


def _overview(overview: Overview, reps: int) -> Overview:
    final = overview.scores.final
    improvement = {}
    for first, second in combinations(final, 2):
        seed = statistics.name_seed(f"{first}\n{second}", 0)
        forward = with_rliable.improvement(final[first], final[second], reps, seed)
        improvement[first, second] = forward
        improvement[second, first] = Interval(1 - forward.estimate, 1 - forward.high, 1 - forward.low)
    profiles = {
        label: with_rliable.profile(final[label], overview.thresholds, reps, statistics.name_seed(label, 0))
        for label in overview.profiles
    }
    return overview._replace(improvement=improvement, profiles=profiles)


def drawings(summary: Summary, ours: Sequence[Drawing]) -> list[Drawing]:
    """Return our drawings `ours`, with rliable's own plots in place of those that show its estimates."""
    rliable_drawings = [
        Drawing(
            overview.scores.heading,
            figures.file_name(kind, overview.scores.place),
            *_saved(figure),
            f"{overview.scores.heading}: {words}",
        )
        for overview in summary.overviews
        for kind, figure, words in _plots(summary, overview)
    ]
    our_drawings = [drawing for drawing in ours if not drawing.name.startswith(PLOTTED)]
    return figures.numbered([*our_drawings, *rliable_drawings])


def _plots(summary: Summary, overview: Overview) -> Iterator[tuple[str, Figure, str]]:
    """Yield (kind, figure, description) for rliable's plots of an overview, of rows that have intervals."""
    import matplotlib

    matplotlib.use("Agg")  # its plots use pyplot, which would open windows
    from matplotlib import pyplot
    from rliable import plot_utils

    measure = scoring.mean_of(overview.scores.score)
    aggregates = [aggregate for aggregate in summary.aggregates if aggregate.heading == overview.scores.heading]
    points: dict[str, Any] = {}
    ends: dict[str, Any] = {}
    for label in dict.fromkeys(aggregate.label for aggregate in aggregates if np.isfinite(aggregate.interval.low)):
        intervals = [aggregate.interval for aggregate in aggregates if aggregate.label == label]
        points[figures.literal(label)] = [float(estimate.estimate) for estimate in intervals]
        ends[figures.literal(label)] = np.array(
            [[estimate.low for estimate in intervals], [estimate.high for estimate in intervals]]
        )
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
        texts = "; ".join(f"{label}: {', '.join(f'{x:.2f}' for x in values)}" for label, values in points.items())
        yield "aggregates", figure, f"{', '.join(names)} by {summary.engine}. {texts}."
    profiles = {label: profile for label, profile in overview.profiles.items() if np.isfinite(profile.low).all()}
    if profiles:
        figure, axes = pyplot.subplots(figsize=(7, 4))
        plot_utils.plot_performance_profiles(
            {figures.literal(label): _as_steps(profile.estimate) for label, profile in profiles.items()},
            np.repeat(overview.thresholds, 2)[1:],
            {
                figures.literal(label): (_as_steps(profile.low), _as_steps(profile.high))
                for label, profile in profiles.items()
            },
            ax=axes,
            xlabel=rf"final {measure} ($\tau$)",
            legend=True,
            legendsize="medium",
        )
        yield "profiles", figure, f"performance profiles by {summary.engine} of {', '.join(profiles)}."
    pairs = {
        pair: overview.improvement[pair]
        for pair in combinations(overview.scores.final, 2)
        if np.isfinite(overview.improvement[pair].low)
    }
    if 0 < len(pairs) <= MOST:
        figure, axes = pyplot.subplots(figsize=(4, 1 + 0.5 * len(pairs)))
        by_pair = {"\n".join(map(figures.literal, pair)): interval for pair, interval in pairs.items()}
        plot_utils.plot_probability_of_improvement(
            {pair: float(interval.estimate) for pair, interval in by_pair.items()},
            {pair: (float(interval.low), float(interval.high)) for pair, interval in by_pair.items()},
            pair_separator="\n",
            ax=axes,
        )
        texts = "; ".join(
            f"{first} over {second}: {interval.estimate:.2f}" for (first, second), interval in pairs.items()
        )
        yield "improvement", figure, f"probability of improvement by {summary.engine}. {texts}."


def _as_steps(values: Array) -> Array:
    """Return values [T], each constant up to the next threshold, as the points [2 T - 1] of a line."""
    return np.repeat(values, 2)[:-1]


def _saved(figure: Figure) -> tuple[bytes, bytes]:
    """Return a figure as PNG and PDF, as large as what is drawn; rliable puts its labels outside the canvas."""
    from matplotlib import pyplot

    png, pdf = io.BytesIO(), io.BytesIO()
    nothing = {"CreationDate": None, "Producer": None, "Creator": None}
    figure.savefig(png, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
    figure.savefig(pdf, format="pdf", bbox_inches="tight", metadata=nothing)
    pyplot.close(figure)
    return png.getvalue(), pdf.getvalue()
