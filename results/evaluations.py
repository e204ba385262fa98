"""Scores of runs at each evaluation, aggregated over episodes, for readers of many studies at once.

Everything that `results.load` rejects is rejected here too, and reading stays within `guidebench.results.limits`. An
invalid file is passed to `results.load`, which names the table row and column.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from guidebench.harness.errors import UserError
from guidebench.harness.records import schema
from guidebench.results import limits, rows
from guidebench.results.store import IDENTITY, RunRecord, StudyRecord, identity

if TYPE_CHECKING:
    import duckdb

MEMORY = "1GB"
"""Memory limit of DuckDB."""

MOST = 500_000
"""Most evaluations of a study."""
_CLAIMS = ", ".join(IDENTITY)
_COLUMNS = ("step", "episode", '"return"', "success", "length")
_NUMBERS = """step::BIGINT AS step, count(*) AS episodes, sum(success::INT) / count(*) AS success,
    avg("return") AS returns,
    bit_xor(hash(episode::BIGINT, "return"::DOUBLE, success, length::BIGINT)) AS account,
    count(DISTINCT episode) = count(*)
    AND coalesce(bool_and(isfinite("return") AND least(step, episode, length) >= 0), false)"""
_NUMBERS += "".join(f" AND count({column}) = count(*)" for column in _COLUMNS) + " AS fits"
_WORTH = """, avg({0}) AS scores, min({0}) AS least, max({0}) AS most, count({0}) = count(*) AS whole,
    coalesce(var_samp({0}) FILTER (abs({0}) < 1e100) / count(*), 'nan'::DOUBLE) AS variances"""


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
    """Hash of each evaluation's episodes, for comparing copies; comparable only within one version of DuckDB."""


def evaluations(study: StudyRecord) -> dict[tuple[str, int], Evaluations]:
    """Return (cell id, seed) -> evaluations, for each run with evaluation rows.

    Raises UserError naming file, table row and column of the first value that the schema does not allow, and for more
    rows than `guidebench.results.limits` permits. Call `guidebench.results.limits.check` on the directory first.
    """
    import duckdb

    files: dict[str, RunRecord] = {}
    for run in study.runs:
        path = rows.file_of(study.directory / run.directory, "evaluations", run.status == "finished")
        if path is not None:
            files[str(path)] = run
    packed = {path: run for path, run in files.items() if path.endswith(".parquet")}
    unfinished = [run for path, run in files.items() if path.endswith(".jsonl")]
    _check_footers(study, packed)
    by_run: dict[tuple[str, int], Evaluations] = {}
    try:
        for column, chosen in _by_column(packed).items():
            by_run |= _read(study, _database(), "read_parquet(?, filename=true)", chosen, column)
        if unfinished:
            lines = rows.load(_only(study, unfinished), threads=1).rename(columns={"directory": "filename"})
            with _database().cursor() as cursor:
                cursor.register("lines", lines)
                by_run |= _read(study, cursor, "lines", {run.directory: run for run in unfinished}, schema.SCORE)
    except duckdb.Error as error:
        problem = str(error).splitlines()[0][:300]
        raise UserError(f"{study.directory}: its evaluations cannot be read ({problem})") from None
    keys = ((run.cell.id, run.seed) for run in study.runs)
    return {key: by_run[key] for key in keys if key in by_run}


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return a shared database, because creating one takes longer than reading a study. One thread keeps means
    reproducible."""
    return rows.connection(memory_limit=MEMORY, threads=1, temp_directory="")


def _by_column(packed: Mapping[str, RunRecord]) -> dict[str, dict[str, RunRecord]]:
    """Return score column -> the files in which it holds an episode's score."""
    files_by_column: dict[str, dict[str, RunRecord]] = {}
    for path, run in packed.items():
        score = run.cell.score
        files_by_column.setdefault(schema.SCORE if score.recorded else score.name, {})[path] = run
    return files_by_column


def _check_footers(study: StudyRecord, packed: Mapping[str, RunRecord]) -> None:
    import pyarrow.parquet as pq

    schemas: list[tuple[dict[str, type], pq.ParquetSchema]] = []
    count = 0
    for path, run in packed.items():
        required = rows.required(rows.columns("evaluations", run.cell))
        footer = limits.footer(Path(path))
        count += footer.num_rows
        if not any(required == of and footer.schema.equals(other) for of, other in schemas):
            columns = [footer.schema.column(index) for index in range(len(footer.schema))]
            rows.check_columns(path, {column.path: column.physical_type for column in columns}, required)
            schemas.append((required, footer.schema))
    if count > limits.ALL_ROWS:
        raise UserError(f"{study.directory} has {count:,} rows; at most {limits.ALL_ROWS:,} are read")


def _read(
    study: StudyRecord, connection: duckdb.DuckDBPyConnection, source: str, files: Mapping[str, RunRecord], column: str
) -> dict[tuple[str, int], Evaluations]:
    """Return the evaluations in files, or in a table of JSON lines, per run; `files` maps a filename to its run, and
    `column` holds an episode's score."""
    parameters = [rows.globs(list(files))] if "?" in source else []
    worth = _WORTH.format(f'"{column}"::DOUBLE')
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE found AS SELECT filename, {_CLAIMS}, {_NUMBERS}{worth} FROM {source} "
        f"GROUP BY ALL",
        parameters,
    )
    for name, *claim in connection.execute(f"SELECT DISTINCT filename, {_CLAIMS} FROM found").fetchall():
        _check_claim(name, dict(zip(IDENTITY, claim, strict=True)), files[name])
    ((count,),) = connection.execute("SELECT count(*) FROM found").fetchall()
    if count > MOST:
        raise UserError(f"{study.directory} has {count:,} evaluations; at most {MOST:,} are read")
    table = connection.execute(
        "SELECT filename, step, success, returns, scores, variances, least, most, episodes, account, "
        "fits AND whole AS fits FROM found ORDER BY filename, step"
    ).fetchnumpy()
    fits = _plain(table["fits"]).astype(bool) & np.isfinite(_plain(table["returns"]) + _plain(table["scores"]))
    for name in dict.fromkeys(table["filename"][~fits]):
        _refuse(study, files[name])
    starts = np.flatnonzero(np.append(True, table["filename"][1:] != table["filename"][:-1]))
    names = ("step", "success", "returns", "scores", "variances", "episodes", "account")
    parts = zip(*(np.split(_plain(table[name]), starts[1:]) for name in names), strict=True)
    owners = [files[name] for name in table["filename"][starts]] if count else []
    bounds = (np.split(_plain(table[name]), starts[1:]) for name in ("least", "most"))
    for run, *ends in zip(owners, *bounds, strict=False):
        if not schema.within(run.cell.score, ends).all():
            _refuse(study, run)
    return {(run.cell.id, run.seed): Evaluations(*part) for run, part in zip(owners, parts, strict=False)}


def _check_claim(path: str, claim: Mapping[str, Any], run: RunRecord) -> None:
    """Raise UserError if rows name another run than the one whose directory holds them."""
    expected = identity(run)
    for name, value in claim.items():
        if value != expected[name]:
            raise UserError(
                f"{path}, column {name!r}: {str(value)[:80]!r}, but it lies in the directory of {name} "
                f"{str(expected[name])[:80]!r}"
            )


def _plain(values: Any) -> Any:
    """Return a column without its mask; missing values have been rejected before."""
    return np.ma.getdata(values)


def _only(study: StudyRecord, runs: Sequence[RunRecord]) -> StudyRecord:
    cells = {run.cell.id: run.cell for run in runs}
    return replace(study, cells=tuple(cells.values()), runs=tuple(runs))


def _refuse(study: StudyRecord, run: RunRecord) -> NoReturn:
    rows.load(_only(study, [run]), threads=1)
    raise UserError(f"{study.directory / run.directory}: its evaluations hold numbers that cannot be averaged")
