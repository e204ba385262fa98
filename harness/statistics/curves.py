"""Numbers of a learning curve: the area under it, and the steps to a threshold, which some runs never reach.

A curve with intervals is `intervals` of scores [runs, tasks, checkpoints].
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from guidebench.harness.statistics.resampling import LEVEL, REPS, Array, Interval, checked, draws, ends

Timing = Literal["area", "final", "late"]
"""Which evaluations of a run make a number: the area under its learning curve, the last one, or the last three."""
LATE = 3
"""Evaluations whose mean is a late score."""
_ROUNDING = 1e-9  # of a product of shares


class ThresholdSteps(NamedTuple):
    """First evaluation at which a run met the threshold, steps [runs, tasks]; inf if it has not by step `last`."""

    step: Array
    last: Array


class Survival(NamedTuple):
    """Runs that reached a threshold: their share, and the median and restricted mean of steps to it."""

    share: Interval
    median: Interval
    restricted_mean: Interval


def area_under_curve(scores: Array, steps: Array) -> Array:
    """Return the mean height of each curve by the trapezoid rule: scores [runs, tasks, checkpoints] at steps -> [runs,
    tasks].

    Normalised by the span of the steps, so a constant curve has its own height. Raises ValueError for shapes that do
    not fit, scores that are not finite, or fewer than two steps.
    """
    scores = checked(scores, "[runs, tasks, checkpoints]")
    steps = _checked_steps(steps, scores)
    if len(steps) < 2:
        raise ValueError("a curve of one evaluation has no area; expected two steps or more")
    return np.asarray(np.trapezoid(scores, steps, axis=2) / (steps[-1] - steps[0]))


def evaluation_weights(timing: Timing, steps: Array) -> Array:
    """Return the weight of each evaluation in a number of a run, [checkpoints]; the weights sum to 1.

    `area`: the trapezoid rule by the span of the steps, so the number is that of `area_under_curve`; `final`: the last
    evaluation; `late`: the mean of the last `LATE`. The number of a run is weights · scores, and its variance as a mean
    of episodes is weights² · variances. Raises ValueError for steps that do not rise, or fewer than two for an area.
    """
    steps = np.asarray(steps, float)
    spans = np.diff(steps)
    if not len(steps) or not (spans > 0).all() or (timing == "area" and len(steps) < 2):
        raise ValueError(f"{timing} of {len(steps)} evaluations: expected rising steps, and at least two for an area")
    if timing == "area":
        return np.asarray((np.append(spans, 0.0) + np.append(0.0, spans)) / (2 * spans.sum()))
    weights = np.zeros(len(steps))
    last = min(len(steps), LATE if timing == "late" else 1)
    weights[-last:] = 1 / last
    return weights


def steps_to_threshold(scores: Array, steps: Array, threshold: float) -> ThresholdSteps:
    """Return when each run first scores `threshold` or more; scores [runs, tasks, checkpoints] at steps [checkpoints].

    A run that ended early, or has not come as far as others, has NaN from there on; its `last` is the step of its last
    evaluation, up to which it is known not to have reached the threshold. Raises ValueError for other gaps, for a run
    without evaluations and for shapes that do not fit.
    """
    scores = np.asarray(scores, dtype=float)
    is_evaluated = ~np.isnan(scores)
    checked(np.where(is_evaluated, scores, 0.0), "[runs, tasks, checkpoints]")
    steps = _checked_steps(steps, scores)
    if not is_evaluated[:, :, 0].all() or (is_evaluated[:, :, 1:] > is_evaluated[:, :, :-1]).any():
        raise ValueError("scores hold NaN before an evaluation; expected each run's evaluations without a gap")
    is_above = is_evaluated & (scores >= threshold)
    first = steps[is_above.argmax(axis=2)]
    return ThresholdSteps(np.where(is_above.any(axis=2), first, np.inf), steps[is_evaluated.sum(axis=2) - 1])


def survival(reached: ThresholdSteps, reps: int = REPS, seed: int = 0, level: float = LEVEL) -> Survival:
    """Summarise steps to a threshold, treating runs that never reach it as censored at their last evaluation.

    The curve S(t) of runs × tasks that have not reached the threshold by step t is Kaplan and Meier's (1958): at each
    step it falls by the share that reach it among those still observed. The median is the first step with S ≤ 1/2, inf
    if there is none; the restricted mean is the area under S from 0 to the largest `last`, so a run that never reaches
    it counts with the whole budget. Intervals are stratified bootstrap, NaN with one run.
    """
    runs, tasks = reached.step.shape
    estimates = _summary(reached, np.ones((tasks, runs, 1), np.uint8))[:, 0]
    if runs < 2:
        low = high = np.full(3, np.nan)
    else:
        parts, times = [], None
        for counts, times in draws(runs, tasks, reps, np.random.default_rng(seed)):  # noqa: B007
            parts.append(_summary(reached, counts))
        low, high = ends(np.concatenate(parts, axis=1), level, times)
    return Survival(*(Interval(*values) for values in zip(estimates, low, high, strict=True)))


def _summary(reached: ThresholdSteps, counts: Array) -> Array:
    """Return share, median and restricted mean of each resample: counts [tasks, runs, n] -> [3, n]."""
    step, last = reached.step.T.reshape(-1), reached.last.T.reshape(-1)
    observed = np.minimum(step, last)
    order = np.argsort(observed, kind="stable")
    times, starts = np.unique(observed[order], return_index=True)
    drawn = counts.reshape(len(step), -1)[order].astype(np.int32)
    leaving = np.add.reduceat(drawn, starts, axis=0)
    arriving = np.add.reduceat(drawn * np.isfinite(step[order])[:, None], starts, axis=0)
    at_risk = len(step) - np.cumsum(leaving, axis=0) + leaving
    surviving = np.cumprod(1 - arriving / np.maximum(at_risk, 1), axis=0)
    below = surviving <= 0.5 + _ROUNDING
    median = np.where(below.any(axis=0), times[below.argmax(axis=0)], np.inf)
    spans = np.diff(times, prepend=0.0, append=last.max())
    area = spans[0] + spans[1:] @ surviving
    return np.stack([arriving.sum(axis=0) / len(step), median, area])


def _checked_steps(steps: Array, scores: Array) -> Array:
    steps = np.asarray(steps, dtype=float)
    if steps.shape != scores.shape[2:] or not (np.diff(steps) > 0).all() or not np.isfinite(steps).all():
        raise ValueError(
            f"steps have shape {steps.shape} beside scores of shape {scores.shape}; expected a rising step for each "
            "checkpoint (axis 2)"
        )
    return steps
