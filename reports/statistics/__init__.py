"""Statistics of runs: pure, seeded, vectorised functions of arrays [runs, tasks] and [runs, tasks, checkpoints]."""

from reports.statistics.aggregates import (
    METRICS,
    Metric,
    aggregate,
    distribution,
    intervals,
    iqm,
    mean,
    median,
    optimality_gap,
)
from reports.statistics.comparison import POWER, Comparison, compare, detectable_difference, difference, holm, t_test
from reports.statistics.curves import Reached, Survival, area_under_curve, steps_to_threshold, survival
from reports.statistics.improvement import improvements, probability_of_improvement
from reports.statistics.profiles import performance_profile
from reports.statistics.ranking import ranks
from reports.statistics.resampling import (
    CURVE_REPS,
    LEVEL,
    ONE_RUN,
    REPS,
    Array,
    Interval,
    Resamples,
    draws,
    name_seed,
)

__all__ = [
    "CURVE_REPS",
    "LEVEL",
    "METRICS",
    "ONE_RUN",
    "POWER",
    "REPS",
    "Array",
    "Comparison",
    "Interval",
    "Metric",
    "Reached",
    "Resamples",
    "Survival",
    "aggregate",
    "area_under_curve",
    "compare",
    "detectable_difference",
    "difference",
    "distribution",
    "draws",
    "holm",
    "improvements",
    "intervals",
    "iqm",
    "mean",
    "median",
    "name_seed",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "ranks",
    "steps_to_threshold",
    "survival",
    "t_test",
]
