"""Names, rounding and scales of scores, shared by tables, figures and leaderboards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.statistics import Array, Interval, Sample

NORMALISED = "normalised score"
"""A score rescaled to 0 (the worst of its range) to 1 (the best)."""
MOST_DECIMALS = 6


def mean_of(score: Score) -> str:
    """Return the name of the mean over the episodes of an evaluation.

    >>> mean_of(Score("return"))
    'mean return'
    """
    if score.name == NORMALISED:
        return NORMALISED
    return "success rate" if score.name == "success" else f"mean {score.name}"


def means(scores: Iterable[Score]) -> str:
    """Return the names of the means of rows with these scores, each once.

    >>> means([SUCCESS, Score("return"), SUCCESS])
    'success rate or mean return'
    """
    return " or ".join(dict.fromkeys(mean_of(score) for score in scores))


def best(scores: Iterable[Score]) -> str:
    """Return the word for the best of numbers with these scores: "highest", "lowest", or "best" if scores differ in
    direction."""
    signs = {score.sign for score in scores}
    return "highest" if signs <= {1} else "lowest" if signs == {-1} else "best"


def title(score: Score) -> str:
    """Return the name of a score for a column, with a remark if lower values are better."""
    return score.name + (" (lower is better)" if score.sign < 0 else "")


def digits(values: Iterable[float | Array | Interval]) -> int:
    """Return the decimals that the numbers of a column have: the one rule of tables, pages, LaTeX and leaderboards.

    Intervals decide: half the width of the widest is at least two units of the last decimal, so no number has a digit
    that its interval does not bear. Numbers below 10, such as rates, have two decimals at least. Numbers without an
    interval, and intervals without width, have two decimals below 100, one below 1,000, none above.

    >>> digits([Interval(*map(np.asarray, (405.058, 316.065, 494.051)))])
    0
    >>> digits([Interval(*map(np.asarray, (0.0102, 0.0100, 0.0104)))])
    4
    """
    values = list(values)
    plain = [float(value.estimate if isinstance(value, Interval) else value) for value in values]
    largest = max((abs(value) for value in plain if np.isfinite(value)), default=0.0)
    widths = [float(value.high - value.low) for value in values if isinstance(value, Interval)]
    widest = max((width for width in widths if np.isfinite(width)), default=0.0)
    if widest > 0:
        return int(np.clip(np.ceil(np.log10(4 / widest) - 1e-9), 2 if largest < 10 else 0, MOST_DECIMALS))
    return 2 if largest < 100 else 1 if largest < 1_000 else 0


def together(scores: Sequence[Score]) -> Score:
    """Return the common score of tasks with these scores: that of a single task, success if all are successes, else a
    share of each task's range."""
    if len(scores) == 1 or set(scores) == {SUCCESS}:
        return scores[0]
    return Score(NORMALISED, low=0.0, high=1.0)


def normalised(score: Score, values: Array) -> Array:
    """Rescale values to 0 (the worst of the score's range) to 1 (the best); raise ValueError if no range is known."""
    if score.span is None or score.low is None or score.high is None:
        raise ValueError(f"the range of {score.name!r} is not known")
    return (values - score.low) / score.span if score.sign > 0 else (score.high - values) / score.span


def sample(score: Score, scores: Array, variances: Array, counts: Array, share: bool = False) -> Sample:
    """Return scores [runs, tasks] of tasks with this score such that higher is better, with the variances of their
    episodes and, for success rates, the numbers of episodes. `share`: rescaled to 0 to 1."""
    if score.name == SUCCESS.name:
        return Sample(scores, variances, counts)
    if not share:
        return Sample(score.sign * scores, variances)
    return Sample(normalised(score, scores), variances / (score.span or 1.0) ** 2)


def bounds(score: Score) -> tuple[float, float]:
    """Return the least and the greatest possible difference of two means of a score.

    >>> bounds(SUCCESS)
    (-1.0, 1.0)
    """
    span = np.inf if score.span is None else float(score.span)
    return -span, span
