"""Load the rows that runs logged as one DataFrame; an invalid value is reported by file, row and column.

DuckDB reads the rows: Parquet for finished runs, JSON lines for others. An incomplete last line, left by a crash, is
skipped with a warning. pandas and DuckDB are imported only when rows are loaded.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness import logs, outside, reader_process
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.logs import UNDECLARED, WORDS, Column, Log
from guidebench.harness.records import schema
from guidebench.harness.records.files import read_regular
from guidebench.harness.scores import SUCCESS, Score
from guidebench.results import limits
from guidebench.results.store import IDENTITY, CellRecord, RunRecord, StudyRecord, identity, reader, study

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_JSON_TYPES = {
    int: ("UBIGINT", "BIGINT", "HUGEINT"),
    float: ("DOUBLE", "UBIGINT", "BIGINT"),
    bool: ("BOOLEAN",),
    str: ("VARCHAR",),
}
_PARQUET_TYPES = {int: ("INT32", "INT64"), float: ("DOUBLE", "FLOAT"), bool: ("BOOLEAN",), str: ("BYTE_ARRAY",)}
_SQL_TYPES = {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", str: "VARCHAR"}
SECONDS, PER_FILE, SPEED = 120.0, 0.1, 2**20
"""Time limit of reading a study's rows: seconds in all, seconds per file, and bytes per additional second."""
_TAKEN = ("filename", "row", "variant", "label", "directory", *IDENTITY)
EVALUATIONS = "evaluations"
ADVICE = "restore the file or delete the run's directory"
"""Remedy for a damaged file."""
FOREIGN = ("answers",)
"""Names of files in a run's directory that look like logs but are not."""


def load(source: str | Path | StudyRecord, *, what: str = EVALUATIONS, threads: int | None = None) -> pd.DataFrame:
    """Return the rows that a study's runs logged, in the order of its runs, with columns variant, label and directory.

    Evaluation rows get a column `score`, the episode's value of its cell's score.

    Logs (all but `evaluations`) get the identity of their run as leading columns. Columns that the cell's record
    declares are checked; other columns, and logs that no record declares, are returned as they are. A column that a row
    lacks is a missing value. `threads`: reading threads, each with its own buffers; None means one per core. Raises
    UserError naming file, row and column of the first value that the schema does not allow.
    """
    import numpy as np
    import pandas as pd

    opened = source if isinstance(source, StudyRecord) else study(source)
    files: dict[str, RunRecord] = {}
    for run in opened.runs if what == EVALUATIONS or logs.named(what) else ():
        path = file_of(opened.directory / run.directory, what, run.status == "finished")
        if path is not None:
            files[str(path)] = run
    if not files and what not in (EVALUATIONS, *opened.logs):
        raise unknown("record", what, (EVALUATIONS, *opened.logs))
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, run in files.items():
        groups.setdefault((Path(name).suffix, *columns(what, run.cell).items()), []).append(name)
    schemas = [columns(what, files[paths[0]].cell) for paths in groups.values()]
    chosen = [
        Group(paths, wanted(declared), None if what == EVALUATIONS else optional(declared))
        for paths, declared in zip(groups.values(), schemas, strict=True)
    ]
    frames = _apart(opened.directory, what, chosen, threads) if chosen else []
    claimed = _claimed(what)
    rank = {path: index for index, path in enumerate(files)}
    owners = pd.DataFrame(
        [identity(run) for run in files.values()], columns=[*IDENTITY, "variant", "label", "directory"]
    )

    def ordered(found: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return rows in the order of runs, and the identity of each row's run."""
        places = found["filename"].map(rank).to_numpy(dtype=int)
        order = np.lexsort((found["row"].to_numpy(dtype=int), places))
        sorted_, owner = found.iloc[order], owners.iloc[places[order]]
        sorted_.index = owner.index = pd.RangeIndex(len(order))  # reset_index would copy all rows
        return sorted_, owner

    for declared, (read_rows, read_claims) in zip(schemas, frames, strict=True):
        _check_values(read_claims, {name: declared[name] for name in claimed})
        _check_values(read_rows, {name: column for name, column in declared.items() if name not in claimed})
    expected = {name: None for cell in opened.cells for name in columns(what, cell)}
    if not expected:  # a study without cells
        expected = dict.fromkeys(columns(what, None))
    empty = pd.DataFrame(columns=["filename", "row", *expected])
    nothing = [empty.drop(columns=claimed, errors="ignore"), empty.reindex(columns=["filename", "row", *claimed])]
    rows, claims = [_stacked(parts) for parts in zip(*frames, strict=True)] or nothing
    claims, claimants = ordered(claims)
    _check_identity(claims, claimants, claimed)
    rows, owner = ordered(rows)
    if what == EVALUATIONS:
        _check_repeated(rows)
        _score(rows, files)
    found = pd.concat([owner, rows.drop(columns=["filename", "row"])], axis=1)
    if what != EVALUATIONS:
        return found
    return found[[*schema.EVALUATION, schema.SCORE, "variant", "label", "directory"]]


def _stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of tables one below the other. The type of a column is that of its values: a table without rows,
    as of a run that has just begun, and a column that is missing throughout one table do not count."""
    import pandas as pd

    filled = [part for part in parts if len(part)] or [*parts[:1]]
    if len(filled) == 1:
        return filled[0]
    missing = [{name for name in part if part[name].isna().all()} for part in filled]
    missing[0] -= set.intersection(*missing)  # the first table keeps what none has
    rows = pd.concat([part.drop(columns=[*names]) for part, names in zip(filled, missing, strict=True)])
    rows = rows.reindex(columns=[*dict.fromkeys(name for part in filled for name in part)])
    for name in set.union(*missing):
        if rows[name].dtype == object:
            rows[name] = rows[name].where(rows[name].notna(), None)  # as in a column that misses few values
    return rows


def noted(study: StudyRecord, log: str) -> pd.DataFrame:
    """Return the rows of a log; none if no cell of the study declares it."""
    import pandas as pd

    return load(study, what=log) if log in study.logs else pd.DataFrame(columns=[*IDENTITY])


class Group(NamedTuple):
    """Files with equal columns: those that every row must have, and those that it may lack (None: no others
    allowed)."""

    paths: list[str]
    wanted: dict[str, type]
    optional: dict[str, type] | None


Read = list[tuple["pd.DataFrame", "pd.DataFrame"]]
"""For each group: its rows, and the runs that the rows name as theirs."""


def _apart(directory: Path, what: str, groups: list[Group], threads: int | None) -> Read:
    """Run `_read` in a separate process, since a library may crash on damaged bytes; raise UserError naming the file
    then."""
    files = [path for group in groups for path in group.paths]
    try:
        return reader()(f"{directory}: reading its {what}", _seconds(files), _read, what, groups, threads)
    except reader_process.Broken:
        if len(files) > 1:
            for group in groups:
                for path in group.paths:
                    alone = group._replace(paths=[path])
                    reader()(f"{path}: reading it", _seconds([path]), _read, what, [alone], threads)
        raise


def _seconds(files: Sequence[str]) -> float:
    return SECONDS + PER_FILE * len(files) + sum(map(os.path.getsize, files)) / SPEED


def _read(what: str, groups: list[Group], threads: int | None) -> Read:
    found = []
    with connection(**({} if threads is None else {"threads": threads})) as database:
        for group in groups:
            read = _read_parquet if group.paths[0].endswith(".parquet") else _read_lines
            rows, claims = (part.astype({"filename": "category"}) for part in read(database, what, *group))
            found.append((rows, claims))
    return found


def columns(what: str, cell: CellRecord | None) -> Mapping[str, Column]:
    """Return the declared columns of a log for a cell's runs, or for every cell; none for an undeclared log."""
    if what == EVALUATIONS:
        return _evaluation(cell.score if cell else SUCCESS)
    return (schema.LOGS.get(what) or (cell.logs.get(what) if cell else None) or UNDECLARED).columns


@functools.cache
def _evaluation(score: Score) -> Mapping[str, Column]:
    kinds = schema.evaluation(score)
    return {name: Column(kind, name, low=0 if kind is int else None) for name, kind in kinds.items()}


def undeclared(study: StudyRecord, run: RunRecord) -> list[str]:
    """Return the logs in a run's directory that its record does not declare, up to the limit on logs."""
    known = {EVALUATIONS, *schema.LOGS, *run.cell.logs}
    paths = itertools.islice((study.directory / run.directory).iterdir(), limits.ENTRIES)
    names = {path.stem for path in paths if path.suffix in (".jsonl", ".parquet") and path.is_file()}
    return sorted(name for name in names - known if logs.named(name) and name not in FOREIGN)[: logs.LOGS]


def wanted(declared: Mapping[str, Column]) -> dict[str, type]:
    """Return column name -> type of the required columns of a log."""
    return Log("", declared).required


def optional(declared: Mapping[str, Column]) -> dict[str, type]:
    """Return column name -> type of the optional columns of a log."""
    return Log("", declared).optional


def _score(rows: pd.DataFrame, files: Mapping[str, RunRecord]) -> None:
    """Add the column `score` to evaluation rows; raise UserError for the first value outside the score's range."""
    import numpy as np

    worth = np.full(len(rows), np.nan)
    paths: dict[Score, list[str]] = {}
    for path, run in files.items():
        paths.setdefault(run.cell.score, []).append(path)
    for score, of in paths.items():
        own = rows["filename"].isin(of).to_numpy()
        column = schema.SCORE if score.recorded else score.name
        worth[own] = rows.loc[own, column].to_numpy(float)
        bad = own & ~(schema.within(score, worth) & np.isfinite(worth))
        if bad.any():
            first = rows[bad].iloc[0]
            raise UserError(
                f"{first['filename']}, row {first['row']}, column {column!r}: {_plain(first[column])!r}; expected a "
                f"number in {schema.limits(score)}, the range of {score.name!r}"
            )
    rows[schema.SCORE] = worth


def _claimed(what: str) -> list[str]:
    """Return the columns in which a row names its run, which must be the run of its directory."""
    return [name for name in schema.EVALUATION if name in IDENTITY] if what == EVALUATIONS else []


def file_of(directory: Path, what: str, finished: bool) -> Path | None:
    """Return a run's file with these rows: Parquet once finished, else JSON lines; None if there is none."""
    suffixes = (".parquet", ".jsonl") if finished else (".jsonl", ".parquet")
    return next((path for suffix in suffixes if (path := directory / f"{what}{suffix}").is_file()), None)


def connection(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """Return a new in-memory database; `settings` are DuckDB's."""
    import duckdb

    # otherwise a crafted file could make DuckDB fetch an extension from the network
    alone = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return duckdb.connect(config={**alone, **settings})


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def globs(paths: Sequence[str]) -> list[str]:
    """Return paths with DuckDB's globbing characters escaped."""
    return ["".join(f"[{char}]" if char in "[*?" else char for char in path) for path in paths]


def _read_parquet(
    connection: duckdb.DuckDBPyConnection,
    what: str,
    paths: Sequence[str],
    wanted: Mapping[str, type],
    optional: Mapping[str, type] | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows without the columns that name their run, and separately the first row of each distinct run that a
    file names: repeated per row, these strings would cost more memory than all numbers."""
    import duckdb

    claimed, log = _claimed(what), optional is not None
    source = "FROM read_parquet(?, union_by_name=true, filename=true, file_row_number=true)"
    try:
        found: dict[str, dict[str, str]] = {path: {} for path in paths}
        query = "SELECT file_name, name, type FROM parquet_schema(?) WHERE num_children IS NULL OR num_children = 0"
        for path, name, physical in connection.execute(query, [globs(paths)]).fetchall():
            found[path][name] = physical
        query = "SELECT file_name, num_rows FROM parquet_file_metadata(?)"
        for path, number in connection.execute(query, [globs(paths)]).fetchall():
            outside.check_rows(Path(path), number, len(found[path]))
        for path, types in found.items():
            check_columns(path, types, wanted, optional)
        sql = {name: _SQL_TYPES[kind] for name, kind in {**wanted, **(optional or {})}.items()}
        there = {name for types in found.values() for name in types}
        if log:
            sql |= _others(found, sql)
        columns = {
            name: f", {_quoted(name) if name in there else 'NULL'}::{kind} AS {_quoted(name)}"
            for name, kind in sql.items()
        }
        values = "".join(column for name, column in columns.items() if name not in claimed)
        claims = "".join(columns[name] for name in claimed)
        queries = (
            f"SELECT filename, file_row_number + 1 AS row{values} {source}",
            f"SELECT filename, min(file_row_number) + 1 AS row{claims} {source} GROUP BY ALL",
        )
        rows, claimants = (connection.execute(query, [globs(paths)]).df() for query in queries)
        return rows, claimants
    except duckdb.Error as error:
        if len(paths) == 1:
            problem = str(error).splitlines()[0]
            raise UserError(
                f"{paths[0]} cannot be read as Parquet ({problem}); delete the run's directory and run it anew"
            ) from None
        for path in paths:  # DuckDB does not always name the file
            _read_parquet(connection, what, [path], wanted, optional)
        raise


def _others(found: Mapping[str, Mapping[str, str]], declared: Collection[str]) -> dict[str, str]:
    """Return undeclared column -> SQL type that fits its values in all Parquet files."""
    kinds: dict[str, set[str]] = {}
    for types in found.values():
        for name, physical in types.items():
            if name not in declared and _may_be_column(name):
                kinds.setdefault(name, set()).add(physical)
    numbers = {*_PARQUET_TYPES[int], *_PARQUET_TYPES[float]}
    return {
        name: "DOUBLE" if own <= numbers else "BOOLEAN" if own == {"BOOLEAN"} else "VARCHAR"
        for name, own in sorted(kinds.items())
    }


def _may_be_column(name: str) -> bool:
    return name not in _TAKEN and name.isprintable() and not set(name) & {'"', "\\"}


def _quoted(name: str) -> str:
    return f'"{name}"'


def check_columns(
    path: str, types: Mapping[str, str], wanted: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> None:
    """Raise UserError if a Parquet file lacks a wanted column or has one of the wrong type. `types`: name -> physical
    type.

    `optional`: declared columns that a log may lack, beside undeclared ones; None for evaluation rows, which allow no
    others.
    """
    missing = [name for name in wanted if name not in types]
    extra = [name for name in types if name not in wanted] if optional is None else []
    if missing:
        raise UserError(f"{path} lacks the column {missing[0]!r}; expected {', '.join(wanted)}")
    if extra:
        raise UserError(f"{path} has an unknown column {extra[0]!r}; expected {', '.join(wanted)}")
    for name, kind in {**wanted, **(optional or {})}.items():
        fitting = _PARQUET_TYPES[kind] + (_PARQUET_TYPES[int] if kind is float and optional is not None else ())
        if types.get(name, fitting[0]) not in fitting:
            raise UserError(f"{path}: column {name!r} is of type {types[name]}; expected {WORDS[kind]}")


def _read_lines(
    connection: duckdb.DuckDBPyConnection,
    what: str,
    paths: Sequence[str],
    wanted: Mapping[str, type],
    optional: Mapping[str, type] | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read JSON lines as `_read_parquet` reads Parquet. `_examine` then checks each file with an invalid line or
    value."""
    others: dict[str, str] = {}
    declared = {**wanted, **(optional or {})}
    connection.execute(
        # a partition is unordered: rows are numbered in reading order, then relative to each file's first row
        "CREATE OR REPLACE TEMP TABLE lines AS SELECT filename, json, "
        "place - min(place) OVER (PARTITION BY filename) + 1 AS row FROM (SELECT filename, json, "
        "row_number() OVER () AS place FROM read_ndjson_objects(?, filename=true, ignore_errors=true))",
        [globs(paths)],
    )
    if optional is not None:
        others = _further(connection, declared)
    values = {
        name: f"CASE WHEN json_type(json, {_path(name)}) IN {(*_JSON_TYPES[kind], '')} "
        f"THEN TRY_CAST(json->>{_path(name)} AS {_SQL_TYPES[kind]}) END"
        for name, kind in declared.items()
    } | {name: f"TRY_CAST(json->>{_path(name)} AS {sql})" for name, sql in others.items()}
    columns = ", ".join(f'{value} AS "{name}"' for name, value in values.items())
    rows: pd.DataFrame = connection.execute(f"SELECT filename, row, {columns} FROM lines").df()
    fits = rows[list(wanted)].notna().all(axis=1)
    if optional is None:
        keys = connection.execute("SELECT filename, row FROM lines WHERE len(json_keys(json)) > ?", [len(wanted)]).df()
        suspects = {*rows.loc[~fits, "filename"], *keys["filename"]}
    else:
        suspects = set(rows.loc[~fits, "filename"])
        for name in optional:
            misfit = f"{values[name]} IS NULL" + (f" OR isnan({values[name]})" if optional[name] is float else "")
            odd = f"SELECT filename FROM lines WHERE json_exists(json, {_path(name)}) AND ({misfit})"
            suspects |= set(connection.execute(odd).df()["filename"])
    for path in sorted(suspects):
        _examine(path, wanted, optional)
    fitting = rows[fits].astype({name: _dtype(kind) for name, kind in wanted.items()})
    claimed = _claimed(what)
    claims = fitting.sort_values("row").drop_duplicates(["filename", *claimed])
    return fitting.drop(columns=claimed), claims[["filename", "row", *claimed]]


def _further(connection: duckdb.DuckDBPyConnection, wanted: Mapping[str, type]) -> dict[str, str]:
    """Return undeclared column -> SQL type that fits all its values in JSON lines."""
    query = (
        "SELECT key, list(DISTINCT json_type(json, '$.\"' || key || '\"')) "
        "FROM (SELECT json, unnest(json_keys(json)) AS key FROM lines) GROUP BY key ORDER BY key"
    )
    found = {}
    for key, kinds in connection.execute(query).fetchall():
        if key in wanted or not _may_be_column(key):
            continue
        present = {kind for kind in kinds if kind not in (None, "NULL")}
        if present <= {*_JSON_TYPES[int], *_JSON_TYPES[float]}:
            found[key] = "DOUBLE"
        else:
            found[key] = "BOOLEAN" if present == {"BOOLEAN"} else "VARCHAR"
    return found


def _path(name: str) -> str:
    return _literal(f'$."{name}"')


def _dtype(kind: type) -> str:
    return {int: "int64", float: "float64", bool: "bool", str: "object"}[kind]


def _examine(path: str, wanted: Mapping[str, type], optional: Mapping[str, type] | None) -> None:
    """Find the invalid line and raise UserError, or warn if it is only an incomplete last line."""
    lines = read_regular(Path(path)).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                warnings.warn(f"{path}: its last line (row {number}) was cut short and is left out", stacklevel=2)
                return
            raise UserError(f"{path}, row {number}: not JSON; {ADVICE}") from None
        if wrong := misfit(row, wanted, optional):
            raise UserError(f"{path}, row {number}{wrong}; {ADVICE}")


def misfit(row: Any, wanted: Mapping[str, type], optional: Mapping[str, type] | None) -> str:
    """Return what is wrong with a decoded line of a log, as it follows the file and row in a message; "" if it fits.
    `wanted`, `optional`: as in `Group`."""
    others = optional or {}
    if not isinstance(row, dict):
        return f": {str(row)[:80]!r}; expected a JSON object"
    for name, kind in {**wanted, **{name: others[name] for name in row.keys() & others}}.items():
        if name not in row:
            return f": lacks the column {name!r}"
        if not _suits(row[name], kind):
            return f", column {name!r}: {row[name]!r}; expected {WORDS[kind]}"
    extra = sorted(set(row) - set(wanted))
    if extra and optional is None:
        return f": unknown column {extra[0]!r}; expected {', '.join(wanted)}"
    return ""


def _suits(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind and not (isinstance(value, int) and abs(value) >= 2**63)


def _check_values(rows: pd.DataFrame, declared: Mapping[str, Column]) -> None:
    """Raise UserError for the first value that is missing without being optional, out of bounds, or not printable."""
    import numpy as np

    for name, column in declared.items():
        if name not in rows:
            continue
        values = rows[name]
        missing = values.isna()
        if column.kind in (int, float):
            numbers = values.to_numpy(float, na_value=np.nan)
            low, high = (-math.inf if column.low is None else column.low), column.high
            with np.errstate(invalid="ignore"):
                bad = ~(np.isfinite(numbers) & (numbers >= low) & (numbers <= (math.inf if high is None else high)))
            bad &= ~missing.to_numpy()
        elif column.kind is str:
            bad = values.isin([text for text in values.dropna().unique() if not text.isprintable()]).to_numpy()
        else:
            bad = np.zeros(len(values), bool)
        if not column.optional:
            bad |= missing.to_numpy()
        if bad.any():
            first = rows[bad].iloc[0]
            where = f"{first['filename']}, row {first['row']}, column {name!r}"
            raise UserError(f"{where}: {_plain(first[name])!r}; expected {column.expected}; {ADVICE}")


def _check_identity(claims: pd.DataFrame, expected: pd.DataFrame, claimed: Sequence[str]) -> None:
    """Raise UserError if a row names another run than the one whose directory holds it."""
    for name in claimed:
        wrong = claims[name].to_numpy() != expected[name].to_numpy()
        if wrong.any():
            index = int(wrong.argmax())
            row = claims.iloc[index]
            raise UserError(
                f"{row['filename']}, row {row['row']}, column {name!r}: {_plain(row[name])!r}, "
                f"but it lies in the directory of {name} {_plain(expected[name].iloc[index])!r}"
            )


def _check_repeated(rows: pd.DataFrame) -> None:
    """Raise UserError if an episode is repeated."""
    repeated = rows.duplicated(["filename", "step", "episode"])
    if repeated.any():
        row = rows[repeated].iloc[0]
        raise UserError(
            f"{row['filename']}, row {row['row']}: episode {row['episode']} of the evaluation at step {row['step']} "
            f"is there twice; {ADVICE}"
        )


def _plain(value: Any) -> Any:
    """Return a NumPy number as a Python number."""
    return value.item() if hasattr(value, "item") else value
