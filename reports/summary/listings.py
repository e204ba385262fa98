"""Tables of texts, such as counts and prices, which are no estimates with an interval (`grids.Grid`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

Place = Literal["page", "terminal", "both"]
PLACES: tuple[Place, ...] = ("page", "terminal", "both")


class Listing(NamedTuple):
    """A table of texts. `lines`: a row's name, then a text for each of `names`. It is shown on the page, on the
    terminal or on both, and never in LaTeX."""

    heading: str
    names: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    on: Place = "both"
    words: int = 0
    """How many of the first `names` are columns of words, aligned left; numbers are aligned right."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Text of a cell -> a remark that the page shows beside it."""
    note: str = ""
    """What a reader of the page must know about the numbers."""
    subject: str = "row"
    """What a line is about: the header of the first column."""


class Listed(NamedTuple):
    """The paragraphs and tables of texts of a section, under its title."""

    title: str
    remarks: Sequence[str]
    listings: Sequence[Listing]


def maybe(value: float | None, digits: int) -> str:
    """Format a number, or return a dash if there is none."""
    return "—" if value is None else f"{value:,.{digits}f}"
