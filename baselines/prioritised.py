"""Draws in proportion to a priority, and what undoes their bias: helpers of PER and ReLo."""

from __future__ import annotations

import numpy as np

from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Moment


def drawn(tree: SumTree, count: int, moment: Moment) -> Array:
    """Slots int64 [S, B]: independent draws with replacement, each in proportion to what the tree holds."""
    uniform = np.empty((tree.rows, count))
    for row, rng in enumerate(moment.rngs):
        rng.random(out=uniform[row])
    return tree.sample(uniform)


def importance_weight(tree: SumTree, index: Array, beta: float) -> Array:
    """w_i = (1 / (N·P(i)))^β over the largest of the batch, float32 [S, B]: N and Σ p^α cancel, which leaves
    (min p^α / p_i^α)^β."""
    priority = tree.get(index)
    weight = (priority.min(axis=1, keepdims=True) / priority) ** beta
    return np.asarray(weight, np.float32)


def overwrite(tree: SumTree, index: Array, priority: Array, known: Array) -> None:
    """Set what the tree holds of slots [S, B] where `known` [S, B]; the others keep theirs."""
    tree.set(index, priority if known.all() else np.where(known, priority, tree.get(index)))
