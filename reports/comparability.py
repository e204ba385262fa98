"""Which runs may stand beside which: those of one task whose profile, protocol version and length are the same.

Profiles differ in budget, network and layout of tasks; a suite's version is raised when its results change. So numbers
across either are compared only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from harness.errors import UserError
from results import Cell

PROFILES = "--mixed-profiles"
PROTOCOLS = "--mixed-protocols"


class Mixing(NamedTuple):
    """What may be mixed because it was asked for."""

    profiles: bool = False
    protocols: bool = False


UNMIXED = Mixing()


class Place(NamedTuple):
    """What a configuration was run on and under which protocol."""

    where: str
    method: str
    profile: str
    version: int | None
    """Of the suite; None where the record does not tell, as of runs made elsewhere."""
    steps: int


def place(cell: Cell) -> Place:
    version = cell.versions.get("suite")
    known = version if type(version) is int else None
    return Place(f"{cell.suite}/{cell.task}", cell.method, cell.profile, known, cell.steps)


def obstacle(one: Place, other: Place, mixing: Mixing) -> str:
    """Why runs of the same task are not compared, with the flag that allows it; "" if they are."""
    if None not in (one.version, other.version) and one.version != other.version and not mixing.protocols:
        return f"protocol version {one.version} beside {other.version}; {PROTOCOLS} compares them all the same"
    if mixing.profiles:
        return ""
    if one.profile != other.profile:
        return f"profile {one.profile} beside {other.profile}; {PROFILES} compares them all the same"
    if one.steps != other.steps:
        return f"{one.steps:,} beside {other.steps:,} steps; {PROFILES} compares them all the same"
    return ""


def require(
    new: Iterable[Place], stored: Iterable[Place], mixing: Mixing, names: tuple[str, str], strict: bool = True
) -> list[str]:
    """Notes on the tasks of which nothing can be compared, where both sides have runs.

    `names`: what the two sides are called. UserError if no runs match at all and, if `strict`, for any such task.
    """
    ours, theirs = (dict.fromkeys(entry for entry in side if entry.profile) for side in (new, stored))
    shared = [where for where in dict.fromkeys(entry.where for entry in ours) if where in {t.where for t in theirs}]
    blocked = {}
    for where in shared:
        pairs = [(one, two) for one in ours if one.where == where for two in theirs if two.where == where]
        reasons = dict.fromkeys(obstacle(*pair, mixing) for pair in pairs)
        if "" not in reasons:
            blocked[where] = f"{where}: not compared: {' / '.join(reasons)}"
    if not shared:
        raise UserError(
            f"no runs match: {names[0]} has {listed(ours)}; {names[1]} has {listed(theirs)}; "
            f"name studies that share a task, or other --task and --method"
        )
    if blocked and (strict or len(blocked) == len(shared)):
        raise UserError(f"{names[0]} and {names[1]} cannot be compared as they are: {'; '.join(blocked.values())}")
    return list(blocked.values())


def listed(places: Iterable[Place]) -> str:
    """What there is, by task: `grid/8x8 (uer, per; quick)`."""
    by_task: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for entry in places:
        methods, profiles = by_task.setdefault(entry.where, ({}, {}))
        methods[entry.method] = profiles[entry.profile] = None
    parts = [f"{where} ({', '.join(methods)}; {', '.join(profiles)})" for where, (methods, profiles) in by_task.items()]
    return ", ".join(parts[:10]) + (f", … ({len(parts)})" if len(parts) > 10 else "") if parts else "none"
