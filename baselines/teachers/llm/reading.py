"""Reading of a trajectory imagined by a language model: parsed and checked, never evaluated."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from guidebench.baselines.conversing import LONGEST, Misread
from guidebench.harness.interfaces import Array, Coordinates

Fault = Literal["unreadable", "length", "shape", "start", "reach"]
"""Faults of a reply: no number or no object at all; a wrong number of steps; missing objects or malformed points;
another start than was given; a point outside the task's reach."""
ORDER: tuple[str, ...] = ("unreadable", "shape", "length", "start", "reach")
"""Faults in the order in which an object is checked."""
FARTHEST = 1_000.0
"""Largest coordinate under a schema of an object without a reach (choice: a kilometre)."""
PLACES = 64
"""Maximum number of opening braces at which parsing is tried (choice)."""


def trajectory(
    answer: str, things: Sequence[Coordinates], beginning: Mapping[str, Array], length: int, tolerance: float
) -> dict[str, Array]:
    """Return the trajectory of `length` steps in an answer, ignoring surrounding text: name -> float64 [H, n], or [n].

    Semicolons and trailing commas are accepted, since models write them. In each coordinate the trajectory must start,
    and constant objects must stay, within `tolerance` of `beginning` (name -> [1, n] or [n]). Every point must lie
    within the object's `reach`, extended to its starting point. Misread states the fault of the object that passed the
    most checks (RL-SaLLM-F, §5.3: "the same step length and data format").
    """
    worst = Misread("unreadable", "it holds no JSON object")
    for json_object in objects(answer):
        try:
            return {
                thing.name: _points(json_object, thing, beginning[thing.name], length, tolerance) for thing in things
            }
        except Misread as fault:
            if ORDER.index(fault.fault) >= ORDER.index(worst.fault):
                worst = fault
    raise worst


def schema(coordinates: Sequence[Coordinates], beginning: Mapping[str, Array], length: int) -> dict[str, Any]:
    """Return the JSON schema of a trajectory that `trajectory` reads: the given first step, and points within the
    objects' reach."""
    fields = {named.name: _points_schema(named, beginning[named.name], length) for named in coordinates}
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def _points_schema(named: Coordinates, beginning: Array, length: int) -> dict[str, Any]:
    first = beginning.reshape(-1, len(named.entries))[0]
    start = _list([{"const": float(coordinate) + 0.0} for coordinate in first])
    if named.constant:
        return start
    reach = named.reach or ((-FARTHEST, FARTHEST),) * len(first)
    point = _list([
        {"type": "number", "minimum": float(min(low, begun)), "maximum": float(max(high, begun))}
        for (low, high), begun in zip(reach, first, strict=True)
    ])  # fmt: skip
    return {"type": "array", "prefixItems": [start], "items": point, "minItems": length, "maxItems": length}


def _list(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a list with exactly one element of each schema."""
    return {"type": "array", "prefixItems": [*schemas], "minItems": len(schemas), "maxItems": len(schemas)}


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, nested ones included, in the order of their opening braces."""
    text = re.sub(r",(\s*[}\]])", r"\1", text[:LONGEST].replace(";", ","))
    decoder = json.JSONDecoder()
    for match, _ in zip(re.finditer(r"\{", text), range(PLACES), strict=False):
        try:
            json_object, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield json_object


def _points(
    json_object: Mapping[str, Any], thing: Coordinates, beginning: Array, length: int, tolerance: float
) -> Array:
    """Return an object's points, float64 [H, n], or [n] for a constant one."""
    name, size = thing.name, len(thing.entries)
    if name not in json_object:
        raise Misread("shape", f"it has no {name!r}")
    points_json = json_object[name]
    if thing.constant and not _nested(points_json):
        points_json = [points_json]
    if not isinstance(points_json, list) or not all(_is_point(point, size) for point in points_json):
        raise Misread("shape", f"{name!r} is not made of points of {size} finite numbers each")
    points = np.array(points_json, np.float64).reshape(-1, size)
    expected = (1, length) if thing.constant else (length,)
    if len(points) not in expected:
        raise Misread("length", f"{name!r} has {len(points)} points instead of {expected[0]}")
    first = beginning.reshape(-1, size)
    if not np.all(np.abs((points if thing.constant else points[:1]) - first) <= tolerance):
        raise Misread("start", f"{name!r} does not {'stay' if thing.constant else 'start'} where it was given")
    if thing.reach:
        low, high = np.transpose(thing.reach)
        outside = (points < np.minimum(low, first) - tolerance) | (points > np.maximum(high, first) + tolerance)
        if outside.any():
            step, axis = np.argwhere(outside)[0]
            least, greatest = thing.reach[axis]
            raise Misread(
                "reach",
                f"{name!r} has {points[step, axis]:g} as coordinate {axis + 1} of step {step + 1}, and it can only be "
                f"between {least:g} and {greatest:g} there",
            )
    return points[0] if thing.constant else points


def _nested(points_json: Any) -> bool:
    return isinstance(points_json, list) and any(isinstance(point, list) for point in points_json)


def _is_point(point: Any, size: int) -> bool:
    return isinstance(point, list) and len(point) == size and all(map(_is_number, point))


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value) and abs(value) < 3e38
    except OverflowError:
        return False
