"""Selection of the segments of stored transitions that a teacher compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, Store

RATED = 10
"""Episodes whose mean return scales a scripted teacher's thresholds, as in B-Pref."""


class Recent(NamedTuple):
    """The last n transitions stored, of every seed, the newest last."""

    slots: Array  # int64 [n]
    ended: Array  # bool [S, n], whether its episode ended there
    rewards: Array  # float32 [S, n], the task's own
    observations: Array  # float32 [S, n, D]


def look_back(store: Store, rows: int, most: int) -> Recent:
    """Return the last `most` live transitions of `rows` seeds, or all if there are fewer."""
    live = store.live
    slots = live.slots(np.arange(max(0, live.count - most), live.count))
    everywhere = np.tile(slots, (rows, 1))
    ended, rewards, observations = (store.column(name, everywhere) for name in ("ended", "reward", "observation"))
    return Recent(slots, ended, rewards, observations.astype(np.float32, copy=False))


def starts(ended: Array, length: int, recent: int) -> Array:
    """Return the steps at which segments of `length` transitions may begin, within one of the last `recent` episodes
    including the running one. `ended` [n] marks the last transition of each episode among consecutive transitions, the
    newest last."""
    n = len(ended)
    begins = np.concatenate([[0], np.flatnonzero(ended) + 1])
    begins = begins[begins < n]  # the running episode has no transition yet
    possible = np.arange(begins[-recent:][0] if len(begins) else n, n - length + 1)
    ends = np.concatenate([[0], np.cumsum(ended)])
    # an episode's end may be a segment's last transition, none before it
    return np.asarray(possible[ends[possible + length - 1] == ends[possible]])


def mean_reward(rewards: Array, ended: Array) -> float:
    """Return the mean reward per step over the last `RATED` ended episodes among consecutive transitions [n]; 0 if none
    ended. The oldest episode may have begun earlier."""
    ends = np.flatnonzero(ended)
    if not len(ends):
        return 0.0
    first = ends[-RATED - 1] + 1 if len(ends) > RATED else 0
    return float(rewards[first : ends[-1] + 1].mean())


def probabilities(returns: Array) -> Array:
    """Return each member's P[second preferred], [N, n], from returns [N, n, 2] (RL-SaLLM-F, eq. 1)."""
    return np.asarray(1 / (1 + np.exp(returns[..., 0] - returns[..., 1])))


def disagreement(probabilities: Array) -> Array:
    """Return the standard deviation over members of P[second preferred]: [N, n] -> [n] (Lee et al. 2021)."""
    return np.asarray(probabilities.std(0))


def entropy(probabilities: Array) -> Array:
    """Return the entropy in nats of the members' mean prediction: [N, n] -> [n] (Lee et al. 2021; B-Pref's code takes
    the mean of their entropies)."""
    mean = probabilities.mean(0).clip(1e-12, 1 - 1e-12)
    return np.asarray(-mean * np.log(mean) - (1 - mean) * np.log(1 - mean))


INFORMATIVE: Mapping[str, Callable[[Array], Array]] = {"disagreement": disagreement, "entropy": entropy}
"""Informativeness scores of pairs, by name; `uniform` sampling uses none."""
