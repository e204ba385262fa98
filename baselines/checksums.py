"""Checksums of a ring's files, so that a resumed run never continues from other transitions than it stored.

Transitions are counted in the order of storage, and a checksum (CRC-32) is kept for every segment of consecutive
transitions. At a checkpoint only transitions since the last one are read, while they are still in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, State

LONGEST = 1_024
"""Largest number of transitions, or slots, in a segment. A segment that is partly overwritten can no longer be
verified."""
SEGMENTS = 16
"""Minimum number of segments of a full ring."""

Read = Callable[[int, int], Array]
"""(First transition, one past the last), adjacent in the ring -> their values of a column, [n, …]."""


class Piece(NamedTuple):
    """Transitions of one segment that are adjacent in the ring."""

    segment: int
    start: int
    end: int


class Checksums:
    """Checksums of one column of one seed."""

    def __init__(self, capacity: int, slots: int) -> None:
        self._length = max(1, min(LONGEST, capacity // SEGMENTS))
        self._slots = slots
        self._checksums: dict[int, int] = {}
        """Segment -> checksum of its transitions before `upto`."""
        self.upto = 0
        """The first transition not yet included."""

    def extend(self, begin: int, upto: int, read: Read) -> None:
        """Include the transitions before `upto`; those before `begin` may be overwritten from now on."""
        if self.upto < begin:  # transitions not included in time are gone: begin with the next whole segment
            self.upto = -(-begin // self._length) * self._length
            self._checksums = {}
        for piece in self._pieces(self.upto, upto):
            self._checksums[piece.segment] = crc(read(piece.start, piece.end), self._checksums.get(piece.segment, 0))
        self.upto = max(self.upto, upto)
        self._checksums = {
            segment: checksum for segment, checksum in self._checksums.items() if segment * self._length >= begin
        }

    def altered(self, read: Read) -> tuple[int, int] | None:
        """Return the first segment whose data differ from its checksum (first transition, one past the last), or
        None."""
        for segment, checksum in sorted(self._checksums.items()):
            start, end = segment * self._length, min((segment + 1) * self._length, self.upto)
            current = 0
            for piece in self._pieces(start, end):
                current = crc(read(piece.start, piece.end), current)
            if current != checksum:
                return start, end
        return None

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        while start < end:
            segment = start // self._length
            stop = min(end, (segment + 1) * self._length, (start // self._slots + 1) * self._slots)
            yield Piece(segment, start, stop)
            start = stop

    def state(self) -> State:
        return {
            "upto": self.upto,
            "segments": np.array([*self._checksums], np.int64),
            "checksums": np.array([*self._checksums.values()], np.uint32),
        }

    def load_state(self, state: State) -> None:
        self.upto = int(state["upto"])
        self._checksums = dict(zip(state["segments"].tolist(), state["checksums"].tolist(), strict=True))


class LateChecksums:
    """Checksums of a column whose values arrive late and in any order, for one seed: one checksum per segment of slots,
    over its valid values. At a checkpoint only changed segments are read."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._checksums: dict[int, int] = {}
        """Segment -> checksum, for segments with valid values."""
        self._changed: set[int] = set()
        self._begin = self._upto = 0

    def wrote(self, slots: Array) -> None:
        """Mark these slots as changed."""
        self._changed.update((np.asarray(slots) // LONGEST).tolist())

    def renew(self, begin: int, upto: int, counts: Array, values: Array) -> None:
        """Update the checksums of changed segments. Transitions from `begin` to before `upto` may be drawn; `counts`
        bool [slots] marks the valid `values` [slots, …] of such transitions."""
        for start, end in (
            (self._begin, begin),
            (self._upto, upto),
        ):  # transitions that may no longer be drawn, and new ones
            self.wrote(np.arange(max(start, end - self._slots), end) % self._slots)
        self._begin, self._upto = begin, upto
        for segment in self._changed:
            checksum = _counting(segment, counts, values)
            self._checksums.pop(segment, None)
            self._checksums |= {} if checksum is None else {segment: checksum}
        self._changed.clear()

    def altered(self, counts: Array, values: Array) -> bool:
        """Return whether the valid values differ from their checksums."""
        segments = range(-(-self._slots // LONGEST))
        current = {segment: _counting(segment, counts, values) for segment in segments}
        return self._checksums != {segment: checksum for segment, checksum in current.items() if checksum is not None}

    def state(self) -> State:
        return {
            "begin": self._begin,
            "upto": self._upto,
            "segments": np.array([*self._checksums], np.int64),
            "checksums": np.array([*self._checksums.values()], np.uint32),
        }

    def load_state(self, state: State) -> None:
        self._begin, self._upto = int(state["begin"]), int(state["upto"])
        self._checksums = dict(zip(state["segments"].tolist(), state["checksums"].tolist(), strict=True))
        self._changed.clear()


def _counting(segment: int, counts: Array, values: Array) -> int | None:
    """Return the checksum of a segment's valid values; None if there are none."""
    slots = slice(segment * LONGEST, (segment + 1) * LONGEST)
    mine = counts[slots]
    return crc(values[slots] if mine.all() else values[slots][mine]) if mine.any() else None


def crc(values: Array, before: int = 0) -> int:
    """Return the CRC-32 of an array's bytes, continuing from that of earlier arrays."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, before)
