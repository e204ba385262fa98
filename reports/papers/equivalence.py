"""The equivalence test behind a verdict: whether our number equals a published one within a margin, differs, or
neither.

The test uses both errors. Ours is a standard error over seeds with its degrees of freedom. The paper's is computed from
what it prints: a standard deviation is divided by the root of its number of seeds, and an error of unstated kind is
taken as a standard error, the wider of its two meanings. Where a paper prints no error, or one smaller than our spread
would give for its number of seeds, our spread is used for its seeds: that is right for the same method, and three or
five seeds often show too small a spread. The error of a ratio grows with the ratio: a gain of a few hundred percent
comes from a baseline that happened to be low. So for a gain or saving, the paper's spread is ours times its ratio over
ours, where that factor is above 1. The two errors are combined by Welch and Satterthwaite.

If most seeds are within a tenth of the lowest or highest score, they show almost nothing of the spread: five of five
seeds come out alike in a third of all studies of a method that fails in one seed of five. The interval then also covers
a second reading, with one more, imagined seed at the other bound. So a few seeds at 1.00 never reproduce a published
1.00.

All functions take one estimate or an array of them, so that a simulation can measure the error rates of the same code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics import LEVEL, Array, margin_of_rate
from guidebench.reports.papers import verdicts

FEWEST_SEEDS = 5
"""Fewest seeds of one of our rows; with fewer, nothing is decided."""
UNSTATED_SEEDS = 3
"""Assumed number of seeds of a paper that does not state one: the fewest that any of the five papers states."""
SMALLEST = 0.25
"""Share of the margin below which a difference never counts against a number, so that neither rounding nor a negligible
difference does."""
EQUAL_LEVEL = 2 * LEVEL - 1
"""Level of the interval that is equivalent to two one-sided tests at 1 - LEVEL."""
NEAR = 0.1
"""Distance from a bound of the score, as a share of its range, that counts as at the bound."""

TOO_WIDE = "the interval of the difference reaches beyond the margin, yet no difference is shown"
NO_SIGN = "the size is within the margin, but that there is a gain or saving at all is not shown"
UNDECIDED = "the interval of the difference between the two holds zero"
SEEDS_ALIKE = "most seeds at a bound, so that few seeds show no spread"

SUCCESS = {
    "success_rate": 1.0,
    "best_success_rate": 1.0,
    "area_under_curve": 1.0,
    "success_rate_sd": 1.0,
    "success_percent": 100.0,
    "test_score": 100.0,
    "survival_percent": 100.0,
    "completion_percent": 100.0,
    "object_success_percent": 100.0,
}
"""Metric that is a success rate, or its deviation -> its greatest value."""
DEVIATION = "success_rate_sd"
DIFFERENCES = ("difference",)
"""Formulas whose values are differences of rates."""
SHARES = (
    "label_accuracy_percent",
    "discard_percent",
    "equal_percent",
    "zero_feedback_percent",
    "clipped_before_success_percent",
    "draws_apart_before_success_percent",
)
"""Suffixes of metrics that are shares of labels, priorities or draws, in percent."""


class Estimate(NamedTuple):
    """One of our numbers. Axis 0 of the arrays holds its readings: with the seeds as they are, then with one imagined
    seed more."""

    value: Array
    error: Array
    """Standard error; infinite where the number is unbounded, such as steps to a target that some resamples never
    reach."""
    freedom: Array
    """Degrees of freedom of the error."""
    seeds: int
    """Number of seeds of the row with the fewest."""


class Published(NamedTuple):
    """A published number, or the range that a paper claims; each field is a number or an array."""

    low: Array | float
    high: Array | float
    error: Array | float = float("nan")
    """Standard error; NaN where the paper prints none."""
    seeds: int = UNSTATED_SEEDS
    origin: float = float("nan")
    """For a gain or saving, the value at which the ratio behind it is 0; NaN for any other number."""


def printed(value: float, error: float, kind: str, seeds: int | None) -> Published:
    """Return a published value with its printed error converted to a standard error; `kind` is sd (of the sample),
    population_sd, sem, unknown or empty."""
    if kind == "sd" and seeds is not None:
        error /= np.sqrt(seeds)
    if kind == "population_sd" and seeds is not None:
        error /= np.sqrt(max(seeds - 1, 1))
    return Published(value, value, error, seeds or UNSTATED_SEEDS)


def margin(metric: str, formula: str, value: float, episodes: int) -> float:
    """Return the largest difference at which our value of a metric counts as equal to a published one, under a claim's
    formula ("" for none). `episodes`: number of our episodes behind the value."""
    if formula == "relative_saving" or metric.endswith(("saving_percent", "speed_percent")):
        return 20.0
    if formula == "relative_gain" or metric.endswith(("gain_percent", "change_percent")):
        return 0.2 * (100 + max(value, 0.0))
    if metric in SUCCESS and (metric == DEVIATION or formula in DIFFERENCES):
        return 0.2 * SUCCESS[metric]
    if metric in SUCCESS:
        return float(margin_of_rate(value / SUCCESS[metric], episodes)) * SUCCESS[metric]
    return 5.0 if metric.endswith(SHARES) else 0.2 * abs(value)


def origin(metric: str, formula: str) -> float:
    """Return `Published.origin` of a metric and formula, see `margin`: the value at which the ratio behind a gain or
    saving is 0, that is -100 or 100; NaN for other numbers."""
    if formula == "relative_saving" or metric.endswith("saving_percent"):
        return 100.0
    relative = formula == "relative_gain" or metric.endswith(("gain_percent", "change_percent"))
    return -100.0 if relative else float("nan")


def of_seeds(scores: Array, greatest: float = np.inf) -> Estimate:
    """Estimate the mean of scores [..., seeds] of one task. `greatest`: the highest possible score, if the lowest is 0;
    with it, imagined seeds at the bounds add readings."""
    readings = [_mean(scores)]
    for bound in (0.0, greatest):
        if np.isfinite(greatest):
            is_alike = at_bound(scores, greatest - bound, greatest)
            more = _mean(np.concatenate([scores, np.full((*scores.shape[:-1], 1), bound)], axis=-1))
            readings.append([np.where(is_alike, new, old) for new, old in zip(more, readings[0], strict=True)])
    value, error, freedom = (np.stack(column) for column in zip(*readings, strict=True))
    return Estimate(value, error, freedom, scores.shape[-1])


def at_bound(scores: Array, bound: float, greatest: float) -> Array:
    """Return whether the median of scores [..., seeds] is within a tenth of `greatest` of a bound."""
    return np.asarray(np.abs(np.median(scores, axis=-1) - bound) <= NEAR * greatest)


def ends(ours: Estimate, theirs: Published | None = None, level: float = LEVEL) -> tuple[Array, Array]:
    """Return the ends of the t interval of our value at `level`, or of our difference from `theirs` with both errors;
    it covers every reading."""
    from scipy import stats

    error, freedom = ours.error, ours.freedom
    if theirs is not None:
        alike = ours.error * np.sqrt(ours.seeds / theirs.seeds) * _larger(ours, theirs)
        printed_error = np.nan_to_num(np.asarray(theirs.error, float))
        error = np.hypot(ours.error, np.maximum(alike, printed_error))
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = error**4 / (ours.error**4 / ours.freedom + printed_error**4 / (theirs.seeds - 1))
        freedom = np.where(printed_error > alike, joint, ours.freedom)
    half = np.where(error > 0, stats.t.ppf((1 + level) / 2, freedom), 0.0)
    with np.errstate(invalid="ignore"):
        half = np.where(np.isinf(error), np.inf, half * error)
        low = np.where(np.isinf(half), -np.inf, ours.value - half)
        high = np.where(np.isinf(half), np.inf, ours.value + half)
    return low.min(axis=0), high.max(axis=0)


def _larger(ours: Estimate, theirs: Published) -> Array | float:
    """Return the factor, at least 1, by which the paper's spread exceeds ours because its ratio does."""
    if np.isnan(theirs.origin):
        return 1.0
    ratio = np.fmax(np.abs(theirs.low - theirs.origin), np.abs(theirs.high - theirs.origin))
    with np.errstate(divide="ignore", invalid="ignore"):
        larger = ratio / np.abs(ours.value - theirs.origin)
    return np.where(np.isfinite(larger), np.fmax(larger, 1.0), 1.0)


def decided(ours: Estimate, theirs: Published, margin: float, *, directed: bool = False, level: float = LEVEL) -> Array:
    """Return the verdict (one of `verdicts.TESTED`) on our value beside a published one. `directed`: the number states
    by how much a method is better, so its sign counts too, unless it is published as zero. `level`: at which ours must
    differ; it is higher where several numbers are tested."""
    low, high = ends(ours, theirs, level)
    point, least = ours.value[0], SMALLEST * margin
    above, below = point - theirs.high, theirs.low - point
    differs = ((low > theirs.high) & (above > least)) | ((high < theirs.low) & (below > least))
    within = equal(ours, theirs, margin)
    toward = np.zeros_like(differs)
    sided = directed and bool(np.all(np.asarray(theirs.low) * theirs.high > 0))
    if sided:
        toward = better(ours, float(np.sign(theirs.low)))
    if ours.seeds < FEWEST_SEEDS:
        return np.full(differs.shape, verdicts.INCONCLUSIVE)
    return np.select(
        [within & ~differs & (toward | (not sided)), toward, differs],
        [verdicts.REPRODUCED, verdicts.SAME_DIRECTION, verdicts.NOT_REPRODUCED],
        verdicts.INCONCLUSIVE,
    )


def equal(ours: Estimate, theirs: Published, margin: float) -> Array:
    """Return whether our value equals a published one within the margin, by two one-sided tests."""
    low, high = ends(ours, theirs, EQUAL_LEVEL)
    return np.asarray((low > theirs.low - margin) & (high < theirs.high + margin))


def why_inconclusive(ours: Estimate, theirs: Published | None = None, margin: float = 0.0) -> tuple[str, ...]:
    """Return the reason why our value is inconclusive, in words that do not depend on the number.

    `theirs` and `margin` are as for `decided`; without them the question was which of two is better.
    """
    if ours.seeds < FEWEST_SEEDS:
        return ("fewer than five seeds",)
    if len(ours.value) > 1 and bool(np.any(ours.error[1:] != ours.error[0])):
        return (SEEDS_ALIKE,)
    if theirs is None:
        return (UNDECIDED,)
    return (NO_SIGN if equal(ours, theirs, margin) else TOO_WIDE,)


def verdict(
    ours: Estimate, theirs: Published, metric: str, formula: str, episodes: int, directed: bool, level: float = LEVEL
) -> tuple[str, tuple[str, ...]]:
    """Return the verdict on our value of a metric under a formula ("" for none), and the reason if it is
    inconclusive. The other arguments are as for `margin` and `decided`."""
    theirs = theirs._replace(origin=origin(metric, formula))
    within = margin(metric, formula, float(theirs.low), episodes)
    decision = str(decided(ours, theirs, within, directed=directed, level=level))
    return decision, why_inconclusive(ours, theirs, within) if decision == verdicts.INCONCLUSIVE else ()


def better(ours: Estimate, sign: float = 1.0, level: float = LEVEL) -> Array:
    """Return whether a difference is shown to be on one side of zero at `level`: above it, or below if `sign` is
    negative."""
    low, high = ends(ours, level=level)
    return np.asarray(low > 0 if sign > 0 else high < 0) & (ours.seeds >= FEWEST_SEEDS)


def _mean(scores: Array) -> list[Array]:
    seeds = scores.shape[-1]
    return [scores.mean(axis=-1), scores.std(axis=-1, ddof=1) / np.sqrt(seeds), np.full(scores.shape[:-1], seeds - 1.0)]
