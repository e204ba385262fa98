"""Checksums of what lies in a ring on disk, so that a run never goes on from other transitions than it stored.

Transitions are counted in the order in which they are stored, and a checksum (CRC-32) is kept of every segment of so
many of them. Between two checkpoints only what is new is read, while it is still in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, State

LONGEST = 1_024
"""Most transitions, or slots, of a segment. One that has lost some to the ring's reuse cannot be checked any more."""
SEGMENTS = 16
"""Segments of a full ring at least."""

Read = Callable[[int, int], Array]
"""(First transition, one behind the last), which lie side by side -> their values of a column, [n, …]."""


class Piece(NamedTuple):
    """Transitions of one segment that lie side by side in the ring."""

    segment: int
    start: int
    end: int


class Checksums:
    """Of one column of one seed."""

    def __init__(self, capacity: int, slots: int) -> None:
        self._length = max(1, min(LONGEST, capacity // SEGMENTS))
        self._slots = slots
        self._known: dict[int, int] = {}
        """Segment -> checksum of as much of it as lies before `upto`."""
        self.upto = 0
        """The first transition that is not counted in yet."""

    def extend(self, begin: int, upto: int, read: Read) -> None:
        """Count in the transitions before `upto`; those before `begin` may be overwritten from now on."""
        if self.upto < begin:  # what was not counted in time is gone: begin with the next whole segment
            self.upto = -(-begin // self._length) * self._length
            self._known = {}
        for piece in self._pieces(self.upto, upto):
            self._known[piece.segment] = crc(read(piece.start, piece.end), self._known.get(piece.segment, 0))
        self.upto = max(self.upto, upto)
        self._known = {each: known for each, known in self._known.items() if each * self._length >= begin}

    def altered(self, read: Read) -> tuple[int, int] | None:
        """The first segment (its first transition, one behind its last) that is not what was counted in, or None."""
        for segment, checksum in sorted(self._known.items()):
            start, end = segment * self._length, min((segment + 1) * self._length, self.upto)
            found = 0
            for piece in self._pieces(start, end):
                found = crc(read(piece.start, piece.end), found)
            if found != checksum:
                return start, end
        return None

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        while start < end:
            segment = start // self._length
            here = min(end, (segment + 1) * self._length, (start // self._slots + 1) * self._slots)
            yield Piece(segment, start, here)
            start = here

    def state(self) -> State:
        return {
            "upto": self.upto,
            "segments": np.array([*self._known], np.int64),
            "checksums": np.array([*self._known.values()], np.uint32),
        }

    def load_state(self, state: State) -> None:
        self.upto = int(state["upto"])
        self._known = dict(zip(state["segments"].tolist(), state["checksums"].tolist(), strict=True))


class LateChecksums:
    """Of one column of one seed whose values come late and in any order: of every segment of slots a checksum of the
    values in it that count. Between two checkpoints only segments in which something has changed are read."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._known: dict[int, int] = {}
        """Segment -> checksum, where any value counts."""
        self._changed: set[int] = set()
        self._begin = self._upto = 0

    def wrote(self, slots: Array) -> None:
        """Values were written at these slots."""
        self._changed.update((np.asarray(slots) // LONGEST).tolist())

    def renew(self, begin: int, upto: int, counts: Array, values: Array) -> None:
        """Take in what has changed. The transitions from `begin` to before `upto` may be drawn; `counts` bool [slots]:
        which of the `values` [slots, …] are there and of such a transition."""
        for start, end in ((self._begin, begin), (self._upto, upto)):  # those that may no longer be drawn, and new ones
            self.wrote(np.arange(max(start, end - self._slots), end) % self._slots)
        self._begin, self._upto = begin, upto
        for segment in self._changed:
            found = _counting(segment, counts, values)
            self._known.pop(segment, None)
            self._known |= {} if found is None else {segment: found}
        self._changed.clear()

    def altered(self, counts: Array, values: Array) -> bool:
        """Whether the values that count are not those that were taken in."""
        segments = range(-(-self._slots // LONGEST))
        found = {segment: _counting(segment, counts, values) for segment in segments}
        return self._known != {segment: known for segment, known in found.items() if known is not None}

    def state(self) -> State:
        return {
            "begin": self._begin,
            "upto": self._upto,
            "segments": np.array([*self._known], np.int64),
            "checksums": np.array([*self._known.values()], np.uint32),
        }

    def load_state(self, state: State) -> None:
        self._begin, self._upto = int(state["begin"]), int(state["upto"])
        self._known = dict(zip(state["segments"].tolist(), state["checksums"].tolist(), strict=True))
        self._changed.clear()


def _counting(segment: int, counts: Array, values: Array) -> int | None:
    """Checksum of the values of a segment of slots that count; None where none does."""
    slots = slice(segment * LONGEST, (segment + 1) * LONGEST)
    mine = counts[slots]
    return crc(values[slots] if mine.all() else values[slots][mine]) if mine.any() else None


def crc(values: Array, before: int = 0) -> int:
    """CRC-32 of an array's bytes, going on from that of others."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, before)
