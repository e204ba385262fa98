"""Logs: the rows that parts of a cell note beside its evaluations, and the columns that they declare for them.

A part declares its logs in its configuration class, `logs = {"waypoints": Log("…", {"x": Column(float, "…")})}`, and
notes rows with `ctx.note("waypoints", row, {"x": 0.5})`. The declared columns are frozen in the record of the cell, so
whoever reads the rows needs no part to be installed. A record may come from a stranger: every field of it is checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guidebench.harness.errors import UserError

KINDS: Mapping[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
"""What a column can hold, by its name in a record."""
WORDS: Mapping[type, str] = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}
LOGS, COLUMNS = 32, 64
"""Most logs of a cell beside those of every run, and most columns of one beside the step."""
MEANING, TEXT = 300, 10_000
"""Most characters of a meaning, and of a text in a row."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
"""What a log and a column can be called."""
STEP = "step"
TAKEN = (
    "filename", "row", "variant", "label", "directory", "study", "cell", "suite", "task", "method", "learner",
    "backend", "model", "profile", "seed",
)  # fmt: skip
"""Names of columns that stand beside every row when it is read."""


@dataclass(frozen=True)
class Column:
    """What one column of a log holds."""

    kind: type
    """int, float, bool or str."""
    meaning: str
    """One line for a reader who knows the field: what the value is, with its unit."""
    optional: bool = False
    """Whether a row may lack it."""
    low: float | None = None
    """Least value of a number; None: no bound."""
    high: float | None = None
    """Largest value of a number; None: no bound."""

    def holds(self, value: Any) -> bool:
        """Whether a value may stand in this column."""
        if self.kind is str:
            return isinstance(value, str) and value.isprintable() and len(value) <= TEXT
        if self.kind is bool:
            return type(value) is bool
        if type(value) is not int and not (self.kind is float and type(value) is float):
            return False
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        return math.isfinite(value) and abs(value) < 2**63 and low <= value <= high

    @property
    def expected(self) -> str:
        """What may stand here, in words."""
        if self.kind is str:
            return f"text on one line, of at most {TEXT:,} characters"
        if self.low is None and self.high is None:
            return WORDS[self.kind]
        number = "a whole number" if self.kind is int else "a number"
        if self.high is None:
            return f"{number} of at least {self.low:g}"
        return (
            f"{number} of at most {self.high:g}" if self.low is None else f"{number} in [{self.low:g}, {self.high:g}]"
        )


@dataclass(frozen=True)
class Log:
    """What the rows of a log tell, and their columns by name."""

    meaning: str
    """One line: what one row stands for."""
    columns: Mapping[str, Column]

    @property
    def wanted(self) -> dict[str, type]:
        """The kinds of the columns that every row has."""
        return {name: column.kind for name, column in self.columns.items() if not column.optional}

    @property
    def optional(self) -> dict[str, type]:
        """The kinds of the columns that a row may lack."""
        return {name: column.kind for name, column in self.columns.items() if column.optional}

    def like(self, other: Log) -> bool:
        """Whether both have the same columns, whatever is said of them."""
        return _bare(self) == _bare(other)


def _bare(log: Log) -> dict[str, tuple[Any, ...]]:
    return {name: _plainly(column) for name, column in log.columns.items()}


def _plainly(column: Column) -> tuple[Any, ...]:
    """What a column holds, without what is said of it."""
    return column.kind, column.optional, column.low, column.high


def count(meaning: str, optional: bool = False) -> Column:
    """A column of whole numbers of at least 0."""
    return Column(int, meaning, optional, low=0)


def share(meaning: str, optional: bool = False) -> Column:
    """A column of numbers in [0, 1]."""
    return Column(float, meaning, optional, low=0, high=1)


def amount(meaning: str, optional: bool = False) -> Column:
    """A column of numbers of at least 0."""
    return Column(float, meaning, optional, low=0)


UNDECLARED = Log("rows that no record declares", {})
"""How a log is read of which nothing is known: as rows of whatever columns they have."""


def together(declared: Iterable[tuple[str, Mapping[str, Log]]], reserved: Iterable[str] = ()) -> dict[str, Log]:
    """The logs that the parts of a cell declare, each with the column `step`, which is written with every row that a
    part notes. `declared`: each part in words and its logs; `reserved`: names of logs that belong to every run.

    A part may add optional columns to a log that another part declares.
    UserError for a log or a column that is not allowed, and for parts that contradict each other.
    """
    found: dict[str, Log] = {}
    owners: dict[tuple[str, str], str] = {}
    for who, logs in declared:
        for name, log in logs.items():
            where = f"{who} declares the log {name!r}"
            _check(name, log, where)
            if name in reserved:
                raise UserError(f"{where}, which every run writes; choose another name")
            if STEP in log.columns:
                raise UserError(f"{where} with the column {STEP!r}, which is written with every row; leave it out")
            whole = Log(log.meaning, {STEP: count("environment step at which the row was written"), **log.columns})
            found[name] = _merged(name, found[name], whole, where, owners) if name in found else whole
            for column in whole.columns:
                owners.setdefault((name, column), who)
    if len(found) > LOGS:
        raise UserError(f"the parts of a cell declare {len(found)} logs; at most {LOGS} are kept")
    return found


def _merged(name: str, one: Log, other: Log, where: str, owners: Mapping[tuple[str, str], str]) -> Log:
    """A log that several parts declare. `where`: whose the other declaration is; `owners`: whose each column of the
    first one is.

    UserError where a column that both have differs, and where rows of both have columns that every row must have, but
    not the same ones.
    """
    for title in [title for title in one.columns if title in other.columns]:
        mine, theirs = other.columns[title], one.columns[title]
        if _plainly(mine) != _plainly(theirs):
            raise UserError(
                f"{where} with the column {title!r} ({_told(mine)}), and {owners[name, title]} declares it otherwise "
                f"({_told(theirs)}); rename the column, or declare it alike"
            )
    ours, added = (each.wanted.keys() - {STEP} for each in (one, other))
    if ours and added and ours != added:
        first = next(title for title in one.columns if title in ours)
        raise UserError(
            f"{where} with other columns ({', '.join(list(other.columns)[1:])}) than {owners[name, first]} does "
            f"({', '.join(list(one.columns)[1:])}); rename one of the logs, or declare as optional what is added to it"
        )
    base, more = (other, one) if added and not ours else (one, other)
    merged = Log(base.meaning, {**base.columns, **{t: c for t, c in more.columns.items() if t not in base.columns}})
    if len(merged.columns) - 1 > COLUMNS:
        raise UserError(f"{where}, which has {len(merged.columns) - 1} columns with those of others; at most {COLUMNS}")
    return merged


def _told(column: Column) -> str:
    return f"{column.expected}{', optional' if column.optional else ''}"


def _check(name: Any, log: Any, where: str) -> None:
    """UserError for a declaration that no record may hold."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UserError(f"{where}; the name of a log has lower-case letters, digits and _, at most 60")
    if not isinstance(log, Log):
        raise UserError(f"{where} as {type(log).__name__}; write guidebench.harness.logs.Log(meaning, columns)")
    own = len(log.columns.keys() - {STEP})
    if not log.columns or own > COLUMNS:
        raise UserError(f"{where} with {own} columns; it may have 1 to {COLUMNS}")
    _check_meaning(log.meaning, where)
    for title, column in log.columns.items():
        at = f"{where} with the column {title!r}"
        if not isinstance(title, str) or not NAME.fullmatch(title):
            raise UserError(f"{at}; the name of a column has lower-case letters, digits and _, at most 60")
        if title in TAKEN:
            raise UserError(f"{at}, which stands beside every row that is read; choose another name")
        if not isinstance(column, Column) or column.kind not in WORDS:
            raise UserError(f"{at}, which is no Column of {', '.join(KINDS)}")
        _check_meaning(column.meaning, at)
        bounds = [bound for bound in (column.low, column.high) if bound is not None]
        if bounds and column.kind not in (int, float):
            raise UserError(f"{at}: bounds belong to numbers")
        if any(type(bound) not in (int, float) or not math.isfinite(bound) for bound in bounds):
            raise UserError(f"{at}: its bounds are {bounds}; expected finite numbers")
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise UserError(f"{at}: its least value {bounds[0]} is above its largest {bounds[1]}")


def _check_meaning(meaning: Any, where: str) -> None:
    if not isinstance(meaning, str) or not meaning.isprintable() or not 0 < len(meaning) <= MEANING:
        raise UserError(f"{where}; its meaning is one line of 1 to {MEANING} characters, found {str(meaning)[:60]!r}")


def fitting(row: Mapping[str, Any], log: Log, where: str) -> dict[str, Any]:
    """A row as it is written, NumPy's numbers as Python's, and None left out; UserError, which begins with `where`, for
    a value that the log's declaration does not allow."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name not in log.columns:
            raise UserError(
                f"{where} has the column {name!r}, which no part of the cell declares; declare it in the `logs` of the "
                f"part that it is of, as optional if the log is another part's (declared: {', '.join(log.columns)})"
            )
        value = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
        column = log.columns[name]
        if value is None and column.optional:
            continue
        if not column.holds(value):
            raise UserError(f"{where}, column {name!r}: {str(value)[:80]!r}; expected {column.expected}")
        found[name] = value
    if missing := [name for name in log.wanted if name not in found]:
        raise UserError(f"{where} lacks the column {missing[0]!r}; declare it as optional, or note it")
    return found


def undeclared(name: str, logs: Iterable[str]) -> UserError:
    """The error of a part that notes a row of a log that nobody declared."""
    known = sorted(logs)
    if not known:
        return UserError(f"a part notes a row of the log {name!r}, and no part of the cell declares any log")
    advice = f"; declare it in the `logs` of the part's configuration (declared: {', '.join(known)})"
    return UserError(f"a part notes a row of the log {name!r}, which no part of the cell declares{advice}")


def plain(logs: Mapping[str, Log]) -> dict[str, Any]:
    """Declarations as a record holds them."""
    return {name: {"meaning": log.meaning, "columns": _plain_columns(log)} for name, log in logs.items()}


def _plain_columns(log: Log) -> dict[str, Any]:
    kinds = {kind: word for word, kind in KINDS.items()}
    return {
        name: {"kind": kinds[column.kind], "meaning": column.meaning}
        | ({"optional": True} if column.optional else {})
        | {end: getattr(column, end) for end in ("low", "high") if getattr(column, end) is not None}
        for name, column in log.columns.items()
    }


def read(content: Any, reserved: Iterable[str] = ()) -> dict[str, Log]:
    """The declarations that a record holds; UserError for what `together` would not have let through."""
    if not isinstance(content, Mapping):
        raise UserError(f"logs is {str(content)[:60]!r}; expected an object")
    if len(content) > LOGS:
        raise UserError(f"it declares {len(content):,} logs; at most {LOGS} are read")
    found = {}
    for name, entry in content.items():
        where = f"it declares the log {str(name)[:80]!r}"
        if name in reserved:
            raise UserError(f"{where}, which every run writes")
        _object(entry, ("meaning", "columns"), (), where)
        if not isinstance(entry["columns"], Mapping):
            raise UserError(f"{where} without an object of columns")
        if len(entry["columns"].keys() - {STEP}) > COLUMNS:
            raise UserError(f"{where} with {len(entry['columns']):,} columns; at most {COLUMNS} are read")
        columns = {}
        for title, told in entry["columns"].items():
            at = f"{where} with the column {str(title)[:80]!r}"
            _object(told, ("kind", "meaning"), ("optional", "low", "high"), at)
            if not isinstance(told["kind"], str) or told["kind"] not in KINDS:
                raise UserError(f"{at} of kind {str(told['kind'])[:60]!r}; expected one of {', '.join(KINDS)}")
            if not isinstance(told.get("optional", False), bool):
                raise UserError(f"{at}: optional is {str(told['optional'])[:60]!r}; expected true or false")
            more = {name: told[name] for name in ("optional", "low", "high") if name in told}
            columns[title] = Column(KINDS[told["kind"]], told["meaning"], **more)
        found[name] = Log(entry["meaning"], columns)
        _check(name, found[name], where)
    return found


def _object(content: Any, needed: tuple[str, ...], others: tuple[str, ...], where: str) -> None:
    if not isinstance(content, Mapping) or not set(needed) <= set(content) <= {*needed, *others}:
        raise UserError(f"{where} as {str(content)[:60]!r}; expected an object with {', '.join(needed)}")


def named(name: Any) -> bool:
    """Whether a log can have this name, and so its file."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None
