"""Summaries of evaluation episodes: a `ReportRow` per label, suite and task, aggregates, and notes.

Nothing is omitted silently: whatever a number leaves out (a seed without evaluations, the tail of a longer curve, a
half-written evaluation) is named in `Summary.notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.errors import count
from guidebench.harness.grouping import grouped
from guidebench.harness.statistics import Array, Interval, Survival
from guidebench.harness.statistics.curves import LATE
from guidebench.harness.texts import one_line
from guidebench.reports.summary import aggregates, comparability, ledger, matrices, names
from guidebench.reports.summary.aggregates import TOLERANCE, Aggregate, Overview
from guidebench.reports.summary.matrices import Matrix
from guidebench.reports.summary.names import Names
from guidebench.results import CellRecord, RunRecord, StudyRecord

if TYPE_CHECKING:
    import pandas as pd

from guidebench.reports.summary.rows import BASELINES, MOST, NONE, ReportRow, lacking

SMOKE = (
    "Smoke means nothing: runs of the profile smoke train for seconds to show that everything works, and no number of "
    "theirs tells anything of a method."
)
"""The first note on numbers of such runs."""


@dataclass(frozen=True)
class Summary:
    """The statistics that a report shows; `complete` is False while a run is missing, running, stopped or failed."""

    study: str
    reps: int
    rows: tuple[ReportRow, ...]
    aggregates: tuple[Aggregate, ...]
    notes: tuple[str, ...]
    complete: bool
    matrices: tuple[Matrix, ...] = ()
    overviews: tuple[Overview, ...] = ()
    """One per suite and profile with more than one row."""
    engine: str = "own"
    """Estimator of the aggregates, and of the overviews' improvement and profiles; one other than ours includes its
    version."""
    engine_reps: int | None = None
    """Resamples of that estimator if they are not `reps`."""
    shared: tuple[str, ...] = ()
    """Overrides, as `setting=value`, that no row's label repeats (`names.Names`)."""


def summarise(
    study: StudyRecord,
    evaluations: pd.DataFrame,
    reps: int = statistics.REPS,
    seed: int = 0,
    *,
    named: Names | None = None,
) -> Summary:
    """Compute the summary of a study from its evaluation records (`results.load`), with intervals from `reps` resamples
    of its runs. `named`: the names of its rows, by default those that say only what differs between them
    (`names.brief`)."""
    notes: list[str] = []
    named = named or names.brief(study.cells, notes)
    baselines = study.claims.baselines if study.claims else ()
    rows = compared(evaluated(study, evaluations, notes, reps, named.labels, seed), notes, reps, seed, baselines)
    groups = [aggregates.fewer(scores, notes) for scores in aggregates.gather(rows, notes)]
    overviews = [overview for scores in groups if (overview := aggregates.overview(scores, reps, seed)) is not None]
    around = (*matrices.matrices(rows), *matrices.beside_baselines(rows, MOST))
    notes[:0] = [*smoke(rows), *matrices.remarks(around)]
    notes.extend(mixtures(study))
    notes.extend(replayed(study, named.labels))
    complete = all(run.status == "finished" for run in study.runs) and all(row.complete for row in rows)
    return Summary(
        study.name,
        reps,
        tuple(rows),
        tuple(aggregate for scores in groups for aggregate in aggregates.aggregates(scores, reps, seed)),
        tuple(dict.fromkeys(notes)),
        complete,
        around,
        tuple(overviews),
        shared=named.shared,
    )


def smoke(rows: Iterable[ReportRow]) -> list[str]:
    """Return the warning about the profile smoke if any row has it, else nothing."""
    return [SMOKE] if any(row.cell.profile == "smoke" for row in rows) else []


def evaluated(
    study: StudyRecord,
    evaluations: pd.DataFrame,
    notes: list[str],
    reps: int,
    labels: Mapping[str, str],
    seed: int = 0,
) -> list[ReportRow]:
    """Return the rows of a study by task, not yet compared with each other; what they leave out is added to `notes`.
    `labels`: cell id -> name of its row."""
    rows = []
    tables = _by_evaluation(evaluations)
    answers = ledger.answered(study)
    by_cell = grouped(study.runs, lambda run: run.cell.id)
    for cell in study.cells:
        runs = by_cell.get(cell.id, [])
        name = f"{cell.task_id}, {labels[cell.id]}"
        notes.extend(_states(name, runs))
        if cell.id in tables:
            row = row_of(cell, labels[cell.id], name, runs, tables[cell.id], notes, reps, seed)
            rows.extend([replace(row, answered=answers.get(cell.id))] if row else [])
            if cell.id in answers and (answers[cell.id].failures or answers[cell.id].unread):
                notes.append(f"{name}: {answers[cell.id]}")
    return placed(rows)


def placed(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """Return the rows with the places within which they are compared, sorted by task with references first."""
    places = comparability.places([row.cell for row in rows])
    rows = [replace(row, place=place) for row, place in zip(rows, places, strict=True)]
    order = {task_id: rank for rank, task_id in enumerate(dict.fromkeys(row.task_id for row in rows))}
    return sorted(matrices.in_order(rows), key=lambda row: order[row.task_id])


def with_notes(summary: Summary, notes: Iterable[str]) -> Summary:
    """Return the summary with further notes at the end, without repetitions."""
    return replace(summary, notes=tuple(dict.fromkeys([*summary.notes, *notes])))


def _states(name: str, runs: Iterable[RunRecord]) -> Iterable[str]:
    for run in runs:
        if run.status == "waiting":
            yield f"{name}: seed {run.seed} has not started"
        elif run.status != "finished":
            lines = (run.error or "").strip().splitlines()
            why = f": {one_line(lines[-1])[:300]}" if lines else ""
            state = "is running" if run.status == "running" else run.status
            yield f"{name}: seed {run.seed} {state} at step {run.step:,} of {run.steps:,}{why}"


def _by_evaluation(evaluations: pd.DataFrame) -> dict[str, dict[int, pd.DataFrame]]:
    """Return cell id -> seed -> a frame with a row per evaluation step: mean score, its variance, success rate, number
    of episodes and mean return."""
    if evaluations.empty:
        return {}
    grouped = evaluations.groupby(["cell", "seed", "step"], sort=True)
    table = grouped.agg(
        score=("score", "mean"), variance=("score", "var"), success=("success", "mean"), episodes=("success", "size"),
        **{"return": ("return", "mean")},
    )  # fmt: skip
    table["variance"] /= table["episodes"]
    by_cell: dict[str, dict[int, pd.DataFrame]] = {}
    seed: Any
    for (cell, seed), curve in table.reset_index(["cell", "seed"]).groupby(["cell", "seed"], sort=False):
        by_cell.setdefault(str(cell), {})[int(seed)] = curve
    return by_cell


def row_of(
    cell: CellRecord,
    label: str,
    name: str,
    runs: list[RunRecord],
    evaluations: Mapping[int, pd.DataFrame],
    notes: list[str],
    reps: int,
    seed: int,
) -> ReportRow | None:
    """Return the row of a cell, not yet compared, or None if its seeds share no evaluation. `evaluations`: seed -> mean
    score, its variance as a mean of episodes, success rate, number of episodes and mean return (`score`, `variance`,
    `success`, `episodes`, `return`) by step; what is left out is added to `notes`, beginning with `name`."""
    by_seed = {run.seed: run for run in runs}
    usual = max(int(curve["episodes"].max()) for curve in evaluations.values())
    curves: dict[int, pd.DataFrame] = {}
    for number, curve in sorted(evaluations.items()):
        short = curve.index[curve["episodes"] < usual]
        if len(short) and by_seed[number].status != "finished" and short[-1] == curve.index[-1]:
            episode_text = f"{int(curve['episodes'].iloc[-1])} of {usual} episodes"
            notes.append(
                f"{name}: seed {number}'s evaluation at step {short[-1]:,} has {episode_text} so far; left out"
            )
            curve, short = curve.iloc[:-1], short[:-1]
        if len(short):
            notes.append(f"{name}: seed {number} has fewer than {usual} episodes at step {_listed(short)}; counted")
        if len(curve):
            curves[number] = curve
    for number, run in by_seed.items():
        if number not in curves and run.status != "waiting":
            notes.append(f"{name}: seed {number} has no evaluations and is left out")
    if not curves:
        return None
    common = sorted(set.intersection(*(set(curve.index) for curve in curves.values())))
    if not common:
        notes.append(f"{name}: its seeds share no evaluation step, so no row is shown")
        return None
    unshared: dict[str, list[str]] = {}
    for number, curve in curves.items():
        extra = sorted(set(curve.index) - set(common))
        if extra:
            unshared.setdefault(_listed(extra), []).append(str(number))
    for steps, numbers in unshared.items():
        notes.append(
            f"{name}: evaluations at step {steps} of seed {', '.join(numbers)} are left out, since other seeds lack "
            f"them; its final numbers are those of step {common[-1]:,}"
        )
    if len(curves) == 1:
        notes.append(f"{name}: {statistics.ONE_RUN}")
    scores, success, returns, variances, counts = (
        np.stack([curve[column].to_numpy(float)[curve.index.isin(common)] for curve in curves.values()])
        for column in ("score", "success", "return", "variance", "episodes")
    )
    draw_seed = statistics.name_seed(f"{cell.task_id}, {cell.label}", seed)  # not the label, which may change
    score_curve, return_curve = _bands(scores, returns, min(reps, statistics.CURVE_REPS), draw_seed)
    ends = [scores[:, -1], returns[:, -1], success[:, -1]]
    if len(common) > 1:
        ends.append(statistics.area_under_curve(scores[:, None], np.asarray(common))[:, 0])
    if len(common) >= LATE:
        ends.append(scores @ statistics.evaluation_weights("late", np.asarray(common)))
    intervals = statistics.intervals(np.stack(ends, axis=1)[:, None], ["mean", "iqm"], reps, draw_seed)
    final, final_return, final_success, *others = _split(intervals["mean"])
    sign = cell.score.sign
    best = int(np.argmax(sign * score_curve.estimate))
    reached_end = all(run.status == "finished" for run in runs) and set(by_seed) == set(curves)
    return ReportRow(
        label=label,
        cell=cell,
        place=comparability.place(cell),
        seeds=tuple(curves),
        directories=tuple(by_seed[number].directory for number in curves),
        episodes=(min(int(curve["episodes"].min()) for curve in curves.values()), usual),
        steps=cell.before + np.asarray(common),
        scores=scores,
        success=success,
        returns=returns,
        variances=variances,
        counts=counts,
        complete=reached_end and len(common) == max(len(curve) for curve in curves.values()),
        curve=score_curve,
        return_curve=return_curve,
        final=final,
        final_iqm=_split(intervals["iqm"])[0],
        final_success=final_success,
        final_return=final_return,
        best=float(score_curve.estimate[best]),
        best_step=int(common[best]),
        mean_of_best=float(sign * (sign * scores).max(axis=1).mean()),
        area=others[0] if others else NONE,
        late=others[1] if len(others) > 1 else NONE,
        missing=tuple(
            number for number, run in sorted(by_seed.items()) if number not in curves or run.status == "failed"
        ),
    )


def _bands(scores: Array, returns: Array, reps: int, seed: int) -> list[Interval]:
    """Return the means over seeds, with intervals, of scores and of returns [seeds, checkpoints], both from the same
    resamples."""
    joint = np.concatenate([scores, returns], axis=1)[:, None]
    means = statistics.intervals(joint, ["mean"], reps, seed)["mean"]
    return [Interval(*(part[place] for part in means)) for place in np.split(np.arange(joint.shape[2]), 2)]


def _split(interval: Interval) -> list[Interval]:
    """Split an interval of arrays [n] into n intervals."""
    return [Interval(*map(np.asarray, ends)) for ends in zip(*interval, strict=True)]


def _listed(steps: Iterable[int]) -> str:
    numbers = [f"{int(step):,}" for step in steps]
    return ", ".join(numbers) if len(numbers) <= 6 else f"{', '.join(numbers[:3])}, …, {numbers[-1]} ({len(numbers)})"


def compared(
    rows: list[ReportRow], notes: list[str], reps: int, seed: int, claimed: Sequence[str] = ()
) -> list[ReportRow]:
    """Return rows with their baselines, steps to the baseline's best, and leaders, each within its own place; none
    leads among more than `MOST` rows. Remarks are added to `notes`. `claimed`: as of `baseline_of`."""
    groups = grouped(rows, lambda row: row.place)
    leaders: set[int] = set()
    furthest = {place: max(peer.last for peer in peers) for place, peers in groups.items()}
    baselines = {place: baseline_of(peers, claimed) for place, peers in groups.items()}
    for place, peers in groups.items():
        if len(peers) > MOST:
            notes.append(
                f"{peers[0].task_id}: no pairs of its {len(peers):,} rows are tested, so no row is marked as best"
            )
            continue
        level = [peer for peer in peers if not (peer.lacks or _behind(peer, furthest[place]))]
        finals = [peer.sample for peer in level]
        ahead = statistics.leading([sample.value() for sample in finals], statistics.all_pairs(finals))
        leaders |= {id(peer) for peer, leads in zip(level, ahead, strict=True) if leads}
    compared_rows = []
    for row in rows:
        peers, baseline = groups[row.place], baselines[row.place]
        target = None if _at_worst(baseline) else baseline.best
        if target is None:
            never = "succeeded" if row.score.name == "success" else f"had {row.score.name} other than the worst"
            notes.append(f"{row.task_id}: {baseline.label} never {never}, so steps to its best are not defined")
        sign = row.score.sign
        hits = row.steps[:0]
        if target is not None:
            hits = row.steps[sign * row.curve.estimate >= sign * target - TOLERANCE]
        behind = _behind(row, furthest[row.place])
        if behind:
            notes.append(
                f"{row.task_id}, {row.label}: stands at step {row.last:,}, so it is compared with no other row"
            )
        if row.lacks and len(peers) > 1:
            notes.append(f"{row.task_id}, {row.label}: {lacking(row)}, so it is compared with no other row")
        compared_rows.append(
            replace(
                row,
                baseline=baseline.label,
                target=target,
                reached=int(hits[0]) if len(hits) else None,
                arrival=None if target is None else _arrival(row, target, reps, seed),
                behind=behind,
                leading=id(row) in leaders,
            )
        )
    return compared_rows


def _at_worst(row: ReportRow) -> bool:
    """Return whether the best of a row is the worst possible score."""
    worst = row.score.low if row.score.sign > 0 else row.score.high
    return worst is not None and abs(row.best - worst) < TOLERANCE


def _arrival(row: ReportRow, target: float, reps: int, seed: int) -> Survival:
    reached = statistics.steps_to_threshold(row.oriented[:, None], row.steps, row.score.sign * target - TOLERANCE)
    return statistics.survival(reached, min(reps, statistics.CURVE_REPS), statistics.name_seed(row.label, seed))


def baseline_of(peers: Sequence[ReportRow], claimed: Sequence[str] = ()) -> ReportRow:
    """Return the row beside which comparable rows stand: one with which a primary claim compares, else the first of
    `BASELINES`, else the first row. `claimed`: ids of the cells with which primary claims compare, in their order."""
    by_id = {row.cell.id: row for row in peers}
    by_method = (row for name in BASELINES for row in peers if row.cell.method == name)
    return next((by_id[id] for id in claimed if id in by_id), None) or next(by_method, peers[0])


def _behind(row: ReportRow, furthest: int) -> bool:
    return not row.complete and row.last < furthest


def replayed(study: StudyRecord, labels: Mapping[str, str]) -> Iterable[str]:
    """Yield a note for each row with runs whose models were not on the machine: their answers are those on record.
    `labels`: cell -> label of its row."""
    roles: dict[str, dict[str, None]] = {}
    for run in study.runs:
        recorded = run.provenance.get("replayed")
        if isinstance(recorded, list):
            roles.setdefault(run.cell.id, {}).update(dict.fromkeys(map(str, recorded)))
    for cell in study.cells:
        if cell.id in roles:
            row = f"{cell.task_id}, {labels.get(cell.id, cell.method)}"
            yield f"{row}: replayed, model not here ({', '.join(roles[cell.id])})"


def mixtures(study: StudyRecord) -> Iterable[str]:
    """Yield notes on runs of different commits, and on runs with uncommitted changes."""
    commits = Counter(
        f"{str(run.provenance.get('commit') or 'unknown')[:12]}{'+' if run.provenance.get('dirty') else ''}"
        for run in study.runs
        if run.provenance
    )
    if len(commits) > 1:
        listed = "; ".join(f"{state}: {count(number, 'run')}" for state, number in commits.items())
        yield f"runs of different commits stand side by side ({listed})"
    if any(state.endswith("+") for state in commits):
        yield "some runs were made with uncommitted changes (marked + in the provenance)"
