"""A source's configurations on a suite. A row holds the cells of one method, one per task, as arrays over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from guidebench.harness.grouping import grouped
from guidebench.harness.interfaces import Score
from guidebench.harness.records import schema
from guidebench.harness.records.parts import RecordedPart
from guidebench.harness.statistics import Array, Sample
from guidebench.reports.leaderboard.board import Tab
from guidebench.reports.leaderboard.sources import Source
from guidebench.reports.summary import comparability, judges, registered, scoring
from guidebench.results import CellRecord, RunRecord
from guidebench.results.evaluations import Evaluations

TASKS = 500
"""Most tasks of a row."""
_TELLS: Sequence[Callable[[CellRecord], str]] = (
    lambda cell: "",
    lambda cell: cell.learner,
    lambda cell: json.dumps(dict(sorted(cell.settings.items())), default=str),
)
"""What tells rows apart that would share a task, in this order: nothing more, the learner, all settings."""
RANKED: Mapping[str, Tab] = {"paper": "paper", "quick": "quick", "quick_all": "quick"}
"""Profile -> the tab that ranks it."""


@dataclass(frozen=True)
class Measured:
    """A cell with its evaluations at the steps at which all of `seeds` were evaluated."""

    cell: CellRecord
    runs: tuple[RunRecord, ...]
    """All planned seeds."""
    seeds: tuple[int, ...]
    steps: Array
    scores: Array
    """Values of the cell's score, [seeds, checkpoints]."""
    returns: Array
    variances: Array
    """Variances of `scores` as means of episodes, [seeds, checkpoints]; NaN of a single episode."""
    counts: Array
    """Episodes of each evaluation, [seeds, checkpoints]."""

    @property
    def last(self) -> int:
        return int(self.steps[-1])

    @property
    def episodes(self) -> int:
        """Return the smallest number of episodes that a seed has in the last evaluation."""
        return int(self.counts[:, -1].min())

    def sample(self, share: bool = False) -> Sample:
        """Return the final scores, [seeds, 1], such that higher is better; rescaled to 0 to 1 if `share`."""
        scores, variances, counts = (values[:, -1:] for values in (self.scores, self.variances, self.counts))
        return scoring.sample(self.cell.score, scores, variances, counts, share)

    def of(self, seeds: Sequence[int]) -> Measured:
        """Return the cell restricted to these seeds, in their order."""
        chosen = [self.seeds.index(seed) for seed in seeds]
        arrays = {name: getattr(self, name)[chosen] for name in ("scores", "returns", "variances", "counts")}
        return replace(self, seeds=tuple(seeds), **arrays)


class Peers(NamedTuple):
    """What rows must have in common to be ranked together."""

    suite: str
    tab: str
    profile: str
    conditions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RankedRow:
    """One configuration of a method on one suite, with its cell for each task."""

    source: Source
    label: str
    tab: Tab | None
    """Tab of the leaderboard; None if its profile is not ranked."""
    tasks: Mapping[str, Measured]

    @property
    def first(self) -> CellRecord:
        return next(iter(self.tasks.values())).cell

    @property
    def version(self) -> int | None:
        return version(self.first)

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Return the settings that differ from the suite's and profile's defaults (`comparability.conditions`)."""
        return comparability.conditions(self.first)

    @property
    def peers(self) -> Peers:
        """Return what the row shares with the rows that it may be ranked with, if they have the same tasks too."""
        return Peers(self.first.suite, self.tab or "", self.first.profile, self.conditions)

    @property
    def score(self) -> Score:
        """Return the definition of the row's score: for one task that of the task; for several the common one if it is
        a share, else each task's rescaled to 0 (worst) to 1 (best)."""
        return scoring.together([measured.cell.score for measured in self.tasks.values()])

    def of(self, tasks: Iterable[str]) -> RankedRow:
        """Return the row restricted to these tasks."""
        return replace(self, tasks={task: self.tasks[task] for task in tasks})

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds that every task has."""
        return tuple(sorted(set.intersection(*(set(measured.seeds) for measured in self.tasks.values()))))


class Member(NamedTuple):
    """An ablation or perturbation of a row's cell; `home` is the name of the source of that row, `source` that of the
    member."""

    home: str
    source: Source
    measured: Measured


def version(cell: CellRecord) -> int | None:
    """Return the suite's version in a cell's record; None if it is missing."""
    recorded = cell.versions.get("suite")
    return recorded if type(recorded) is int else None


def rows(source: Source, cells: Iterable[Measured]) -> list[RankedRow]:
    """Group the cells of a source into rows, one cell per task. Ablations and perturbations form no rows; they belong
    to their reference's row. Rows that would share a task are told apart by learner, then by settings."""
    remaining = [
        measured
        for measured in cells
        if measured.cell.matrix is None or measured.cell.matrix.reference == measured.cell.id
    ]
    ranked_rows = []
    for tell in _TELLS:
        groups = _groups(remaining, tell)
        distinct = {key: members for key, members in groups.items() if not _clash(members)}
        ranked_rows += [_row(source, members, tell(members[0].cell)) for members in distinct.values()]
        remaining = [measured for key, members in groups.items() if key not in distinct for measured in members]
    return ranked_rows + [_row(source, [measured], measured.cell.id) for measured in remaining]


def measured(source: Source) -> dict[str, Measured]:
    """Return cell id -> the evaluations of its runs at the steps that they share, for the cells of a source that have
    any."""
    runs = grouped(source.study.runs, lambda run: run.cell.id)
    by_id = {}
    for cell in source.study.cells:
        curves = {}
        for run in runs.get(cell.id, ()):
            key = cell.id, run.seed
            if key in source.evaluations:
                curves[run.seed] = source.evaluations[key]
        usual = max((int(curve.episodes.max()) for curve in curves.values()), default=0)
        for run in runs.get(cell.id, ()):
            if run.seed in curves and run.status != "finished" and curves[run.seed].episodes[-1] < usual:
                curves[run.seed] = Evaluations._make(values[:-1] for values in curves[run.seed])  # half written
        curves = {seed: curve for seed, curve in curves.items() if len(curve.steps)}
        if not curves:
            continue
        common = _shared(list(curves.values()))
        if len(common):
            aligned = [_at(curve, common) for curve in curves.values()]
            by_id[cell.id] = Measured(
                cell,
                tuple(runs[cell.id]),
                tuple(curves),
                common,
                np.stack([curve.scores for curve in aligned]),
                np.stack([curve.returns for curve in aligned]),
                np.stack([curve.variances for curve in aligned]),
                np.stack([curve.episodes for curve in aligned]),
            )
    return by_id


def _shared(curves: Sequence[Evaluations]) -> Array:
    """Return the steps, ascending, at which every one of the runs was evaluated."""
    first = curves[0].steps
    if all(np.array_equal(curve.steps, first) for curve in curves):
        return first
    return np.asarray(sorted(set.intersection(*(set(curve.steps.tolist()) for curve in curves))), dtype=int)


def _at(curve: Evaluations, steps: Array) -> Evaluations:
    if len(curve.steps) == len(steps):
        return curve
    return Evaluations._make(values[np.isin(curve.steps, steps)] for values in curve)


def tab(cell: CellRecord) -> Tab | None:
    """Return the leaderboard's tab for a cell's row; None if its profile is not ranked."""
    if cell.profile == "smoke":
        return "smoke"
    backends = set(cell.backend.split("+"))
    for part in cell.parts.values():
        backends |= {part.backend, _backend(part)}
    if backends & set(judges.INSTRUMENTS):
        return "scripted"
    return RANKED.get(cell.profile)


def _backend(part: RecordedPart) -> str:
    """Return the backend that the registered part of this name declares, whatever the record says; "" if there is
    none."""
    return str(getattr(registered.get(part.kind, part.name), "backend", ""))


def _groups(cells: Iterable[Measured], tell: Callable[[CellRecord], str]) -> dict[tuple[object, ...], list[Measured]]:

    def shared(measured: Measured) -> tuple[object, ...]:
        cell = measured.cell
        return (
            cell.suite,
            cell.profile,
            cell.method,
            cell.backend,
            cell.model,
            cell.variant,
            version(cell),
            tab(cell),
            comparability.conditions(cell),
            tell(cell),
            cell.task if cell.score.span is None else "",  # without a range, tasks cannot be averaged
        )

    return grouped(cells, shared)


def _clash(members: Sequence[Measured]) -> bool:
    return len({measured.cell.task for measured in members}) < len(members) or len(members) > TASKS


def _row(source: Source, members: Sequence[Measured], addition: str) -> RankedRow:
    cell = members[0].cell
    name = schema.label(cell.method, cell.backend, cell.model, cell.profile, cell.variant)
    tail = addition if len(addition) <= 40 else ", ".join(measured.cell.id for measured in members[:3])
    tasks = {measured.cell.task: measured for measured in sorted(members, key=lambda measured: measured.cell.task)}
    return RankedRow(source, f"{name} [{tail}]" if tail else name, tab(cell), tasks)
