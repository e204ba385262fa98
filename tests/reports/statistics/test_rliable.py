"""Agreement with rliable within Monte Carlo error: estimates equal, and intervals as wide.

rliable's interval lies between two of ours at the levels that its own resamples' error allows for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from rliable import library, metrics

from guidebench.reports import statistics
from guidebench.reports.statistics import METRICS, Interval

REPS = 1_000
SLACK = 3 * np.sqrt(0.025 * 0.975 * (1 / REPS + 1 / statistics.REPS))
NEAR = 1e-9  # a resample's sum may be added up in another order

AGGREGATES = (
    metrics.aggregate_mean,
    metrics.aggregate_median,
    metrics.aggregate_iqm,
    metrics.aggregate_optimality_gap,
)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """rliable draws from NumPy's global generator."""
    before = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(before)


def agrees(ours: Callable[[float], Interval], point: np.ndarray, ends: np.ndarray) -> None:
    """`ours` is our interval at a level; rliable's point [k] and ends [2, k]."""
    wide, narrow = ours(0.95 + 2 * SLACK), ours(0.95 - 2 * SLACK)
    np.testing.assert_allclose(wide.estimate, point, rtol=1e-12)
    low, high = ends
    assert (wide.low - NEAR <= low).all() and (low <= narrow.low + NEAR).all()
    assert (narrow.high - NEAR <= high).all() and (high <= wide.high + NEAR).all()


def scores(*shape: int, binary: bool = False) -> np.ndarray:
    found = np.random.default_rng(sum(shape)).random(shape)
    return np.round(found) if binary else found


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("shape", [(5, 10), (3, 1), (12, 1), (2, 4), (10, 3)])
def test_aggregates(shape: tuple[int, int], binary: bool) -> None:
    values = scores(*shape, binary=binary)
    points, ends = library.get_interval_estimates(
        {"a": values}, lambda x: np.array([aggregate(x) for aggregate in AGGREGATES]), reps=REPS
    )
    for index, name in enumerate(METRICS):
        agrees(
            lambda level, name=name: statistics.intervals(values, [name], level=level)[name],
            points["a"][index],
            ends["a"][:, index],
        )


@pytest.mark.parametrize("shape", [(5, 4, 3), (4, 1, 6)])
def test_sample_efficiency_curves(shape: tuple[int, int, int]) -> None:
    curve = np.cumsum(scores(*shape), axis=2) / shape[2]
    points, ends = library.get_interval_estimates(
        {"a": curve},
        lambda x: np.array([metrics.aggregate_iqm(x[..., index]) for index in range(shape[2])]),
        reps=REPS,
    )
    agrees(lambda level: statistics.intervals(curve, ["iqm"], level=level)["iqm"], points["a"], ends["a"])


@pytest.mark.parametrize("shape", [(5, 4), (6, 1)])
def test_performance_profiles(shape: tuple[int, int]) -> None:
    values = np.round(scores(*shape), 1)  # some scores lie on a threshold
    thresholds = np.linspace(0, 1, 6)
    points, ends = library.create_performance_profile({"a": values}, thresholds, reps=REPS)
    agrees(
        lambda level: statistics.performance_profile(values, thresholds, level=level),
        points["a"],
        ends["a"],
    )


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("first", "second"), [((5, 3), (5, 3)), ((3, 2), (6, 2)), ((4, 1), (5, 1))])
def test_probability_of_improvement(first: tuple[int, int], second: tuple[int, int], binary: bool) -> None:
    ours, theirs = scores(*first, binary=binary), scores(*second, 1, binary=binary)[:, :, 0]
    points, ends = library.get_interval_estimates(
        {"a": [ours, theirs]}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=REPS
    )
    agrees(
        lambda level: statistics.probability_of_improvement(ours, theirs, level=level),
        points["a"][0],
        ends["a"][:, 0],
    )
