"""Which runs are comparable: those of one task, one score and one protocol, with the same profile and length.

Profiles differ in budget, network and layout of tasks; a suite's version is raised when its results change, and its
settings and demonstrations change a task's problem. So numbers across any of these are compared only on request.
Everything that groups rows uses this module: tables, matrices, aggregates, comparisons and the leaderboard.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.recipes import Training
from guidebench.harness.records import schema
from guidebench.harness.settings import Cited
from guidebench.reports.summary import registered, scoring
from guidebench.reports.summary.records import value_of
from guidebench.results import CellRecord

PROFILES = "`bench compare --mixed-profiles`"
PROTOCOLS = "`bench compare --mixed-protocols`"
DEMONSTRATIONS = "training.demonstrations"
PRETRAINING = "pretraining"
METHOD = "method "
"""Prefix of the layer of settings that a method's recipe sets."""
QUOTE = '"'
LONGEST = 60
"""Most characters of a setting in a heading (as in row names)."""


class Mixing(NamedTuple):
    """Differences between runs that the user allows comparisons to ignore."""

    profiles: bool = False
    protocols: bool = False


UNMIXED = Mixing()


class Place(NamedTuple):
    """What must be equal for runs to be compared: task, profile, version, steps, conditions and score."""

    task_id: str
    method: str
    profile: str
    version: int | None
    """Version of the suite; None if the record lacks it, as for runs made elsewhere."""
    steps: int
    """Environment steps per seed, those of pre-training stages included."""
    conditions: tuple[tuple[str, str], ...] = ()
    """See `conditions`."""
    score: Score = SUCCESS


def place(cell: CellRecord) -> Place:
    version = cell.versions.get("suite")
    number = version if type(version) is int else None
    return Place(cell.task_id, cell.method, cell.profile, number, cell.total, conditions(cell), cell.score)


def places(cells: Sequence[CellRecord]) -> list[Place]:
    """Return each cell's place; cells with equal places are comparable. A place has no method, and an unrecorded
    version is taken to be the newest among otherwise equal places."""
    cell_places = [place(cell)._replace(method="") for cell in cells]
    newest: dict[Place, int] = {}
    for cell_place in cell_places:
        if cell_place.version is not None:
            key = cell_place._replace(version=None)
            newest[key] = max(cell_place.version, newest.get(key, cell_place.version))
    return [
        cell_place._replace(version=newest.get(cell_place)) if cell_place.version is None else cell_place
        for cell_place in cell_places
    ]


def headings(places: Iterable[Place]) -> dict[Place, str]:
    """Return place -> its heading: task, profile, conditions, a score other than success, and whatever else
    distinguishes it from other places of the task."""
    heading_of = {}
    distinct = list(dict.fromkeys(places))
    for place in distinct:
        parts = [place.task_id, f"{place.profile} profile", words(place.conditions)]
        alike = [other for other in distinct if other[:3] == place[:3] and other.conditions == place.conditions]
        if len({other.steps for other in alike}) > 1:
            parts.append(f"{place.steps:,} steps")
        if len({other.version for other in alike}) > 1:
            parts.append("version unknown" if place.version is None else f"version {place.version}")
        if place.score.name != "success" or len({other.score for other in alike}) > 1:
            parts.append(f"by {scoring.title(place.score)}")
        alike = [other for other in alike if (other.steps, other.version) == (place.steps, place.version)]
        if len({scoring.title(other.score) for other in alike}) < len({other.score for other in alike}):
            parts.append(f"between {place.score.low} and {place.score.high}")
        heading_of[place] = ", ".join(filter(None, parts))
    return heading_of


def planned(record: Mapping[str, Any]) -> Place:
    """Return the place of a planned cell, from its record (`guidebench.harness.identity.cells.record`)."""
    suite, task, profile = record["suite"], record["task"], record["profile"]
    stages: list[Mapping[str, Any]] = []
    while "stage" in (stages[0] if stages else record):
        stages.insert(0, (stages[0] if stages else record)["stage"])
    steps = record["steps"] + sum(stage["steps"] for stage in stages)
    conditions = _conditions(suite, task, profile, record["settings"])
    return Place(
        f"{suite}/{task}", record["method"], profile, record["versions"]["suite"], steps,
        (*conditions, *_staged([stage["settings"] for stage in stages])), schema.score_of(record),
    )  # fmt: skip


def _staged(stages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield, as conditions, the demonstrations in the settings of pre-training stages, where they are not the
    default."""
    none = _text(Training.demonstrations)
    for stage_settings in stages:
        setting = stage_settings.get(DEMONSTRATIONS)
        if (text := _text(value_of(setting))) not in (none, "null"):
            yield f"{PRETRAINING}.{DEMONSTRATIONS}", text


def conditions(cell: CellRecord) -> tuple[tuple[str, str], ...]:
    """Return the settings that change a task's problem (those of the suite, and demonstrations) where they differ from
    the defaults of suite and profile: (name, value as JSON) pairs, sorted by name.

    Settings that are in no cell id (`Transport`), such as a file's path, are no conditions, and neither is the form of
    observation that a method's own recipe chooses (`SuitePart.views`). A setting that a record lacks, such as one made
    elsewhere, is taken to be the default. For a suite that is not installed every recorded setting is returned, and
    demonstrations if there are any.
    """
    own_conditions = _conditions(cell.suite, cell.task, cell.profile, cell.settings)
    return (*own_conditions, *_staged([stage.settings for stage in cell.stages]))


def _conditions(suite: str, task: str, profile: str, recorded: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    usual, moved, views = _usual(suite, task, profile), _transport(suite), _views(suite)
    differing = {}
    for name, setting in recorded.items():
        chosen = isinstance(setting, Mapping) and str(setting.get("layer", "")).startswith(METHOD)
        if (
            (name.startswith("suite.") or name == DEMONSTRATIONS)
            and name not in moved
            and not (name in views and chosen)
        ):
            text = _text(value_of(setting))
            if text != usual.get(name):
                differing[name] = text
    return tuple(sorted(differing.items()))


def words(conditions: Iterable[tuple[str, str]]) -> str:
    """Return conditions as a heading shows them: `goal=hidden, demonstrations=5`; a long value by a digest."""

    def brief(text: str) -> str:
        return text if len(text) <= LONGEST else hashlib.sha256(text.encode()).hexdigest()[:6]

    return ", ".join(f"{name.partition('.')[2]}={brief(text.strip(QUOTE))}" for name, text in conditions)


@functools.lru_cache(maxsize=4096)
def _views(suite: str) -> frozenset[str]:
    """Return the names of an installed suite's settings that choose the form of observation; empty for another
    suite."""
    home = registered.get("suite", suite)
    return frozenset() if home is None else frozenset(f"suite.{name}" for name in home.views)


@functools.lru_cache(maxsize=4096)
def _transport(suite: str) -> frozenset[str]:
    """Return the names of an installed suite's settings that are excluded from cell ids; empty for another suite."""
    home = registered.get("suite", suite)
    if home is None:
        return frozenset()
    return frozenset(f"suite.{name}" for name, field in settings.fields(home).items() if field.transport)


@functools.lru_cache(maxsize=4096)
def _usual(suite: str, task: str, profile: str) -> Mapping[str, str]:
    """Return name -> value as JSON of the settings that an installed suite and its profile give a task; for another
    suite, only the default of no demonstrations."""
    usual = {DEMONSTRATIONS: _text(Training.demonstrations)}
    home = registered.get("suite", suite)
    if home is None:
        return usual
    usual |= {f"suite.{name}": _text(field.default) for name, field in settings.fields(home).items()}
    of_profile = home.profiles.get(profile, {})
    layers = (
        home.defaults,
        home.defaults.get("by_task", {}).get(task, {}),
        of_profile,
        of_profile.get("by_task", {}).get(task, {}),
    )
    for layer in layers:
        for name, value in layer.items():
            if name in usual:
                usual[name] = _text(value.value if isinstance(value, Cited) else value)
    return usual


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def obstacle(first: Place, second: Place, mixing: Mixing) -> str:
    """Return the reason why runs of two places of one task are not compared, with the flag that allows it; "" if they
    are."""
    if None not in (first.version, second.version) and first.version != second.version and not mixing.protocols:
        return f"protocol version {first.version} beside {second.version}; {PROTOCOLS} compares them all the same"
    if first.score != second.score:
        return f"scored by {first.score.name} beside {second.score.name}, which nothing makes comparable"
    if first.conditions != second.conditions and not mixing.protocols:
        ours, theirs = (words(place.conditions) or "the suite's own settings" for place in (first, second))
        return f"{ours} beside {theirs}; {PROTOCOLS} compares them all the same"
    if mixing.profiles:
        return ""
    if first.profile != second.profile:
        return f"profile {first.profile} beside {second.profile}; {PROFILES} compares them all the same"
    if first.steps != second.steps:
        return f"{first.steps:,} beside {second.steps:,} steps; {PROFILES} compares them all the same"
    return ""


def require(
    new: Iterable[Place], stored: Iterable[Place], mixing: Mixing, names: tuple[str, str], strict: bool = True
) -> list[str]:
    """Return notes on the tasks for which both sides have runs of which none can be compared.

    `names` are those of the two sides. Raises UserError if no runs match at all and, if `strict`, for any such task.
    """
    ours, theirs = (dict.fromkeys(place for place in side if place.profile) for side in (new, stored))
    shared = [
        task_id for task_id in dict.fromkeys(place.task_id for place in ours) if task_id in {t.task_id for t in theirs}
    ]
    blocked = {}
    for task_id in shared:
        pairs = [
            (new_place, stored_place)
            for new_place in ours
            if new_place.task_id == task_id
            for stored_place in theirs
            if stored_place.task_id == task_id
        ]
        reasons = dict.fromkeys(obstacle(*pair, mixing) for pair in pairs)
        if "" not in reasons:
            blocked[task_id] = f"{task_id}: not compared: {' / '.join(reasons)}"
    if not shared:
        raise UserError(
            f"no runs match: {names[0]} has {listed(ours)}; {names[1]} has {listed(theirs)}; "
            f"name studies that share a task, or other --task and --method"
        )
    if blocked and (strict or len(blocked) == len(shared)):
        raise UserError(f"{names[0]} and {names[1]} cannot be compared as they are: {'; '.join(blocked.values())}")
    return list(blocked.values())


def listed(places: Iterable[Place]) -> str:
    """Return the tasks of these places with their methods and profiles, at most ten, as in `grid/8x8 (uer, per;
    quick)`."""
    by_task: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for place in places:
        methods, profiles = by_task.setdefault(place.task_id, ({}, {}))
        methods[place.method] = profiles[place.profile] = None
    parts = [
        f"{task_id} ({', '.join(methods)}; {', '.join(profiles)})" for task_id, (methods, profiles) in by_task.items()
    ]
    return ", ".join(parts[:10]) + (f", … ({len(parts)})" if len(parts) > 10 else "") if parts else "none"
