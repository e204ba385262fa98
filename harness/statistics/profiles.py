"""Performance profiles: the share of runs that score above each threshold."""

from __future__ import annotations

import numpy as np

from guidebench.harness.statistics.aggregates import intervals
from guidebench.harness.statistics.resampling import LEVEL, REPS, Array, Interval, checked


def performance_profile(
    scores: Array, thresholds: Array, reps: int = REPS, seed: int = 0, level: float = LEVEL
) -> Interval:
    """Return the share of the runs × tasks scores [runs, tasks] above each threshold [T], with pointwise intervals: [T]
    each.

    This is the score distribution of Agarwal et al. 2021, section 4.2: "above" is strict. Raises ValueError for scores
    of another shape or not finite, or thresholds that are not a list of numbers.
    """
    thresholds = np.asarray(thresholds, dtype=float)
    if thresholds.ndim != 1 or not thresholds.size or np.isnan(thresholds).any():
        raise ValueError(f"thresholds have shape {thresholds.shape} or hold NaN; expected numbers, [T]")
    above = checked(scores, "[runs, tasks]")[:, :, None] > thresholds
    return intervals(above, ["mean"], reps, seed, level)["mean"]
