"""Scores of a method's runs with what their evaluation episodes say of each, and tests with episodes as units.

Runs are the units of every claim about a method. Episodes are the units of a weaker claim, that these policies differ:
if not even that can be shown, nothing more can. So p is never below that of a test of episodes over the evaluations of
which the scores are made, and an interval of a difference holds that of the episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics.aggregates import METRICS
from guidebench.harness.statistics.resampling import LEVEL, Array, rejects

RESAMPLES = 2_000
"""Resamples of episodes for a standard error, which then varies by a sixtieth."""
_BEYOND = 1e-9
"""Least distance from 0 of the end of an interval that leaves out 0."""


class Sample(NamedTuple):
    """Final scores of runs on tasks, higher being better or worse in all of them."""

    scores: Array
    """Score of each run, [runs, tasks]."""
    variances: Array | None = None
    """Variance of each score as a mean of episodes, [runs, tasks]: between the episodes of an evaluation, by their
    number. NaN where it is not known, as with one episode; None if it is known of no score."""
    episodes: Array | None = None
    """Number of episodes of each score, [runs, tasks], where scores are success rates of one evaluation."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of runs and of tasks."""
        return self.scores.shape[0], self.scores.shape[1]

    @property
    def outcomes(self) -> tuple[int, int] | None:
        """Return successes and episodes, if the scores are success rates on one task."""
        if self.episodes is None or self.scores.shape[1] != 1:
            return None
        return int(np.rint(self.scores * self.episodes).sum()), int(self.episodes.sum())

    def value(self, metric: str = "mean") -> float:
        """Return the aggregate of the scores."""
        return float(METRICS[metric].point(self.scores))

    def error(self, metric: str = "mean") -> float:
        """Return the standard error of the aggregate from episodes alone; NaN where it is not known.

        That of a mean is sqrt(Σ v) / (runs × tasks) with the variances v. For other aggregates episodes are drawn anew
        within their runs: a success rate from its binomial distribution, any other score from a normal one.
        """
        if self.variances is None or not np.isfinite(self.variances).all():
            return float("nan")
        if metric == "mean":
            return float(np.sqrt(self.variances.sum()) / self.variances.size)
        rng = np.random.default_rng(0)
        scores, shape = self.scores[:, :, None], (*self.scores.shape, RESAMPLES)
        if self.episodes is not None:
            counts = self.episodes[:, :, None].astype(int)
            estimates = rng.binomial(counts, np.clip(scores, 0, 1), shape) / counts
        else:
            estimates = rng.normal(scores, np.sqrt(self.variances)[:, :, None], shape)
        return float(np.std(METRICS[metric].point(estimates)))


def joined(samples: Sequence[Sample]) -> Sample:
    """Return samples of as many runs, on different tasks, as one sample of all these tasks."""
    variances = [sample.variances for sample in samples if sample.variances is not None]
    episodes = [sample.episodes for sample in samples if sample.episodes is not None]
    return Sample(
        np.concatenate([sample.scores for sample in samples], axis=1),
        np.concatenate(variances, axis=1) if len(variances) == len(samples) else None,
        np.concatenate(episodes, axis=1) if len(episodes) == len(samples) else None,
    )


def p_of_episodes(first: Sample, second: Sample, metric: str = "mean") -> float:
    """Return the two-sided p value of the difference of an aggregate with episodes as units; NaN where episodes are not
    known.

    Fisher's exact test of the mean of success rates on one task, else a normal test.
    """
    ours, theirs = first.outcomes, second.outcomes
    if metric == "mean" and ours and theirs:
        return fisher_p(ours, theirs)
    return normal_p(
        first.value(metric) - second.value(metric), float(np.hypot(first.error(metric), second.error(metric)))
    )


def interval_of_episodes(
    first: Sample, second: Sample, metric: str = "mean", level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval that belongs to `p_of_episodes`, which leaves out 0 exactly where p is below 1 - level; NaN
    where episodes are not known.

    For success rates on one task it is Newcombe's of their difference (1998, method 10), with 0 decided by Fisher's
    test; else a normal interval.
    """
    from scipy import stats

    ours, theirs = first.outcomes, second.outcomes
    if metric != "mean" or not (ours and theirs):
        gap = first.value(metric) - second.value(metric)
        half = stats.norm.isf((1 - level) / 2) * np.hypot(first.error(metric), second.error(metric))
        return gap - float(half), gap + float(half)
    low, high = newcombe(ours, theirs, level)
    if not rejects(fisher_p(ours, theirs), level):
        return min(low, 0.0), max(high, 0.0)
    return (max(low, _BEYOND), high) if first.value() > second.value() else (low, min(high, -_BEYOND))


def normal_p(gap: float, error: float) -> float:
    """Return the two-sided p value of a gap with this standard error."""
    from scipy import stats

    if error == 0:
        return float(gap == 0)
    return float(2 * stats.norm.sf(abs(gap) / error))


def fisher_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p value of Fisher's exact test of two counts (successes, episodes): the share of all tables
    with these margins that are no more probable than the observed one.

    >>> round(fisher_p((3, 3), (0, 3)), 3)
    0.1
    """
    from scipy.special import gammaln

    (ours, n), (theirs, m) = first, second
    successes = np.arange(max(0, ours + theirs - m), min(n, ours + theirs) + 1)

    def ways(total: int, chosen: Array) -> Array:
        return np.asarray(gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1))

    weights = ways(n, successes) + ways(m, ours + theirs - successes)
    weights = np.exp(weights - weights.max())
    observed = weights[ours - successes[0]]
    return float(min(1.0, weights[weights <= observed * (1 + 1e-7)].sum() / weights.sum()))


def newcombe(first: tuple[int, int], second: tuple[int, int], level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a difference of rates from Wilson's intervals of each, counts as in `fisher_p`."""
    (ours, n), (theirs, m) = first, second
    (low, high), (below, above) = _wilson(ours, n, level), _wilson(theirs, m, level)
    one, other = ours / n, theirs / m
    return (
        one - other - float(np.hypot(one - low, above - other)),
        one - other + float(np.hypot(high - one, other - below)),
    )


def _wilson(successes: int, episodes: int, level: float) -> tuple[float, float]:
    from scipy import stats

    z = float(stats.norm.isf((1 - level) / 2))
    rate, square = successes / episodes, z * z / episodes
    middle, half = rate + square / 2, z * float(np.sqrt(rate * (1 - rate) / episodes + square / (4 * episodes)))
    return (middle - half) / (1 + square), (middle + half) / (1 + square)
