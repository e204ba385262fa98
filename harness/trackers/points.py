"""The points of a run's curves: its logs as one number per series and environment step.

A point is shown once a checkpoint holds it, or the run is finished. Rows after the newest checkpoint are written again
when the run resumes, so showing them would show a number that may change. An environment step is therefore a complete
description of what has been shown: all points up to it, and none after it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from guidebench.harness import logs, outside
from guidebench.harness.errors import UserError
from guidebench.harness.records.files import check_regular, open_regular, read_json
from guidebench.harness.records.schema import ASKING, LOGS, label
from guidebench.harness.records.study import RunDirectory

EVALUATIONS = "evaluations"
KEYED: Mapping[str, str] = {"subgoals": "subgoal", "outcomes": "outcome", "probes": "quantity", "spending": "role"}
"""Log -> its column of texts, whose values become part of the names of series."""
INDICES = frozenset((
    logs.STEP, "applied", "asked", logs.EPISODE, logs.FRAME, logs.TRIAL, logs.FIRST, "ordinal", "seed", "slots", "t",
))  # fmt: skip
"""Columns that number something; a mean over them says nothing."""
ALL = 2**62
"""The last step of a finished run, whose rows are all shown."""
SERIES = 2_000
"""Most series of a run; further ones are left out (choice: a tracker's page with more can no longer be read)."""
NAME = 120
"""Most characters of a series' name."""
BLOCK = 1 << 16
"""Bytes that are read rather than searched for the first row after a step."""


class Point(NamedTuple):
    """The numbers that a run's logs hold for one environment step."""

    step: int
    values: Mapping[str, float]
    """Series, such as `evaluations/success` -> mean over the log's rows of this step."""


@dataclass(frozen=True)
class FollowedRun:
    """A run of a study, as trackers see it."""

    study: str
    directory: Path
    """Directory of the run, which holds its lease."""
    cell: Mapping[str, Any]
    """The cell record, as in cell.json."""
    seed: int
    variant: str = ""

    @property
    def key(self) -> str:
        """Return CELL/SEED, which identifies the run in its study."""
        return f"{self.cell['cell']}/{self.seed}"

    @property
    def group(self) -> str:
        """Return the name of the row of a report to which the run belongs."""
        suite, task, *names = (
            str(self.cell.get(key, "")) for key in ("suite", "task", "method", "backend", "model", "profile")
        )
        method, backend, model, profile = names
        return f"{suite}/{task} {label(method, backend, model, profile, self.variant)}"

    @property
    def name(self) -> str:
        return f"{self.group} · seed {self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the cell record in a form for comparing runs: names, seed, steps, and the value of each setting."""
        names = ("cell", "suite", "task", "method", "learner", "backend", "model", "profile", "variant", "steps")
        recorded_settings = self.cell.get("settings")
        values = {
            str(name): setting.get("value") if isinstance(setting, Mapping) else setting
            for name, setting in (recorded_settings.items() if isinstance(recorded_settings, Mapping) else ())
        }
        return {**{name: self.cell[name] for name in names if name in self.cell}, "seed": self.seed, **values}

    def standing(self) -> tuple[int, str]:
        """Return the last step whose rows no longer change, -1 if there is none, and the run's status. A run whose
        worker was killed counts as stopped. Rows of the run's last step may follow its checkpoint, so they count once
        the run is finished."""
        run = RunDirectory(self.directory)
        status = run.status
        if status == "finished":
            return ALL, status
        if status == "running" and not run.held():
            status = "stopped"
        steps = self.cell.get("steps")
        return min(_final_step(run.path), steps - 1 if isinstance(steps, int) else ALL), status

    def points(self, after: int, until: int) -> list[Point]:
        """Return the points of steps in (after, until], by step."""
        declared = self.cell.get("logs")
        declared_logs = declared if isinstance(declared, Mapping) else {}
        names = dict.fromkeys((EVALUATIONS, *LOGS, *filter(logs.named, declared_logs)))
        sums: dict[int, dict[str, tuple[float, int]]] = {}
        series: set[str] = set()
        run_path = RunDirectory(self.directory).path
        for log in names:
            for row in _rows(run_path / log, log, after, until):
                at = sums.setdefault(_step(row, log), {})
                for name, value in _numbers(log, row):
                    if name in series or len(series) < SERIES:
                        series.add(name)
                        total, count = at.get(name, (0.0, 0))
                        at[name] = total + value, count + 1
        return [
            Point(step, {name: total / count for name, (total, count) in sums[step].items()})
            for step in sorted(sums) if sums[step]
        ]  # fmt: skip


def read_points(run: FollowedRun, after: int, until: int) -> list[Point]:
    """Return `run.points(after, until)`: a function by itself, for a separate process."""
    return run.points(after, until)


def _final_step(directory: Path) -> int:
    """Return the last step whose rows are all covered by the newest checkpoint of a run; -1 without a checkpoint."""
    from guidebench.harness.loop import checkpoints

    for path in reversed(checkpoints.existing(directory)):
        try:
            state = read_json(path / "state.json")
        except UserError:  # damaged, or deleted since the directory was listed
            continue
        step = checkpoints.step_of(path)
        pending = isinstance(state, dict) and isinstance(state.get("loop"), dict) and state["loop"].get("pending")
        return step - 1 if pending else step  # `pending`: the evaluation of this step is still to come
    return -1


def _step(row: Mapping[str, Any], log: str) -> int:
    """Return the environment step of a row; -1 if it has none. A judgement's is that at which its answer counts."""
    step = row.get("applied" if log in ASKING["judge"] else logs.STEP)
    return step if type(step) is int and 0 <= step < ALL else -1


def _numbers(log: str, row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield series and value of each number in a row."""
    of = row.get(KEYED.get(log, ""))
    prefix = f"{log}/{of}" if isinstance(of, str) else log
    for column, value in row.items():
        if column not in INDICES and isinstance(value, (bool, int, float)) and math.isfinite(value):
            yield re.sub(r"[^\w./ -]", "_", f"{prefix}/{column}", flags=re.ASCII)[:NAME], float(value)


def _rows(stem: Path, log: str, after: int, until: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log with steps in (after, until]: of its JSON lines, or of the Parquet file of a run that is
    finished. Damaged lines are left out."""
    lines, table = stem.with_name(f"{stem.name}.jsonl"), stem.with_name(f"{stem.name}.parquet")
    rows: Iterable[Any]
    if table.exists():
        import pyarrow.parquet as pq

        check_regular(table)
        outside.check_parquet(table)
        rows = pq.read_table(table).to_pylist()  # type: ignore[no-untyped-call, unused-ignore]
    elif lines.exists():
        rows = _lines(lines, log, after)
    else:
        return
    for row in rows:
        if isinstance(row, dict) and after < (step := _step(row, log)):
            if step > until:
                return
            yield row


def _lines(path: Path, log: str, after: int) -> Iterator[Any]:
    """Yield the objects in a file of JSON lines, from about the first one after a step: rows are in the order of their
    steps, so its place is found by bisection. The last line may be incomplete."""
    try:
        file = open_regular(path)
    except FileNotFoundError:  # the run has finished since
        return
    with file:
        low, high = 0, path.stat().st_size
        while high - low > BLOCK:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()
            begin = file.tell()
            row = _object(file.readline()) if begin < high else None
            if row is not None and _step(row, log) <= after:
                low = begin
            else:
                high = middle
        file.seek(low)
        yield from _objects(file)


def _objects(file: IO[bytes]) -> Iterator[Any]:
    for line in file:
        if (row := _object(line)) is not None:
            yield row


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
