"""The verdicts on the claims of a study: numbers in, numbers out.

A claim says that the means of two rows differ, or that scores have a trend over the values of a setting. Of m primary
claims each is tested at the level's error / m, whatever the others show. Secondary claims share the level's error by
Holm's method. Tests are two-sided (`comparison`, `trends`); runs are never paired by their seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from guidebench.harness.statistics import comparison, trends
from guidebench.harness.statistics.comparison import UNBOUNDED, holm_divisors
from guidebench.harness.statistics.resampling import Array, Interval, rejects
from guidebench.harness.statistics.samples import Sample
from guidebench.harness.statistics.trends import Changes

Finding = Literal[
    "shown", "shown, against the direction expected", "the mechanism, not the guidance, helps", "no difference of δ",
    "not shown",
]  # fmt: skip
"""Result of the test of a claim. The third one is that of a difference that is shown while the row does not also differ
from its placebo in that direction; the fourth that of an equivalence test within ± δ."""


class Pair(NamedTuple):
    """Scores of the rows of a claim of a difference, in their own unit and direction."""

    first: Sample
    second: Sample
    placebo: Sample | None = None
    """Scores of the row of `first` whose models answer without information."""


class ClaimScores(NamedTuple):
    """What is known of a claim before it is tested."""

    scores: Pair | Changes | None
    """A `Pair`, or `trends.changes` of a trend; None where there are no scores to test."""
    sign: int
    """1 if `first` is expected to be higher, or the trend to rise; else -1."""
    is_primary: bool
    bounds: tuple[float, float] = UNBOUNDED
    """Least and greatest possible difference."""


class Contrast(NamedTuple):
    """The test of one difference."""

    difference: Interval
    """Of a trend the change over the range of values. The interval is at 1 - error."""
    p: float


class Verdict(NamedTuple):
    """The result of one claim."""

    finding: Finding
    error: float
    """Error allowed to this claim: p must be below it."""
    contrast: Contrast
    equivalence: Interval
    """The difference with the interval of two one-sided tests at this error each, 1 - 2 error."""
    placebo: Contrast | None
    """`first` minus its placebo; None without one."""

    @property
    def differs_from_placebo(self) -> bool | None:
        """Return whether `first` differs from its placebo in the direction of the claim's difference; None without a
        placebo."""
        if self.placebo is None:
            return None
        same = float(self.placebo.difference.estimate) * float(self.contrast.difference.estimate) > 0
        return bool(same and rejects(self.placebo.p, 1 - self.error))


def verdicts(claims: Sequence[ClaimScores], error: float, delta: float) -> list[Verdict | None]:
    """Return the verdict on each claim, None for those without scores.

    `error`: that of all primary claims together, and again of all secondary ones; `delta`: the difference that the
    study is made to find. A claim without scores counts in both corrections as one that is not shown. Raises
    ValueError for scores that do not fit each other.
    """
    p_values = np.array([np.nan if claim.scores is None else p_of(claim.scores) for claim in claims])
    is_primary = np.array([claim.is_primary for claim in claims], bool)
    return [
        None if claim.scores is None else _verdict(claim.scores, claim.sign, float(of), delta, claim.bounds)
        for claim, of in zip(claims, errors(p_values, is_primary, error), strict=True)
    ]


def p_of(scores: Pair | Changes) -> float:
    """Return the two-sided p value of a claim; NaN if a side has one run."""
    return trends.p_value(scores) if isinstance(scores, Changes) else comparison.p_value(scores.first, scores.second)


def errors(p_values: Array, is_primary: Array, error: float) -> Array:
    """Return the error allowed to each of the claims with these p values [claims], NaN where there is none.

    A primary claim has error / m with m primary claims. A secondary claim has error / (m - k + 1), k counting the m
    secondary ones from the smallest p, as far as Holm's method goes (`comparison.compare`).
    """
    allowed = np.full(p_values.shape, error / max(int(is_primary.sum()), 1))
    secondary = np.where(np.isnan(p_values), 1.0, p_values)[~is_primary]
    allowed[~is_primary] = error / holm_divisors(secondary, 1 - error)
    return allowed


def _verdict(scores: Pair | Changes, sign: int, error: float, delta: float, bounds: tuple[float, float]) -> Verdict:
    placebo = None
    if isinstance(scores, Changes):
        contrast = Contrast(trends.interval(scores, 1 - error, bounds), trends.p_value(scores))
        within = trends.interval(scores, 1 - 2 * error, bounds)
        is_equivalent = trends.can_tell(scores) and rejects(trends.equivalence_p(scores, delta), 1 - error)
    else:
        contrast = _contrast(scores.first, scores.second, error, bounds)
        test = comparison.equivalence(scores.first, scores.second, delta, 1 - error)
        within, is_equivalent = test.difference, test.is_equivalent
        if scores.placebo is not None:
            placebo = _contrast(scores.first, scores.placebo, error, bounds)
    verdict = Verdict("not shown", error, contrast, within, placebo)
    if not rejects(contrast.p, 1 - error):
        return verdict._replace(finding="no difference of δ") if is_equivalent else verdict
    if sign * float(contrast.difference.estimate) < 0:
        return verdict._replace(finding="shown, against the direction expected")
    if verdict.differs_from_placebo is False:
        return verdict._replace(finding="the mechanism, not the guidance, helps")
    return verdict._replace(finding="shown")


def _contrast(first: Sample, second: Sample, error: float, bounds: tuple[float, float]) -> Contrast:
    return Contrast(comparison.interval(first, second, "mean", 1 - error, bounds), comparison.p_value(first, second))
