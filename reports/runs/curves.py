"""The charts of a run's page, as data: evaluations, metrics, and probes along the reference episode."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.grouping import grouped
from guidebench.harness.texts import brief
from guidebench.reports.runs.record import Record
from guidebench.reports.sections import probes, rewards

if TYPE_CHECKING:
    import pandas as pd

POINTS = 400
"""Most points of a line; a longer one is thinned evenly."""
METRICS = 200
"""Most metrics that are read."""
CHARTS = 60
"""Most charts of metrics."""
RESAMPLES = 100
"""Resamples for intervals; a single run shows none."""
SERIES = 10
"""Most lines of a chart."""
STEPS = "environment steps"
MOVES = "move of the reference episode"

Points = Sequence[tuple[float, float]]


class RunChart(NamedTuple):
    """Lines by name over the axis `x`; `share`: whether every value lies in [0, 1]."""

    caption: str
    x: str
    lines: dict[str, Points]
    share: bool = False

    @property
    def rows(self) -> list[dict[str, float]]:
        """Return the points as records for a specification of `guidebench.reports.rendering.charts`."""
        return [
            {"series": number, "x": x, "value": value}
            for number, points in enumerate(self.lines.values())
            for x, value in points
        ]

    @property
    def alt(self) -> str:
        """Return a description of the chart in words: where each line begins and ends."""
        texts = []
        for name, points in self.lines.items():
            (first, begin), (last, end) = points[0], points[-1]
            texts.append(f"{name}: {begin:.4g} at {first:,.0f}, {end:.4g} at {last:,.0f}")
        return f"{self.caption}. {'; '.join(texts)}."


class Evaluations(NamedTuple):
    """Means over the episodes of each evaluation, in the order of their steps."""

    steps: list[int]
    episodes: list[int]
    means: dict[str, list[float]]
    """Metric -> its means. The score comes first; success is present only if an episode succeeded or it is the
    score."""


def evaluations(record: Record) -> Evaluations:
    """Return the means over episodes of each evaluation of a run; empty without evaluations."""
    rows = record.rows.get("evaluations")
    if rows is None:
        return Evaluations([], [], {})
    score = record.cell.score.name
    grouped = rows.groupby("step")
    table = grouped[["score", "success", "return", "length"]].mean().astype(float)
    names = {score: "score", **{name: name for name in ("success", "return", "length") if name != score}}
    if score != "success" and not rows["success"].any():
        del names["success"]
    means = {brief(name, 60): table[column].tolist() for name, column in names.items()}
    return Evaluations([int(step) for step in table.index], grouped.size().tolist(), means)


def charts(record: Record) -> dict[str, list[RunChart]]:
    """Return heading -> charts of a run's page; headings without charts are left out."""
    tests = evaluations(record)
    learning = []
    for name, values in tests.means.items():
        if name != "length":
            caption = "Success rate of evaluations" if name == "success" else f"Mean {name} of evaluations"
            points = thinned((float(step), value) for step, value in zip(tests.steps, values, strict=True))
            learning.append(RunChart(caption, STEPS, {name: points}, name == "success"))
    by_heading = {
        "Learning curves": learning,
        "Reference episode": list(_probed(record)),
        "Metrics": list(_metrics(record)),
    }
    return {heading: drawn for heading, drawn in by_heading.items() if drawn}


def once(record: Record) -> list[tuple[str, float, float]]:
    """Return name, step and value of each metric that was recorded only once and so makes no line."""
    return [(brief(name, 60), *points[0]) for name, points in _measured(record).items() if len(points) == 1]


def _measured(record: Record) -> dict[str, Points]:
    rows = record.rows.get("metrics")
    if rows is None:
        return {}
    numbers = [name for name in rows.columns if name not in ("seed", "step") and rows[name].dtype.kind in "fiu"]
    return {name: points for name in numbers[:METRICS] if (points := _points(rows["step"], rows[name]))}


def _metrics(record: Record) -> Iterator[RunChart]:
    """Yield a chart for each metric; shares with a common prefix (`PREFIX/NAME`) are lines of one chart."""
    lines = {name: points for name, points in _measured(record).items() if len(points) > 1}

    def group_of(name: str) -> str:
        prefix, slash, _ = name.partition("/")
        return prefix if slash and all(0 <= value <= 1 for _, value in lines[name]) else name

    for group, members in list(grouped(lines, group_of).items())[:CHARTS]:
        named = {brief(name.removeprefix(f"{group}/"), 60): lines[name] for name in members[:SERIES]}
        caption = brief(members[0] if len(members) == 1 else group, 60)
        yield RunChart(caption, STEPS, named, share=len(members) > 1)


def _probed(record: Record) -> Iterator[RunChart]:
    if "probes" not in record.rows:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probed = probes.probed(record.study.cells, record.rows["probes"], {})
        try:
            rewarded = rewards.learned(record.study.cells, record.rows["probes"], {}, RESAMPLES)
        except ValueError:  # a probe that was recorded twice
            rewarded = []
    for probe in probed:
        if len(probe.score):
            yield RunChart("Judge's score of the clip around a move", MOVES, {"judge": _series(probe.score)}, True)
        all_changes = list(probe.change.items())
        changes = [
            all_changes[round(i * (len(all_changes) - 1) / max(1, SERIES - 1))]
            for i in range(min(SERIES, len(all_changes)))
        ]
        lines = {f"after {step:,} steps": _series(change) for step, change in changes if len(change)}
        if lines:
            yield RunChart(f"Change of the critic's value over {probe.window} moves, ΔQ", MOVES, lines)
    for learnt in rewarded:
        along = {"learned": learnt.learned.estimate, "the task's own": learnt.true}
        series_lines = {name: _points(range(len(values)), values) for name, values in along.items()}
        yield RunChart("Learned reward beside the task's own, each from 0 to 1", MOVES, series_lines, True)


def _series(values: pd.Series[float]) -> Points:
    return _points(values.index, values)


def _points(x: Iterable[float], values: Iterable[float]) -> Points:
    pairs = zip(map(float, x), map(float, values), strict=True)
    return thinned((at, value) for at, value in pairs if math.isfinite(value))


def thinned(points: Iterable[tuple[float, float]]) -> Points:
    """Return at most `POINTS` points, including the first and the last."""
    line = list(points)
    if len(line) <= POINTS:
        return line
    return [line[round(i * (len(line) - 1) / (POINTS - 1))] for i in range(POINTS)]
