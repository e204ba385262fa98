"""Numbers of single runs, and their means, against values worked by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import results
from reports import summary
from reports.papers.estimates import Estimator, Setting
from reports.papers.measures import MEASURES, Measured
from reports.summary import Row
from tests.reports.conftest import Writer


@pytest.fixture
def row(taught: Callable[..., None], writer: Writer) -> Row:
    taught("full", (3, 1))
    study = results.study(writer.finish())
    return summary.summarise(study, results.load(study), reps=200).rows[0]


@pytest.fixture
def measured(writer: Writer) -> Measured:
    study = results.study(writer.finish())
    return Measured(lambda _: study)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("label_accuracy_percent", [75, 25]),  # of four labels 0 or 1
        ("discard_percent", [20, 20]),  # of five queries
        ("equal_percent", [0, 0]),
        ("segment_reward", [9, 9]),
        ("offline_label_accuracy_percent", [75, 25]),  # at the last look
        ("input_tokens", [15e8, 5e8]),  # at the end
        ("output_tokens", [0, 0]),
        ("dollars", [3, 1]),
    ],
)
def test_each_run_has_its_own(metric: str, expected: list[float], row: Row, measured: Measured) -> None:
    assert measured(row, metric).tolist() == pytest.approx(expected)
    assert metric in MEASURES


def test_the_estimate_is_the_mean_over_runs_drawn_like_those_of_curves(row: Row, measured: Measured) -> None:
    estimator = Estimator(lambda _: 1.0, 400, measured)
    found = estimator("dollars", [Setting(row)])
    assert float(found.interval.estimate) == 2.0 and found.tested.error.tolist() == pytest.approx([1.0], rel=0.1)
    success = estimator("success_percent", [Setting(row)])  # 80 and 20 in tenths of episodes
    assert np.corrcoef(
        estimator.samples("dollars", [Setting(row)]), estimator.samples("success_percent", [Setting(row)])
    )[0, 1] == pytest.approx(1.0)
    assert float(success.interval.estimate) == pytest.approx(50.0)


def test_a_run_without_a_number_is_left_out_and_one_alone_has_no_interval(row: Row) -> None:
    alone = Estimator(lambda _: 1.0, 200, lambda *_: np.array([4.0, np.nan]))("dollars", [Setting(row)])
    assert float(alone.interval.estimate) == 4.0 and np.isnan(alone.interval.low) and alone.tested.seeds == 1


def test_a_row_whose_runs_wrote_nothing_lacks_it(row: Row) -> None:
    bare = Estimator(lambda _: 1.0, 200)
    assert bare.lacks(row, "dollars") and not bare.lacks(row, "success_percent")


def test_hand_written_code_has_no_bill(taught: Callable[..., None], writer: Writer) -> None:
    taught("full", (3, 1), backend="scripted", model="scripted", parts={"teacher": "llm", "chat": "scripted"})
    study = results.study(writer.finish())
    (row,) = summary.summarise(study, results.load(study), reps=200).rows
    measured = Measured(lambda _: study)
    assert np.isnan(measured(row, "dollars")).all() and measured(row, "label_accuracy_percent").tolist() == [75, 25]
