"""Numbers of single runs, and their means, against values worked by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from guidebench.reports.papers.estimates import Estimator, Setting
from guidebench.reports.papers.measures import MEASURES, Measured
from guidebench.reports.summary.rows import ReportRow
from tests.reports.conftest import Writer, write_rows
from tests.reports.papers.conftest import Papers


@pytest.fixture(scope="module")
def taught_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportRow, Measured]:
    writer = Writer(tmp_path_factory.mktemp("measures") / "study")
    Papers(writer).teach("full", (3, 1))
    return measure_row(writer)


def measure_row(writer: Writer) -> tuple[ReportRow, Measured]:
    study, summary = writer.summarised()
    return summary.rows[0], Measured(lambda _: study)


@pytest.fixture
def row(taught_study: tuple[ReportRow, Measured]) -> ReportRow:
    return taught_study[0]


@pytest.fixture
def measured(taught_study: tuple[ReportRow, Measured]) -> Measured:
    return taught_study[1]


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
def test_each_run_has_its_own(metric: str, expected: list[float], row: ReportRow, measured: Measured) -> None:
    assert measured(row, metric).tolist() == pytest.approx(expected) and metric in MEASURES


def test_the_estimate_is_the_mean_over_runs_drawn_like_those_of_curves(row: ReportRow, measured: Measured) -> None:
    estimator = Estimator(400, measured)
    dollars = estimator("dollars", [Setting(row)])
    assert float(dollars.interval.estimate) == 2.0 and dollars.tested.error.tolist() == pytest.approx([1.0], rel=0.1)
    success = estimator("success_percent", [Setting(row)])  # 80 and 20 in tenths of episodes
    assert np.corrcoef(
        estimator.samples("dollars", [Setting(row)]), estimator.samples("success_percent", [Setting(row)])
    )[0, 1] == pytest.approx(1.0)
    assert float(success.interval.estimate) == pytest.approx(50.0)


def test_a_run_without_a_number_is_left_out_and_one_alone_has_no_interval(row: ReportRow) -> None:
    alone = Estimator(200, lambda *_: np.array([4.0, np.nan]))("dollars", [Setting(row)])
    assert float(alone.interval.estimate) == 4.0 and np.isnan(alone.interval.low) and alone.tested.seeds == 1
    bare = Estimator(200)
    assert bare.lacks(row, "dollars") and not bare.lacks(row, "success_percent"), "whose runs wrote nothing"


def test_hand_written_code_has_no_bill(taught: Callable[..., None], writer: Writer) -> None:
    taught("full", (3, 1), backend="scripted", model="scripted", parts={"teacher": "llm", "chat": "scripted"})
    row, measured = measure_row(writer)
    assert np.isnan(measured(row, "dollars")).all() and measured(row, "label_accuracy_percent").tolist() == [75, 25]


@pytest.fixture(scope="module")
def replay_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportRow, Measured]:
    """Write a run of a replay method on DoorKey, two seeds packed into one worker, of which the second never
    succeeds."""
    writer = Writer(tmp_path_factory.mktemp("drawn") / "study")
    name = {"replay.clip_length": {"value": 32, "layer": "method", "source": ""}}
    curves = {0: {100: [0], 200: [1], 400: [1]}, 1: {100: [0], 200: [0], 400: [0]}}
    root = writer.cell("a", curves, suite="minigrid_doorkey", method="vlm_rb", settings=name)
    for seed in (0, 1):
        clock = {"seeds": 2, "evaluation_seconds": 4.0, "checkpoint_seconds": 6.0, "judge_seconds": 8.0, "clips": 16}
        clock |= {"judge_gibibytes_load": 2.5, "judge_gibibytes_peak": 3.75}  # of one model, whoever asks it
        write_rows(root / f"seed-{seed}", "timings", [{"step": 400, "seconds": 90.0 + 40 * seed, **clock}])
        rows = [
            {"step": 100, "replay/mean_return": 0.0, "replay/clipped_share": 0.9, "drawn/key": 1.0, "stored/key": 0.9},
            {"step": 200, "replay/mean_return": 0.2, "replay/clipped_share": 0.7, "drawn/key": 0.4, "stored/key": 0.5},
            {"step": 400, "replay/mean_return": 0.4, "replay/clipped_share": 0.2, "drawn/key": 0.1, "stored/key": 0.5},
        ]
        rows = [row | {f"{kind}/goal": 1 - row[f"{kind}/key"] for kind in ("drawn", "stored")} for row in rows]
        write_rows(root / f"seed-{seed}", "metrics", rows)
    return measure_row(writer)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("steps_per_second", [10, 400 / 60]),  # of 90 and 130 s ten go to evaluations and checkpoints; each has half
        ("seconds_per_step", [0.1, 0.15]),
        ("seconds_per_clip", [0.5, 0.5]),
        ("frames_per_second", [64, 64]),  # 32 frames a clip
        ("gibibytes_load", [2.5, 2.5]),
        ("gibibytes_peak", [3.75, 3.75]),
        ("zero_feedback_percent", [50, 100 / 3]),  # up to the first success, at 200; of the second seed all rows
        ("clipped_before_success_percent", [80, 60]),
        ("draws_apart_before_success_percent", [0, 100 * (1.9 / 3 - 0.5)]),  # key: .7 beside .7, .5 beside .63
        ("draws_to_key_percent", [50, 50]),  # .25 beside .5 over the second half
    ],
)
def test_speed_and_draws_of_each_run(
    metric: str, expected: list[float], replay_run: tuple[ReportRow, Measured]
) -> None:
    row, measured = replay_run
    assert measured(row, metric).tolist() == pytest.approx(expected, abs=1e-9)
