"""Captions, labels, columns, and names of rows, tasks and columns in a paper's LaTeX tables. A name that the study's
tables lack is refused with the available names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from guidebench.harness.errors import UserError, unknown
from guidebench.reports.rendering.tables import aggregates_by_label, by_task
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.summaries import Summary

RESULTS, AGGREGATES, DIFFERENCES, FURTHER = TABLES = ("results", "aggregates", "differences", "further")
"""Kinds of tables: rows by task, aggregates over tasks, a matrix beside its reference, the logs of guides."""
REPLICATIONS = "replications"
"""The table of replications, which `bench compare` alone writes."""
COLUMNS = ("score", "iqm", "auc", "late", "best", "maxima", "steps", "return", "success", "seeds")
"""Columns of the table of rows, by the names that choose and rename them."""
USUAL = ("score", "iqm", "auc", "best", "steps")
"""Columns shown by default; `iqm` only if it differs from the mean."""
OTHERS = ("row", "mean", "median", "final", "difference", "p", "needed", "estimate")
"""Further columns that can be renamed: the column of names, and those of the other tables."""
LABEL = re.compile(r"[A-Za-z0-9:._/+-]+")
ENDS = (" ", ",")
"""Characters that may follow the part of a row's or task's name that identifies it."""


class Wording(NamedTuple):
    """Texts chosen for LaTeX tables; an empty field keeps a table's default. `resolved` expands names to the full names
    in a study's tables."""

    captions: Mapping[str, str] = MappingProxyType({})
    """Table -> its caption: a kind of `TABLES`, with -2 for the second of a kind, and so on."""
    label: str = ""
    """Label of the table of rows; other tables append -TABLE, second parts -part2."""
    names: Mapping[str, str] = MappingProxyType({})
    """Row, task or column -> its name in the tables."""
    columns: tuple[str, ...] = ()
    """Columns of the table of rows, in this order; from `COLUMNS`."""

    def header(self, column: str, usual: str) -> str:
        """Return the header of a column: the chosen name, else `usual`."""
        return self.names.get(column, usual)

    def called(self, table: str, part: int) -> str:
        """Return the LaTeX label of a part of a table; "" if no label was chosen."""
        ends = [self.label, *([table] if table != RESULTS else []), *([f"part{part}"] if part > 1 else [])]
        return "-".join(ends) if self.label else ""


PLAIN = Wording()


def wording(
    captions: Mapping[str, str] = MappingProxyType({}),
    label: str = "",
    names: Sequence[str] | Mapping[str, str] = (),
    columns: Iterable[str] = (),
) -> Wording:
    """Return the chosen texts, checked as far as that is possible without a study. `names` is a mapping, or texts
    OLD=NEW, which `resolved` splits because names may contain =. Raises UserError for unknown columns, an invalid label
    and empty names."""
    chosen = tuple(columns)
    for column in chosen:
        if column not in COLUMNS:
            raise unknown("column", column, COLUMNS)
    twice = [column for index, column in enumerate(chosen) if column in chosen[:index]]
    if twice:
        raise UserError(f"column {twice[0]!r} is chosen twice; name each column once")
    if label and not LABEL.fullmatch(label):
        raise UserError(
            f"LaTeX cannot refer to the label {label!r}; use letters, digits and : . _ / + - as in tab:main"
        )
    if not isinstance(names, Mapping):
        for text in names:
            if "=" not in text.strip("="):
                raise UserError(f"{text!r} gives no new name; write NAME=NEW NAME, as in uer=Uniform")
        names = dict.fromkeys(names, "")
    for name, new in names.items():
        if not new.strip() and "=" not in name:
            raise UserError(f"the new name of {name!r} is empty; give a name")
    return Wording(dict(captions), label, dict(names), chosen)


def captions(texts: Iterable[str]) -> dict[str, str]:
    """Return table -> caption from texts such as `results=TEXT`; a text that begins with no table's name is the caption
    of the rows."""
    by_table: dict[str, str] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        named = bool(equals) and re.sub(r"-\d+$", "", name.strip()) in TABLES
        table, caption = (name.strip(), rest) if named else (RESULTS, text)
        if not caption.strip():
            raise UserError(f"the caption of {table!r} is empty; give a text, as in results='Success on DoorKey.'")
        if table in by_table:
            raise UserError(f"two captions are given for the table {table!r}; give one")
        by_table[table] = caption.strip()
    return by_table


def resolved(wording: Wording, summary: Summary, grids: Sequence[Grid] = ()) -> Wording:
    """Return the wording with names expanded to those in the study's tables. Raise UserError for a name in no table, or
    if two rows would have one name."""
    if wording == PLAIN:
        return wording
    tables = _tables(summary, grids)
    for table in wording.captions:
        if table not in tables:
            raise unknown("table", table, tables)
    groups = [*_groups(summary), *([label] for grid in grids for label in grid.lines)]
    rows = [name for group in groups for name in group]
    headings = [*by_task(summary.rows), *aggregates_by_label(summary.aggregates)]
    available = dict.fromkeys([*rows, *headings, *(name for grid in grids for name in grid.names), *COLUMNS, *OTHERS])
    names: dict[str, str] = {}
    for text, new in wording.names.items():
        old, new = (text, new) if new else _parted(text, list(available))
        full = _full(old, list(available))
        if names.get(full, new) != new:
            raise UserError(f"{full!r} is given two names, {names[full]!r} and {new!r}; give it one")
        names[full] = new
    for group in groups:
        owners: dict[str, str] = {}
        for name in group:
            other = owners.setdefault(names.get(name, name), name)
            if other != name:
                raise UserError(
                    f"{other!r} and {name!r} would both be called {names.get(name, name)!r} in one table; "
                    "give them different names"
                )
    return wording._replace(names=names)


def renamed(summary: Summary, wording: Wording) -> Summary:
    """Return the summary whose captions and notes use the names of `wording`; tables rename their rows themselves."""
    names = wording.names
    rows = tuple(replace(row, baseline=names.get(row.baseline, row.baseline)) for row in summary.rows)
    matrices = []
    for matrix in summary.matrices:
        label, heading = matrix.lines[0].row.label, matrix.heading
        if heading.endswith(label) and label in names:
            heading = heading.removesuffix(label) + names[label]
        task = next((name for name in names if heading.startswith(f"{name}: ")), "")
        matrices.append(matrix._replace(heading=names.get(task, "") + heading.removeprefix(task)))
    return replace(summary, rows=rows, matrices=tuple(matrices))


def _tables(summary: Summary, grids: Sequence[Grid]) -> list[str]:
    """Return the names of the tables that a summary with these grids has."""
    counts = {
        RESULTS: bool(summary.rows),
        AGGREGATES: bool(summary.aggregates),
        DIFFERENCES: len(summary.matrices),
        FURTHER: len(grids),
    }
    return [numbered(kind, index) for kind, count in counts.items() for index in range(1, count + 1)]


def numbered(kind: str, index: int) -> str:
    """Return the name of the table of a kind at this position, from 1."""
    return kind if index == 1 else f"{kind}-{index}"


def _groups(summary: Summary) -> list[list[str]]:
    """Return, for each table, the names of its rows."""
    return [
        *([row.label for row in rows] for rows in by_task(summary.rows).values()),
        *(list(labels) for labels in aggregates_by_label(summary.aggregates).values()),
        *([line.name for line in matrix.lines] for matrix in summary.matrices),
    ]


def _parted(text: str, available: Sequence[str]) -> tuple[str, str]:
    """Split a text OLD=NEW at the = after a part that names something available, else at the first =."""
    places = [index for index, char in enumerate(text) if char == "=" and text[:index] and text[index + 1 :].strip()]
    for place in reversed(places):
        if text[:place] in available or _matches(text[:place], available):
            return text[:place], text[place + 1 :].strip()
    place = places[0] if places else text.index("=")
    return text[:place], text[place + 1 :].strip()


def _matches(start: str, available: Sequence[str]) -> list[str]:
    return [name for name in available if name.startswith(tuple(start + end for end in ENDS))]


def _full(text: str, available: Sequence[str]) -> str:
    """Return the member of `available` with this name, or the only one whose name begins with it. Raise UserError for
    none or several."""
    if text in available:
        return text
    matches = _matches(text, available)
    if len(matches) > 1:
        raise UserError(
            f"{text!r} names {len(matches)} rows or tasks; give one in full: {', '.join(map(repr, matches))}"
        )
    if not matches:
        raise unknown("row, task or column", text, available)
    return matches[0]
