"""Remarks on the page of a run whose learner or guide did nothing: what its metrics show, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.records.schema import ENTROPY_BONUS, ENTROPY_SHARE, SHAPING, TASK_REWARD

if TYPE_CHECKING:
    import pandas as pd

UNIFORM = 0.05
"""Share of the largest entropy by which a policy's must fall short of it somewhere, or it counts as uniform throughout
(choice)."""
FAINT = 0.01
"""Share of the task's reward below which what a guide adds counts as nothing (choice: a hundredth)."""


def remarks(metrics: pd.DataFrame | None) -> Iterator[str]:
    """Yield remarks on a run by its records `metrics`; none for metrics that it did not log."""
    if metrics is None:
        return
    share = _finite(metrics, ENTROPY_SHARE)
    if len(share) and share.min() > 1 - UNIFORM:
        bonus = _finite(metrics, ENTROPY_BONUS)
        weight = f"; α times the entropy was {bonus[-1]:.2g} at the end" if len(bonus) else ""
        yield (
            f"the policy's entropy never left its maximum: it was at least {share.min():.1%} of that of uniform actions"
            f"{weight}. Nothing was learnt; lower learner.alpha, raise learner.alpha_lr, or train for longer"
        )
    shaping, task = _finite(metrics, SHAPING), _finite(metrics, TASK_REWARD)
    if len(shaping) and len(task) and shaping.mean() < FAINT * task.mean():
        yield (
            f"what the guide added to the reward, {shaping.mean():.2g} a step on average, was under a hundredth of the "
            f"task's reward, {task.mean():.2g}: the run tells little of the guide; raise its weight, such as guide.rho"
        )


def _finite(metrics: pd.DataFrame, name: str) -> Array:
    """Return the finite values of a metric, float64 [n]; empty if it was not logged."""
    if name not in metrics:
        return np.zeros(0)
    column: Array = metrics[name].to_numpy(float)
    return column[np.isfinite(column)]
