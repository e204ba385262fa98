"""The one test of which scores differ: it determines p values, intervals of differences, ranks and the rows of a table
that are marked as best.

p is the larger of two: that of the permutation test with runs as units (`permutation`), and that of a test of the same
aggregate with episodes as units (`samples`). The interval of a difference is the set of shifts that neither rejects.
Percentile intervals of a bootstrap are not used for decisions: with three runs they miss the true value in one case of
four (`coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics import permutation, power, samples
from guidebench.harness.statistics.permutation import p_of_means
from guidebench.harness.statistics.power import seeds_needed
from guidebench.harness.statistics.resampling import LEVEL, Array, Interval, checked, rejects
from guidebench.harness.statistics.samples import Sample, fisher_p, normal_p

UNBOUNDED = (-np.inf, np.inf)
LARGEST_MARGIN = 0.2
"""Largest margin of a rate (choice)."""


class Comparison(NamedTuple):
    """A method compared with the reference; `difference` is method minus reference.

    `adjusted` is the interval at Holm's level for this comparison; `p` and `adjusted_p` are two-sided. The ends of both
    intervals are NaN if so few runs cannot tell (`permutation.can_tell`), p if a side has one run.
    """

    difference: Interval
    adjusted: Interval
    p: float
    adjusted_p: float
    runs: int
    """Runs of the side with fewer."""
    needed: float
    """Seeds a side that such a difference needs (`power.seeds_needed`): infinite above 100, NaN for the reason in
    `unknown`."""
    unknown: str = ""
    """Why `needed` is not known; "" if it is."""

    @property
    def interval_note(self) -> str:
        """Return the text shown instead of an interval that so few runs do not have; "" if there is an interval."""
        return cannot_tell(self.runs) if np.isnan(self.difference.low) else ""


class Equivalence(NamedTuple):
    """Result of a test whether the difference of two means lies within ± `margin` (two one-sided tests)."""

    difference: Interval
    """The interval of the difference at 2 level - 1: of 90 % for tests at 5 %."""
    margin: float
    p: float
    """The larger p value of the two tests, of runs and of episodes."""
    level: float = LEVEL
    """1 minus the error of either test."""

    @property
    def is_equivalent(self) -> bool:
        return bool(rejects(self.p, self.level))


def cannot_tell(runs: int) -> str:
    """Return the text shown where a test has too few runs to find any difference.

    >>> cannot_tell(3)
    '3 seeds cannot tell'
    """
    return f"{runs} seed{'' if runs == 1 else 's'} cannot tell"


def p_value(first: Sample, second: Sample, metric: str = "mean") -> float:
    """Return the two-sided p value of the difference of an aggregate; NaN if a side has one run.

    Raises ValueError for shapes that do not fit or scores that are not finite.
    """
    _check(first, second)
    if min(len(first.scores), len(second.scores)) < 2:
        return float("nan")
    of_runs = permutation.p_value(first.scores, second.scores, metric)
    return float(np.fmax(of_runs, samples.p_of_episodes(first, second, metric)))


def interval(
    first: Sample,
    second: Sample,
    metric: str = "mean",
    level: float = LEVEL,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Interval:
    """Return the difference of an aggregate, `first` minus `second`, with the interval of shifts that are not rejected.

    It leaves out 0 exactly where `p_value` is below 1 - level, and is cut at `bounds`, the least and the greatest
    possible difference. Its ends are NaN if no scores of so many runs could be told apart at 5 %.
    """
    _check(first, second)
    gap = np.asarray(first.value(metric) - second.value(metric))
    (n, tasks), m = first.shape, len(second.scores)
    if min(n, m) < 2 or not permutation.can_tell(n, m, tasks):
        return Interval(gap, np.asarray(np.nan), np.asarray(np.nan))
    of_runs = permutation.interval(first.scores, second.scores, metric, level)
    of_episodes = samples.interval_of_episodes(first, second, metric, level)
    low, high = np.fmin(of_runs[0], of_episodes[0]), np.fmax(of_runs[1], of_episodes[1])
    return Interval(gap, *np.clip([low, high], *bounds))


def compare(
    reference: Sample,
    others: Mapping[str, Sample],
    *,
    level: float = LEVEL,
    bounds: tuple[float, float] = UNBOUNDED,
) -> dict[str, Comparison]:
    """Compare the mean of each of `others` with that of `reference`, corrected for their number.

    `adjusted_p` is Holm's over all of `others` that have a p value. Holm's method goes from the smallest p to the
    largest and allows the k-th of m an error of (1 - level) / (m - k + 1) until one is not rejected. `adjusted` is the
    interval at that level; equal p values share their first k, and the level stays from the first one that is not
    rejected. So the interval excludes 0 exactly where `adjusted_p` is below 1 - level, and in at most 1 - level of
    studies it does so for any method that equals the reference. Raises ValueError for shapes that do not fit, or scores
    that are not finite.
    """
    p_values = np.array([p_value(sample, reference) for sample in others.values()])
    levels = 1 - (1 - level) / holm_divisors(p_values, level)
    return {
        name: Comparison(
            difference=interval(sample, reference, "mean", level, bounds),
            adjusted=interval(sample, reference, "mean", float(holm_level), bounds),
            p=float(p),
            adjusted_p=float(adjusted_p),
            runs=min(len(sample.scores), len(reference.scores)),
            needed=seeds_needed(sample.scores, reference.scores),
            unknown=power.unknown(len(sample.scores), len(reference.scores), sample.shape[1]),
        )
        for (name, sample), p, adjusted_p, holm_level in zip(
            others.items(), p_values, holm(p_values), levels, strict=True
        )
    }


def all_pairs(rows: Sequence[Sample], metric: str = "mean") -> dict[tuple[int, int], float]:
    """Return the p values of all pairs of samples of the same tasks, (i, j) with i < j; NaN if a side has one run."""
    pairs = list(combinations(range(len(rows)), 2))
    p_values = dict(zip(pairs, _of_runs(rows, pairs, metric), strict=True))
    errors, values = [row.error(metric) for row in rows], [row.value(metric) for row in rows]
    outcomes = [row.outcomes if metric == "mean" else None for row in rows]
    for (i, j), p in p_values.items():
        if np.isnan(p):
            continue
        ours, theirs = outcomes[i], outcomes[j]
        error = float(np.hypot(errors[i], errors[j]))
        episode_p = fisher_p(ours, theirs) if ours and theirs else normal_p(values[i] - values[j], error)
        p_values[i, j] = float(np.fmax(p, episode_p))
    return p_values


def _of_runs(rows: Sequence[Sample], pairs: Sequence[tuple[int, int]], metric: str) -> Array:
    """Return the permutation test's p value of each pair; those of means on one task are computed together."""
    p_values = np.full(len(pairs), np.nan)
    together: dict[tuple[int, int], list[int]] = {}
    for index, (i, j) in enumerate(pairs):
        first, second = rows[i].scores, rows[j].scores
        if min(len(first), len(second)) < 2:
            continue
        if metric == "mean" and first.shape[1] == second.shape[1] == 1:
            together.setdefault((len(first), len(second)), []).append(index)
        else:
            p_values[index] = permutation.p_value(first, second, metric)
    for members in together.values():
        sides = zip(*(pairs[index] for index in members), strict=True)
        first, second = (np.concatenate([rows[place].scores for place in side], axis=1) for side in sides)
        p_values[members] = p_of_means(first, second)
    return p_values


def leading(values: Sequence[float], pairs: Mapping[tuple[int, int], float]) -> list[bool]:
    """Return whether each of `values` is among the best: the smallest set of the highest values, other than all, of
    which each differs from each value outside it at p < .05; False for all if there is no such set.

    `pairs`: (i, j) with i < j -> p value, one for every pair; NaN if there is no test, which distinguishes nothing. p
    is not corrected for the number of pairs: two equal rows are separated in at most 5 % of tables, and of more
    rows a set must differ in every pair across its edge, which is rarer (`benchmarks.error_rates`).
    """
    order = sorted(range(len(values)), key=lambda index: -values[index])
    for size in range(1, len(order)):
        top, rest = order[:size], order[size:]
        if all(rejects(pairs[min(i, j), max(i, j)]) for i in top for j in rest):
            return [index in top for index in range(len(values))]
    return [False] * len(values)


def significant(pairs: Mapping[tuple[int, int], float]) -> set[tuple[int, int]]:
    """Return the pairs whose p value is below .05 after Holm's correction for all of them."""
    adjusted = holm(np.array(list(pairs.values())))
    return {pair for pair, value in zip(pairs, adjusted, strict=True) if rejects(value)}


def holm(p_values: Array) -> Array:
    """Return p values [m] adjusted for their number (Holm 1979): the largest so far of (m - k + 1) p_k, at most 1.

    k counts from the smallest. NaN values stay and do not count.
    """
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]
    adjusted = np.full(p_values.shape, np.nan)
    divisors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * divisors), 1.0)
    return adjusted


def holm_divisors(p_values: Array, level: float) -> Array:
    """Return the numbers [m] by which Holm's method divides the allowed error for each of p_values [m]."""
    ranks = (p_values[None, :] < p_values[:, None]).sum(axis=1)
    divisors = np.maximum(np.count_nonzero(~np.isnan(p_values)) - ranks, 1)
    adjusted = holm(p_values)
    unrejected = divisors[~np.isnan(adjusted) & ~rejects(adjusted, level)]
    return np.asarray(np.maximum(divisors, unrejected.max(initial=1)))


def equivalence(first: Sample, second: Sample, margin: float, level: float = LEVEL) -> Equivalence:
    """Test by two one-sided tests (Schuirmann 1987), each at 1 - level, whether the means of two samples differ by less
    than `margin`.

    A difference that is not shown does not show that methods are equal; this test does, within a margin that must be
    chosen before looking. Raises ValueError for a margin that is not positive.
    """
    if not margin > 0:
        raise ValueError(f"the margin is {margin}; expected a positive number, in the unit of the scores")
    _check(first, second)
    gap, error = first.value() - second.value(), float(np.hypot(first.error(), second.error()))
    of_runs = max(
        permutation.one_sided_p(first.scores, second.scores, margin),
        permutation.one_sided_p(second.scores, first.scores, margin),
    )
    of_episodes = normal_p(max(margin - abs(gap), 0.0), error) / 2
    p = float(np.fmax(of_runs, of_episodes))
    return Equivalence(interval(first, second, level=2 * level - 1), margin, p, level)


def margin_of_rate(rate: Array | float, episodes: int) -> Array:
    """Return the difference from a rate p in [0, 1] that counts as none: min(.2, p / 2, (1 - p) / 2), so that neither
    never nor always lies within it, but at least one of `episodes`, those behind the rate that is compared with p."""
    rate = np.asarray(rate, float)
    return np.maximum(np.minimum(np.minimum(LARGEST_MARGIN, rate / 2), (1 - rate) / 2), 1 / episodes)


def standard_error(first: Array, second: Array) -> float:
    """Return the standard error of the difference of means of scores [n, tasks] and [m, tasks], sqrt(v / n + w / m)
    with the variances between runs; NaN if a side has one run."""
    if min(len(first), len(second)) < 2:
        return float("nan")
    squares = [np.var(scores, axis=0, ddof=1).sum() / len(scores) for scores in (first, second)]
    return float(np.sqrt(sum(squares)) / first.shape[1])


def _check(first: Sample, second: Sample) -> None:
    """Raise ValueError for samples of different tasks, and for scores of another shape or not finite."""
    ours, theirs = (checked(sample.scores, "[runs, tasks]").shape for sample in (first, second))
    if ours[1] != theirs[1]:
        raise ValueError(f"scores have shapes {ours} and {theirs}; expected the same tasks (axis 1) in both")
