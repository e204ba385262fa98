"""Aggregates as a table."""

import numpy as np
import pytest

from guidebench.harness.statistics import ONE_RUN
from guidebench.reports.statistics import aggregate


def test_one_run_has_values_but_no_interval() -> None:
    table = aggregate({"a": np.array([[0.5, 1.0]])}, reps=100)
    assert table["estimate"].tolist() == [0.75, 0.75, 0.75, 0.25]
    assert table["low"].isna().all() and table["high"].isna().all() and set(table["note"]) == {ONE_RUN}


def test_an_interval_does_not_depend_on_which_methods_stand_beside_it() -> None:
    first, second = np.random.default_rng(0).random((2, 4, 3))
    alone = aggregate({"b": second}, reps=1_000)
    beside = aggregate({"a": first, "b": second}, reps=1_000)
    assert beside[beside["method"] == "b"].reset_index(drop=True).equals(alone)
    assert not aggregate({"b": second}, reps=1_000, seed=1).equals(alone)


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 2, 3\); expected \[runs, tasks\]"):
        aggregate({"a": np.zeros((2, 2, 3))})
