"""Load the rows that runs logged as one DataFrame; an invalid value is reported by file, row and column.

Rows are Parquet for finished runs, JSON lines for others. An incomplete last line, left by a crash, is skipped with a
warning. pandas and pyarrow are imported only when rows are loaded.
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
from guidebench.harness.errors import UserError, of_system, unknown
from guidebench.harness.logs import UNDECLARED, WORDS, Column, Log
from guidebench.harness.records import schema
from guidebench.harness.records.files import read_regular
from guidebench.harness.scores import SUCCESS, Score
from guidebench.results import limits
from guidebench.results.store import IDENTITY, CellRecord, RunRecord, StudyRecord, identity, reader, study

if TYPE_CHECKING:
    import pandas as pd

_PARQUET_TYPES = {int: ("INT32", "INT64"), float: ("DOUBLE", "FLOAT"), bool: ("BOOLEAN",), str: ("BYTE_ARRAY",)}
SECONDS, PER_FILE, SPEED = 120.0, 0.1, 2**20
"""Time limit of reading a study's rows: seconds in all, seconds per file, and bytes per additional second."""
_TAKEN = ("filename", "row", "variant", "label", "directory", *IDENTITY)
EVALUATIONS = "evaluations"
ADVICE = "restore the file or delete the run's directory"
"""Remedy for a damaged file."""
FOREIGN = ("answers", "model_answers")
"""Names of files in a run's directory that look like logs but are not."""


def load(source: str | Path | StudyRecord, *, log: str = EVALUATIONS, threads: int | None = None) -> pd.DataFrame:
    """Return the rows that a study's runs logged, in the order of its runs, with columns variant, label and directory.

    Evaluation rows get a column `score`, the episode's value of its cell's score.

    Logs (all but `evaluations`) get the identity of their run as leading columns. Columns that the cell's record
    declares are checked; other columns, and logs that no record declares, are returned as they are. A column that a row
    lacks is a missing value. `threads`: 1 reads without further threads; None uses one per core. Raises
    UserError naming file, row and column of the first value that the schema does not allow.
    """
    import numpy as np
    import pandas as pd

    opened = source if isinstance(source, StudyRecord) else study(source)
    files: dict[str, RunRecord] = {}
    for run in opened.runs if log == EVALUATIONS or logs.named(log) else ():
        path = file_of(opened.directory / run.directory, log, run.status == "finished")
        if path is not None:
            files[str(path)] = run
    if not files and log not in (EVALUATIONS, *opened.logs):
        raise unknown("record", log, (EVALUATIONS, *opened.logs))
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, run in files.items():
        groups.setdefault((Path(name).suffix, *columns(log, run.cell).items()), []).append(name)
    schemas = [columns(log, files[paths[0]].cell) for paths in groups.values()]
    chosen = [
        Group(paths, required(declared), None if log == EVALUATIONS else optional(declared))
        for paths, declared in zip(groups.values(), schemas, strict=True)
    ]
    frames = _read_separately(opened.directory, log, chosen, threads) if chosen else []
    claimed = _claimed(log)
    rank = {path: index for index, path in enumerate(files)}
    owners = pd.DataFrame(
        [identity(run) for run in files.values()], columns=[*IDENTITY, "variant", "label", "directory"]
    )

    def ordered(unordered: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return rows in the order of runs, and the identity of each row's run."""
        places = unordered["filename"].map(rank).to_numpy(dtype=int)
        order = np.lexsort((unordered["row"].to_numpy(dtype=int), places))
        sorted_, owner = unordered.iloc[order], owners.iloc[places[order]]
        sorted_.index = owner.index = pd.RangeIndex(len(order))  # reset_index would copy all rows
        return sorted_, owner

    for declared, (read_rows, read_claims) in zip(schemas, frames, strict=True):
        _check_values(read_claims, {name: declared[name] for name in claimed})
        _check_values(read_rows, {name: column for name, column in declared.items() if name not in claimed})
    expected = {name: None for cell in opened.cells for name in columns(log, cell)}
    if not expected:  # a study without cells
        expected = dict.fromkeys(columns(log, None))
    empty = pd.DataFrame(columns=["filename", "row", *expected])
    nothing = [empty.drop(columns=claimed, errors="ignore"), empty.reindex(columns=["filename", "row", *claimed])]
    rows, claims = [_stacked(parts) for parts in zip(*frames, strict=True)] or nothing
    claims, claimants = ordered(claims)
    _check_identity(claims, claimants, claimed)
    rows, owner = ordered(rows)
    if log == EVALUATIONS:
        _check_repeated(rows)
        _score(rows, files)
    table = pd.concat([owner, rows.drop(columns=["filename", "row"])], axis=1)
    if log != EVALUATIONS:
        return table
    return table[[*schema.EVALUATION, schema.SCORE, "variant", "label", "directory"]]


def _stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several tables in one. The type of a column is that of its values: tables without rows, as of
    a run that has just begun, and columns without any value in a table do not decide it."""
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

    return load(study, log=log) if log in study.logs else pd.DataFrame(columns=[*IDENTITY])


class Group(NamedTuple):
    """Files with equal columns: those that every row must have, and those that it may lack (None: no others
    allowed)."""

    paths: list[str]
    required: dict[str, type]
    optional: dict[str, type] | None


Read = list[tuple["pd.DataFrame", "pd.DataFrame"]]
"""For each group of files: a table of their rows, and a table of the runs to which the rows say that they belong."""


def _read_separately(directory: Path, log: str, groups: list[Group], threads: int | None) -> Read:
    """Run `_read` in a separate process, since a library may crash on damaged bytes; raise UserError naming the file
    then."""
    files = [path for group in groups for path in group.paths]
    try:
        return reader()(f"{directory}: reading its {log}", _seconds(files), _read, log, groups, threads)
    except reader_process.Broken:
        if len(files) > 1:
            for group in groups:
                for path in group.paths:
                    alone = group._replace(paths=[path])
                    reader()(f"{path}: reading it", _seconds([path]), _read, log, [alone], threads)
        raise


def _seconds(files: Sequence[str]) -> float:
    return SECONDS + PER_FILE * len(files) + sum(map(os.path.getsize, files)) / SPEED


def _read(log: str, groups: list[Group], threads: int | None) -> Read:
    return [_Reader(log, group, threads != 1).read() for group in groups]


def columns(log: str, cell: CellRecord | None) -> Mapping[str, Column]:
    """Return the declared columns of a log for a cell's runs, or for every cell; none for an undeclared log."""
    if log == EVALUATIONS:
        return _evaluation(cell.score if cell else SUCCESS)
    return (schema.LOGS.get(log) or (cell.logs.get(log) if cell else None) or UNDECLARED).columns


@functools.cache
def _evaluation(score: Score) -> Mapping[str, Column]:
    kinds = schema.evaluation(score)
    return {name: Column(kind, name, low=0 if kind is int else None) for name, kind in kinds.items()}


def undeclared(study: StudyRecord, run: RunRecord) -> list[str]:
    """Return the logs in a run's directory that its record does not declare, up to the limit on logs."""
    declared = {EVALUATIONS, *schema.LOGS, *run.cell.logs}
    paths = itertools.islice((study.directory / run.directory).iterdir(), limits.ENTRIES)
    names = {path.stem for path in paths if path.suffix in (".jsonl", ".parquet") and path.is_file()}
    return sorted(name for name in names - declared if logs.named(name) and name not in FOREIGN)[: logs.LOGS]


def required(declared: Mapping[str, Column]) -> dict[str, type]:
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
        is_of_score = rows["filename"].isin(of).to_numpy()
        column = schema.SCORE if score.recorded else score.name
        worth[is_of_score] = rows.loc[is_of_score, column].to_numpy(float)
        bad = is_of_score & ~(schema.within(score, worth) & np.isfinite(worth))
        if bad.any():
            first = rows[bad].iloc[0]
            raise UserError(
                f"{first['filename']}, row {first['row']}, column {column!r}: {_plain(first[column])!r}; expected a "
                f"number in {schema.limits(score)}, the range of {score.name!r}"
            )
    rows[schema.SCORE] = worth


def _claimed(log: str) -> list[str]:
    """Return the columns in which a row names its run, which must be the run of its directory."""
    return [name for name in schema.EVALUATION if name in IDENTITY] if log == EVALUATIONS else []


def file_of(directory: Path, log: str, finished: bool) -> Path | None:
    """Return a run's file with these rows: Parquet once finished, else JSON lines; None if there is none."""
    suffixes = (".parquet", ".jsonl") if finished else (".jsonl", ".parquet")
    return next((path for suffix in suffixes if (path := directory / f"{log}{suffix}").is_file()), None)


class _Reader:
    """Reads files with equal columns into Arrow tables, and collects the runs that the rows name as theirs."""

    def __init__(self, log: str, group: Group, use_threads: bool) -> None:
        self._claimed = _claimed(log)
        self._group, self._use_threads = group, use_threads
        self._declared = {**group.required, **(group.optional or {})}

    def read(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows without the columns that name their run, and separately the first row of each distinct run
        that a file names: repeated per row, these strings would cost more memory than all numbers."""
        import pandas as pd
        import pyarrow as pa

        is_parquet = self._group.paths[0].endswith(".parquet")
        tables = [(self._parquet if is_parquet else self._lines)(path) for path in self._group.paths]
        undeclared = {} if self._group.optional is None else _undeclared_types(tables, self._declared)
        types = {name: _arrow_type(kind) for name, kind in self._declared.items()} | undeclared
        tables = [_with_types(path, table, types) for path, table in zip(self._group.paths, tables, strict=True)]
        claims = [self._claims(table) for table in tables] if self._claimed else []
        names = pd.DataFrame([claim for of_file in claims for claim in of_file], columns=[*self._claimed, "row"])
        numbers = [range(1, len(table) + 1) for table in tables]
        rows = pa.concat_tables([table.drop_columns(self._claimed) for table in tables])
        del tables
        return (
            self._placed(rows.to_pandas(split_blocks=True, self_destruct=True), numbers),
            self._placed(names.drop(columns="row"), [[claim["row"] for claim in of_file] for of_file in claims]),
        )

    def _placed(self, rows: pd.DataFrame, numbers: Sequence[Sequence[int]]) -> pd.DataFrame:
        """Insert the file of each row and its number in the file; `numbers`: those of each file."""
        import numpy as np
        import pandas as pd

        codes = np.repeat(np.arange(len(numbers)), [len(of_file) for of_file in numbers])
        flat = np.fromiter(itertools.chain.from_iterable(numbers), np.int64, len(codes))
        rows.insert(0, "filename", pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(self._group.paths))))
        rows.insert(1, "row", flat)
        return rows

    def _claims(self, table: Any) -> list[dict[str, Any]]:
        """Return the distinct runs that the rows of a file name, each with the number of its first row."""
        chosen = table.select(self._claimed)
        if all(len(column.unique()) <= 1 for column in chosen.columns):
            return [claim | {"row": 1} for claim in chosen.slice(0, 1).to_pylist()]
        first: dict[tuple[Any, ...], dict[str, Any]] = {}
        for number, claim in enumerate(chosen.to_pylist(), start=1):
            first.setdefault(tuple(claim.values()), claim | {"row": number})
        return [*first.values()]

    def _parquet(self, path: str) -> Any:
        """Return the table of a Parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            footer = pq.read_metadata(path)
            leaves = [footer.schema.column(index) for index in range(len(footer.schema))]
            outside.check_rows(Path(path), footer.num_rows, len(leaves))
            types = {leaf.path: leaf.physical_type for leaf in leaves}
            check_columns(path, types, self._group.required, self._group.optional)
            with pq.ParquetFile(path, metadata=footer, read_dictionary=self._claimed) as file:
                return file.read(use_threads=self._use_threads)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and of_system(error):
                raise
            problem = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise UserError(
                f"{path} cannot be read as Parquet ({problem}); delete the run's directory and run it anew"
            ) from None

    def _lines(self, path: str) -> Any:
        """Return the rows of JSON lines as a table; raise UserError for the first line that does not fit. A last line
        that was cut short is left out with a warning."""
        import pyarrow as pa

        rows: list[dict[str, Any]] = []
        lines = read_regular(Path(path)).split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                if number == len(lines):
                    warnings.warn(f"{path}: its last line (row {number}) was cut short and is left out", stacklevel=2)
                    break
                raise UserError(f"{path}, row {number}: not JSON; {ADVICE}") from None
            if wrong := misfit(row, self._group.required, self._group.optional):
                raise UserError(f"{path}, row {number}{wrong}; {ADVICE}")
            rows.append(row)
        columns = {
            name: pa.array([row.get(name) for row in rows], _arrow_type(kind)) for name, kind in self._declared.items()
        }
        others = dict.fromkeys(name for row in rows for name in row if name not in columns and _may_be_column(name))
        return pa.table(columns | {name: _undeclared_column([row.get(name) for row in rows]) for name in others})


def _arrow_type(kind: type) -> Any:
    import pyarrow as pa

    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}[kind]


def _undeclared_column(values: Sequence[Any]) -> Any:
    """Return values of an undeclared column of JSON lines as numbers or truth values, else as texts."""
    import pyarrow as pa

    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    return pa.array([value if isinstance(value, str | None) else json.dumps(value) for value in values], pa.string())


def _undeclared_types(tables: Sequence[Any], declared: Collection[str]) -> dict[str, Any]:
    """Return undeclared column -> Arrow type that fits its values in all tables: number, truth value or text."""
    import pyarrow as pa

    def common(one: Any) -> Any:
        """Return the type that holds values of a column's type in one table."""
        if pa.types.is_integer(one) or pa.types.is_floating(one):
            return pa.float64()
        return pa.bool_() if pa.types.is_boolean(one) else pa.string()

    types: dict[str, set[Any]] = {}
    for table in tables:
        for field in table.schema:
            if field.name not in declared and _may_be_column(field.name):
                of = types.setdefault(field.name, set())
                of |= set() if pa.types.is_null(field.type) else {common(field.type)}
    several, none = pa.string(), pa.float64()
    return {name: next(iter(of), none) if len(of) < 2 else several for name, of in sorted(types.items())}


def _with_types(path: str, table: Any, types: Mapping[str, Any]) -> Any:
    """Return a table with exactly these columns and types; columns that it lacks are filled with nulls."""
    import pyarrow as pa

    columns = {}
    for name, of in types.items():
        try:
            columns[name] = table[name].cast(of) if name in table.column_names else pa.nulls(len(table), of)
        except pa.ArrowException as error:
            problem = str(error).splitlines()[0][:200]
            raise UserError(f"{path}: column {name!r} cannot be read ({problem}); {ADVICE}") from None
    return pa.table(columns)


def _may_be_column(name: str) -> bool:
    return name not in _TAKEN and name.isprintable() and not set(name) & {'"', "\\"}


def check_columns(
    path: str, types: Mapping[str, str], required: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> None:
    """Raise UserError if a Parquet file lacks a required column or has one of the wrong type. `types`: name -> physical
    type.

    `optional`: declared columns that a log may lack, beside undeclared ones; None for evaluation rows, which allow no
    others.
    """
    missing = [name for name in required if name not in types]
    extra = [name for name in types if name not in required] if optional is None else []
    if missing:
        raise UserError(f"{path} lacks the column {missing[0]!r}; expected {', '.join(required)}")
    if extra:
        raise UserError(f"{path} has an unknown column {extra[0]!r}; expected {', '.join(required)}")
    for name, kind in {**required, **(optional or {})}.items():
        fitting = _PARQUET_TYPES[kind] + (_PARQUET_TYPES[int] if kind is float and optional is not None else ())
        if types.get(name, fitting[0]) not in fitting:
            raise UserError(f"{path}: column {name!r} is of type {types[name]}; expected {WORDS[kind]}")


def misfit(row: Any, required: Mapping[str, type], optional: Mapping[str, type] | None) -> str:
    """Return what is wrong with a decoded line of a log, as the end of a message that begins with file and row; "" if
    it fits. `required`, `optional`: as in `Group`."""
    others = optional or {}
    if not isinstance(row, dict):
        return f": {str(row)[:80]!r}; expected a JSON object"
    for name, kind in {**required, **{name: others[name] for name in row.keys() & others}}.items():
        if name not in row:
            return f": lacks the column {name!r}"
        if not _suits(row[name], kind):
            return f", column {name!r}: {row[name]!r}; expected {WORDS[kind]}"
    extra = sorted(set(row) - set(required))
    if extra and optional is None:
        return f": unknown column {extra[0]!r}; expected {', '.join(required)}"
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
            place = f"{first['filename']}, row {first['row']}, column {name!r}"
            raise UserError(f"{place}: {_plain(first[name])!r}; expected {column.expected}; {ADVICE}")


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
