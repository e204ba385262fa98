"""Curves of what runs recorded over training, against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from guidebench.reports.rendering import figures
from guidebench.reports.sections import training

ROWS = pd.DataFrame(
    [
        {"seed": 0, "step": 100, "guide/rho": 0.1, "guide/gap": np.nan},
        {"seed": 1, "step": 100, "guide/rho": 0.3, "guide/gap": np.nan},
        {"seed": 0, "step": 200, "guide/rho": 0.2, "guide/gap": 4.0},
        {"seed": 1, "step": 200, "guide/rho": 0.2, "guide/gap": np.nan},
        {"seed": 0, "step": 300, "guide/rho": 0.0, "guide/gap": 1.0},
        {"seed": 1, "step": 300, "guide/rho": 1.0, "guide/gap": 3.0},
    ]
)


def test_a_metric_is_averaged_over_seeds_with_an_interval() -> None:
    curve = training.metric(ROWS, "guide/rho", "a", 400)
    assert curve is not None and curve.x.tolist() == [100, 200, 300]
    assert curve.values.estimate.tolist() == pytest.approx([0.2, 0.2, 0.5])
    assert curve.values.low.tolist() == pytest.approx([0.1, 0.2, 0.0])
    assert curve.values.high.tolist() == pytest.approx([0.3, 0.2, 1.0])


def test_where_a_seed_has_no_value_the_others_are_averaged_without_interval() -> None:
    curve = training.metric(ROWS, "guide/gap", "a", 400)
    assert curve is not None and curve.x.tolist() == [200, 300], "no seed has one at 100"
    assert curve.values.estimate.tolist() == [4.0, 2.0]
    assert np.isnan(curve.values.low[0]) and curve.values.low[1] == 1.0


def test_a_metric_that_no_run_has_gives_no_curve() -> None:
    assert training.metric(ROWS, "guide/other", "a") is None
    assert training.metric(ROWS.assign(x=np.nan), "x", "a") is None


def test_rows_at_any_step_are_averaged_over_equal_parts_of_training() -> None:
    rows = pd.DataFrame([{"seed": seed, "step": step, "w": w} for seed, step, w in
                         [(0, 1, 2.0), (0, 50, 4.0), (1, 30, 5.0), (0, 51, 8.0), (1, 1000, 1.0)]])  # fmt: skip
    curve = training.binned(rows, "w", 1000, "a", 200)
    assert curve is not None and curve.x.tolist() == [50, 100, 1000]
    assert curve.values.estimate.tolist() == [(3 + 5) / 2, 8, 1]


def test_panels_share_one_legend_only_if_they_have_the_same_lines() -> None:
    one = training.metric(ROWS, "guide/rho", "a", 200)
    other = training.metric(ROWS, "guide/gap", "b", 200)
    for curves in ([[one], [one]], [[one], [other, one]], [[one], [other]]):
        charts = [training.chart(f"axis {index}", each) for index, each in enumerate(curves)]
        drawn = training.drawing("w", "n", "Title\nwhere", charts, figures.styles(["a", "b"]))
        assert drawn is not None and drawn.png.startswith(b"\x89PNG")
        assert "axis 0 (a) 0.5 at the end" in drawn.alt
    assert training.drawing("w", "n", "t", [training.chart("axis", [None])], {}) is None
