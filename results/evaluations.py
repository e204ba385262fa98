"""Scores of runs at each evaluation, aggregated over episodes, for readers of many studies at once.

Everything that `results.load` rejects is rejected here too, and reading stays within `guidebench.results.limits`. An
invalid file is passed to `results.load`, which names the table row and column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from guidebench.harness.errors import UserError
from guidebench.harness.records import schema
from guidebench.results import limits, rows
from guidebench.results.store import IDENTITY, RunRecord, StudyRecord, identity

MOST = 500_000
"""Most evaluations of a study."""
LARGEST = 1e100
"""Scores beyond this, whose squares could overflow, have no variance."""


class Evaluations(NamedTuple):
    """The evaluations of a run in the order of their steps, arrays [n]."""

    steps: NDArray[np.int64]
    success: NDArray[np.float64]
    """Success rates."""
    returns: NDArray[np.float64]
    """Mean returns."""
    scores: NDArray[np.float64]
    """Means of the episodes' values of the cell's score."""
    variances: NDArray[np.float64]
    """Variances of these means: between the episodes of an evaluation, by their number; NaN with one episode."""
    episodes: NDArray[np.int64]
    account: NDArray[np.uint64]
    """Hash of each evaluation's episodes, for comparing copies."""


def evaluations(study: StudyRecord) -> dict[tuple[str, int], Evaluations]:
    """Return (cell id, seed) -> evaluations, for each run with evaluation rows.

    Raises UserError naming file, table row and column of the first value that the schema does not allow, and for more
    rows than `guidebench.results.limits` permits. Call `guidebench.results.limits.check` on the directory first.
    """
    files: dict[Path, RunRecord] = {}
    for run in study.runs:
        path = rows.file_of(study.directory / run.directory, "evaluations", run.status == "finished")
        if path is not None:
            files[path] = run
    packed = {path: run for path, run in files.items() if path.suffix == ".parquet"}
    unfinished = [run for path, run in files.items() if path.suffix == ".jsonl"]
    footers = _footers(study, packed)
    curves = {(run.cell.id, run.seed): _of_file(study, path, footers[path], run) for path, run in packed.items()}
    if unfinished:
        lines = rows.load(_only(study, unfinished), threads=1)
        names = ("step", "episode", "return", "success", "length", schema.SCORE)
        for run in unfinished:
            part = lines[lines["directory"] == run.directory]
            curves[run.cell.id, run.seed] = _evaluations(study, run, *(part[name].to_numpy() for name in names))
    if (count := sum(len(curve.steps) for curve in curves.values())) > MOST:
        raise UserError(f"{study.directory} has {count:,} evaluations; at most {MOST:,} are read")
    keys = ((run.cell.id, run.seed) for run in study.runs)
    return {key: curves[key] for key in keys if key in curves and len(curves[key].steps)}


def _footers(study: StudyRecord, packed: Mapping[Path, RunRecord]) -> dict[Path, Any]:
    """Return pyarrow's metadata of Parquet files; raise UserError for columns other than those of evaluations, or too
    many rows."""
    import pyarrow.parquet as pq

    accepted: list[tuple[dict[str, type], pq.ParquetSchema]] = []
    footers = {}
    for path, run in packed.items():
        required = rows.required(rows.columns("evaluations", run.cell))
        footer = footers[path] = limits.footer(path)
        if not any(required == of and footer.schema.equals(other) for of, other in accepted):
            columns = [footer.schema.column(index) for index in range(len(footer.schema))]
            rows.check_columns(str(path), {column.path: column.physical_type for column in columns}, required)
            accepted.append((required, footer.schema))
    if (count := sum(footer.num_rows for footer in footers.values())) > limits.ALL_ROWS:
        raise UserError(f"{study.directory} has {count:,} rows; at most {limits.ALL_ROWS:,} are read")
    return footers


def _of_file(study: StudyRecord, path: Path, footer: Any, run: RunRecord) -> Evaluations:
    """Return the evaluations in a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, metadata=footer, read_dictionary=IDENTITY) as file:
            table = file.read(use_threads=False)
        for name, expected in identity(run).items():
            if name in IDENTITY:
                _check_claim(path, name, table[name].unique().to_pylist(), expected)
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0][:300]
        raise UserError(f"{path}: its evaluations cannot be read ({problem})") from None
    score = run.cell.score
    column = schema.SCORE if score.recorded else score.name
    names = ("step", "episode", "return", "success", "length", column)
    if any(table[name].null_count for name in names):
        _refuse(study, run)
    steps, episodes, returns, success, lengths, scores = (table[name].to_numpy() for name in names)
    if (
        not (np.isfinite(returns) & np.isfinite(scores.astype(float))).all()
        or min((part.min(initial=0) for part in (steps, episodes, lengths)), default=0) < 0
        or not schema.within(score, scores.astype(float)).all()
        or _has_repetitions(steps, episodes)
    ):
        _refuse(study, run)
    return _evaluations(study, run, steps, episodes, returns, success, lengths, scores)


def _has_repetitions(steps: NDArray[Any], episodes: NDArray[Any]) -> bool:
    """Return whether two rows have equal step and episode."""
    order = np.lexsort((episodes, steps))
    return bool(((np.diff(steps[order]) == 0) & (np.diff(episodes[order]) == 0)).any())


def _evaluations(
    study: StudyRecord,
    run: RunRecord,
    steps: NDArray[Any],
    episodes: NDArray[Any],
    returns: NDArray[Any],
    success: NDArray[Any],
    lengths: NDArray[Any],
    scores: NDArray[Any],
) -> Evaluations:
    """Return the evaluations of a run's episodes, arrays [n]; refuse sums beyond all numbers."""
    at, index, counts = np.unique(steps.astype(np.int64), return_inverse=True, return_counts=True)
    scores = scores.astype(float)

    def means(per_episode: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(index, per_episode.astype(float), len(at)) / counts

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        score_means, return_means = means(scores), means(returns)
        squares = np.where(np.abs(scores) < LARGEST, (scores - score_means[index]) ** 2, np.nan)
        variances = np.bincount(index, squares, len(at)) / (counts - 1) / counts
    if not np.isfinite(return_means + score_means).all():
        _refuse(study, run)
    account = np.zeros(len(at), np.uint64)
    np.bitwise_xor.at(account, index, _hashes(episodes, returns, success, lengths))
    return Evaluations(at, means(success), return_means, score_means, variances, counts.astype(np.int64), account)


def _hashes(*columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row (SplitMix64: Steele, Lea and Flood 2014)."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        bits = column.astype(float if column.dtype.kind == "f" else np.int64).view(np.uint64)
        hashes = (hashes ^ bits) + np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return hashes


def _check_claim(path: Path, name: str, values: Sequence[Any], expected: Any) -> None:
    """Raise UserError if rows name another run than the one whose directory holds them."""
    for value in values:
        if value != expected:
            raise UserError(
                f"{path}, column {name!r}: {str(value)[:80]!r}, but it lies in the directory of {name} "
                f"{str(expected)[:80]!r}"
            )


def _only(study: StudyRecord, runs: Sequence[RunRecord]) -> StudyRecord:
    cells = {run.cell.id: run.cell for run in runs}
    return replace(study, cells=tuple(cells.values()), runs=tuple(runs))


def _refuse(study: StudyRecord, run: RunRecord) -> NoReturn:
    rows.load(_only(study, [run]), threads=1)
    raise UserError(f"{study.directory / run.directory}: its evaluations hold numbers that cannot be averaged")
