"""The contents of a row and of its opened details: scores, curves, ablations, settings, provenance."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Array, Interval, Sample, name_seed
from guidebench.reports.leaderboard import ranking
from guidebench.reports.leaderboard.board import Curve, Estimate, Measure, Origin, Setting, TaskScore, Variation
from guidebench.reports.leaderboard.rows import Measured, Member, RankedRow
from guidebench.reports.leaderboard.sources import clean
from guidebench.reports.rendering import page
from guidebench.reports.summary import citations, registered, scoring
from guidebench.results import RunRecord, StudyRecord
from guidebench.results.verification.record import Check

CURVE_REPS = 1_000
"""Resamples for a curve's band."""
POINTS = 50
"""Most points of a curve."""
SETTINGS = 400
LONGEST_VALUE = 400
_DECIMALS = 4


def estimate(interval: Interval) -> Estimate:
    """Convert an interval to the board's form, rounded to four decimals; undefined numbers become None."""
    return Estimate(*(_number(value) for value in interval))


def _number(value: Any) -> float | None:
    return round(float(value), _DECIMALS) + 0.0 if np.isfinite(value) else None


def name_of(row: RankedRow) -> str:
    """Return a row's id, for links and as the name of its random draws: METHOD-DIGEST, where the digest is of its cell
    ids."""
    cells = ",".join(sorted(measured.cell.id for measured in row.tasks.values()))
    digest = hashlib.sha256(cells.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9]+', '-', row.first.method.lower()).strip('-')[:40] or 'row'}-{digest}"


def final(row: RankedRow) -> Array:
    """Return a row's final scores [runs, tasks], for the seeds that all of its tasks have, on the scale of
    `RankedRow.score`."""
    tasks = [measured.of(row.seeds) for measured in row.tasks.values()]
    return np.stack([_scaled(row, measured)[:, -1] for measured in tasks], axis=1)


def sample(row: RankedRow) -> Sample:
    """Return a row's final scores [runs, tasks] with the variances of their episodes, such that higher is better."""
    return statistics.joined(
        [measured.of(row.seeds).sample(share=len(row.tasks) > 1) for measured in row.tasks.values()]
    )


def _scaled(row: RankedRow, measured: Measured) -> Array:
    """Return the scores [runs, checkpoints] of one task: rescaled to 0 to 1 if the row has several tasks, else as they
    are."""
    return scoring.normalised(measured.cell.score, measured.scores) if len(row.tasks) > 1 else measured.scores


def score(scores: Array, name: str) -> Estimate:
    """Return the IQM of final scores [runs, tasks] with its interval, as the board shows it; `name` seeds the
    resamples."""
    return estimate(ranking.scored(scores, name))


def mean(scores: Array, name: str) -> Estimate:
    """Return the mean of scores [runs, tasks] with its interval, as the board shows it; `name` seeds the resamples."""
    return estimate(statistics.intervals(scores, ["mean"], ranking.REPS, name_seed(name, 0))["mean"])


def curve(row: RankedRow, name: str) -> Curve:
    """Return the IQM over runs and tasks at the evaluations that all tasks share: by environment steps, those of
    pre-training included, or by share of training if tasks differ in length. At most `POINTS` points; `name` seeds the
    resamples."""
    tasks = [measured.of(row.seeds) for measured in row.tasks.values()]
    level = len({measured.cell.total for measured in tasks}) == 1
    steps = [measured.cell.before + measured.steps for measured in tasks]
    places = (
        steps
        if level
        else [
            np.round(positions / max(measured.cell.total, 1), 9)
            for positions, measured in zip(steps, tasks, strict=True)
        ]
    )
    common = sorted(set.intersection(*(set(positions.tolist()) for positions in places)))
    if not common:
        return Curve("share of training", (), (), (), (), *_axis(row.score))
    points = [
        common[index]
        for index in np.unique(np.linspace(0, len(common) - 1, min(POINTS, len(common))).round().astype(int))
    ]
    scores = np.stack(
        [
            _scaled(row, measured)[:, np.isin(positions, points)]
            for measured, positions in zip(tasks, places, strict=True)
        ],
        axis=1,
    )
    iqm = statistics.intervals(scores, ["iqm"], CURVE_REPS, name_seed(name, 0))["iqm"]
    low, high = (tuple(map(_number, values)) for values in (iqm.low, iqm.high))
    values = tuple(round(float(value), _DECIMALS) for value in iqm.estimate)
    unit = "steps" if level else "share of training"
    return Curve(unit, tuple(map(float, points)), values, low, high, *_axis(row.score))


def _axis(score: Score) -> tuple[str, bool]:
    """Return an axis label for this score, and whether the axis goes from 0 to 1."""
    return clean(scoring.mean_of(score), 60), (score.low, score.high) == (0, 1)


def measure(score: Score) -> Measure:
    """Convert a score to the board's form."""
    return Measure(clean(score.name, 60), score.direction, score.low, score.high)


def tasks(row: RankedRow, seeds: Sequence[int], name: str, row_score: Estimate) -> tuple[TaskScore, ...]:
    """Return the board entry of each task that has all of `seeds`. `row_score`: the score of the whole row, which is
    also that of its task if it has only one."""
    task_scores = []
    for task, measured in row.tasks.items():
        if not set(seeds) <= set(measured.seeds):
            continue
        alone = replace(row, tasks={task: measured.of(seeds)})
        several = len(row.tasks) > 1
        score_name = f"{name}/{task}" if several else name
        scores, returns = final(alone), alone.tasks[task].returns[:, -1:]
        task_scores.append(
            TaskScore(
                clean(task, 300),
                score(scores, score_name) if several else row_score,
                mean(scores, score_name),
                mean(returns, score_name),
                tuple(round(float(value), _DECIMALS) for value in scores[:, 0]),
                curve(alone, score_name),
                measure(measured.cell.score),
                error(alone),
            )
        )
    return tuple(task_scores)


def error(row: RankedRow) -> float | None:
    """Return the standard error of a row's score from episodes alone, on its scale; None if unknown."""
    standard_error = sample(row).error("iqm")
    return round(float(standard_error), _DECIMALS) if np.isfinite(standard_error) else None


def variations(row: RankedRow, members: Iterable[Member], name: str) -> tuple[Variation, ...]:
    """Return the ablations and perturbations `members` of a row, each with its final score and its difference from the
    row. The name of one from another source includes that source."""
    references = {measured.cell.id: measured for measured in row.tasks.values()}
    differences = []
    for _, source, member in members:
        place = member.cell.matrix
        if place is None:
            continue
        reference = references[place.reference]
        scores, measure = member.scores[:, -1:], member.cell.score
        score_name = f"{name}/{member.cell.id}"
        bounds = scoring.bounds(measure)
        gap = statistics.interval(member.sample(), reference.sample(), ranking.METRIC, bounds=bounds)
        if measure.sign < 0:  # samples are such that higher is better
            gap = Interval(-gap.estimate, -gap.high, -gap.low)
        called = place.name if source.name == row.source.name else f"{place.name} ({source.name})"
        task = clean(member.cell.task, 300)
        differences.append(Variation(place.kind, clean(called, 300), task, score(scores, score_name), estimate(gap)))
    return tuple(differences)


def settings(row: RankedRow) -> tuple[Setting, ...]:
    """Return a row's parts and settings, each with the layer that set it; a value that not all tasks have names its
    tasks."""
    by_name: dict[str, dict[tuple[str, str], list[str]]] = {}
    for task, measured in row.tasks.items():
        cell = measured.cell
        role_parts = {role: (part.name, "part") for role, part in cell.parts.items()}
        for name, entry in role_parts.items():
            by_name.setdefault(name, {}).setdefault(entry, []).append(task)
        for name, setting in list(cell.settings.items())[:SETTINGS]:
            by_name.setdefault(name, {}).setdefault(page.text_and_layer(setting), []).append(task)
    lines = []
    for name, values in by_name.items():
        for (text, layer), task_names in values.items():
            tail = f" ({', '.join(task_names)})" if len(task_names) < len(row.tasks) else ""
            lines.append(Setting(clean(name + tail, 200), clean(text, LONGEST_VALUE), clean(layer, 100)))
    return tuple(lines)


def hardware(row: RankedRow) -> tuple[str, ...]:
    """Return the names of the different machines on which a row's runs were made, at most ten."""
    return tuple(dict.fromkeys(filter(None, (_machine(run) for run in _runs(row)))))[:10]


def _machine(run: RunRecord) -> str:
    hardware = run.provenance.get("hardware")
    if not isinstance(hardware, Mapping):
        return ""
    model_name = str(hardware.get("gpu") or hardware.get("processor") or "")
    cores = hardware.get("cores")
    return clean(f"{model_name}, {cores} cores" if model_name and type(cores) is int else model_name, 120)


def origins(row: RankedRow) -> tuple[Origin, ...]:
    """Return the different provenances of a row's runs: commit, packages, hardware and number of runs."""
    cleaned = functools.partial(clean, longest=600)
    provenances = page.origins(_study(row))[:20]
    return tuple(
        Origin(cleaned(origin.commit), cleaned(origin.packages), cleaned(origin.hardware), origin.runs)
        for origin in provenances
    )


def bibtex(row: RankedRow, cache: dict[tuple[Any, ...], str]) -> str:
    """Return the BibTeX of every part that a row uses. `cache`: parts -> BibTeX, shared by all rows and added to
    here."""
    study = _study(row)
    parts = citations.used_parts(study)
    if parts not in cache:
        cache[parts] = citations.cite(study, registered.get).text
    return cache[parts]


def checks(row: RankedRow) -> tuple[Check, ...]:
    """Return what a verification of a row's source checked, with the findings; empty if it was not verified."""
    findings = []
    for task, measured in row.tasks.items():
        verdict = row.source.verification and row.source.verification.cells.get(measured.cell.id)
        if verdict:
            head = f"{task}: " if len(row.tasks) > 1 else ""
            if verdict.reason:
                passed = None if verdict.standing == "self-reported" else False
                findings.append(Check(clean(f"{head}verification", 300), passed, clean(verdict.reason, 600)))
            for check in verdict.checks[:50]:
                findings.append(Check(clean(head + check.what, 300), check.passed, clean(check.detail, 600)))
    return tuple(findings)


def run_names(row: RankedRow) -> tuple[str, ...]:
    """Return the directories of a row's runs, relative to its source."""
    return tuple(clean(run.directory, 400) for run in _runs(row))


def _runs(row: RankedRow) -> Iterable[RunRecord]:
    return (run for measured in row.tasks.values() for run in measured.runs if run.seed in measured.seeds)


def _study(row: RankedRow) -> StudyRecord:
    cells = tuple(measured.cell for measured in row.tasks.values())
    return replace(row.source.study, cells=cells, runs=tuple(_runs(row)))
