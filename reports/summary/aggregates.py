"""Aggregates of rows over tasks: the scores that all tasks have, their aggregates, and comparisons of methods.

What is left out because some task or row lacks it is named in the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.grouping import grouped
from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Array, Interval, Sample
from guidebench.harness.statistics.resampling import ends
from guidebench.reports.statistics import ranks
from guidebench.reports.summary import comparability, scoring
from guidebench.reports.summary.rows import MOST, ReportRow

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.summary.comparability import Place

STEPS = "environment steps per seed and task"
SHARE = "share of a task's training steps"
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Aggregate:
    """A metric of the final scores of one label over all tasks of a suite."""

    label: str
    suite: str
    profile: str
    heading: str
    """What the compared labels have in common."""
    score: Score
    """Name of its number."""
    metric: str
    interval: Interval
    error: float
    """Standard deviation of the metric over resamples, NaN with one run."""
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    leading: bool = False
    """Whether it is among the best of its peers (`statistics.leading`)."""
    missing: bool = False
    """Whether a planned seed of some task has failed or is missing, so that it is not compared with others."""


@dataclass(frozen=True)
class Scores:
    """Scores of the labels that have rows on all tasks of a suite in the same places, for the seeds that all of their
    rows have."""

    suite: str
    profile: str
    conditions: str
    """Conditions, see `comparability.words`."""
    score: Score
    """Definition of the numbers. Higher is better: a score of which lower is better is negated."""
    one_scale: bool
    """Whether numbers of different tasks may be averaged, because the range of each task's score is known."""
    tasks: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    final: Mapping[str, Array]
    """Label -> [runs, tasks] at the last evaluation."""
    samples: Mapping[str, Sample]
    """Label -> the final scores with the variances of their episodes."""
    steps: Array
    """Positions at which every row has an evaluation, in `unit`, [checkpoints]."""
    unit: str
    curves: Mapping[str, Array]
    """Label -> [runs, tasks, checkpoints] at `steps`."""
    missing: frozenset[str] = frozenset()
    """Labels of which a planned seed of some task has failed or is missing."""
    chosen: bool = False
    """Whether they are the best of more labels (`fewer`). Then no test tells them apart, since it would have to correct
    for the choice."""
    apart: str = ""
    """What distinguishes them from other scores with the same heading (`_distinct`)."""

    @property
    def place(self) -> str:
        """Return the suite or, for a single task, SUITE/TASK."""
        return self.suite if len(self.tasks) > 1 else f"{self.suite}/{self.tasks[0]}"

    @property
    def heading(self) -> str:
        """Return suite and task or number of tasks, profile, conditions and score, joined by commas."""
        several = len(self.tasks) > 1
        tasks = f"{len(self.tasks)} tasks" if several else ""
        measure = "" if self.score.name == "success" else f"by {scoring.title(self.score)}" if self.one_scale else ""
        parts = [self.place, tasks, f"{self.profile} profile", self.conditions, measure, self.apart]
        return ", ".join(filter(None, parts))


class Overview(NamedTuple):
    """Comparisons of the labels of `scores`. For a single task only `improvement` adds to its rows."""

    scores: Scores
    improvement: Mapping[tuple[str, str], Interval]
    """(first, second) -> probability that a run of the first beats one of the second, ties counted half."""
    thresholds: Array
    """Every score among the final ones, 0 and 1: the points where performance profiles change."""
    profiles: Mapping[str, Interval]
    """Share of runs above each of `thresholds`, constant up to the next."""
    efficiency: Mapping[str, Interval]
    """IQM over runs and tasks at each of `scores.steps`."""
    ranks: pd.DataFrame | None
    """Columns method, rank, probability: how often a run of a label has each rank on a task, ties sharing ranks."""
    significant: frozenset[tuple[str, str]]
    """Ordered pairs of labels whose means differ by tests of all pairs, among labels without a missing seed."""


def gather(rows: Sequence[ReportRow], notes: list[str]) -> list[Scores]:
    """Group rows in the same places and return the scores of the labels that have all of a group's tasks, over the
    seeds that all of their rows have. Tasks that serve pre-training alone are left out; what else is left out is added
    to `notes`."""
    groups = []
    stages = {stage.id for row in rows for stage in row.cell.stages}
    tested_tasks = {row.task_id for row in rows if row.cell.id not in stages}
    for members in _alike([row for row in rows if row.task_id in tested_tasks]):
        suite = members[0].cell.suite
        tasks = tuple(dict.fromkeys(row.cell.task for row in members))
        chosen: dict[str, list[ReportRow]] = {}
        seeds: dict[str, tuple[int, ...]] = {}
        by_label: dict[str, dict[str, ReportRow]] = {}
        for row in members:
            by_label.setdefault(row.label, {})[row.cell.task] = row
        for label, by_task in by_label.items():
            why, shared = _incomplete(by_task, tasks)
            if why and len(tasks) > 1:
                notes.append(f"{suite}, {label}: left out of the aggregates over tasks ({why})")
            if why:
                continue
            unused = sorted(set().union(*(row.seeds for row in by_task.values())) - set(shared))
            if unused:
                numbers = ", ".join(map(str, unused))
                notes.append(f"{suite}, {label}: seeds {numbers} are not in the aggregates: some tasks lack them")
            chosen[label], seeds[label] = [by_task[task] for task in tasks], shared
        if chosen:
            groups.append((_scores(tasks, chosen, seeds, notes), members))
    return _distinct(groups)


def _distinct(groups: Sequence[tuple[Scores, Sequence[ReportRow]]]) -> list[Scores]:
    """Return the scores of groups of rows, with additions to their headings where two are equal: steps, version of the
    suite, else a number."""

    def steps(members: Sequence[ReportRow]) -> str:
        totals = sorted({row.place.steps for row in members})
        return f"{' or '.join(f'{total:,}' for total in totals)} steps"

    def version(members: Sequence[ReportRow]) -> str:
        return f"version {members[0].place.version}"

    distinct = []
    for index, (scores, members) in enumerate(groups):
        alike = [number for number, (other, _) in enumerate(groups) if other.heading == scores.heading]
        if len(alike) > 1:
            same = [groups[number][1] for number in alike]
            tells = [tell for tell in (steps, version) if len({tell(group) for group in same}) > 1]
            distinction = ", ".join(tell(members) for tell in tells)
            if len({tuple(tell(group) for tell in tells) for group in same}) < len(same):
                distinction = ", ".join(filter(None, [distinction, f"group {alike.index(index) + 1}"]))
            scores = replace(scores, apart=distinction)
        distinct.append(scores)
    return distinct


def fewer(scores: Scores, notes: list[str]) -> Scores:
    """Return the scores of the `MOST` labels with the best means over tasks and runs, if there are more."""
    if len(scores.final) <= MOST:
        return scores
    best = sorted(scores.final, key=lambda label: -float(np.mean(scores.final[label])))[:MOST]
    labels = [label for label in scores.final if label in best]
    if len(scores.tasks) > 1:
        notes.append(
            f"{scores.heading}: aggregates over tasks are of the {MOST} best of {len(scores.final):,} rows, whose "
            f"differences are not tested"
        )
    seeds = {label: scores.seeds[label] for label in labels}
    final, curves = ({label: of[label] for label in labels} for of in (scores.final, scores.curves))
    samples = {label: scores.samples[label] for label in labels}
    return replace(
        scores,
        seeds=seeds,
        final=final,
        samples=samples,
        curves=curves,
        missing=scores.missing & set(labels),
        chosen=True,
    )


def _alike(rows: Sequence[ReportRow]) -> list[list[ReportRow]]:
    """Group rows by suite, profile, version and conditions such that a group has one place for each task."""

    def shared(row: ReportRow) -> tuple[object, str]:
        return (row.cell.suite, row.cell.profile, row.place.version, row.place.conditions), row.label

    labels = grouped(rows, shared)
    groups: list[tuple[object, dict[str, Place], list[ReportRow]]] = []
    for (kind, _), label_rows in labels.items():
        matches = (
            (places, members)
            for other, places, members in groups
            if other == kind and all(places.get(row.cell.task, row.place) == row.place for row in label_rows)
        )
        places, members = next(matches, ({}, []))
        if not members:
            groups.append((kind, places, members))
        places |= {row.cell.task: row.place for row in label_rows}
        members += label_rows
    return [members for _, _, members in groups]


def _incomplete(by_task: Mapping[str, ReportRow], tasks: Iterable[str]) -> tuple[str, tuple[int, ...]]:
    """Return why a label's rows cannot be aggregated, "" if they can, and the seeds that all of them have."""
    missing = [task for task in tasks if task not in by_task]
    behind = [task for task, row in by_task.items() if row.behind]
    seeds = tuple(sorted(set.intersection(*(set(row.seeds) for row in by_task.values()))))
    if missing:
        return f"no evaluations of {', '.join(missing)}", seeds
    if behind:
        return f"not far enough on {', '.join(behind)}", seeds
    return "" if seeds else "no seed that every task has", seeds


def _scores(
    tasks: tuple[str, ...],
    chosen: Mapping[str, Sequence[ReportRow]],
    seeds: Mapping[str, tuple[int, ...]],
    notes: list[str],
) -> Scores:
    rows = [row for label_rows in chosen.values() for row in label_rows]
    first = next(iter(chosen.values()))
    suite, several = rows[0].cell.suite, len(tasks) > 1
    unknown = [row for row in first if row.score.span is None]
    if several and unknown:
        score_names = ", ".join(f"{row.score.name} on {row.cell.task}" for row in unknown)
        notes.append(f"{suite}: there are no aggregates over tasks, since no range is known of {score_names}")
    score = scoring.together([row.score for row in first]) if not (several and unknown) else unknown[0].score
    unit = STEPS if len({row.cell.total for row in rows}) == 1 else SHARE
    places = [{_place(step, row, unit): index for index, step in enumerate(row.steps)} for row in rows]
    steps = sorted(set.intersection(*map(set, places)))
    most = max(map(len, places))
    if len(tasks) > 1 and len(steps) < most:
        notes.append(
            f"{suite}: curves over tasks show {len(steps)} of up to {most} evaluations, those that all rows share"
        )
    at = {id(row): [place[step] for step in steps] for row, place in zip(rows, places, strict=True)}
    final, samples, curves = {}, {}, {}
    for label, label_rows in chosen.items():
        indices = [[row.seeds.index(seed) for seed in seeds[label]] for row in label_rows]
        of_seeds = [_oriented(row, several and not unknown)[at] for row, at in zip(label_rows, indices, strict=True)]
        final[label] = np.stack([values[:, -1] for values in of_seeds], axis=1)
        samples[label] = _sample(label_rows, indices, several and not unknown)
        curves[label] = np.stack(
            [oriented[:, at[id(row)]] for row, oriented in zip(label_rows, of_seeds, strict=True)], axis=1
        )
    missing = frozenset(label for label, label_rows in chosen.items() if any(row.lacks for row in label_rows))
    conditions, profile = comparability.words(rows[0].place.conditions), rows[0].cell.profile
    return Scores(
        suite, profile, conditions, score, not (several and unknown), tasks, dict(seeds), final, samples,
        np.array(steps), unit, curves, missing,
    )  # fmt: skip


def _oriented(row: ReportRow, share: bool) -> Array:
    """Return a row's scores [seeds, checkpoints] such that higher is better, rescaled to 0 to 1 if `share`."""
    return scoring.normalised(row.score, row.scores) if share else row.oriented


def _sample(rows: Sequence[ReportRow], indices: Sequence[Sequence[int]], share: bool) -> Sample:
    """Return the final scores [runs, tasks] of rows of several tasks, for the seeds at the positions `indices` in each
    row."""
    return statistics.joined(
        [
            scoring.sample(row.score, row.scores[at, -1:], row.variances[at, -1:], row.counts[at, -1:], share)
            for row, at in zip(rows, indices, strict=True)
        ]
    )


def _place(step: int, row: ReportRow, unit: str) -> float:
    return float(step) if unit == STEPS else round(step / max(row.cell.total, 1), 9)


def aggregates(scores: Scores, reps: int, seed: int = 0) -> list[Aggregate]:
    """Return every metric of every label over the tasks of `scores`; empty for a single task, and if tasks have no
    common scale.

    Intervals are those of `guidebench.reports.statistics.aggregate`; all metrics of a label use the same resamples.
    """
    if len(scores.tasks) < 2 or not scores.one_scale:
        return []
    points = {
        metric: [float(rule.point(final)) for final in scores.final.values()]
        for metric, rule in statistics.METRICS.items()
    }
    ahead = _leading(scores)
    aggregates = []
    for index, (label, final) in enumerate(scores.final.items()):
        resamples = _resamples(final, reps, statistics.name_seed(label, seed))
        for metric, values in points.items():
            drawn = resamples[metric]
            aggregates.append(
                Aggregate(
                    label,
                    scores.suite,
                    scores.profile,
                    scores.heading,
                    scores.score,
                    metric,
                    Interval(np.asarray(values[index]), *ends(drawn)),
                    float(np.std(drawn)),
                    scores.seeds[label],
                    scores.tasks,
                    label in ahead[metric],
                    label in scores.missing,
                )
            )
    return aggregates


def _resamples(scores: Array, reps: int, seed: int) -> dict[str, Array]:
    """Return metric -> its values over resamples, [reps], of scores [runs, tasks]; a single NaN with one run."""
    if len(scores) < 2:
        return {metric: np.full(1, np.nan) for metric in statistics.METRICS}
    values, _ = statistics.distribution(scores[:, :, None], list(statistics.METRICS), reps, np.random.default_rng(seed))
    return {metric: draws[0] for metric, draws in values.items()}


def _leading(scores: Scores) -> dict[str, set[str]]:
    """Return metric -> the labels that lead by the test of that metric, among those without a missing seed. The
    optimality gap is tested as the mean of scores of at most 1."""
    if scores.chosen:
        return {metric: set() for metric in statistics.METRICS}
    labels = [label for label in scores.final if label not in scores.missing]
    samples = [scores.samples[label] for label in labels]
    leaders = {}
    for metric in statistics.METRICS:
        test_metric, tables = metric, samples
        if metric == "optimality_gap":
            test_metric, tables = "mean", [sample._replace(scores=np.minimum(sample.scores, 1.0)) for sample in samples]
        values = [sample.value(test_metric) for sample in tables]
        ahead = statistics.leading(values, statistics.all_pairs(tables, test_metric))
        leaders[metric] = {label for label, leads in zip(labels, ahead, strict=True) if leads}
    return leaders


def overview(scores: Scores, reps: int, seed: int = 0) -> Overview | None:
    """Return the comparisons of the labels of `scores`; None for a single label of a single task."""
    several = len(scores.tasks) > 1
    averaged = several and scores.one_scale
    if len(scores.final) < 2 and not averaged:
        return None
    improvement = statistics.improvements(scores.final, reps=reps, seed=seed)
    few = min(reps, statistics.CURVE_REPS)
    thresholds = np.unique(np.concatenate([[0.0, 1.0], *(final.ravel() for final in scores.final.values())]))
    profiles, efficiency = {}, {}
    for label in scores.final if averaged else ():
        drawing_seed = statistics.name_seed(label, seed)
        profiles[label] = statistics.performance_profile(scores.final[label], thresholds, reps=few, seed=drawing_seed)
        if len(scores.steps):
            efficiency[label] = statistics.intervals(scores.curves[label], ["iqm"], few, drawing_seed)["iqm"]
    ranked = several and len(scores.final) > 1
    placed = ranks(scores.final, reps=reps, seed=seed) if ranked else None
    is_tested = scores.one_scale and not scores.chosen
    labels = [label for label in scores.final if label not in scores.missing and is_tested]
    pairs = statistics.all_pairs([scores.samples[label] for label in labels])
    significant = {(labels[i], labels[j]) for i, j in statistics.significant(pairs)}
    significant |= {(second, first) for first, second in significant}
    return Overview(scores, improvement, thresholds, profiles, efficiency, placed, frozenset(significant))
