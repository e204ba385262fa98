"""How many questions of a study to foundation models had no usable answer, from the ledgers of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness.errors import count
from guidebench.harness.models import study_models
from guidebench.harness.plan.config import Cell
from guidebench.harness.records import role_counts
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.role_counts import RoleCount
from guidebench.harness.records.schema import ROLES
from guidebench.harness.records.study import RunDirectory

LEDGER = "ledger.jsonl"


def counted(runs: Iterable[tuple[Cell, Path]]) -> RoleCount:
    """Return the questions to foundation models that ended, over runs given as cell and directory, and those of them
    without a usable answer. Hand-written models, oracles and persons do not count."""
    total = RoleCount(0, 0)
    for cell, directory in runs:
        served = {part.role for part in cell.models if study_models.is_recorded(cell.section(part.role))}
        try:
            found = role_counts.read(last_row(RunDirectory(directory).path / LEDGER).get(ROLES))
        except ValueError:  # not what this program wrote; the report names it
            continue
        for role in served & found.keys():
            total = RoleCount(total.questions + found[role].questions, total.failures + found[role].failures)
    return total


def sentence(counts: RoleCount) -> str:
    """Return how many questions went unanswered, in one line.

    >>> sentence(RoleCount(72, 72))
    'none of the 72 questions to models had a usable answer, so the runs show nothing of them'
    """
    asked = f"{count(counts.questions, 'question')} to models"
    if counts.questions == counts.failures:
        return f"none of the {asked} had a usable answer, so the runs show nothing of them"
    if counts.failures:
        return f"{counts.failures:,} of {asked} had no usable answer"
    return f"every one of {asked} had a usable answer"


def last_row(path: Path) -> Mapping[str, Any]:
    """Return the last complete line of a log as an object, or {} if there is none, or no file that can be read."""
    try:
        lines = read_regular(path).splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # an interrupted write, or a foreign file
            continue
        return row if isinstance(row, dict) else {}
    return {}
