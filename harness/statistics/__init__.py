"""Statistics of runs: pure, seeded, vectorised functions of arrays [runs, tasks] and [runs, tasks, checkpoints]."""

from guidebench.harness.statistics.aggregates import (
    METRICS,
    Metric,
    distribution,
    intervals,
    iqm,
    mean,
    median,
    optimality_gap,
)
from guidebench.harness.statistics.comparison import (
    Comparison,
    Equivalence,
    all_pairs,
    cannot_tell,
    compare,
    equivalence,
    holm,
    interval,
    leading,
    margin_of_rate,
    p_value,
    significant,
    standard_error,
)
from guidebench.harness.statistics.curves import (
    Survival,
    ThresholdSteps,
    area_under_curve,
    steps_to_threshold,
    survival,
)
from guidebench.harness.statistics.improvement import improvements, probability_of_improvement
from guidebench.harness.statistics.permutation import can_tell, separable_pairs
from guidebench.harness.statistics.power import seeds_needed
from guidebench.harness.statistics.profiles import performance_profile
from guidebench.harness.statistics.ratios import ratio
from guidebench.harness.statistics.resampling import (
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
from guidebench.harness.statistics.samples import Sample, joined

__all__ = [
    "CURVE_REPS",
    "LEVEL",
    "METRICS",
    "ONE_RUN",
    "REPS",
    "Array",
    "Comparison",
    "Equivalence",
    "Interval",
    "Metric",
    "Resamples",
    "Sample",
    "Survival",
    "ThresholdSteps",
    "all_pairs",
    "area_under_curve",
    "can_tell",
    "cannot_tell",
    "compare",
    "distribution",
    "draws",
    "equivalence",
    "holm",
    "improvements",
    "interval",
    "intervals",
    "iqm",
    "joined",
    "leading",
    "margin_of_rate",
    "mean",
    "median",
    "name_seed",
    "optimality_gap",
    "p_value",
    "performance_profile",
    "probability_of_improvement",
    "ratio",
    "seeds_needed",
    "separable_pairs",
    "significant",
    "standard_error",
    "steps_to_threshold",
    "survival",
]
