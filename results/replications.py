"""Decide how two studies' records of one cell relate: one row, a row and its replication, or a contradiction.

The unit is (cell, study). Two studies that agree in every run that both have are one row. Where they disagree and were
made under different conditions (other sources, package versions, processor, device or OpenGL backend), the later one is
a replication: a second row, which stands beside the first and is compared with it. Under equal conditions a run is
deterministic, so there a disagreement means that one of the two records was altered.

Records come as tables of episodes (`results.joining`) or as arrays of evaluations (the leaderboard); `decide` sees
columns of either and decides for both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guidebench.results.store import CellRecord

SAME = ("suite", "task", "method", "learner", "backend", "model", "profile", "steps", "before", "score")
"""Fields in which cells with equal id must agree."""
MACHINE = ("processor", "device", "gpu", "opengl")
"""What a run's provenance says of the machine that can change its numbers."""


def machine(provenance: Mapping[str, Any]) -> str:
    """Return the processor, device and OpenGL backend of a run's provenance as one text."""
    hardware = provenance.get("hardware")
    fields = hardware if isinstance(hardware, Mapping) else {}
    return json.dumps({name: fields[name] for name in MACHINE if name in fields}, sort_keys=True, default=str)


def is_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two runs were made under equal conditions: source digests, package versions and machine. The
    commit is compared where one of the two has no source digests."""
    code = "sources" if first.get("sources") and second.get("sources") else "commit"
    same = [first.get(name) == second.get(name) for name in (code, "packages")]
    return all(same) and machine(first) == machine(second)


class Record(NamedTuple):
    """What one study has recorded of a run."""

    columns: Mapping[str, NDArray[Any]]
    """Name -> values of its episodes or of its evaluations, [n], in the order in which the run made them."""
    provenance: Mapping[str, Any]
    finished: bool = True

    @property
    def length(self) -> int:
        return min((len(values) for values in self.columns.values()), default=0)


class Contradiction(NamedTuple):
    """Two records of a run that were made under equal conditions and differ."""

    row: int
    """Index of the row among those that are known."""
    seed: int
    place: int
    """The first episode or evaluation in which they differ."""
    column: str


class Decision(NamedTuple):
    """How a study's record of a cell relates to the rows of this cell that are known."""

    row: int | None
    """Index of the first row with which it agrees; None for a new row: the first one, or a replication."""
    contradiction: Contradiction | None = None
    """Why the record cannot be listed beside the known rows; `row` is then None."""


def decide(recorded_rows: Sequence[Mapping[int, Record]], runs: Mapping[int, Record]) -> Decision:
    """Return which of the known rows of a cell, seed -> record, a study's runs of the cell belong to.

    A row agrees if every run that both have is equal as far as both go.
    """
    agreeing: int | None = None
    for row, records in enumerate(recorded_rows):
        agrees = True
        for seed in sorted(records.keys() & runs.keys()):
            index, column = _difference(records[seed], runs[seed])
            if not column:
                continue
            agrees = False
            if is_equal(records[seed].provenance, runs[seed].provenance):
                return Decision(None, Contradiction(row, seed, index, column))
        if agrees and agreeing is None:
            agreeing = row
    return Decision(agreeing)


def is_further(first: Record, second: Record) -> bool:
    """Return whether the second of two agreeing records is to be used instead of the first: it is longer, or only it is
    marked as finished."""
    if first.length != second.length:
        return second.length > first.length
    return second.finished and not first.finished


def altered_field(first: CellRecord, second: CellRecord) -> str:
    """Return the first field in which two records of one cell id contradict each other; "" if they do not, as where one
    of them is of a cell that has not begun."""
    if "" in (first.profile, second.profile):
        return ""
    return next((field for field in SAME if getattr(first, field) != getattr(second, field)), "")


def _difference(first: Record, second: Record) -> tuple[int, str]:
    """Return the index of the first difference of two records, over their common length, and the first column that
    differs there; "" as the column if they agree."""
    count = min(first.length, second.length)
    differing = {
        name: np.asarray(values[:count]) != np.asarray(second.columns[name][:count])
        for name, values in first.columns.items()
    }
    if not any(differs.any() for differs in differing.values()):
        return count, ""
    index = min(int(differs.argmax()) for differs in differing.values() if differs.any())
    return index, next(name for name, differs in differing.items() if differs[index])
