"""Groups of values that share a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")


def grouped(members: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return key -> the members that have it; keys are in the order in which they first occur, as are members."""
    groups: dict[K, list[T]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups
