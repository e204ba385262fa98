"""Curves of what runs recorded over training, against numbers worked by hand."""

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


def test_a_metric_is_averaged_over_seeds_with_an_interval_where_all_have_a_value() -> None:
    curve, gaps = (training.metric(ROWS, f"guide/{name}", "a", 400) for name in ("rho", "gap"))
    assert curve is not None and curve.x.tolist() == [100, 200, 300]
    ends = [[0.2, 0.2, 0.5], [0.1, 0.2, 0.0], [0.3, 0.2, 1.0]]
    assert np.array(curve.values) == pytest.approx(np.array(ends))
    assert gaps is not None and gaps.x.tolist() == [200, 300], "no seed has one at 100"
    assert gaps.values.estimate.tolist() == [4.0, 2.0] and np.isnan(gaps.values.low[0]) and gaps.values.low[1] == 1.0
    assert training.metric(ROWS, "guide/other", "a") is training.metric(ROWS.assign(x=np.nan), "x", "a") is None


def test_rows_at_any_step_are_averaged_over_equal_parts_of_training() -> None:
    rows = pd.DataFrame([{"seed": seed, "step": step, "w": w} for seed, step, w in
                         [(0, 1, 2.0), (0, 50, 4.0), (1, 30, 5.0), (0, 51, 8.0), (1, 1000, 1.0)]])  # fmt: skip
    curve = training.binned(rows, "w", 1000, "a", 200)
    assert curve is not None and curve.x.tolist() == [50, 100, 1000]
    assert curve.values.estimate.tolist() == [(3 + 5) / 2, 8, 1]


def test_panels_share_one_legend_only_if_they_have_the_same_lines() -> None:
    first = training.metric(ROWS, "guide/rho", "a", 200)
    second = training.metric(ROWS, "guide/gap", "b", 200)
    for curves in ([[first], [first]], [[first], [second, first]], [[first], [second]]):
        charts = [training.chart(f"axis {index}", lines) for index, lines in enumerate(curves)]
        drawing = training.drawing("w", "n", "Title\nwhere", charts, figures.styles(["a", "b"]))
        assert drawing is not None and drawing.png.startswith(b"\x89PNG") and "axis 0 (a) 0.5 at the end" in drawing.alt
    assert training.drawing("w", "n", "t", [training.chart("axis", [None])], {}) is None
