"""The interval of a ratio of two means: the factors that the one test does not reject.

A factor r is tested as a shift is: are the runs of one method exchangeable with r times those of the other? p is that
of the permutation test of these runs, and never below that of a normal test of the two means with episodes as units.
At the factor 1 it is the test of equal means (`comparison.p_value`), so that a gain is shown exactly where a difference
is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from guidebench.harness.statistics import comparison, permutation
from guidebench.harness.statistics.aggregates import METRICS
from guidebench.harness.statistics.resampling import LEVEL, Array, Interval, rejects
from guidebench.harness.statistics.samples import Sample, normal_p

_FURTHEST = 2.0**20
"""Factor beyond the observed ratio at which an end counts as infinite, or as 0."""
_STEPS, _HALVINGS = 41, 40
"""Factors among which the outermost that is not rejected is searched, and halvings of the step beyond it."""


def ratio(first: Sample, second: Sample, level: float = LEVEL) -> Interval:
    """Return the ratio of the means of two samples of scores that are not negative, `first` by `second`, with the
    interval of factors that are not rejected.

    The ends lie in [0, ∞]; they are NaN if no scores of so many runs could be told apart at 5 %, and if the mean of
    `second` is 0. Raises ValueError for samples of different tasks and for negative scores.
    """
    if min(first.scores.min(), second.scores.min()) < 0:
        raise ValueError("a ratio of means needs scores that are not negative; compare their difference instead")
    p_of_equal_means = comparison.p_value(first, second)
    below = second.value()
    point = first.value() / below if below > 0 else float("nan")
    (n, tasks), m = first.shape, len(second.scores)
    if np.isnan(point) or not permutation.can_tell(n, m, tasks):
        return Interval(*map(np.asarray, (point, np.nan, np.nan)))
    ours, theirs = _parts(first.scores, second.scores)
    errors = first.error(), second.error()

    def accepted(factor: float) -> bool:
        gaps = np.abs(ours - factor * theirs)
        room = permutation.ROUNDING * max(float(first.scores.max()), factor * float(second.scores.max()))
        of_runs = float(np.mean(gaps >= gaps[0] - room))
        of_episodes = normal_p(first.value() - factor * below, float(np.hypot(errors[0], factor * errors[1])))
        return not rejects(float(np.fmax(of_runs, of_episodes)), level)

    middle = point if point > 0 else 1.0
    low = 0.0 if point == 0 else _end(accepted, middle, middle / _FURTHEST)
    high = _end(accepted, middle, middle * _FURTHEST) if point > 0 else _end(accepted, 1e-9, _FURTHEST)
    return Interval(*map(np.asarray, (point, *_decided(low, high, point, rejects(p_of_equal_means, level)))))


def _parts(first: Array, second: Array) -> tuple[Array, Array]:
    """Return two arrays u and v [relabellings]: u - r v is the difference of the means of `first` and r times `second`
    under each relabelling, the observed one first."""
    labels = permutation.relabellings(len(first), len(second), first.shape[1]).first
    others = 1 - labels

    def gaps(pooled: Array) -> Array:
        resampled = METRICS["mean"].resampled
        return np.asarray((resampled(pooled[:, :, None], labels) - resampled(pooled[:, :, None], others))[0])

    nothing = np.zeros_like
    return (
        gaps(np.concatenate([first, nothing(second)]).astype(float)),
        -gaps(np.concatenate([nothing(first), second]).astype(float)),
    )


def _end(accepted: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the outermost factor that is accepted between one that is, `inside`, and a far one; 0 or infinite if the
    far one is accepted too."""
    if accepted(outside):
        return 0.0 if outside < inside else float("inf")
    factors = np.geomspace(outside, inside, _STEPS)
    place = next((place for place in range(1, _STEPS) if accepted(float(factors[place]))), _STEPS - 1)
    inner, outer = float(factors[place]), float(factors[place - 1])
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(inner * outer))
        inner, outer = (middle, outer) if accepted(middle) else (inner, middle)
    return inner


def _decided(low: float, high: float, point: float, differ: bool) -> tuple[float, float]:
    """Return the ends such that 1 lies between them exactly where equal means are not rejected."""
    if not differ:
        return min(low, 1.0), max(high, 1.0)
    least = 1e-9
    return (max(low, 1 + least), high) if point > 1 else (low, min(high, 1 - least))
