"""Names of rows: the method, and of everything else only what differs between the rows of a study.

What all rows share is stated once: overrides of settings in `Names.shared`, the profile and the models in the legend
under every table (`legends.setting`). A single row keeps its full name. Cells are never merged: two cells of one task
that would share a name get additions in brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from guidebench.harness.grouping import grouped
from guidebench.harness.records import schema
from guidebench.harness.records.parts import RecordedPart
from guidebench.reports.summary.records import value_of
from guidebench.results import CellRecord

PRETRAINING = "pretraining."
"""Prefix of settings of a pre-training stage."""
DIGEST = ".digest"
"""Suffix of settings that hold a hash, which no name repeats."""
LONGEST = 60
"""Most characters of the settings that tell two cells of one name apart."""
_NEXT = re.compile(r"[,;] (?=[a-z_]+(?:\.[a-z_.]+)?=)")
"""What separates two overrides of a row's name."""


class Names(NamedTuple):
    """The names of a study's rows, and the settings that none of them repeats."""

    labels: dict[str, str]
    """Cell id -> name of its row, distinct within a task."""
    shared: tuple[str, ...] = ()
    """Overrides, as `setting=value`, that no name repeats, since they differ between no two rows that have the
    setting."""


def full(cells: Iterable[CellRecord], notes: list[str]) -> Names:
    """Return the cells' own labels as names; where cells share one, additions distinguish them and a note says how."""
    return Names(_distinct([(cell, cell.label) for cell in cells], notes))


def brief(cells: Sequence[CellRecord], notes: list[str]) -> Names:
    """Return names that say only what differs between these cells; the full names (`full`) if there are fewer than
    two."""
    begun_cells = [cell for cell in cells if cell.settings]
    if len(begun_cells) < 2:
        return full(cells, notes)
    overrides_of = {cell.id: _label_overrides(cell) for cell in cells}
    dropped = _dropped(begun_cells, overrides_of)
    same_profile = len({cell.profile for cell in begun_cells}) == 1
    same_models = len({cell.model or cell.backend for cell in begun_cells}) == 1
    labels = []
    for cell in cells:
        words = overrides_of[cell.id]
        if words is None or not cell.settings:
            labels.append((cell, cell.label))
            continue
        variant = ("; " if cell.matrix else ", ").join(
            override for override in words if override not in dropped and not _is_digest(override)
        )
        models = "" if same_models else _models(cell, begun_cells)
        labels.append((cell, schema.label(cell.method, "", models, "" if same_profile else cell.profile, variant)))
    return Names(_distinct(labels, notes), tuple(dropped))


def _label_overrides(cell: CellRecord) -> list[str] | None:
    """Return the texts in the parentheses of a cell's label: its name in a matrix, and its overrides. None for a label
    of another form, such as that of a replication."""
    tail = schema.label("", cell.backend, cell.model, cell.profile)
    tail = f" · {tail}" if tail else ""
    start, end = f"{cell.method} (", f"){tail}"
    if cell.label == cell.method + tail:
        return []
    if not (cell.label.startswith(start) and cell.label.endswith(end)):
        return None
    return _NEXT.split(cell.label[len(start) : -len(end)])


def _dropped(cells: Sequence[CellRecord], overrides_of: Mapping[str, list[str] | None]) -> list[str]:
    """Return the overrides that no name needs, since all cells that have the setting have the same value."""
    overrides = dict.fromkeys(override for cell in cells for override in overrides_of[cell.id] or () if "=" in override)

    def values(name: str) -> set[str | None]:
        return {_value(cell, name, cells, overrides_of) for cell in cells} - {None}

    return [override for override in overrides if len(values(override.partition("=")[0])) == 1]


def _value(
    cell: CellRecord, name: str, cells: Sequence[CellRecord], overrides_of: Mapping[str, list[str] | None]
) -> str | None:
    """Return a cell's value, as JSON, of the setting or part that an override names; None if it has none."""
    settings, parts, task = cell.settings, cell.parts, cell.task
    inner = name
    if name.startswith(PRETRAINING):
        if not cell.stages:
            return None
        stage, inner = cell.stages[-1], name.removeprefix(PRETRAINING)
        settings, parts, task = stage.settings, stage.parts, stage.task
    if inner == "task":
        return task
    if inner in settings:
        setting = settings[inner]
        return json.dumps(value_of(setting), default=str)
    if inner in parts:
        return parts[inner].name
    overrides = [override for override in overrides_of[cell.id] or () if override.startswith(f"{name}=")]
    if overrides:
        return overrides[0]
    is_setting = any(inner in other.settings for other in cells)
    return None if is_setting else ""


def _is_digest(override: str) -> bool:
    return override.partition("=")[0].endswith(DIGEST)


def _models(cell: CellRecord, cells: Sequence[CellRecord]) -> str:
    """Return the models that a cell's name mentions: its only one, or those in roles that other cells fill otherwise,
    followed by the backends of the rest, so that a name always mentions a hand-written or privileged model."""
    answering = {role: part for role, part in cell.parts.items() if part.answers}
    if len({part.model for part in answering.values()}) < 2:
        return cell.model or cell.backend

    def differs(role: str, part: RecordedPart) -> bool:
        others = (other.parts.get(role) for other in cells)
        return any(other is not None and other.answers and other.model != part.model for other in others)

    differing = {role: part for role, part in answering.items() if differs(role, part)}
    backends = {part.backend for part in differing.values()}
    rest = [part.backend for role, part in answering.items() if role not in differing and part.backend not in backends]
    texts = [part.model if role in part.model else f"{role}={part.model}" for role, part in differing.items()]
    return "+".join(dict.fromkeys([*texts, *rest]))


def _distinct(labels: Sequence[tuple[CellRecord, str]], notes: list[str]) -> dict[str, str]:
    """Return cell id -> label; where several cells of one task share a label, an addition in brackets distinguishes
    them and a note says so."""
    groups = grouped(labels, lambda named: (named[0].suite, named[0].task, named[1]))
    distinct: dict[str, str] = {}
    for (suite, task, label), members in groups.items():
        same = [cell for cell, _ in members]
        if len(same) == 1:
            distinct[same[0].id] = label
            continue
        tells: tuple[Callable[[CellRecord], str], ...] = (_variant, _learner, _roles, _settings(same), _place(same))
        for tell in tells:
            texts = [tell(cell) for cell in same]
            if len(set(texts)) == len(same) and not any(map(_has_digest, texts)):
                break
        distinct.update({cell.id: f"{label} [{tell(cell)}]" for cell in same})
        which = f" ({', '.join(cell.id for cell in same)})" if tell is tells[-1] else ""
        notes.append(
            f"{suite}/{task}: {len(same)} configurations are called {label}; what tells them apart is in [ ]{which}"
        )
    return distinct


def _has_digest(text: str) -> bool:
    return re.search(r"[0-9a-f]{16}", text) is not None


def _variant(cell: CellRecord) -> str:
    return cell.variant or "as given"


def _learner(cell: CellRecord) -> str:
    return cell.learner


def _roles(cell: CellRecord) -> str:
    """Return the model of each answering role of a cell, as text; a label names each model only once."""
    return ", ".join(f"{role}={part.model}" for role, part in cell.parts.items() if part.answers)


def _settings(cells: Collection[CellRecord]) -> Callable[[CellRecord], str]:
    """Return a function from one of these cells to a text of the settings in which they differ; "" if that is too
    long."""

    def text(cell: CellRecord, name: str) -> str:
        setting = cell.settings.get(name)
        return json.dumps(value_of(setting), default=str)

    names = dict.fromkeys(name for cell in cells for name in cell.settings)
    differing = [name for name in names if len({text(cell, name) for cell in cells}) > 1]

    def tell(cell: CellRecord) -> str:
        differences = ", ".join(f"{name}={text(cell, name)}" for name in differing)
        return differences if len(differences) <= LONGEST else ""

    return tell


def _place(cells: Sequence[CellRecord]) -> Callable[[CellRecord], str]:
    """Return a function from one of these cells to its number among them, from 1, as text."""
    numbers = {cell.id: str(number) for number, cell in enumerate(cells, 1)}
    return lambda cell: numbers[cell.id]
