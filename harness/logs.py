"""Logs: tables that the parts of a cell write during a run, with declared columns.

A part declares its logs in its configuration class, `logs = {"waypoints": Log("…", {"x": Column(float, "…")})}`, and
appends table rows with `ctx.note("waypoints", row, {"x": 0.5})`. The declarations are stored in the cell record, so
reading a log does not need the part to be installed. Records may come from untrusted sources; every field is validated.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guidebench.harness.errors import UserError

KINDS: Mapping[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
"""Name in a record -> Python type of a column."""
WORDS: Mapping[type, str] = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}
LOGS, COLUMNS = 32, 64
"""Maximum number of logs that a cell's parts may declare, and of columns per log, the step excluded."""
MEANING, TEXT = 300, 10_000
"""Maximum characters of a meaning, and of a text value."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
"""Valid names of logs and columns."""
STEP = "step"
TAKEN = (
    "filename", "row", "variant", "label", "directory", "study", "cell", "suite", "task", "method", "learner",
    "backend", "model", "profile", "seed",
)  # fmt: skip
"""Reserved column names: reading a log adds these columns to every table row."""


@dataclass(frozen=True)
class Column:
    """One column of a log: its type, meaning and bounds."""

    kind: type
    """Type of the values: int, float, bool or str."""
    meaning: str
    """One line that says what the value is, with its unit."""
    optional: bool = False
    """Whether a table row may omit the column."""
    low: float | None = None
    """Minimum of a number; None for no bound."""
    high: float | None = None
    """Maximum of a number; None for no bound."""

    def holds(self, value: Any) -> bool:
        """Return whether a value is valid for this column."""
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
        """Describe the valid values."""
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
    """Declaration of a log: its meaning and its columns by name."""

    meaning: str
    """One line that says what one table row represents."""
    columns: Mapping[str, Column]

    @property
    def required(self) -> dict[str, type]:
        """Return name -> type of the required columns."""
        return {name: column.kind for name, column in self.columns.items() if not column.optional}

    @property
    def optional(self) -> dict[str, type]:
        """Return name -> type of the optional columns."""
        return {name: column.kind for name, column in self.columns.items() if column.optional}

    def like(self, other: Log) -> bool:
        """Return whether both logs have the same columns, ignoring their meanings."""
        return _bare(self) == _bare(other)


def _bare(log: Log) -> dict[str, tuple[Any, ...]]:
    return {name: _plainly(column) for name, column in log.columns.items()}


def _plainly(column: Column) -> tuple[Any, ...]:
    """Return a column's type, optionality and bounds, without its meaning."""
    return column.kind, column.optional, column.low, column.high


def count(meaning: str, optional: bool = False) -> Column:
    """Return a column of non-negative integers."""
    return Column(int, meaning, optional, low=0)


def share(meaning: str, optional: bool = False) -> Column:
    """Return a column of numbers in [0, 1]."""
    return Column(float, meaning, optional, low=0, high=1)


def amount(meaning: str, optional: bool = False) -> Column:
    """Return a column of non-negative numbers."""
    return Column(float, meaning, optional, low=0)


EPISODE, FRAME, SNAPSHOT, SUCCEEDED = "episode", "frame", "snapshot", "succeeded"
ROLE, QUESTION = "role", "asked"


def packed(snapshot: bytes) -> str:
    """Return a snapshot's bytes as a text for a log: compressed by zlib, in base64."""
    return base64.b64encode(zlib.compress(snapshot)).decode()


def shows_frames(log: Log) -> bool:
    """Return whether a log shows frames of episodes: its columns include `episode` and `frame`, counts, and `snapshot`,
    from which the frame is drawn: the snapshot's bytes, compressed by zlib, in base64. Its numbers are shown beside
    the frame."""
    kinds = {name: column.kind for name, column in log.columns.items()}
    return (kinds.get(EPISODE), kinds.get(FRAME), kinds.get(SNAPSHOT)) == (int, int, str)


def describes_episodes(log: Log) -> bool:
    """Return whether a log has a row per episode, of which the texts are shown beside its frames: it has the column
    `episode`, a count, and none called `frame` or `snapshot`. A column `succeeded` says whether the episode was a
    success."""
    return EPISODE in log.columns and log.columns[EPISODE].kind is int and not {FRAME, SNAPSHOT} & {*log.columns}


def shows_questions(log: Log) -> bool:
    """Return whether a log holds questions that can be shown as a model saw them: its columns include `episode`, the
    training episode that the question is about, `role`, whom it was put to, `asked`, its content, and `snapshot`, from
    which its one frame is drawn (as in `shows_frames`)."""
    kinds = {name: column.kind for name, column in log.columns.items()}
    return [kinds.get(name) for name in (EPISODE, ROLE, QUESTION, SNAPSHOT)] == [int, str, str, str]


TRIAL, FIRST, STEPS, ACTION = "trial", "first", "steps", "action"
TRIALS = 4
"""Most evaluation episodes of a run that are shown with all that was said and done."""


def tells_actions(log: Log) -> bool:
    """Return whether a log tells each action of evaluation episodes, so that they can be played again: its columns
    include `trial`, the index of the episode in its evaluation, `first` and `steps`, counts, and `action`, the name of
    the action that was taken in so many steps from the first."""
    kinds = {name: column.kind for name, column in log.columns.items()}
    return [kinds.get(name) for name in (TRIAL, FIRST, STEPS, ACTION)] == [int, int, int, str]


def shown_trials(trials: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Return (step, episode) of the evaluation episodes to show: at most `TRIALS` of the last evaluation, failures
    first, with one success at the end if there is any. `trials`: (step, episode, success) of all evaluation episodes.

    >>> shown_trials([(100, 0, True), (200, 0, True), (200, 1, False)])
    [(200, 1), (200, 0)]
    """
    all_trials = list(trials)
    last = max((step for step, _, _ in all_trials), default=0)
    failures, successes = (
        [(step, episode) for step, episode, success in sorted(all_trials) if step == last and success is outcome]
        for outcome in (False, True)
    )
    shown_failures = failures[: TRIALS - bool(successes)]
    return [*shown_failures, *successes[: TRIALS - len(shown_failures)]]


UNDECLARED = Log("rows that no record declares", {})
"""Declaration of a log without one: its table rows are read with whatever columns they have."""


def together(declared: Iterable[tuple[str, Mapping[str, Log]]], reserved: Iterable[str] = ()) -> dict[str, Log]:
    """Merge the logs that the parts of a cell declare, and add the column `step`, which is written with every table
    row. `declared`: description of each part and its logs; `reserved`: names of logs that every run writes.

    A part may add optional columns to a log that another part declares.
    Raise UserError for an invalid log or column, and for parts that contradict each other.
    """
    declared_logs: dict[str, Log] = {}
    owners: dict[tuple[str, str], str] = {}
    for part, logs in declared:
        for name, log in logs.items():
            subject = f"{part} declares the log {name!r}"
            _check(name, log, subject)
            if name in reserved:
                raise UserError(f"{subject}, which every run writes; choose another name")
            if STEP in log.columns:
                raise UserError(f"{subject} with the column {STEP!r}, which is written with every row; leave it out")
            with_step = Log(log.meaning, {STEP: count("environment step at which the row was written"), **log.columns})
            declared_logs[name] = (
                _merged(name, declared_logs[name], with_step, subject, owners) if name in declared_logs else with_step
            )
            for column in with_step.columns:
                owners.setdefault((name, column), part)
    if len(declared_logs) > LOGS:
        raise UserError(f"the parts of a cell declare {len(declared_logs)} logs; at most {LOGS} are kept")
    return declared_logs


def _merged(name: str, one: Log, other: Log, subject: str, owners: Mapping[tuple[str, str], str]) -> Log:
    """Return the merged declaration of a log that two parts declare. `subject`: the second part, to begin an error
    with; `owners`: (log, column) -> the part that declared it first.

    Raise UserError if a shared column differs, or if both declare required columns that are not the same.
    """
    for title in [title for title in one.columns if title in other.columns]:
        mine, theirs = other.columns[title], one.columns[title]
        if _plainly(mine) != _plainly(theirs):
            raise UserError(
                f"{subject} with the column {title!r} ({_described(mine)}), and {owners[name, title]} declares it "
                f"differently ({_described(theirs)}); rename the column, or declare it identically"
            )
    ours, added = (log.required.keys() - {STEP} for log in (one, other))
    if ours and added and ours != added:
        first = next(title for title in one.columns if title in ours)
        raise UserError(
            f"{subject} with other columns ({', '.join(list(other.columns)[1:])}) than {owners[name, first]} does "
            f"({', '.join(list(one.columns)[1:])}); rename one of the logs, or declare the added columns as optional"
        )
    base, more = (other, one) if added and not ours else (one, other)
    merged = Log(base.meaning, {**base.columns, **{t: c for t, c in more.columns.items() if t not in base.columns}})
    if len(merged.columns) - 1 > COLUMNS:
        raise UserError(
            f"{subject}, which has {len(merged.columns) - 1} columns with those of others; at most {COLUMNS}"
        )
    return merged


def _described(column: Column) -> str:
    return f"{column.expected}{', optional' if column.optional else ''}"


def _check(name: Any, log: Any, subject: str) -> None:
    """Raise UserError for an invalid declaration."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UserError(f"{subject}; the name of a log has lower-case letters, digits and _, at most 60")
    if not isinstance(log, Log):
        raise UserError(f"{subject} as {type(log).__name__}; write guidebench.harness.logs.Log(meaning, columns)")
    width = len(log.columns.keys() - {STEP})
    if not log.columns or width > COLUMNS:
        raise UserError(f"{subject} with {width} columns; it may have 1 to {COLUMNS}")
    _check_meaning(log.meaning, subject)
    for title, column in log.columns.items():
        at = f"{subject} with the column {title!r}"
        if not isinstance(title, str) or not NAME.fullmatch(title):
            raise UserError(f"{at}; the name of a column has lower-case letters, digits and _, at most 60")
        if title in TAKEN:
            raise UserError(f"{at}, which is added to every table row when a log is read; choose another name")
        if not isinstance(column, Column) or column.kind not in WORDS:
            raise UserError(f"{at}, which is no Column of {', '.join(KINDS)}")
        _check_meaning(column.meaning, at)
        bounds = [bound for bound in (column.low, column.high) if bound is not None]
        if bounds and column.kind not in (int, float):
            raise UserError(f"{at}: only columns of int or float have bounds")
        if any(type(bound) not in (int, float) or not math.isfinite(bound) for bound in bounds):
            raise UserError(f"{at}: its bounds are {bounds}; expected finite numbers")
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise UserError(f"{at}: its least value {bounds[0]} is above its largest {bounds[1]}")


def _check_meaning(meaning: Any, subject: str) -> None:
    if not isinstance(meaning, str) or not meaning.isprintable() or not 0 < len(meaning) <= MEANING:
        raise UserError(f"{subject}; its meaning is one line of 1 to {MEANING} characters, found {str(meaning)[:60]!r}")


def fitting(row: Mapping[str, Any], log: Log, subject: str) -> dict[str, Any]:
    """Return a table row to write, with NumPy scalars as Python numbers and without None. Raise a UserError that begins
    with `subject` for values that the log's declaration does not allow."""
    fitted: dict[str, Any] = {}
    for name, value in row.items():
        if name not in log.columns:
            raise UserError(
                f"{subject} has the column {name!r}, which no part of the cell declares; declare it in the `logs` of "
                f"the part that writes it, as optional if the log is another part's (declared: "
                f"{', '.join(log.columns)})"
            )
        value = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
        column = log.columns[name]
        if value is None and column.optional:
            continue
        if not column.holds(value):
            raise UserError(f"{subject}, column {name!r}: {str(value)[:80]!r}; expected {column.expected}")
        fitted[name] = value
    if missing := [name for name in log.required if name not in fitted]:
        raise UserError(f"{subject} lacks the column {missing[0]!r}; declare it as optional, or pass it to `note`")
    return fitted


def undeclared(name: str, logs: Iterable[str]) -> UserError:
    """Return the error for a table row of an undeclared log."""
    declared = sorted(logs)
    if not declared:
        return UserError(f"a part notes a row of the log {name!r}, and no part of the cell declares any log")
    advice = f"; declare it in the `logs` of the part's configuration (declared: {', '.join(declared)})"
    return UserError(f"a part notes a row of the log {name!r}, which no part of the cell declares{advice}")


def plain(logs: Mapping[str, Log]) -> dict[str, Any]:
    """Return the declarations as JSON values for a record."""
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
    """Return the declarations in a record. Raise UserError for declarations that `together` would reject."""
    if not isinstance(content, Mapping):
        raise UserError(f"logs is {str(content)[:60]!r}; expected an object")
    if len(content) > LOGS:
        raise UserError(f"it declares {len(content):,} logs; at most {LOGS} are read")
    logs = {}
    for name, declaration in content.items():
        subject = f"it declares the log {str(name)[:80]!r}"
        if name in reserved:
            raise UserError(f"{subject}, which every run writes")
        _object(declaration, ("meaning", "columns"), (), subject)
        if not isinstance(declaration["columns"], Mapping):
            raise UserError(f"{subject} without an object of columns")
        if len(declaration["columns"].keys() - {STEP}) > COLUMNS:
            raise UserError(f"{subject} with {len(declaration['columns']):,} columns; at most {COLUMNS} are read")
        columns = {}
        for title, fields in declaration["columns"].items():
            at = f"{subject} with the column {str(title)[:80]!r}"
            _object(fields, ("kind", "meaning"), ("optional", "low", "high"), at)
            if not isinstance(fields["kind"], str) or fields["kind"] not in KINDS:
                raise UserError(f"{at} of kind {str(fields['kind'])[:60]!r}; expected one of {', '.join(KINDS)}")
            if not isinstance(fields.get("optional", False), bool):
                raise UserError(f"{at}: optional is {str(fields['optional'])[:60]!r}; expected true or false")
            more = {name: fields[name] for name in ("optional", "low", "high") if name in fields}
            columns[title] = Column(KINDS[fields["kind"]], fields["meaning"], **more)
        logs[name] = Log(declaration["meaning"], columns)
        _check(name, logs[name], subject)
    return logs


def _object(content: Any, needed: tuple[str, ...], others: tuple[str, ...], subject: str) -> None:
    if not isinstance(content, Mapping) or not set(needed) <= set(content) <= {*needed, *others}:
        raise UserError(f"{subject} as {str(content)[:60]!r}; expected an object with {', '.join(needed)}")


def named(name: Any) -> bool:
    """Return whether this is a valid name of a log, and so of its file."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None
