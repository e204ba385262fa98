"""What five papers report, as tables: the numbers they print, and the claims they make of them in prose.

Each paper has two CSV files here: `PAPER.csv`, one row a printed number of a results table, and `PAPER_claims.csv`, one
row a claim with the formula that would test it on runs. Suites, tasks, methods and settings bear this project's names.
A row's note says where the paper contradicts itself, and what follows instead.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness.errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

PAPERS = {"vlm_rb": "VLM-RB", "lagea": "LaGEA", "kagi": "KAGI", "dsadf": "DSADF", "rl_sallm_f": "RL-SaLLM-F"}
"""The papers by the name their files bear, each with its method's name as printed."""

FORMULAS = {
    "level": "metric(method)",
    "difference": "metric(method) − metric(baseline)",
    "relative_gain": "100·(metric(method) − metric(baseline)) / metric(baseline)",
    "relative_saving": "100·(metric(baseline) − metric(method)) / metric(baseline)",
    "wins": "settings in which the method is better; high: number of settings",
    "best": "the method is best of all that baseline names, or of all",
    "ordering": "metric falls along the methods that baseline lists",
    "range": "metric lies in [value, high] in every setting",
    "none": "runs cannot test it",
}
"""How a claim is tested on runs. A level, difference, gain or saving is one of means over the tasks and learners that
the claim names, suite by suite and baseline by baseline, and lies in [value, high] where there is a high; wins and
range look at every task, learner and baseline on its own. Where no baseline is named, the methods compared are the one
method under each value of the setting for which the variant lists several, the one claimed about first."""

_ANY, _TEXT = (r".*", "text"), (r".+", "text")
_NAME = (r"[a-z0-9_]+", "a lower-case name such as vlm_rb")
_NAMES = (r"([a-z0-9_]+(,[a-z0-9_]+)*)?", "lower-case names, separated by commas")
_TASKS = (r"([\w.-]+(,[\w.-]+)*)?", "tasks, separated by commas")
_NUMBER = (r"-?\d+(\.\d+)?", "a plain number")
_MAYBE_NUMBER = (r"(-?\d+(\.\d+)?)?", "a plain number or nothing")
_VARIANT = (r"([^;=]+=[^;=]+(; [^;=]+=[^;=]+)*)?", "key=value pairs separated by '; '")

NUMBERS: dict[str, tuple[str, str]] = {
    "paper": _NAME,
    "table": _TEXT,
    "suite": _NAMES,
    "task": _TASKS,
    "method": _NAME,
    "variant": _VARIANT,
    "metric": _NAME,
    "value": _NUMBER,
    "error": _MAYBE_NUMBER,
    "error_kind": (r"(sd|sem|unknown)?", "sd, sem, unknown or nothing"),
    "seeds": (r"([1-9]\d*)?", "a whole number or nothing"),
    "note": _ANY,
}
"""Columns of a paper's numbers, each with what its text must match, as a pattern and in words."""

CLAIMS: dict[str, tuple[str, str]] = {
    "paper": _NAME,
    "claim": _NAME,
    "where": _TEXT,
    "statement": _TEXT,
    "formula": ("|".join(FORMULAS), ", ".join(FORMULAS)),
    "method": _NAMES,
    "baseline": _NAMES,
    "suite": _NAMES,
    "task": _TASKS,
    "variant": _VARIANT,
    "metric": (r"([a-z0-9_]+)?", "a lower-case name or nothing"),
    "value": _MAYBE_NUMBER,
    "high": _MAYBE_NUMBER,
    "unit": _ANY,
    "note": _ANY,
}
"""Columns of a paper's claims, likewise."""


def load(paper: str | None = None) -> pd.DataFrame:
    """The printed numbers of one paper, or of all, in the papers' order: the columns of `NUMBERS`.

    `value` and `error` (NaN where none is printed) are floats, `seeds` is a nullable integer, the rest text, "" where
    there is none. Raises UserError for a paper that is not in `PAPERS` and for a file that does not fit the schema.
    """
    return _together(paper, "{}.csv", NUMBERS)


def claims(paper: str | None = None) -> pd.DataFrame:
    """The claims of one paper, or of all: the columns of `CLAIMS`, `value` and `high` as floats, NaN where none.

    Raises UserError as `load` does.
    """
    return _together(paper, "{}_claims.csv", CLAIMS)


def variant(text: str) -> dict[str, str]:
    """What else identifies a number, as a dictionary; UserError where the text is not of that form.

    >>> variant("baseline=uer; learner=sac")
    {'baseline': 'uer', 'learner': 'sac'}
    """
    if not re.fullmatch(_VARIANT[0], text):
        raise UserError(f"the variant {text!r} is not {_VARIANT[1]}")
    return dict(pair.split("=") for pair in text.split("; ")) if text else {}


def read(path: Path, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """One file whose columns are `NUMBERS` or `CLAIMS`; UserError names file and line of what does not fit first."""
    import pandas as pd

    frame = pd.DataFrame(_rows(path, columns), columns=list(columns), dtype=object)
    for name in frame.columns.intersection(["value", "error", "high"]):
        frame[name] = frame[name].replace("", "nan").astype(float)
    if "seeds" in frame:
        frame["seeds"] = pd.to_numeric(frame["seeds"].replace("", None)).astype("Int64")
    return frame


def _together(paper: str | None, file: str, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    import pandas as pd

    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    papers = list(PAPERS) if paper is None else [paper]
    return pd.concat([read(Path(__file__).with_name(file.format(p)), columns) for p in papers], ignore_index=True)


def _rows(path: Path, columns: Mapping[str, tuple[str, str]]) -> Iterator[dict[str, str]]:
    seen: dict[tuple[str, ...], int] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        if (header := next(reader, [])) != list(columns):
            raise UserError(f"{path}, line 1: the columns are {','.join(header)}; expected {','.join(columns)}")
        for fields in reader:
            row: dict[str, Any] = dict(zip(columns, fields, strict=False))
            if problem := _problem(path, columns, fields, row):
                raise UserError(f"{path}, line {reader.line_num}: {problem}")
            key = tuple(row[name] for name in _key(columns))
            if key in seen:
                raise UserError(f"{path}, line {reader.line_num}: the same number as line {seen[key]}; tell them apart")
            seen[key] = reader.line_num
            yield row


def _key(columns: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """The columns that tell one row from another."""
    return ("claim",) if "claim" in columns else ("table", "suite", "task", "method", "variant", "metric")


def _problem(path: Path, columns: Mapping[str, tuple[str, str]], fields: list[str], row: Mapping[str, str]) -> str:
    """What is wrong with a row; "" if nothing is."""
    if len(fields) != len(columns):
        return f"{len(fields)} fields; expected {len(columns)}"
    for name, (pattern, words) in columns.items():
        if not re.fullmatch(pattern, row[name]) or row[name] != row[name].strip():
            return f"column {name!r} holds {row[name]!r}; expected {words}"
    if path.stem.removesuffix("_claims") != row["paper"]:
        return f"the paper is {row['paper']!r}; expected the one that the file is named for"
    if list(keys := variant(row["variant"])) != sorted(keys) or len(keys) != row["variant"].count("="):
        return f"the keys of the variant {row['variant']!r} are not sorted, or not distinct"
    if "error" in row and bool(row["error"]) != bool(row["error_kind"]):
        return "an error needs its kind, and a kind its error"
    if row.get("formula") in ("wins", "range") and not row["high"]:
        return f"the formula {row['formula']!r} needs a high"
    if row.get("formula", "none") not in ("best", "ordering", "none") and not row["value"]:
        return f"the formula {row['formula']!r} needs a value"
    if row.get("high") and not (row["value"] and float(row["value"]) <= float(row["high"])):
        return f"high is {row['high']} and value {row['value'] or 'missing'}; expected a value of at most high"
    return ""
