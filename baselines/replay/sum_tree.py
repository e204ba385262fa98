"""A sum tree over the slots of a ring, one per seed: draw a slot in proportion to its priority, change priorities.

Sixteen children a node, so that a step down or up is one gather of short contiguous blocks for a whole batch; and a
flat root of at most 4,096 nodes, whose prefix sums cost less than three more levels would: a million slots are two
levels of blocks below the root. A parent is always recomputed from its children, never adjusted by a difference; so
sums do not drift, and a tree rebuilt from its leaves has the same bits as one that was changed a leaf at a time.
"""

from __future__ import annotations

import numpy as np

from harness.errors import UserError
from harness.interfaces import Array, Span

FAN = 16
ROOT = 4096
_ONES = np.ones(FAN)
_BEFORE = np.triu(np.ones((FAN, FAN)), 1)
"""A block times this: for each child, the sum of the children before it. Factors are 0 and 1: only additions round."""


class SumTree:
    """Priorities float64 [rows, size], all 0 at first; none may be negative or NaN.

    Where a batch names a slot twice, the last priority given counts.
    """

    def __init__(self, rows: int, size: int) -> None:
        if rows < 1 or size < 1:
            raise UserError(f"a sum tree of {rows} rows and {size} slots: both must be at least 1")
        self.rows, self.size = rows, size
        depth = 0
        while -(-size // FAN**depth) > ROOT:
            depth += 1
        # Whole blocks below whole parents at every level: the parent of flat position i is then i // 16 in any row.
        root = -(-size // FAN ** (depth + 1)) * FAN
        self._levels = [np.zeros((rows, root * FAN ** (depth - level))) for level in range(depth + 1)]
        self._flat = [level.reshape(-1) for level in self._levels]
        self._blocks = [level.reshape(-1, FAN) for level in self._levels]
        self._row = np.arange(rows)[:, None]
        self._leaf_start, self._root_start = self._row * root * FAN**depth, self._row * root
        self._before = np.zeros((rows, root))
        self._total = np.zeros(rows)
        self._stale = False

    @property
    def nbytes(self) -> int:
        """Memory of all levels, in bytes."""
        return sum(level.nbytes for level in self._levels) + self._before.nbytes

    @property
    def total(self) -> Array:
        """Sum of each row's priorities, [rows]; exactly 0 if all are 0."""
        self._refresh()
        return np.array(self._total)

    def get(self, index: Array) -> Array:
        """Priorities of slots `index` [rows, B], [rows, B]."""
        return np.asarray(self._flat[0].take(index + self._leaf_start))

    def set(self, index: Array, priority: Array) -> None:
        """Give slots `index` [rows, B] the priorities [rows, B]."""
        self._put((index + self._leaf_start).reshape(-1), priority.reshape(-1))

    def set_row(self, row: int, index: Array, priority: Array | float) -> None:
        """Give slots `index` [m] of one row a priority, one for all or [m]."""
        self._put(index + self._leaf_start[row], priority)

    def set_all_rows(self, index: int, priority: Array | float) -> None:
        """Give slot `index` a priority in every row, one for all or [rows]."""
        self._levels[0][:, index] = priority
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            index //= FAN
            above[:, index] = np.vecdot(below[:, index * FAN : (index + 1) * FAN], _ONES)
        self._stale = True

    def store(self, index: int, priority: Array | float, live: Span) -> None:
        """A transition went to slot `index` of every row; the one that it pushed out of `live`, if any, gets 0."""
        left = (live.start - 1) % live.size
        if left != index:
            self.set_all_rows(left, 0.0)
        self.set_all_rows(index, priority)

    def find(self, mass: Array) -> Array:
        """The slot, int64 [rows, B], in whose share of the priorities laid end to end `mass` [rows, B] falls.

        `mass` lies in [0, total) of its row. A slot of priority 0 is never found, however sums round; in a row whose
        total is 0 there is nothing to find, and what is returned means nothing.
        """
        self._refresh()
        # In ascending order the search of the root is twice as fast; the draws get their own order back at the end.
        order = mass.argsort(axis=1)
        order += self._row * mass.shape[1]
        mass = mass.take(order)
        node = np.empty(mass.shape, np.int64)
        for row in range(self.rows):
            node[row] = self._before[row].searchsorted(mass[row], side="right")
        node += self._root_start - 1
        mass -= self._before.reshape(-1).take(node)
        for level in reversed(range(len(self._blocks) - 1)):
            # Three dimensions: a row's product has the shape it would have alone, and so the same bits.
            before = self._blocks[level].take(node, axis=0) @ _BEFORE
            reached = np.packbits(before <= mass[..., None]).view(np.uint16)
            child = np.bitwise_count(reached).reshape(mass.shape) - 1
            if level:
                mass -= before.reshape(-1).take(np.arange(0, before.size, FAN).reshape(mass.shape) + child)
            node *= FAN
            node += child
        if not self._flat[0].take(node).all():
            self._step_back(node)
        found = np.empty_like(node)
        found.reshape(-1)[order] = node - self._leaf_start
        return found

    def leaves(self, row: int) -> Array:
        """A row's priorities, float64 [size]: all that its state is."""
        return self._levels[0][row, : self.size].copy()

    def load_leaves(self, row: int, leaves: Array) -> None:
        """Take up what `leaves` gave; UserError if it is not of this size."""
        if leaves.shape != (self.size,):
            raise UserError(f"priorities of shape {list(leaves.shape)} for a sum tree of {self.size} slots")
        self._levels[0][row, : self.size] = leaves
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            above[row] = np.vecdot(below[row].reshape(-1, FAN), _ONES)
        self._stale = True

    def _put(self, position: Array, priority: Array | float) -> None:
        """Set leaves at flat positions [m] and recompute their ancestors."""
        self._flat[0][position] = priority
        for blocks, above in zip(self._blocks, self._flat[1:], strict=False):
            position = position // FAN
            above[position] = np.vecdot(blocks.take(position, axis=0), _ONES)
        self._stale = True

    def _refresh(self) -> None:
        """Bring up to date what lies before each node of the root, blockwise: half the time of one long sum."""
        if not self._stale:
            return
        blocks = self._levels[-1].reshape(self.rows, -1, FAN)
        before = blocks @ _BEFORE
        ends = np.add.accumulate(before[..., -1] + blocks[..., -1], axis=1)
        before[:, 1:] += ends[:, :-1, None]
        self._before, self._total = before.reshape(self.rows, -1), ends[:, -1]
        self._stale = False

    def _step_back(self, node: Array) -> None:
        """Where rounding led past the last slot of a block, to one of priority 0, go to the nearest before it."""
        lost = self._flat[0].take(node) == 0
        for row in np.flatnonzero(lost.any(axis=1)):
            if self._total[row] > 0:
                drawable = np.flatnonzero(self._levels[0][row]) + self._leaf_start[row]
                nearest = drawable.searchsorted(node[row, lost[row]]) - 1
                node[row, lost[row]] = drawable[np.maximum(nearest, 0)]
