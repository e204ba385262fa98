"""The permutation test of a trend: whether the least-squares slope of scores over the values of a setting is 0.

If the setting has no effect, the runs at all values are exchangeable: every assignment of them to the values, with as
many runs at each as before, is as likely. p is the share of these relabellings whose slope is at least as steep as the
observed one, in either direction. All relabellings are used if there are at most `permutation.RELABELLINGS`, else
`permutation.DRAWS` random ones beside the observed one. As in `comparison`, p is never below that of the same slope
with episodes as units.

Numbers are the change over the range of values, slope × (greatest - least), in the unit of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import factorial, prod
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics.comparison import UNBOUNDED
from guidebench.harness.statistics.permutation import DRAWS, RELABELLINGS, ROUNDING, SEED, shifted_ends
from guidebench.harness.statistics.resampling import LEVEL, Array, Interval, checked, rejects
from guidebench.harness.statistics.samples import Sample, normal_p


class Changes(NamedTuple):
    """Changes of the least-squares line over the range of values, by relabelling, the observed one first."""

    changes: Array
    """[relabellings], in the unit of the scores."""
    share: Array
    """Change of scores that rise by 1 from the least to the greatest value, [relabellings]; 1 for the observed one."""
    error: float
    """Standard error of the observed change from episodes alone; NaN where it is not known."""
    rounding: float
    """Changes that are closer than this count as equal."""


def count(sizes: Sequence[int]) -> int:
    """Return the number of relabellings of groups of these sizes.

    >>> count([2, 2, 2])
    90
    """
    return factorial(sum(sizes)) // prod(map(factorial, sizes))


@lru_cache(maxsize=8)
def relabellings(sizes: tuple[int, ...]) -> Array:
    """Return the group of each run in each relabelling, uint8 [relabellings, runs], the observed one first: all of them
    if there are at most `RELABELLINGS`, else the observed one and `DRAWS` random ones."""
    observed = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
    if count(sizes) > RELABELLINGS:
        drawn = np.random.default_rng(SEED).permuted(np.tile(observed, (DRAWS, 1)), axis=1)
        return np.concatenate([observed[None], drawn])
    labels = np.zeros((1, 0), np.uint8)
    for group in reversed(range(len(sizes))):
        runs = labels.shape[1] + sizes[group]
        parts = []
        for places in combinations(range(runs), sizes[group]):
            others = np.setdiff1d(np.arange(runs), places)
            part = np.full((len(labels), runs), group, np.uint8)
            part[:, others] = labels
            parts.append(part)
        labels = np.concatenate(parts)
    return labels


def changes(values: Array, groups: Sequence[Sample]) -> Changes:
    """Return the changes of all relabellings. `values` [groups]: those of the setting; `groups`: scores [runs, 1] at
    each.

    Raises ValueError for fewer than two different values, several tasks, and scores that are not finite.
    """
    values = np.asarray(values, float)
    for group in groups:
        if checked(group.scores, "[runs, tasks]").shape[1] != 1:
            raise ValueError(f"scores have shape {group.scores.shape}; expected one task, [runs, 1]")
    if values.shape != (len(groups),) or not np.isfinite(values).all() or len(np.unique(values)) < 2:
        raise ValueError(
            f"a trend over the values {values.tolist()} of {len(groups)} groups: expected one finite value for each "
            f"group, and at least two different ones"
        )
    scores = np.concatenate([group.scores[:, 0] for group in groups]).astype(float)
    variances = np.concatenate([_variances(group) for group in groups])
    labels = relabellings(tuple(len(group.scores) for group in groups))
    places = (values - values.min()) / np.ptp(values)
    centred = (places - places[labels[0]].mean())[labels]  # [relabellings, runs]
    square = float(centred[0] @ centred[0])
    return Changes(
        centred @ (scores - scores.mean()) / square,
        centred @ centred[0] / square,
        float(np.sqrt(centred[0] ** 2 @ variances)) / square,
        ROUNDING * float(np.ptp(scores)),
    )


def _variances(group: Sample) -> Array:
    return np.full(len(group.scores), np.nan) if group.variances is None else group.variances[:, 0]


def can_tell(of: Changes, level: float = LEVEL) -> bool:
    """Return whether any scores of so many runs could show a trend at this level."""
    return bool(rejects(np.mean(np.abs(of.share) >= 1 - ROUNDING), level))


def p_value(of: Changes) -> float:
    """Return the two-sided p value of a trend; 1 if the line is level."""
    size = np.abs(of.changes)
    p = 1.0 if size[0] <= of.rounding else float(np.mean(size >= size[0] - of.rounding))
    return float(np.fmax(p, normal_p(float(of.changes[0]), of.error)))


def interval(of: Changes, level: float = LEVEL, bounds: tuple[float, float] = UNBOUNDED) -> Interval:
    """Return the change over the range of values with the interval of changes that are not rejected, cut at `bounds`.

    It leaves out 0 exactly where `p_value` is below 1 - level. Its ends are NaN if so few runs cannot tell at 5 %.
    """
    from scipy import stats

    observed = np.asarray(of.changes[0])
    if not can_tell(of):
        return Interval(observed, np.asarray(np.nan), np.asarray(np.nan))
    half = float(stats.norm.isf((1 - level) / 2)) * of.error
    low, high = shifted_ends(of.changes, of.share, level)
    low, high = float(np.fmin(low, observed - half)), float(np.fmax(high, observed + half))
    if not rejects(p_value(of), level):
        low, high = min(low, 0.0), max(high, 0.0)  # where an end is 0 but for rounding
    return Interval(observed, *np.clip([low, high], *bounds))


def equivalence_p(of: Changes, margin: float) -> float:
    """Return the larger p value of two one-sided tests whether the change lies within ± margin, by runs and by
    episodes. Raises ValueError for a margin that is not positive."""
    if not margin > 0:
        raise ValueError(f"the margin is {margin}; expected a positive number, in the unit of the scores")
    sides = []
    for sign in (1, -1):
        shifted = sign * of.changes - margin * of.share
        sides.append(float(np.mean(shifted <= shifted[0] + of.rounding)))
    gap = max(margin - abs(float(of.changes[0])), 0.0)
    return float(np.fmax(max(sides), normal_p(gap, of.error) / 2))
