"""Results that five papers report, as tables: the printed numbers, and the claims in their prose.

Each paper has two CSV files here: `PAPER.csv`, with one row per printed number, and `PAPER_claims.csv`, with one row
per claim and the formula that would test it on runs. Suites, tasks, methods and settings have this project's names. A
row's note says where the paper contradicts itself, and which value is used.
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
"""File name of each paper -> its method's printed name"""

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
"""Formula -> how it tests a claim on runs. A level, difference, gain or saving compares means over the claim's tasks
and learners, per suite and baseline, and must lie in [value, high] if high is given; wins and range consider every
task, learner and baseline separately. Without a baseline, one method is compared under the several values that the
variant lists for a setting; the claim is about the first value."""

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
    "error_kind": (r"(sd|population_sd|sem|unknown)?", "sd, population_sd, sem, unknown or nothing"),
    "seeds": (r"([1-9]\d*)?", "a whole number or nothing"),
    "note": _ANY,
}
"""Columns of a paper's numbers -> the pattern of their text, and its description."""

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
"""Columns of a paper's claims -> the pattern of their text, and its description."""


def load(paper: str | None = None) -> pd.DataFrame:
    """Return the printed numbers of one paper, or of all in the order of `PAPERS`, with the columns of `NUMBERS`.

    `value` and `error` (NaN if not printed) are floats, `seeds` is a nullable integer, and the rest is text, "" if
    absent. Raises UserError for a paper that is not in `PAPERS` and for a file that does not fit the schema.
    """
    return _together(paper, "{}.csv", NUMBERS)


def claims(paper: str | None = None) -> pd.DataFrame:
    """Return the claims of one paper, or of all, with the columns of `CLAIMS`; `value` and `high` are floats, NaN if
    absent.

    Raises UserError as `load` does.
    """
    return _together(paper, "{}_claims.csv", CLAIMS)


def variant(text: str) -> dict[str, str]:
    """Parse the `variant` column, the further settings that identify a number; raise UserError for another form.

    >>> variant("baseline=uer; learner=sac")
    {'baseline': 'uer', 'learner': 'sac'}
    """
    if not re.fullmatch(_VARIANT[0], text):
        raise UserError(f"the variant {text!r} is not {_VARIANT[1]}")
    return dict(pair.split("=") for pair in text.split("; ")) if text else {}


def read(path: Path, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return a file with the columns `NUMBERS` or `CLAIMS`; raise UserError naming file and line of the first error."""
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
    lines: dict[tuple[str, ...], int] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        if (header := next(reader, [])) != list(columns):
            raise UserError(f"{path}, line 1: the columns are {','.join(header)}; expected {','.join(columns)}")
        for fields in reader:
            row: dict[str, Any] = dict(zip(columns, fields, strict=False))
            if problem := _problem(path, columns, fields, row):
                raise UserError(f"{path}, line {reader.line_num}: {problem}")
            key = tuple(row[name] for name in _key(columns))
            if key in lines:
                raise UserError(
                    f"{path}, line {reader.line_num}: the same number as line {lines[key]}; tell them apart"
                )
            lines[key] = reader.line_num
            yield row


def _key(columns: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return the columns that identify a table row."""
    return ("claim",) if "claim" in columns else ("table", "suite", "task", "method", "variant", "metric")


def _problem(path: Path, columns: Mapping[str, tuple[str, str]], fields: list[str], row: Mapping[str, str]) -> str:
    """Return what is wrong with a table row, or ""."""
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
