"""Prioritised draws and importance weights: helpers of PER and ReLo."""

from __future__ import annotations

import numpy as np

from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Moment


def drawn(tree: SumTree, count: int, moment: Moment) -> Array:
    """Return slots int64 [S, B]: independent draws with replacement, in proportion to the tree's priorities."""
    uniform = np.empty((tree.rows, count))
    for row, rng in enumerate(moment.rngs):
        rng.random(out=uniform[row])
    return tree.sample(uniform)


def importance_weight(tree: SumTree, index: Array, beta: float) -> Array:
    """Return w_i = (1 / (N·P(i)))^β divided by the batch maximum, float32 [S, B]. N and Σ p^α cancel, which leaves (min
    p^α / p_i^α)^β."""
    priority = tree.get(index)
    weight = (priority.min(axis=1, keepdims=True) / priority) ** beta
    return np.asarray(weight, np.float32)


def overwrite(tree: SumTree, index: Array, priority: Array, valid: Array) -> None:
    """Set the tree's priorities of slots [S, B] where `valid` [S, B]; the others are unchanged."""
    tree.set(index, priority if valid.all() else np.where(valid, priority, tree.get(index)))
