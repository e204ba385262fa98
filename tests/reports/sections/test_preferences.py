"""What teachers said, against numbers worked by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.rendering import figures
from guidebench.reports.rendering import latex as tex
from guidebench.reports.sections import preferences
from guidebench.reports.sections.preferences import ACCURACY, BARS, CHOSEN, IMAGINED, LEARNED, SCRIPTED, Teaching
from guidebench.reports.summary import grids, summaries
from tests.reports.conftest import Writer, label_row, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}


def imagined_label_row(
    query: int, label: float, outcome: str, reward: float | None = None, **more: Any
) -> dict[str, Any]:
    rewards = (
        {}
        if reward is None
        else {"reward_imagined": reward, "reward_chosen": 0.25, "reward_other": more.get("reward_0", 1.0)}
    )
    return label_row(query, label, imagined=outcome, **rewards, **more)


FIRST = [  # session 0, then 1
    imagined_label_row(0, 1.0, "kept", 3.0),
    imagined_label_row(1, 0.0, "length"),
    label_row(2, None, learned_1=-0.5),
    label_row(3, 0.5, outcome="equal", truth=0.5),
]
SECOND = [
    imagined_label_row(0, 1.0, "kept", 5.0, reward_0=2.0),
    label_row(1, 1.0, learned_1=0.0),
    label_row(2, 1.0, truth=0.0),
    label_row(3, None, outcome="unreadable"),
]


def write_cell(writer: Writer, **names: str) -> None:
    method = {"method": "rl_sallm_f", "backend": "scripted", "model": "scripted", **names}
    writer.cell("preferences", CURVES, steps=200, **method, rows={"labels": {0: FIRST, 1: SECOND}})
    writer.cell("unlabelled", CURVES, steps=200, method="sac", **names)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> results.StudyRecord:
    writer = Writer(tmp_path_factory.mktemp("preferences") / "study")
    write_cell(writer)
    return results.study(writer.finish())


@pytest.fixture(scope="module")
def taught(study: results.StudyRecord) -> Teaching:
    return only_teaching(study)


def teaching(study: results.StudyRecord, reps: int = 200) -> list[Teaching]:
    return preferences.teaching(study.cells, results.noted(study, "labels"), {}, reps)


def only_teaching(study: results.StudyRecord) -> Teaching:
    (only,) = teaching(study, 400)
    return only


def points(values: Any) -> list[float]:
    return [float(value) for value in values]


def test_labels_count_beside_a_scripted_teacher_that_prefers_one(taught: Teaching) -> None:
    # of labels 0 and 1: seed 0 one of two (that of .5 does not count), seed 1 two of three
    assert points(taught.accuracy) == pytest.approx([7 / 12, 1 / 2, 2 / 3]) and (taught.queries, taught.runs) == (8, 2)
    assert (taught.task_id, taught.label) == ("grid/8x8", "rl_sallm_f · scripted · quick")
    # a reward that tells nothing apart is right in half: seed 0 right, right, wrong; seed 1 right, tie, wrong, right
    assert float(taught.learned.estimate) == pytest.approx((2 / 3 + 2.5 / 4) / 2)
    shares = {name: float(share.estimate) for name, share in taught.outcomes.items()}
    assert shares == {"labelled": 5 / 8, "inconsistent": 1 / 8, "equal": 1 / 8, "unreadable": 1 / 8}


def test_imagined_segments_are_counted_and_weighed_on_the_same_queries(taught: Teaching) -> None:
    assert {name: float(share.estimate) for name, share in taught.imagined.items()} == {"kept": 0.75, "length": 0.25}
    rewards = {name: float(reward.estimate) for name, reward in taught.rewards.items()}
    assert rewards == {IMAGINED: 4.0, CHOSEN: 0.25, SCRIPTED: 1.5}  # the scripted teacher's: 1 and 2


def test_accuracy_over_training_is_by_sessions_that_all_runs_have(taught: Teaching) -> None:
    courses = taught.over_training
    # in session 1 no label of seed 0 is 0 or 1
    assert courses[ACCURACY].steps.tolist() == [100.0] and courses[ACCURACY].values.estimate.tolist() == [0.75]
    assert courses[LEARNED].steps.tolist() == [100.0, 200.0]
    assert courses[LEARNED].values.estimate.tolist() == [0.875, 0.25]


def test_many_sessions_are_taken_together(writer: Writer) -> None:
    write_rows(writer.cell("a", CURVES) / "seed-0", "labels", [label_row(query) for query in range(100)])
    courses = only_teaching(results.study(writer.finish())).over_training
    assert len(courses[ACCURACY].steps) == preferences.STRETCHES
    assert courses[ACCURACY].steps[:2].tolist() == [200.0, 500.0], "means of sessions 0 to 2, and 3 to 5"


def test_a_run_without_labels_of_use_leaves_numbers_open(writer: Writer) -> None:
    writer.cell("a", CURVES, rows={"labels": {0: [label_row(0, None), label_row(1, None, outcome="skipped")]}})
    lessons = only_teaching(results.study(writer.finish()))
    assert np.isnan(lessons.accuracy.estimate) and lessons.imagined == {} and lessons.rewards == {}
    assert ACCURACY not in lessons.over_training
    (only,) = preferences.tables([lessons])
    assert only.names == (ACCURACY, LEARNED, "discarded", "equal", "skipped")


def test_the_same_rows_give_the_same_figures(study: results.StudyRecord) -> None:
    rows = summaries.summarise(study, results.load(study), reps=200).rows
    places = figures.styles(row.label for row in rows)
    named = {row.cell.id: row.label for row in rows}
    taught = preferences.teaching(study.cells, results.noted(study, "labels"), named, 200)
    drawings = [preferences.drawings(taught, rows, places) for _ in range(2)]
    assert drawings[0] == drawings[1]
    labels, imagined = drawings[0]
    assert "label accuracy 0.75 at the end" in labels.alt and "imagined 4.00" in imagined.alt
    assert set(BARS) == {IMAGINED, CHOSEN, SCRIPTED}


def test_the_interval_of_runs_leaves_out_those_that_tell_nothing() -> None:
    assert points(grids.over_runs(np.array([1.0, np.nan, 1.0]), 200, "a")) == [1.0, 1.0, 1.0]
    assert np.isnan(points(grids.over_runs(np.array([np.nan]), 200, "a"))).all()
    alone = grids.over_runs(np.array([2.0]), 200, "a")
    assert float(alone.estimate) == 2.0 and np.isnan(alone.low)


@pytest.mark.waits
def test_latex_typesets_the_tables(taught: Teaching, typeset: Callable[..., str]) -> None:
    tables = preferences.tables([taught])
    styles = [tex.Style(tex.PM, siunitx) for siunitx in (False, True)]
    log = typeset("".join(tex.grids(tables, "Profile: quick.", style) for style in styles), styles[1].packages)
    assert "Overfull" not in log and "Missing character" not in log
