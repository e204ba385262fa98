"""How a score is named, rounded and put on a scale: what tables, figures and leaderboards have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from harness.interfaces import SUCCESS, Score
from reports.statistics import Array


def mean_of(score: Score) -> str:
    """What the mean over the episodes of an evaluation is called.

    >>> mean_of(Score("return"))
    'mean return'
    """
    return "success rate" if score.name == "success" else f"mean {score.name}"


def title(score: Score) -> str:
    """A column's name, which says where lower values are better."""
    return score.name + (" (lower is better)" if score.sign < 0 else "")


def digits(values: Iterable[float]) -> int:
    """Decimals for numbers of such a size: two below 100, one below 1,000, none above."""
    largest = max((abs(value) for value in values if np.isfinite(value)), default=0.0)
    return 2 if largest < 100 else 1 if largest < 1_000 else 0


def together(scores: Sequence[Score]) -> Score:
    """What the numbers of tasks with these scores are as one: of one task its score, of several successes success, of
    others a share of each task's range."""
    if len(scores) == 1 or set(scores) == {SUCCESS}:
        return scores[0]
    return Score("normalised score", low=0.0, high=1.0)


def normalised(score: Score, values: Array) -> Array:
    """Values from 0, the worst of the score's range, to 1, the best; ValueError where no range is known."""
    if score.span is None or score.low is None or score.high is None:
        raise ValueError(f"the range of {score.name!r} is not known")
    return (values - score.low) / score.span if score.sign > 0 else (score.high - values) / score.span
