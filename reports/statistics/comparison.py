"""Tests of which scores differ. One test determines p values, intervals of differences and the rows of a table that are
marked as best.

The test is Student's t: of the seeds' differences if both sides have the same seeds (paired), else Welch's, which
allows for other variances and other numbers of runs. Percentile intervals of a bootstrap are not used for decisions:
with three runs they miss the true value in one case of four (`guidebench.reports.statistics.coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from guidebench.reports.statistics.aggregates import METRICS, distribution, mean
from guidebench.reports.statistics.resampling import (
    LEVEL,
    REPS,
    Array,
    Interval,
    checked_pair,
    ends,
    spread,
)

POWER = 0.8
ROUNDING = 1e-12


class Spread(NamedTuple):
    """Uncertainty of an aggregate of `runs` runs, whose standard error is sqrt(variance / runs). Numbers, or arrays."""

    variance: Array
    """Estimated variance of one run's share of the aggregate; 0 if runs do not differ, NaN with one run."""
    runs: Array
    freedom: Array
    """Degrees of freedom of `variance`."""


class Contrast(NamedTuple):
    """The difference of two aggregates, with its t test."""

    gap: float
    errors: tuple[tuple[float, float], ...]
    """Standard errors with their degrees of freedom; the one with the widest interval counts. Empty if none can be
    estimated: with a single run, or if no run differs from any other."""
    least: float = float("nan")
    """The p value if `errors` is empty: NaN with a single run, 1 if no run differs from any other."""

    @property
    def p(self) -> float:
        """Return the two-sided p value."""
        from scipy import stats

        return max((float(2 * stats.t.sf(abs(self.gap) / error, df)) for error, df in self.errors), default=self.least)

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the interval, which excludes 0 exactly where p < 1 - level; its ends are NaN if no error can be
        estimated."""
        half = self._width([0.5 + level / 2])
        return Interval(np.asarray(self.gap), np.asarray(self.gap - half), np.asarray(self.gap + half))

    def _width(self, chances: Sequence[float]) -> float:
        from scipy import stats

        return max((float(stats.t.ppf(chances, df).sum() * error) for error, df in self.errors), default=float("nan"))


class Comparison(NamedTuple):
    """A method compared with the reference; `difference` is method minus reference.

    `adjusted` is the interval at Holm's level for this comparison; `p` and `adjusted_p` are two-sided; `paired` says
    whether the seeds' differences were tested; `detectable` is the true difference that such a test would find with a
    power of 80 % (`detectable_difference`). All but the estimates are NaN if a side has one run.
    """

    difference: Interval
    adjusted: Interval
    p: float
    adjusted_p: float
    paired: bool
    detectable: float


def spread_of(scores: Array) -> Spread:
    """Return the spread of the mean over tasks of the mean over runs of scores [n] or [n, tasks].

    Tasks are independent: over T of them the variance is Σ s_t² / T² with the variance s_t² between the runs of a task,
    and its degrees of freedom are those of Welch and Satterthwaite, (Σ s_t²)² / Σ (s_t⁴ / (n - 1)).
    """
    runs = len(scores)
    if runs < 2:
        return Spread(np.asarray(np.nan), np.asarray(runs), np.asarray(np.nan))
    scores = np.reshape(scores, (runs, -1))
    squares = np.var(scores, axis=0, ddof=1)
    if np.sqrt(squares.sum()) <= ROUNDING * max(np.abs(scores).max(), 1e-300):
        return Spread(np.asarray(0.0), np.asarray(runs), np.asarray(runs - 1.0))
    freedom = (runs - 1) * squares.sum() ** 2 / (squares**2).sum()
    return Spread(squares.sum() / squares.size**2, np.asarray(runs), freedom)


def bootstrapped(resampled: Array, scores: Array, several: bool = True) -> Spread:
    """Return the spread of an aggregate of scores [n, tasks] with these values over resamples [reps].

    The bootstrap's variance is multiplied by n / (n - 1), which makes that of the mean on one task exactly s² / n. The
    degrees of freedom are those of the mean or, unless `several` tasks contribute to the aggregate, n - 1: a median may
    depend on a single task.
    """
    own = spread_of(scores)
    if len(scores) < 2:
        return own
    found = float(np.var(resampled)) * len(scores) / (len(scores) - 1)
    freedom = own.freedom if several else own.runs - 1.0
    return Spread(np.asarray(found * len(scores) if found > ROUNDING**2 else 0.0), own.runs, freedom)


def welch(first: Spread, second: Spread) -> list[tuple[Array, Array]]:
    """Return standard errors of a difference with their degrees of freedom, of which the wider counts; 0 without a
    spread.

    The first is Welch's, sqrt(v / n + w / m). If few runs happen to be equal, such as three that all succeed, Welch's
    treats them as certain; so the second uses a variance pooled over both sides. With as many runs on either side both
    are the same.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ours, theirs = first.variance / first.runs, second.variance / second.runs
        shares = first.runs - 1, second.runs - 1
        both = (1 / first.runs + 1 / second.runs) / (shares[0] + shares[1])
        pooled = shares[0] * first.variance * both, shares[1] * second.variance * both
        return [
            (np.sqrt(one + other), (one + other) ** 2 / (one**2 / first.freedom + other**2 / second.freedom))
            for one, other in ((ours, theirs), pooled)
        ]


def contrast(first: Array, second: Array, paired: bool = False) -> Contrast:
    """Test the difference of the means over tasks and runs of scores [n] or [n, tasks] and [m, ...].

    Paired, run i of both has the same seed. If no run differs from its peers, no error can be estimated: then p is 1
    without a difference, and `least` with one; the interval is that of a t test with this p value.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    gap = float(mean(first.reshape(len(first), -1)) - mean(second.reshape(len(second), -1)))
    if paired:
        return told(gap, spread_of(first - second))
    return told(gap, spread_of(first), spread_of(second))


def standard_error(first: Array, second: Array, paired: bool = False) -> float:
    """Return the standard error of the difference of means, scores as in `contrast`; NaN if a side has one run.

    It is s / sqrt(n) of the differences if paired, else sqrt(v / n + w / m): 0 if no run differs from its peers, which
    the test treats as an unknown error.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    spreads = [spread_of(first - second)] if paired else [spread_of(first), spread_of(second)]
    return float(np.sqrt(sum(each.variance / each.runs for each in spreads)))


def told(gap: float, first: Spread, second: Spread | None = None) -> Contrast:
    """Return the contrast of a gap between aggregates of these spreads; paired if only the spread of the differences is
    given."""
    from scipy import stats

    n, m = int(first.runs), 0 if second is None else int(second.runs)
    if n < 2 or m == 1:
        return Contrast(gap, ())
    if second is None:
        errors = [(float(np.sqrt(first.variance / n)), float(first.freedom))]
    else:
        errors = [(float(error), float(freedom)) for error, freedom in welch(first, second)]
    errors = [each for each in errors if each[0] > 0]
    if errors:
        return Contrast(gap, tuple(errors))
    if abs(gap) <= ROUNDING:
        return Contrast(gap, (), 1.0)
    p, freedom = least(n, m), n + m - 2 if m else n - 1
    return Contrast(gap, ((abs(gap) / float(stats.t.isf(p / 2, freedom)), freedom),))


def least(n: int, m: int) -> float:
    """Return the p value of n equal runs compared with m equal runs that differ from them; of n pairs if m is 0.

    For equal methods whose runs have two outcomes it is the probability of this result at its largest: 2 p^n (1 - p)^m
    with p = n / (n + m), so 1 in 32 for three and three; for n pairs 2 / 2^n.
    """
    return 2 / 2**n if not m else 2 * (n / (n + m)) ** n * (m / (n + m)) ** m


def t_test(first: Array, second: Array, paired: bool = False) -> float:
    """Return the two-sided p value that two means differ, see `contrast`; NaN if a side has one run."""
    return contrast(first, second, paired).p


def compare(
    reference: Array, others: Mapping[str, Array], *, paired: Mapping[str, bool] | bool = False, level: float = LEVEL
) -> dict[str, Comparison]:
    """Compare the mean of each of `others` [runs, tasks] with that of `reference` [runs, tasks], corrected for their
    number.

    `paired` may be given by name (absent: not paired); then runs are aligned by seed. `adjusted_p` is Holm's over all
    of `others` that have a p value.

    Holm's method goes from the smallest p to the largest and allows the k-th of m an error of (1 - level) / (m - k + 1)
    until one is not rejected. `adjusted` is the t test's interval at that level; equal p values share their first k,
    and the level stays from the first one that is not rejected. So the interval excludes 0 exactly where `adjusted_p`
    is below 1 - level, and in at most 1 - level of studies it does so for any method that equals the reference. Raises
    ValueError for shapes that do not fit, or scores that are not finite.
    """
    together = {name: paired if isinstance(paired, bool) else paired.get(name, False) for name in others}
    pairs = {name: _checked(scores, reference, together[name]) for name, scores in others.items()}
    found = {name: contrast(*pair, together[name]) for name, pair in pairs.items()}
    p_values = np.array([each.p for each in found.values()])
    levels = 1 - (1 - level) / _divisors(p_values, 1 - level)
    return {
        name: Comparison(
            difference=each.interval(level),
            adjusted=each.interval(float(own)),
            p=float(p),
            adjusted_p=float(adjusted_p),
            paired=together[name],
            detectable=detectable_difference(*pairs[name], together[name]),
        )
        for (name, each), p, adjusted_p, own in zip(found.items(), p_values, holm(p_values), levels, strict=True)
    }


def leading(values: Sequence[float], pairs: Mapping[tuple[int, int], float], error: float = 1 - LEVEL) -> list[bool]:
    """Return, for each of `values`, whether it is the highest or not distinguished from it by tests of all pairs; False
    for all if they are equal.

    `pairs`: (i, j) with i < j -> p value, one for every pair; NaN if there is no test, which distinguishes nothing. The
    highest was chosen by looking at all, so Holm corrects for all pairs: if the methods are equal, at most `error` of
    tables leave one out.
    """
    if len(values) < 2 or max(values) - min(values) < ROUNDING:
        return [False] * len(values)
    top = int(np.argmax(values))
    told = apart(pairs, error)
    return [
        values[top] - value < ROUNDING or (min(index, top), max(index, top)) not in told
        for index, value in enumerate(values)
    ]


def apart(pairs: Mapping[tuple[int, int], float], error: float = 1 - LEVEL) -> set[tuple[int, int]]:
    """Return the pairs whose p value is below `error` after Holm's correction for all of them."""
    adjusted = holm(np.array(list(pairs.values())))
    return {pair for pair, value in zip(pairs, adjusted, strict=True) if value < error}


def all_pairs(scores: Sequence[Array], seeds: Sequence[Sequence[int]]) -> dict[tuple[int, int], float]:
    """Return p values of all pairs of scores [runs, tasks], (i, j) with i < j; paired if both have the same seeds."""
    return {
        (i, j): t_test(scores[i], scores[j], paired=tuple(seeds[i]) == tuple(seeds[j]))
        for i, j in combinations(range(len(scores)), 2)
    }


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


def _divisors(p_values: Array, error: float) -> Array:
    """Return the number by which Holm's method divides the allowed error for each of p_values [m]."""
    ranks = (p_values[None, :] < p_values[:, None]).sum(axis=1)
    divisors = np.maximum(np.count_nonzero(~np.isnan(p_values)) - ranks, 1)
    kept = divisors[holm(p_values) >= error]
    return np.asarray(np.maximum(divisors, kept.max(initial=1)))


def detectable_difference(first: Array, second: Array, paired: bool = False) -> float:
    """Return the true difference of means that a two-sided t test at 5 % finds with a power of 80 %: (t_.975 + t_.8) e.

    e is the standard error of the difference as estimated from these scores ([n] or [n, tasks], and [m, ...]; see
    `contrast`), and t are quantiles at its degrees of freedom. Smaller differences are found less often, not never, and
    the estimate is as uncertain as e is. NaN if e cannot be estimated: with fewer than two runs, or with runs that do
    not differ, which is no evidence about other runs.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    both = (first - second,) if paired else (first, second)
    if not any(float(spread_of(each).variance) > 0 for each in both):
        return float("nan")
    return contrast(first, second, paired)._width([0.5 + LEVEL / 2, POWER])


class Equivalence(NamedTuple):
    """Result of a test whether the difference of two means lies within ± `margin` (two one-sided t tests)."""

    difference: Interval
    """The 90 % interval of the difference, which lies within the margin exactly where p < .05."""
    margin: float
    p: float
    """The larger p value of the two tests; NaN if no error can be estimated."""

    @property
    def shown(self) -> bool:
        return self.p < 1 - LEVEL


def equivalence(first: Array, second: Array, margin: float, paired: bool = False) -> Equivalence:
    """Test by Schuirmann's two one-sided tests at 5 % whether the means of `first` and `second` differ by less than
    `margin`.

    Scores as in `contrast`. A non-significant test of difference does not show that methods are equal; this test does,
    within a margin that must be chosen before looking.
    """
    from scipy import stats

    if not margin > 0:
        raise ValueError(f"the margin is {margin}; expected a positive number, in the unit of the scores")
    found = contrast(first, second, paired)
    p = max((float(stats.t.sf((margin - abs(found.gap)) / e, df)) for e, df in found.errors), default=float("nan"))
    return Equivalence(found.interval(2 * LEVEL - 1), margin, p)


def difference(
    first: Array, second: Array, metric: str, reps: int = REPS, seed: int = 0, paired: bool = False
) -> Interval:
    """Return the metric of `first` minus that of `second`, each [runs, tasks], with its bootstrap interval, which is no
    test.

    The two are resampled independently or, paired, together: run i of both has the same seed, and a resample draws
    seeds. Raises ValueError for shapes that do not fit, or scores that are not finite.
    """
    first, second = _checked(first, second, paired)
    estimate = METRICS[metric].point(first) - METRICS[metric].point(second)
    if min(len(first), len(second)) < 2:
        return Interval(estimate, np.asarray(np.nan), np.asarray(np.nan))
    if paired:
        both = np.stack([first, second], axis=2)
        found, times = distribution(both, [metric], reps, np.random.default_rng(seed))
        ours, theirs = found[metric]
        return Interval(estimate, *ends(ours - theirs, LEVEL, times))
    ours, theirs = (
        spread(found[metric][0], times, stream)
        for stream, (found, times) in (
            (stream, distribution(scores[:, :, None], [metric], reps, stream))
            for scores, stream in zip((first, second), np.random.default_rng(seed).spawn(2), strict=True)
        )
    )
    return Interval(estimate, *ends(ours - theirs))


def _checked(first: Array, second: Array, paired: bool) -> tuple[Array, Array]:
    first, second = checked_pair(first, second)
    if paired and len(first) != len(second):
        raise ValueError(
            f"paired scores have shapes {first.shape} and {second.shape}; expected a row for each seed in both"
        )
    return first, second
