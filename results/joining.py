"""Join several studies into one: equal cell and seed are one run, and contradicting records of it are rejected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.results.rows import load
from guidebench.results.store import CellRecord, RunRecord, StudyRecord, study

if TYPE_CHECKING:
    import pandas as pd

MEASURED = "measured"
"""Name that stands for all studies measured by this project (results/measured)."""
SAME = ("suite", "task", "method", "learner", "backend", "model", "profile", "steps", "before", "score")
"""Fields in which cells with equal id must agree."""
_ACCOUNT = ["step", "episode", "return", "success", "length"]
"""Columns of an evaluation row that describe the episode."""


class Joined(NamedTuple):
    """Joined studies; run directories are relative to the working directory."""

    study: StudyRecord
    evaluations: pd.DataFrame
    origins: Mapping[str, tuple[str, ...]]
    """Cell id -> names of the studies that contain the cell"""


def directories(name: str) -> dict[str, Path]:
    """Return display name -> directory of a study, or of all studies for `measured`, without reading them."""
    if name != MEASURED:
        if not Path(name).exists() and difflib.get_close_matches(name, [MEASURED]):
            raise UserError(f"no study at {name}: the directory does not exist; did you mean {MEASURED!r}?")
        return {name: Path(name)}
    root = Path(__file__).parent / MEASURED
    found = {f"{MEASURED}/{path.parent.name}": path.parent for path in sorted(root.glob("*/study.json"))}
    if not found:
        raise UserError(f"this installation holds no measured studies (looked in {root}); name a study's directory")
    return found


def opened(name: str) -> dict[str, StudyRecord]:
    """Return display name -> study in a directory, or all measured studies for `measured`."""
    return {shown: study(path) for shown, path in directories(name).items()}


def select(source: StudyRecord, wanted: Callable[[CellRecord], bool]) -> StudyRecord:
    """Return the study restricted to the cells that satisfy `wanted`, and their runs."""
    cells = tuple(cell for cell in source.cells if wanted(cell))
    ids = {cell.id for cell in cells}
    return replace(source, cells=cells, runs=tuple(run for run in source.runs if run.cell.id in ids))


def join(studies: Mapping[str, StudyRecord]) -> Joined:
    """Join studies, given by name, with cells in order of first appearance.

    A cell of several studies keeps its first name and gets the runs of all; a run of several studies counts once, with
    its longest record. Raises UserError if two records of a run, or two cells of one id, contradict each other.
    """
    import pandas as pd

    cells: dict[str, CellRecord] = {}
    origins: dict[str, list[str]] = {}
    found: dict[tuple[str, int], tuple[RunRecord, pd.DataFrame]] = {}
    for name, source in studies.items():
        for cell in source.cells:
            first = cells.setdefault(cell.id, cell)
            origins.setdefault(cell.id, []).append(name)
            for field in SAME:
                if getattr(cell, field) != getattr(first, field) and "" not in (cell.profile, first.profile):
                    raise UserError(
                        f"cell {cell.id} has {field} {getattr(first, field)!r} in {origins[cell.id][0]} and "
                        f"{getattr(cell, field)!r} in {name}: one of the two was altered; restore it or leave it out"
                    )
            if not first.profile:  # not started there, so only its directory is known
                cells[cell.id] = cell
        rows = load(source)
        by_run = dict(list(rows.groupby(["cell", "seed"], sort=False)))
        for run in source.runs:
            key = (run.cell.id, run.seed)
            own = replace(run, directory=str(source.directory / run.directory)), by_run.get(key, rows.iloc[:0])
            found[key] = _further(found[key], own) if key in found else own
    by_cell: dict[str, list[RunRecord]] = {id: [] for id in cells}
    for (id, _), (run, _) in found.items():
        by_cell[id].append(replace(run, cell=cells[id]))
    runs = tuple(run for own in by_cell.values() for run in own)
    joined = StudyRecord(" + ".join(studies), Path(), (), tuple(cells.values()), runs)
    frames = [rows for _, rows in found.values() if len(rows)]
    evaluations = pd.concat(frames, ignore_index=True) if frames else load(replace(joined, cells=(), runs=()))
    return Joined(joined, evaluations, {id: tuple(names) for id, names in origins.items()})


def _further(
    first: tuple[RunRecord, pd.DataFrame], second: tuple[RunRecord, pd.DataFrame]
) -> tuple[RunRecord, pd.DataFrame]:
    """Return the longer of two records of one run; raise UserError if their common part differs."""
    (one, rows), (other, more) = first, second
    count = min(len(rows), len(more))
    here, there = (frame[_ACCOUNT].iloc[:count].reset_index(drop=True) for frame in (rows, more))
    differs = (here != there).any(axis=1).to_numpy()
    if differs.any():
        index = int(differs.argmax())
        column = next(name for name in _ACCOUNT if here[name][index] != there[name][index])
        cell = one.cell
        raise UserError(
            f"{cell.suite}/{cell.task}, {cell.label}, seed {one.seed}: {one.directory} and {other.directory} are of "
            f"the same cell ({cell.id}) and tell different things: at step {here['step'][index]:,}, episode "
            f"{here['episode'][index]}, {column} is {here[column][index]} and {there[column][index]}. "
            f"Leave one of the two out; which of them is right cannot be told from here"
        )
    further = len(more) > len(rows) or (len(more) == len(rows) and one.status != "finished")
    return second if further else first
