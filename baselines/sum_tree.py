"""A sum tree over the slots of a ring, one per seed: it draws slots in proportion to their priorities and changes
priorities.

Each node has sixteen children: one step down reads two neighbouring cache lines, and a million slots need four steps
below the top level. A parent is always recomputed from its children, in their order, never adjusted by a difference. So
sums do not drift, and a tree rebuilt from its leaves has the same bits as one changed a leaf at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Span

FAN = 16
TOP = 64
"""Maximum number of nodes of the top level, which is searched linearly."""
BLOCK = 256
"""Leaves per block whose maximum is kept."""


class SumTree:
    """Priorities float64 [rows, size], initially 0; none may be negative or NaN.

    If a batch contains a slot twice, the last priority given counts.
    """

    def __init__(self, rows: int, size: int) -> None:
        if rows < 1 or size < 1:
            raise UserError(f"a sum tree of {rows} rows and {size} slots: both must be at least 1")
        self.rows, self.size = rows, size
        widths = [-(-size // FAN) * FAN]
        while widths[-1] > TOP:
            widths.append(-(-widths[-1] // FAN // FAN) * FAN)
        # Where each level starts, the leaves first, and where the last one ends. Whole blocks only: the children of
        # node i of a level are 16·i … 16·i + 15 of the level below.
        self._starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self._nodes = np.zeros((rows, int(self._starts[-1])))

    @property
    def nbytes(self) -> int:
        """Memory of all levels, in bytes."""
        return int(self._nodes.nbytes)

    @property
    def total(self) -> Array:
        """Sum of each seed row's priorities, [rows]; exactly 0 if all are 0."""
        return np.asarray(_total(self._nodes, self._starts))

    def get(self, index: Array) -> Array:
        """Return the priorities [rows, B] of slots `index` [rows, B]."""
        return np.asarray(_get(self._nodes, index))

    def set(self, index: Array, priority: Array) -> None:
        """Set the priorities [rows, B] of slots `index` [rows, B]."""
        _set(self._nodes, self._starts, 0, index, np.asarray(priority, np.float64))

    def set_row(self, row: int, index: Array, priority: Array | float) -> None:
        """Set the priorities of slots `index` [m] of one seed row, one value for all or [m]."""
        values = np.broadcast_to(np.asarray(priority, np.float64), index.shape)
        _set(self._nodes, self._starts, row, index[None], np.ascontiguousarray(values)[None])

    def set_all_rows(self, index: int, priority: Array | float) -> None:
        """Set the priority of slot `index` in every seed row, one value for all or [rows]."""
        values = np.empty((self.rows, 1))
        values[:, 0] = priority
        _set(self._nodes, self._starts, 0, np.full((self.rows, 1), index, np.int64), values)

    def store(self, index: int, priority: Array | float, live: Span) -> None:
        """Set the priority of a transition stored at slot `index` of every seed row; the transition that it evicted
        from `live`, if any, gets 0."""
        self.forget(index, live)
        self.set_all_rows(index, priority)

    def forget(self, index: int, live: Span) -> None:
        """Set the priority of the transition evicted from `live` by the one at slot `index`, if any, to 0."""
        evicted = (live.start - 1) % live.size
        if evicted != index:
            self.set_all_rows(evicted, 0.0)

    def find(self, mass: Array) -> Array:
        """Return the slots, int64 [rows, B], in whose interval of the cumulative priorities `mass` [rows, B] falls.

        `mass` lies in [0, total) of its seed row. A slot of priority 0 is never returned, whatever the rounding. For a
        row whose total is 0 the result is meaningless.
        """
        return np.asarray(_find(self._nodes, self._starts, mass))

    def sample(self, uniform: Array) -> Array:
        """Return slots drawn in proportion to their priorities, given numbers `uniform` [rows, B] in [0, 1); see
        `find`."""
        return np.asarray(_find(self._nodes, self._starts, uniform * self.total[:, None]))

    def leaves(self, row: int) -> Array:
        """Return a seed row's priorities, float64 [size]: its complete state."""
        return self._nodes[row, : self.size].copy()

    def load_leaves(self, row: int, leaves: Array) -> None:
        """Restore priorities returned by `leaves`; UserError if the size differs."""
        if leaves.shape != (self.size,):
            raise UserError(f"priorities of shape {list(leaves.shape)} for a sum tree of {self.size} slots")
        self._nodes[row, : self.size] = leaves
        _rebuild(self._nodes[row], self._starts)


class MaxSumTree(SumTree):
    """A sum tree that also tracks the largest priority of each seed row, block by block."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__(rows, size)
        self._highest = np.zeros((rows, -(-size // BLOCK)))

    @property
    def largest(self) -> Array:
        """Largest priority of each seed row, [rows]; 0 if all are 0."""
        return np.asarray(self._highest.max(axis=1))

    def set(self, index: Array, priority: Array) -> None:
        super().set(index, priority)
        _highest(self._nodes, self.size, self._highest, 0, index)

    def set_row(self, row: int, index: Array, priority: Array | float) -> None:
        super().set_row(row, index, priority)
        _highest(self._nodes, self.size, self._highest, row, index[None])

    def set_all_rows(self, index: int, priority: Array | float) -> None:
        super().set_all_rows(index, priority)
        _highest(self._nodes, self.size, self._highest, 0, np.full((self.rows, 1), index, np.int64))

    def load_leaves(self, row: int, leaves: Array) -> None:
        super().load_leaves(row, leaves)
        blocks = np.arange(self._highest.shape[1], dtype=np.int64) * BLOCK
        _highest(self._nodes, self.size, self._highest, row, blocks[None])


@njit(cache=True)
def _highest(nodes: Array, size: int, highest: Array, first_row: int, index: Array) -> None:
    """Recompute the maxima of the blocks that contain leaves index [n, B] of rows first_row … first_row + n - 1."""
    for line in range(len(index)):
        row = first_row + line
        for place in range(index.shape[1]):
            block = index[line, place] // BLOCK
            best = 0.0
            for leaf in range(block * BLOCK, min(size, (block + 1) * BLOCK)):
                best = nodes[row, leaf] if nodes[row, leaf] > best else best
            highest[row, block] = best


@njit(cache=True)
def _sum(nodes: Array, first: int, count: int) -> float:
    """Return the sum of `count` nodes, a multiple of four, in four lanes so that additions overlap. All sums use this
    function, so that they round alike."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for node in range(first, first + count, 4):
        a += nodes[node]
        b += nodes[node + 1]
        c += nodes[node + 2]
        d += nodes[node + 3]
    return (a + b) + (c + d)


@njit(cache=True)
def _total(nodes: Array, starts: Array) -> Array:
    totals = np.empty(len(nodes))
    for row in range(len(nodes)):
        totals[row] = _sum(nodes[row], starts[-2], starts[-1] - starts[-2])
    return totals


@njit(cache=True)
def _get(nodes: Array, index: Array) -> Array:
    priorities = np.empty(index.shape)
    for row in range(len(index)):
        for place in range(index.shape[1]):
            priorities[row, place] = nodes[row, index[row, place]]
    return priorities


@njit(cache=True)
def _set(nodes: Array, starts: Array, first_row: int, index: Array, priority: Array) -> None:
    """Set leaves index [n, B] of rows first_row … first_row + n - 1, then recompute their ancestors, level by level."""
    for line in range(len(index)):
        row = nodes[first_row + line]
        for place in range(index.shape[1]):
            row[index[line, place]] = priority[line, place]
        width = 1
        for level in range(1, len(starts) - 1):
            width *= FAN
            for place in range(index.shape[1]):
                parent = index[line, place] // width
                row[starts[level] + parent] = _sum(row, starts[level - 1] + parent * FAN, FAN)


@njit(cache=True)
def _rebuild(row: Array, starts: Array) -> None:
    for level in range(1, len(starts) - 1):
        for parent in range((starts[level] - starts[level - 1]) // FAN):
            row[starts[level] + parent] = _sum(row, starts[level - 1] + parent * FAN, FAN)


@njit(cache=True)
def _find(nodes: Array, starts: Array, mass: Array) -> Array:
    """Search level by level for the whole batch and without branches, so that the memory waits of many draws
    overlap."""
    slots = np.zeros(mass.shape, np.int64)
    remaining = mass.copy()
    top = len(starts) - 2
    for line in range(len(mass)):
        row = nodes[line]
        for level in range(top, -1, -1):
            count = starts[level + 1] - starts[level] if level == top else FAN
            for place in range(mass.shape[1]):
                first = starts[level] + slots[line, place] * FAN
                share = remaining[line, place]
                end, before, child = 0.0, 0.0, 0
                for node in range(first, first + count):
                    end += row[node]
                    passed = end <= share
                    child += passed
                    before = end if passed else before
                if child == count:
                    # Rounding led past the last interval: take the last nonempty child, at its end.
                    child -= 1
                    while child > 0 and row[first + child] == 0.0:
                        child -= 1
                    remaining[line, place] = np.nextafter(row[first + child], 0.0)
                else:
                    remaining[line, place] = share - before
                slots[line, place] = slots[line, place] * FAN + child
    return slots
