"""Fields carry type, bounds, unit and source, and a wrong value is named with what fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from harness import settings
from harness.errors import UserError
from harness.settings import Bounds, Unit


@dataclass(frozen=True)
class Example:
    rate: Annotated[float, Bounds(0, 1), Unit("per step")] = 0.5
    """Share of things (Somebody (2020), table 3)."""
    kind: Literal["small", "maximum"] = "small"
    """Which one (choice)."""
    widths: tuple[int, ...] = (4, 4)
    """Layers."""
    limit: Annotated[int | None, Bounds(1)] = None
    """At most so many."""


def test_a_field_carries_bounds_unit_meaning_and_source() -> None:
    rate = settings.fields(Example)["rate"]
    assert (rate.bounds, rate.unit, rate.meaning, rate.source) == (
        Bounds(0, 1),
        "per step",
        "Share of things",
        "Somebody (2020), table 3",
    )


@pytest.mark.parametrize(
    ("name", "given", "typed"),
    [
        ("rate", 1, 1.0),
        ("limit", None, None),
        ("limit", 1e3, 1000),
        ("widths", [8, 2], (8, 2)),
        ("kind", "maximum", "maximum"),
    ],
)
def test_values_are_taken_as_the_field_s_type(name: str, given: object, typed: object) -> None:
    value = settings.check(settings.fields(Example)[name], given, name)
    assert value == typed and type(value) is type(typed)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("rate", 1.5, r"part.rate=1.5: expected float in \[0, 1\] \(per step\)"),
        ("rate", "abc", "part.rate=abc"),
        ("rate", float("nan"), "part.rate=nan"),
        ("rate", True, "part.rate=true"),
        ("kind", "large", "one of 'small', 'maximum'"),
        ("widths", [1.5], "list of int"),
        ("limit", 0, "int or null at least 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_fits(name: str, given: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        settings.check(settings.fields(Example)[name], given, f"part.{name}")


def test_building_names_the_nearest_setting() -> None:
    with pytest.raises(UserError, match=r"unknown setting part. 'rtae'; did you mean 'rate'"):
        settings.build(Example, {"rtae": 1}, "part")
