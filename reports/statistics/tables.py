"""The aggregates of several methods as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from guidebench.harness.statistics import METRICS, ONE_RUN, REPS, Array, intervals, name_seed
from guidebench.harness.statistics.resampling import checked

if TYPE_CHECKING:
    import pandas as pd


def aggregate(scores: Mapping[str, Array], reps: int = REPS, seed: int = 0) -> pd.DataFrame:
    """Return mean, median, IQM and optimality gap per method with 95 % intervals.

    `scores`: method -> [runs, tasks]. Columns: method, metric, estimate, low, high, note. A method with one run has NaN
    for low and high and a note that says why. A method's interval depends on its name, its scores and `seed`, not on
    the other methods.
    """
    import pandas as pd

    rows = []
    for method, values in scores.items():
        by_metric = intervals(checked(values, "[runs, tasks]"), list(METRICS), reps, name_seed(method, seed))
        note = ONE_RUN if len(values) < 2 else ""
        for metric, (estimate, low, high) in by_metric.items():
            rows.append((method, metric, float(estimate), float(low), float(high), note))
    return pd.DataFrame(rows, columns=["method", "metric", "estimate", "low", "high", "note"])
