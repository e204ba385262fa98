"""From evaluation rows to what is reported: one `Row` per label, suite and task, aggregates over tasks, and notes.

Nothing is trimmed in silence: whatever a number leaves out (a seed without evaluations, the tail of a longer curve, a
half-written evaluation) is named in `Summary.notes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness.errors import count
from guidebench.harness.interfaces import Score
from guidebench.harness.records import schema
from guidebench.harness.texts import one_line
from guidebench.reports import aggregates, comparability, ledger, matrices, statistics
from guidebench.reports.aggregates import TOLERANCE, Aggregate, Overview
from guidebench.reports.comparability import Place
from guidebench.reports.ledger import Answered
from guidebench.reports.matrices import Matrix
from guidebench.reports.statistics import Array, Interval, Survival
from guidebench.results import Cell, Run, Study

if TYPE_CHECKING:
    import pandas as pd

BASELINES = ("uer", "per")
NONE = Interval(*(np.asarray(np.nan) for _ in Interval._fields))


@dataclass(frozen=True)
class Row:
    """One label on one task. Arrays over checkpoints hold the steps at which every seed was evaluated."""

    label: str
    cell: Cell
    place: Place
    """What it is compared within (`comparability.places`)."""
    seeds: tuple[int, ...]
    directories: tuple[str, ...]
    """Where the numbers come from: one run directory per seed, relative to the study."""
    episodes: tuple[int, int]
    """Fewest and most episodes in one evaluation of one seed."""
    steps: Array
    scores: Array
    """Mean of the episodes' scores per evaluation, by what the suite names (`Cell.score`), [seeds, checkpoints]."""
    success: Array
    """Success rate per evaluation, [seeds, checkpoints]."""
    returns: Array
    """Mean return per evaluation, [seeds, checkpoints]."""
    complete: bool
    """Whether every planned seed reached the planned number of steps."""
    curve: Interval
    """Of `scores`, as the following ones but `final_success` and `final_return`."""
    return_curve: Interval
    final: Interval
    """Mean over seeds at the last checkpoint."""
    final_iqm: Interval
    final_success: Interval
    final_return: Interval
    best: float
    """Best over evaluations of the mean over seeds, first reached at `best_step`."""
    best_step: int
    mean_of_best: float
    """Mean over seeds of each seed's own best."""
    area: Interval
    """Mean over seeds of the area under the curve, divided by the steps it spans; NaN for a single evaluation."""
    baseline: str = ""
    target: float | None = None
    """The baseline's `best`; None if that is the worst that a score can be, as where it never succeeded."""
    reached: int | None = None
    """First step at which the mean over seeds reaches `target`; None if it does not."""
    arrival: Survival | None = None
    """When each seed by itself first reaches `target`; seeds that never do are censored at their last evaluation."""
    leading: bool = False
    """`final` is the best of its place, or not told apart from it by the test (`statistics.leading`)."""
    behind: bool = False
    """Stands at an earlier step than others of its task, so its final numbers are compared with nobody's."""
    answered: Answered | None = None
    """Questions of its runs to foundation models; None where none were asked, or none were counted."""
    missing: tuple[int, ...] = ()
    """Planned seeds that have failed or have no evaluations: without them its final numbers may be better than they
    would be, so they are compared with nobody's either."""

    @property
    def score(self) -> Score:
        """What the numbers are."""
        return self.cell.score

    @property
    def oriented(self) -> Array:
        """`scores` such that higher is better."""
        return self.score.sign * self.scores

    @property
    def last(self) -> int:
        return int(self.steps[-1])

    @property
    def alone(self) -> bool:
        """Whether its final numbers are compared with nobody's, which a table marks with †."""
        return self.behind or self.lacks

    @property
    def lacks(self) -> bool:
        """Whether its final numbers are not those of what was planned: seeds are missing, or too many answers."""
        return bool(self.missing) or not (self.answered is None or self.answered.enough)

    @property
    def budget(self) -> int:
        """Steps within which `target` could have been reached."""
        return self.cell.steps if self.complete else self.last

    @property
    def where(self) -> str:
        return f"{self.cell.suite}/{self.cell.task}"


@dataclass(frozen=True)
class Summary:
    """What a report shows; `complete` is False while a run is missing, running, stopped or failed."""

    study: str
    reps: int
    rows: tuple[Row, ...]
    aggregates: tuple[Aggregate, ...]
    notes: tuple[str, ...]
    complete: bool
    matrices: tuple[Matrix, ...] = ()
    overviews: tuple[Overview, ...] = ()
    """One per suite and profile with more than one row."""
    engine: str = "own"
    """What estimated the aggregates, and of the overviews improvement and profiles: another names its version."""
    engine_reps: int | None = None
    """Its resamples where they are not `reps`."""


def summarise(study: Study, evaluations: pd.DataFrame, reps: int = statistics.REPS, seed: int = 0) -> Summary:
    """The summary of a study's evaluation rows (`results.load`), intervals from `reps` resamples of its runs."""
    notes: list[str] = []
    rows = _compared(evaluated(study, evaluations, notes, reps, seed), notes, reps, seed)
    scores = aggregates.gather(rows, notes)
    overviews = [found for each in scores if (found := aggregates.overview(each, reps, seed)) is not None]
    around = tuple(matrices.matrices(rows))
    notes[:0] = matrices.remarks(around)
    notes.extend(mixtures(study))
    complete = all(run.status == "finished" for run in study.runs) and all(row.complete for row in rows)
    return Summary(
        study.name,
        reps,
        tuple(rows),
        tuple(entry for each in scores for entry in aggregates.aggregates(each, reps, seed)),
        tuple(dict.fromkeys(notes)),
        complete,
        around,
        tuple(overviews),
    )


def evaluated(study: Study, evaluations: pd.DataFrame, notes: list[str], reps: int, seed: int = 0) -> list[Row]:
    """The rows of a study by task, compared with nothing yet; what they leave out is added to `notes`."""
    labels = row_labels(study.cells, notes)
    rows = []
    tables = _by_evaluation(evaluations)
    asked = ledger.answered(study)
    for cell in study.cells:
        runs = [run for run in study.runs if run.cell.id == cell.id]
        name = f"{cell.suite}/{cell.task}, {labels[cell.id]}"
        notes.extend(_states(name, runs))
        if cell.id in tables:
            row = _row(cell, labels[cell.id], name, runs, tables[cell.id], notes, reps, seed)
            rows.extend([replace(row, answered=asked.get(cell.id))] if row else [])
            if cell.id in asked and (asked[cell.id].failures or asked[cell.id].unread):
                notes.append(f"{name}: {asked[cell.id]}")
    places = comparability.places([row.cell for row in rows])
    rows = [replace(row, place=place) for row, place in zip(rows, places, strict=True)]
    order = {where: rank for rank, where in enumerate(dict.fromkeys(row.where for row in rows))}
    return sorted(matrices.in_order(rows), key=lambda row: order[row.where])


def with_notes(summary: Summary, notes: Iterable[str]) -> Summary:
    """The summary with further notes, each named once."""
    return replace(summary, notes=tuple(dict.fromkeys([*summary.notes, *notes])))


def row_labels(cells: Iterable[Cell], notes: list[str]) -> dict[str, str]:
    """Cell id -> row label, told apart where two cells of one task would share it: they are never merged."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.suite, cell.task, cell.label), []).append(cell)
    labels: dict[str, str] = {}
    for (suite, task, label), same in groups.items():
        if len(same) == 1:
            labels[same[0].id] = label
            continue
        for tell in (_variant, _learner, _models, _id):
            if len({tell(cell) for cell in same}) == len(same):
                break
        labels.update({cell.id: f"{label} [{tell(cell)}]" for cell in same})
        notes.append(f"{suite}/{task}: {len(same)} configurations are called {label}; what tells them apart is in [ ]")
    return labels


def _variant(cell: Cell) -> str:
    return cell.variant or "as given"


def _learner(cell: Cell) -> str:
    return cell.learner


def _models(cell: Cell) -> str:
    """Which model answers in which role: a label names each model once."""
    return ", ".join(f"{role}={part.model}" for role, part in cell.parts.items() if part.answers)


def _id(cell: Cell) -> str:
    return cell.id


def _states(name: str, runs: Iterable[Run]) -> Iterable[str]:
    for run in runs:
        if run.status == "waiting":
            yield f"{name}: seed {run.seed} has not started"
        elif run.status != "finished":
            lines = (run.error or "").strip().splitlines()
            why = f": {one_line(lines[-1])[:300]}" if lines else ""
            state = "is running" if run.status == "running" else run.status
            yield f"{name}: seed {run.seed} {state} at step {run.step:,} of {run.steps:,}{why}"


def _by_evaluation(evaluations: pd.DataFrame) -> dict[str, dict[int, pd.DataFrame]]:
    """Cell -> seed -> mean score, success rate, number of episodes and mean return of each evaluation, by step."""
    if evaluations.empty:
        return {}
    grouped = evaluations.groupby(["cell", "seed", "step"], sort=True)
    table = grouped.agg(
        score=("score", "mean"), success=("success", "mean"), episodes=("success", "size"),
        **{"return": ("return", "mean")},
    )  # fmt: skip
    found: dict[str, dict[int, pd.DataFrame]] = {}
    seed: Any
    for (cell, seed), curve in table.reset_index(["cell", "seed"]).groupby(["cell", "seed"], sort=False):
        found.setdefault(str(cell), {})[int(seed)] = curve
    return found


def _row(
    cell: Cell,
    label: str,
    name: str,
    runs: list[Run],
    evaluations: Mapping[int, pd.DataFrame],
    notes: list[str],
    reps: int,
    seed: int,
) -> Row | None:
    by_seed = {run.seed: run for run in runs}
    usual = max(int(curve["episodes"].max()) for curve in evaluations.values())
    curves: dict[int, pd.DataFrame] = {}
    for number, curve in sorted(evaluations.items()):
        short = curve.index[curve["episodes"] < usual]
        if len(short) and by_seed[number].status != "finished" and short[-1] == curve.index[-1]:
            counted = f"{int(curve['episodes'].iloc[-1])} of {usual} episodes"
            notes.append(f"{name}: seed {number}'s evaluation at step {short[-1]:,} has {counted} so far; left out")
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
        left = sorted(set(curve.index) - set(common))
        if left:
            unshared.setdefault(_listed(left), []).append(str(number))
    for steps, numbers in unshared.items():
        notes.append(
            f"{name}: evaluations at step {steps} of seed {', '.join(numbers)} are left out, since other seeds lack "
            f"them; its final numbers are those of step {common[-1]:,}"
        )
    if len(curves) == 1:
        notes.append(f"{name}: {statistics.ONE_RUN}")
    scores, success, returns = (
        np.stack([curve[column].to_numpy(float)[curve.index.isin(common)] for curve in curves.values()])
        for column in ("score", "success", "return")
    )
    own = statistics.name_seed(name, seed)
    score_curve, return_curve = _bands(scores, returns, min(reps, statistics.CURVE_REPS), own)
    ends = [scores[:, -1], returns[:, -1], success[:, -1]]
    if len(common) > 1:
        ends.append(statistics.area_under_curve(scores[:, None], np.asarray(common))[:, 0])
    found = statistics.intervals(np.stack(ends, axis=1)[:, None], ["mean", "iqm"], reps, own)
    final, final_return, final_success, *area = _apart(found["mean"])
    sign = cell.score.sign
    best = int(np.argmax(sign * score_curve.estimate))
    reached_end = all(run.status == "finished" for run in runs) and set(by_seed) == set(curves)
    return Row(
        label=label,
        cell=cell,
        place=comparability.place(cell),
        seeds=tuple(curves),
        directories=tuple(by_seed[number].directory for number in curves),
        episodes=(min(int(curve["episodes"].min()) for curve in curves.values()), usual),
        steps=np.asarray(common),
        scores=scores,
        success=success,
        returns=returns,
        complete=reached_end and len(common) == max(len(curve) for curve in curves.values()),
        curve=score_curve,
        return_curve=return_curve,
        final=final,
        final_iqm=_apart(found["iqm"])[0],
        final_success=final_success,
        final_return=final_return,
        best=float(score_curve.estimate[best]),
        best_step=int(common[best]),
        mean_of_best=float(sign * (sign * scores).max(axis=1).mean()),
        area=area[0] if area else NONE,
        missing=tuple(
            number for number, run in sorted(by_seed.items()) if number not in curves or run.status == "failed"
        ),
    )


def _bands(scores: Array, returns: Array, reps: int, seed: int) -> list[Interval]:
    """Means over seeds with intervals at each checkpoint, of both [seeds, checkpoints] from the same resamples."""
    both = np.concatenate([scores, returns], axis=1)[:, None]
    found = statistics.intervals(both, ["mean"], reps, seed)["mean"]
    return [Interval(*(part[place] for part in found)) for place in np.split(np.arange(both.shape[2]), 2)]


def _apart(interval: Interval) -> list[Interval]:
    """An interval of arrays as one for each of their numbers."""
    return [Interval(*map(np.asarray, ends)) for ends in zip(*interval, strict=True)]


def _listed(steps: Iterable[int]) -> str:
    numbers = [f"{int(step):,}" for step in steps]
    return ", ".join(numbers) if len(numbers) <= 6 else f"{', '.join(numbers[:3])}, …, {numbers[-1]} ({len(numbers)})"


def _compared(rows: list[Row], notes: list[str], reps: int, seed: int) -> list[Row]:
    """Rows with their baseline and leaders, each within its own place."""
    groups: dict[Place, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.place, []).append(row)
    leaders: set[int] = set()
    for peers in groups.values():
        level = [peer for peer in peers if not (peer.lacks or _behind(peer, peers))]
        finals = [peer.oriented[:, -1:] for peer in level]
        pairs = statistics.all_pairs(finals, [peer.seeds for peer in level])
        ahead = statistics.leading([float(np.mean(own)) for own in finals], pairs)
        leaders |= {id(peer) for peer, leads in zip(level, ahead, strict=True) if leads}
    compared = []
    for row in rows:
        peers = groups[row.place]
        baseline = next((r for name in BASELINES for r in peers if r.cell.method == name), peers[0])
        target = None if _at_worst(baseline) else baseline.best
        if target is None:
            never = "succeeded" if row.score.name == "success" else f"had a {row.score.name} but the worst"
            notes.append(f"{row.where}: {baseline.label} never {never}, so steps to its best are not defined")
        sign = row.score.sign
        hits = row.steps[:0]
        if target is not None:
            hits = row.steps[sign * row.curve.estimate >= sign * target - TOLERANCE]
        behind = _behind(row, peers)
        if behind:
            notes.append(f"{row.where}, {row.label}: stands at step {row.last:,}, so it is compared with no other row")
        if row.lacks and len(peers) > 1:
            notes.append(f"{row.where}, {row.label}: {lacking(row)}, so it is compared with no other row")
        compared.append(
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
    return compared


def _at_worst(row: Row) -> bool:
    """Whether a row's best is the worst that there is."""
    worst = row.score.low if row.score.sign > 0 else row.score.high
    return worst is not None and abs(row.best - worst) < TOLERANCE


def lacking(row: Row) -> str:
    """Which planned seeds have failed or are missing, and whether too few questions were answered, or nobody knows."""
    found = []
    if row.missing:
        numbers = ", ".join(map(str, row.missing))
        found.append(f"planned seed{'s' if len(row.missing) > 1 else ''} {numbers} failed or missing so far")
    if row.answered is not None and not row.answered.enough:
        few = f"less than {schema.ENOUGH_ANSWERED:.0%} of its questions answered"
        found.append("a ledger that cannot be read" if row.answered.unread else few)
    return " and ".join(found)


def _arrival(row: Row, target: float, reps: int, seed: int) -> Survival:
    reached = statistics.steps_to_threshold(row.oriented[:, None], row.steps, row.score.sign * target - TOLERANCE)
    return statistics.survival(reached, min(reps, statistics.CURVE_REPS), statistics.name_seed(row.label, seed))


def _behind(row: Row, peers: Iterable[Row]) -> bool:
    return not row.complete and row.last < max(peer.last for peer in peers)


def mixtures(study: Study) -> Iterable[str]:
    """Notes on runs that should not silently stand side by side."""
    commits: dict[str, list[str]] = {}
    for run in study.runs:
        if run.provenance:
            state = f"{str(run.provenance.get('commit') or 'unknown')[:12]}{'+' if run.provenance.get('dirty') else ''}"
            commits.setdefault(state, []).append(run.directory)
    if len(commits) > 1:
        listed = "; ".join(f"{state}: {count(len(directories), 'run')}" for state, directories in commits.items())
        yield f"runs of different commits stand side by side ({listed})"
    if any(state.endswith("+") for state in commits):
        yield "some runs were made with uncommitted changes (marked + in the provenance)"
