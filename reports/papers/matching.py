"""Which of our rows a published number is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reports.papers import verdicts
from reports.papers.catalogue import Paper
from reports.papers.estimates import Setting
from reports.summary import Row

RELATIVE = "baseline"
"""The key of a variant that names what a number is relative to; the others describe the method's own run."""
_MEANT = ("command line", "ablation", "perturbation")
"""Layers of a setting that somebody asked for."""


class Number(NamedTuple):
    """One published number, as `results.published` has it; `variant` taken apart."""

    table: str
    suite: str
    task: str
    method: str
    variant: Mapping[str, str]
    metric: str
    value: float
    error: float
    error_kind: str
    seeds: int | None
    note: str


class Match(NamedTuple):
    """The rows that a number is about, task by task and learner by learner, and why they are not what the paper ran."""

    settings: tuple[Setting, ...]
    reasons: tuple[str, ...]


class Missing(NamedTuple):
    """What no chosen study has."""

    what: str


class Shelf:
    """The rows of the chosen studies, found by what a published number says of them.

    `stand_ins`: a task of the paper -> the task of ours that is shown in its place where the paper's has no run.
    """

    def __init__(self, rows: Sequence[Row], paper: Paper, stand_ins: Mapping[str, str]) -> None:
        self.paper = paper
        self._rows, self._stand_ins = rows, stand_ins

    def match(self, number: Number) -> Match | Missing:
        """The rows of a number; Missing names the first setting of it that no study has."""
        settings, reasons = [], []
        learners = number.variant.get("learner", "").split(",")
        variant = {key: value for key, value in number.variant.items() if key not in (RELATIVE, "learner")}
        baseline = number.variant.get(RELATIVE, "")
        for task in number.task.split(","):
            for learner in learners:
                row = self.row(number.suite, task, number.method, learner, variant)
                if row is None:
                    return Missing(_words(number.method, task, learner, variant))
                reasons += self.reasons(row, task, variant)
                if not baseline or baseline == number.method:
                    settings.append(Setting(row))
                    continue
                beside = self.row(number.suite, task, baseline, learner, {})
                if beside is None:
                    return Missing(_words(baseline, task, learner, {}))
                reasons += self.reasons(beside, task, {})
                settings.append(Setting(row, beside))
        return Match(tuple(settings), tuple(dict.fromkeys(reasons)))

    def row(self, suite: str, task: str, method: str, learner: str, variant: Mapping[str, str]) -> Row | None:
        """The row with the fewest settings besides those of `variant`, then the most seeds; None if there is none."""
        for name in dict.fromkeys([task, self._stand_ins.get(task, task)]):
            fitting = [
                row
                for row in self._rows
                if (row.cell.suite, row.cell.task, row.cell.method) == (suite, name, method)
                and learner in ("", row.cell.learner)
                and _has(row, variant)
                and not (row.cell.role and _strays(row, variant, _MEANT[1:]))
            ]
            if fitting:
                return min(fitting, key=lambda row: (len(_strays(row, variant, _MEANT)), -len(row.seeds)))
        return None

    def reasons(self, row: Row, task: str, variant: Mapping[str, str]) -> list[str]:
        """Why a row is not what the paper ran on `task` with `variant`."""
        strays = [stray for stray in _strays(row, variant, _MEANT) if not stray.startswith("training.steps=")]
        return verdicts.reasons(row, self.paper.models, self.paper.budgets, task, ", ".join(strays))


def _has(row: Row, variant: Mapping[str, str]) -> bool:
    """Whether a row's configuration has every setting of a variant."""
    for key, text in variant.items():
        if key == "model":
            if row.cell.model != text:
                return False
        elif key not in row.cell.settings or _value(row.cell.settings[key]) != _parsed(text):
            return False
    return True


def _strays(row: Row, variant: Mapping[str, str], layers: Sequence[str]) -> list[str]:
    """Settings from these layers that the variant does not name."""
    return [
        f"{name}={json.dumps(_value(entry))}"
        for name, entry in row.cell.settings.items()
        if isinstance(entry, Mapping) and str(entry.get("layer", "")).startswith(tuple(layers)) and name not in variant
    ]


def _value(entry: Any) -> Any:
    return entry.get("value") if isinstance(entry, Mapping) else entry


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _words(method: str, task: str, learner: str, variant: Mapping[str, str]) -> str:
    further = [f"{key}={value}" for key, value in variant.items()]
    return " ".join(part for part in [method, f"on {task}", learner, *further] if part)
