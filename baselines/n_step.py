"""n-step returns: the stretches of stored transitions behind a drawn batch, and their folding into one transition each.

A learner asks for them by `n_step` (`harness.interfaces.NStep`); `Experience.sample` and `BaseAgent.learn` do the rest.
Nothing is stored for them: a stretch is read from the store when it is drawn, so it ends at whatever was stored last.

A guide shapes the reward of all n transitions of every stretch, as one batch, before the stretch is folded. So an
n-step return is the discounted sum of n shaped rewards, each computed when the batch is drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, Batch, Store


class Stretch(NamedTuple):
    """The transitions that follow each drawn one, itself included."""

    batch: Batch
    """Transitions [S, B·n, …]: the n of the first drawn transition, then those of the second. A stretch of fewer than n
    is filled up with its last transition."""
    length: Array
    """Number of transitions of each stretch, int64 [S, B], from 1 to n."""
    discount: float
    """Discount γ per transition."""


def reach(store: Store, index: Array, steps: int) -> tuple[Array, Array]:
    """Return the slots int64 [S, B, n] of `steps` = n consecutive transitions from slots `index` [S, B] on, and how
    many of them belong together, int64 [S, B].

    A stretch ends with its episode, terminated or truncated; before a break, where a transition was not stored; and at
    the newest transition. Further places repeat its last slot.
    """
    newest, size = store.slot(np.array(store.written - 1)), store.live.size
    slots = np.repeat(index[..., None].astype(np.int64), steps, axis=2)
    length = np.ones(index.shape, np.int64)
    continues = np.ones(index.shape, bool)
    for step in range(1, steps):
        last = slots[..., step - 1]
        continues = continues & ~store.column("ended", last) & (last != newest)
        slots[..., step] = np.where(continues, (last + 1) % size, last)
        length += continues
    return slots, length


def folded(stretch: Stretch) -> Batch:
    """Return one transition per stretch, [S, B, …]: from the first observation and action to the last observation, with
    reward Σ_{k<m} γ^k·r_{t+k} and `steps` m, so that the value of the last observation counts γ^m (Sutton and Barto
    2018, eq. 7.1).

    m is the stretch's length, or less where a guide's shaping has marked an earlier transition as terminated.
    `terminated` is that of the last transition: a truncated episode bootstraps from its true last observation. Weights,
    columns and the other fields are those of the first transition.
    """
    batch, length = stretch.batch, stretch.length
    seeds, size = length.shape
    steps = batch.reward.shape[1] // size
    rewards, ended = (array.reshape(seeds, size, steps) for array in (batch.reward, batch.terminated))
    counted = np.ones((seeds, size), bool)
    total, used = np.zeros((seeds, size)), np.zeros((seeds, size), np.int64)
    for step in range(steps):  # in float64, and rounded once
        if step:
            counted = counted & (step < length) & ~ended[..., step - 1]
        total += np.where(counted, stretch.discount**step * rewards[..., step].astype(np.float64), 0.0)
        used += counted
    rows, last = np.arange(seeds)[:, None], np.arange(size) * steps + used - 1
    first: dict[str, Any] = {
        name: values[:, ::steps] for name, values in batch._asdict().items() if isinstance(values, np.ndarray)
    }
    first |= {
        "reward": total.astype(np.float32),
        "next_observation": batch.next_observation[rows, last],
        "terminated": batch.terminated[rows, last],
        "columns": {name: values[:, ::steps] for name, values in batch.columns.items()},
        "steps": used,
    }
    return batch._replace(**first)
