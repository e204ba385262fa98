"""Differences from a reference: intervals, tests corrected for their number, and what so many runs could have shown."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import NamedTuple

import numpy as np

from reports.statistics.aggregates import METRICS, distribution
from reports.statistics.resampling import (
    LEVEL,
    REPS,
    Array,
    Interval,
    checked_pair,
    ends,
    name_seed,
    spread,
)

POWER = 0.8


class Comparison(NamedTuple):
    """A method beside the reference; `difference` is method minus reference.

    `adjusted` is the interval at Holm's level for this comparison, `p` and `adjusted_p` are two-sided, `paired` says
    whether both sides were resampled by the same seeds, `detectable` is the smallest difference of means that so many
    runs could have shown (`detectable_difference`; NaN for other metrics than the mean). All but the estimates are NaN
    where a side has one run.
    """

    difference: Interval
    adjusted: Interval
    p: float
    adjusted_p: float
    paired: bool
    detectable: float


def difference(
    first: Array, second: Array, metric: str, reps: int = REPS, seed: int = 0, paired: bool = False
) -> Interval:
    """Metric of `first` minus that of `second`, each [runs, tasks]; the numbers of runs may differ unless paired.

    Both are resampled independently of each other, or, paired, together: run i of both has the same seed, and a
    resample draws seeds. Raises ValueError for shapes that do not fit, or scores that are not finite.
    """
    first, second = checked_pair(first, second)
    return _interval(first, second, metric, _resampled(first, second, metric, reps, seed, paired), LEVEL)


def compare(
    reference: Array,
    others: Mapping[str, Array],
    *,
    paired: Mapping[str, bool] | bool = False,
    metric: str = "mean",
    reps: int = REPS,
    seed: int = 0,
    level: float = LEVEL,
) -> dict[str, Comparison]:
    """Each of `others` [runs, tasks] beside `reference` [runs, tasks], corrected for how many are compared.

    `paired` may be given by name (absent: not paired); then rows are aligned by seed, see `difference`. The p value of
    a difference of means is that of `t_test`, since a bootstrap's is far too small with few runs; of another metric it
    is 2 min(P(d ≤ 0), P(d ≥ 0)) over the resampled differences d, both with one resample added that is as extreme, and
    at most 1. `adjusted_p` is Holm's over all of `others` that have one.

    Holm's method goes from the smallest p to the largest and allows the k-th of m an error of (1 - level) / (m - k + 1)
    until one is not rejected. `adjusted` is the interval at that level; equal p values share their first k, and from
    the first one that is not rejected the level stays. What is drawn for a method depends on its name and `seed` only.
    Raises ValueError as `difference` does.
    """
    pairs = {name: checked_pair(scores, reference) for name, scores in others.items()}
    together = {name: paired if isinstance(paired, bool) else paired.get(name, False) for name in others}
    resampled = {
        name: _resampled(*pair, metric, reps, name_seed(name, seed), together[name]) for name, pair in pairs.items()
    }
    p_values = np.array(
        [t_test(*pairs[name], together[name]) if metric == "mean" else found.p for name, found in resampled.items()]
    )
    levels = 1 - (1 - level) / _divisors(p_values, 1 - level)
    return {
        name: Comparison(
            difference=_interval(*pairs[name], metric, found, level),
            adjusted=_interval(*pairs[name], metric, found, float(own)),
            p=float(p),
            adjusted_p=float(adjusted_p),
            paired=together[name],
            detectable=detectable_difference(*pairs[name], together[name]) if metric == "mean" else float("nan"),
        )
        for (name, found), p, adjusted_p, own in zip(resampled.items(), p_values, holm(p_values), levels, strict=True)
    }


def holm(p_values: Array) -> Array:
    """P values [m] adjusted for their number (Holm 1979): the largest so far of (m - k + 1) p_k, at most 1.

    k counts from the smallest. NaN values stay and do not count.
    """
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]
    adjusted = np.full(p_values.shape, np.nan)
    divisors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * divisors), 1.0)
    return adjusted


def _divisors(p_values: Array, error: float) -> Array:
    """By what Holm's method divides the allowed error for each of p_values [m]."""
    ranks = (p_values[None, :] < p_values[:, None]).sum(axis=1)
    divisors = np.maximum(np.count_nonzero(~np.isnan(p_values)) - ranks, 1)
    kept = divisors[holm(p_values) > error]
    return np.asarray(np.maximum(divisors, kept.max(initial=1)))


class _Differences(NamedTuple):
    """Resampled differences [n] and how often each was drawn [n]; empty where a side has one run."""

    values: Array
    times: Array | None

    @property
    def p(self) -> float:
        times = np.ones(self.values.shape) if self.times is None else self.times
        if not times.size:
            return float("nan")
        tails = times[self.values <= 0].sum(), times[self.values >= 0].sum()
        return float(min(1.0, 2 * (min(tails) + 1) / (times.sum() + 1)))


def _resampled(first: Array, second: Array, metric: str, reps: int, seed: int, paired: bool) -> _Differences:
    if paired and len(first) != len(second):
        raise ValueError(
            f"paired scores have shapes {first.shape} and {second.shape}; expected a row for each seed in both"
        )
    if min(len(first), len(second)) < 2:
        return _Differences(np.empty(0), None)
    if paired:
        both = np.stack([first, second], axis=2)
        found, times = distribution(both, [metric], reps, np.random.default_rng(seed))
        ours, theirs = found[metric]
        return _Differences(ours - theirs, times)
    ours, theirs = (
        spread(found[metric][0], times, stream)
        for stream, (found, times) in (
            (stream, distribution(scores[:, :, None], [metric], reps, stream))
            for scores, stream in zip((first, second), np.random.default_rng(seed).spawn(2), strict=True)
        )
    )
    return _Differences(ours - theirs, None)


def _interval(first: Array, second: Array, metric: str, found: _Differences, level: float) -> Interval:
    estimate = METRICS[metric].point(first) - METRICS[metric].point(second)
    if not found.values.size:
        return Interval(estimate, np.asarray(np.nan), np.asarray(np.nan))
    return Interval(estimate, *ends(found.values, level, found.times))


def t_test(first: Array, second: Array, paired: bool = False) -> float:
    """Two-sided p value of Student's t test that two means differ, scores as in `detectable_difference`.

    Where no run differs from its peers there is no error to measure a difference by: then p is 1 without a difference,
    and with one the least that an exact permutation test can give, 2 / 2^n for n pairs and 2 / C(n + m, n) otherwise.
    NaN where a side has one run.
    """
    from scipy import stats

    if min(len(first), len(second)) < 2:
        return float("nan")
    gap = float(np.mean(first) - np.mean(second))
    error, freedom = _error(first, second, paired)
    if error:
        return float(2 * stats.t.sf(abs(gap) / error, freedom))
    orders = 2 ** len(first) if paired else comb(len(first) + len(second), len(first))
    return 2 / orders if abs(gap) > 1e-12 else 1.0


def detectable_difference(first: Array, second: Array, paired: bool = False) -> float:
    """The smallest difference of means that so many runs could have shown, from scores [n] or [n, tasks], and [m, ...].

    (t_.975 + t_.8) e: what a two-sided t test at 5 % finds with a power of 80 %; e is the standard error of the
    difference and t are quantiles at its degrees of freedom. For one task, n and m runs, e = s sqrt(1/n + 1/m) with the
    standard deviation s between runs pooled over both, at n + m - 2 degrees; paired, e = s / sqrt(n) with s that of the
    n differences, at n - 1. Tasks are independent, so over T of them e² = Σ e_t² / T², and the degrees are those of
    Welch and Satterthwaite, (Σ e_t²)² / Σ (e_t⁴ / degrees). NaN where e cannot be estimated: fewer than two runs, or
    runs that do not differ (e = 0), which says nothing of other runs.
    """
    from scipy import stats

    if min(len(first), len(second)) < 2:
        return float("nan")
    error, freedom = _error(first, second, paired)
    return float(stats.t.ppf([0.5 + LEVEL / 2, POWER], freedom).sum() * error) if error else float("nan")


def _error(first: Array, second: Array, paired: bool) -> tuple[float, float]:
    """Standard error of the difference of means and its degrees of freedom; 0 where it is rounding, not a spread."""
    n, m = len(first), len(second)
    first, second = first.reshape(n, -1), second.reshape(m, -1)
    if paired:
        freedom = n - 1
        errors = np.var(first - second, axis=0, ddof=1) / n
    else:
        freedom = n + m - 2
        squares = n * np.var(first, axis=0) + m * np.var(second, axis=0)
        errors = squares / freedom * (1 / n + 1 / m)
    if np.sqrt(errors.sum()) <= 1e-12 * max(np.abs(first).max(), np.abs(second).max()):
        return 0.0, float("nan")
    return float(np.sqrt(errors.sum()) / errors.size), float(freedom * errors.sum() ** 2 / (errors**2).sum())
