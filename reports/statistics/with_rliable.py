"""rliable's estimates (Agarwal et al. 2021) for scores [runs, tasks], in the same types as ours.

rliable draws from NumPy's global generator, whatever `random_state` it receives; that generator is seeded for each call
and restored afterwards. rliable is imported at the first call, which takes seconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics.resampling import LEVEL, Array, Interval, checked, checked_pair

REPS = 2_000
"""Default number of resamples: rliable's own for performance profiles; our usual 50,000 take minutes to an hour."""


class Estimate(NamedTuple):
    """An aggregate with its interval, and its standard deviation over resamples; NaN with one run."""

    interval: Interval
    error: float


def version() -> str:
    """Return rliable's name and version, as in `rliable 1.2.0`."""
    return f"rliable {metadata.version('rliable')}"


def aggregates(scores: Array, reps: int = REPS, seed: int = 0) -> dict[str, Estimate]:
    """Return metric (`statistics.METRICS`) -> its estimate for scores [runs, tasks], all from the same resamples."""
    from rliable import metrics

    rules = {
        "mean": metrics.aggregate_mean,
        "median": metrics.aggregate_median,
        "iqm": metrics.aggregate_iqm,
        "optimality_gap": metrics.aggregate_optimality_gap,
    }
    drawn: list[Array] = []

    def every(values: Array) -> Array:
        drawn.append(np.array([rule(values) for rule in rules.values()]))
        return drawn[-1]

    scores = checked(scores, "[runs, tasks]")
    estimates = _estimates(scores, every, reps, seed, len(scores))
    errors = np.std(drawn[-reps:], axis=0) if len(scores) > 1 else np.full(len(rules), np.nan)
    return {
        name: Estimate(Interval(*(part[index] for part in estimates)), float(errors[index]))
        for index, name in enumerate(rules)
    }


def improvement(first: Array, second: Array, reps: int = REPS, seed: int = 0) -> Interval:
    """Return `statistics.probability_of_improvement` by rliable, for scores [n, tasks] and [m, tasks]."""
    from rliable import metrics

    def probability(ours: Array, theirs: Array) -> Array:
        return np.array([metrics.probability_of_improvement(ours, theirs)])

    both = list(checked_pair(first, second))
    return Interval(*(part[0] for part in _estimates(both, probability, reps, seed, min(map(len, both)))))


def profile(scores: Array, thresholds: Array, reps: int = REPS, seed: int = 0) -> Interval:
    """Return `statistics.performance_profile` by rliable: the share of scores [runs, tasks] above each threshold
    [T]."""
    from rliable import library

    scores = checked(scores, "[runs, tasks]")
    with _seeded(seed):
        estimates, ends = library.create_performance_profile(
            {"": scores}, thresholds, reps=reps, confidence_interval_size=LEVEL
        )
    return _interval(estimates[""], ends[""], len(scores))


def _estimates(scores: Array | list[Array], func: Callable[..., Array], reps: int, seed: int, runs: int) -> Interval:
    """Return numbers [k] that `func` computes from scores, with their intervals from rliable's resamples; `runs`:
    fewest runs of a method."""
    from rliable import library

    with _seeded(seed):
        estimates, ends = library.get_interval_estimates({"": scores}, func, reps=reps, confidence_interval_size=LEVEL)
    return _interval(estimates[""], ends[""], runs)


def _interval(estimate: Array, ends: Array, runs: int) -> Interval:
    """Return an interval, with NaN for its ends if there is one run, of which every resample is the same."""
    low, high = ends if runs > 1 else np.full((2, len(estimate)), np.nan)
    return Interval(np.asarray(estimate), low, high)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator from `seed` and restore it afterwards; suppress warnings of tests on ties."""
    before = np.random.get_state()
    np.random.seed(seed & 0xFFFFFFFF)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        np.random.set_state(before)
