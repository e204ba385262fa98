"""What a finished run shows of its guide, and nothing of its score: whether the guide acts at all.

A pilot runs a guided method once for this alone. A study whose guide answers late, never changes a batch or a reward,
or whose policy stays uniform, cannot tell the method from its baseline, whatever its number of seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from guidebench.harness.parts import Part
from guidebench.harness.plan.config import Cell, cell_view
from guidebench.harness.records import role_counts
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.schema import ENTROPY, ROLES
from guidebench.harness.records.study import RunDirectory
from guidebench.harness.run.unanswered import LEDGER
from guidebench.harness.statistics import Array

EARLY = 0.25
"""Share of a run before which a guide should have answered."""


def describe(cell: Cell, run: RunDirectory) -> list[str]:
    """Return what a finished run shows of its guide, in sentences."""
    lines = [*_answers(cell, run), *_acting(cell), *_guidance(cell, run), *_entropy(cell, run)]
    return lines or ["The run logs nothing of a guide."]


def _answers(cell: Cell, run: RunDirectory) -> Iterator[str]:
    """Yield, for each role, how many questions ended with a usable answer before a quarter of the run, and in all."""
    rows = [row for row in _json_lines(run) if isinstance(row.get("step"), int)]
    if not rows:
        return
    early = [row for row in rows if row["step"] <= EARLY * cell.steps]
    counts = role_counts.read(rows[-1].get(ROLES))
    before = role_counts.read(early[-1].get(ROLES)) if early else {}
    for role, total in counts.items():
        first = before.get(role, role_counts.RoleCount(0, 0))
        answered, first_answered = total.questions - total.failures, first.questions - first.failures
        share = first_answered / answered if answered else 0.0
        yield (
            f"{role}: {answered:,} of {total.questions:,} questions had a usable answer, {first_answered:,} of these "
            f"({share:.0%}) before a quarter of the run"
        )


def _acting(cell: Cell) -> Iterator[str]:
    """Yield that models act in evaluations alone, where nothing is learnt from them."""
    if not cell.section("agent").learns and cell.models:
        yield "Nothing is learnt: models choose or plan the actions of evaluations"


def _guidance(cell: Cell, run: RunDirectory) -> Iterator[str]:
    """Yield the mean of each metric by which a part says how much it guides (`Part.guidance`)."""
    meanings: dict[str, str] = {}
    for part in cell.sections.values():
        if isinstance(part, Part):
            meanings |= part.guidance
    for name, column in _metrics(run, meanings).items():
        yield f"{meanings[name]}: mean {column.mean():.3g}, last {column[-1]:.3g} ({name})"


def _entropy(cell: Cell, run: RunDirectory) -> Iterator[str]:
    """Yield how far the policy's entropy moved from that of uniform actions."""
    column = _metrics(run, [ENTROPY]).get(ENTROPY)
    actions = cell_view(cell).actions
    if column is None:
        return
    most = math.log(actions.count) if actions.count is not None else math.prod(actions.shape) * math.log(2)
    yield f"Entropy of the policy: {column[-1]:.2f} nats at the end, of {most:.2f} for uniform actions"


def _metrics(run: RunDirectory, names: Iterable[str]) -> dict[str, Array]:
    """Return the finite values of those of the metrics that a run logged."""
    import pyarrow.parquet as pq

    path = run.path / "metrics.parquet"
    if not path.exists():
        return {}
    present = set(pq.read_schema(path).names)
    table = pq.read_table(path, columns=[name for name in names if name in present])
    columns = {name: table[name].to_numpy().astype(float) for name in table.column_names}
    finite = {name: column[np.isfinite(column)] for name, column in columns.items()}
    return {name: column for name, column in finite.items() if len(column)}


def _json_lines(run: RunDirectory) -> list[Mapping[str, Any]]:
    """Return the rows of the run's ledger; [] if it asked no model."""
    path = run.path / LEDGER
    return [json.loads(line) for line in read_regular(path).splitlines()] if path.exists() else []
