"""What teachers said, against numbers worked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.commands import report as command
from guidebench.reports.rendering import figures
from guidebench.reports.rendering import latex as tex
from guidebench.reports.sections import preferences
from guidebench.reports.sections.preferences import ACCURACY, BARS, CHOSEN, IMAGINED, LEARNED, SCRIPTED, Teaching
from guidebench.reports.summary import grids, summaries
from tests.reports.conftest import Writer, label_row, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}


def imagining(query: int, label: float, what: str, reward: float | None = None, **more: Any) -> dict[str, Any]:
    rewards = (
        {}
        if reward is None
        else {"reward_imagined": reward, "reward_chosen": 0.25, "reward_other": more.get("reward_0", 1.0)}
    )
    return label_row(query, label, imagined=what, **rewards, **more)


FIRST = [  # session 0, then 1
    imagining(0, 1.0, "kept", 3.0),
    imagining(1, 0.0, "length"),
    label_row(2, None, learned_1=-0.5),
    label_row(3, 0.5, outcome="equal", truth=0.5),
]
SECOND = [
    imagining(0, 1.0, "kept", 5.0, reward_0=2.0),
    label_row(1, 1.0, learned_1=0.0),
    label_row(2, 1.0, truth=0.0),
    label_row(3, None, outcome="unreadable"),
]


@pytest.fixture
def study(writer: Writer) -> results.StudyRecord:
    root = writer.cell("a", CURVES, steps=200, method="rl_sallm_f", backend="scripted", model="scripted")
    write_rows(root / "seed-0", "labels", FIRST)
    write_rows(root / "seed-1", "labels", SECOND)
    writer.cell("b", CURVES, steps=200, method="sac")
    return results.study(writer.finish())


def teaching(study: results.StudyRecord, reps: int = 200) -> list[Teaching]:
    return preferences.teaching(study.cells, results.noted(study, "labels"), {}, reps)


def found(study: results.StudyRecord) -> Teaching:
    (only,) = teaching(study, 400)
    return only


def points(values: Any) -> list[float]:
    return [float(value) for value in values]


def test_labels_count_beside_a_scripted_teacher_that_prefers_one(study: results.StudyRecord) -> None:
    each = found(study)
    # of labels 0 and 1: seed 0 one of two (that of .5 does not count), seed 1 two of three
    assert points(each.accuracy) == pytest.approx([7 / 12, 1 / 2, 2 / 3])
    assert (each.queries, each.runs, each.where, each.label) == (8, 2, "grid/8x8", "rl_sallm_f · scripted · quick")


def test_a_learned_reward_that_tells_nothing_apart_is_right_in_half(study: results.StudyRecord) -> None:
    # seed 0: right, right, wrong; seed 1: right, a tie, wrong, right
    assert float(found(study).learned.estimate) == pytest.approx((2 / 3 + 2.5 / 4) / 2)


def test_outcomes_are_shares_of_all_queries(study: results.StudyRecord) -> None:
    shares = {name: float(share.estimate) for name, share in found(study).outcomes.items()}
    assert shares == {"labelled": 5 / 8, "inconsistent": 1 / 8, "equal": 1 / 8, "unreadable": 1 / 8}


def test_imagined_segments_are_counted_and_weighed_on_the_same_queries(study: results.StudyRecord) -> None:
    each = found(study)
    assert {name: float(share.estimate) for name, share in each.imagined.items()} == {"kept": 0.75, "length": 0.25}
    rewards = {name: float(reward.estimate) for name, reward in each.rewards.items()}
    assert rewards == {IMAGINED: 4.0, CHOSEN: 0.25, SCRIPTED: 1.5}  # the scripted teacher's: 1 and 2


def test_accuracy_over_training_is_by_sessions_that_all_runs_have(study: results.StudyRecord) -> None:
    courses = found(study).over_training
    # in session 1 no label of seed 0 is 0 or 1
    assert courses[ACCURACY].steps.tolist() == [100.0]
    assert courses[ACCURACY].values.estimate.tolist() == [0.75]
    assert courses[LEARNED].steps.tolist() == [100.0, 200.0]
    assert courses[LEARNED].values.estimate.tolist() == [0.875, 0.25]


def test_many_sessions_are_taken_together(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "labels", [label_row(query) for query in range(100)])
    courses = found(results.study(writer.finish())).over_training
    assert len(courses[ACCURACY].steps) == preferences.STRETCHES
    assert courses[ACCURACY].steps[:2].tolist() == [200.0, 500.0], "means of sessions 0 to 2, and 3 to 5"


def test_a_run_without_labels_of_use_leaves_numbers_open(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "labels", [label_row(0, None), label_row(1, None, outcome="skipped")])
    each = found(results.study(writer.finish()))
    assert np.isnan(each.accuracy.estimate) and each.imagined == {} and each.rewards == {}
    assert ACCURACY not in each.over_training
    (only,) = preferences.tables([each])
    assert only.names == (ACCURACY, LEARNED, "discarded", "equal", "skipped")


def test_terminal_page_json_and_latex_show_them(study: results.StudyRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(study.directory), "--resamples", "200"]) == 0
    told = capsys.readouterr().out
    report = study.directory / "report"
    page, table = (report / "report.html").read_text(), (report / "table.tex").read_text()
    for text in (told, page, table):
        assert "labels beside a scripted teacher" in text and "imagined segments" in text
    assert "rl_sallm_f · scripted · quick: 8 queries, runs: 2" in page
    (content,) = json.loads((report / "summary.json").read_text())["preferences"]
    assert [content] == json.loads(json.dumps(preferences.plain(teaching(study))))
    assert content["label_accuracy"]["estimate"] == pytest.approx(7 / 12)
    names = {path.stem for path in report.glob("*.pdf")}
    assert {"labels-grid-8x8", "imagined-grid-8x8"} <= names


def test_a_study_without_teachers_says_nothing_of_them(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    assert teaching(results.study(root)) == []
    assert command.main([str(root), "--resamples", "200"]) == 0
    assert "scripted teacher" not in capsys.readouterr().out + (root / "report" / "report.html").read_text()
    assert not list((root / "report").glob("labels*"))


def test_what_came_from_files_becomes_neither_markup_nor_a_path(writer: Writer) -> None:
    root = writer.cell("a", CURVES, steps=200)
    evil = "../<script>$\\frac{1}$"
    rows = [label_row(0, 1.0, outcome=evil), imagining(1, 1.0, evil, 2.0)]
    write_rows(root / "seed-0", "labels", rows)
    study: Path = writer.finish()
    assert command.main([str(study), "--resamples", "200"]) == 0
    assert "<script>$" not in (study / "report" / "report.html").read_text()


def test_the_same_rows_give_the_same_figures(study: results.StudyRecord) -> None:
    rows = summaries.summarise(study, results.load(study), reps=200).rows
    places = figures.styles(row.label for row in rows)
    drawn = [preferences.drawings(teaching(study), rows, places) for _ in range(2)]
    assert drawn[0] == drawn[1]
    labels, imagined = drawn[0]
    assert "label accuracy 0.75 at the end" in labels.alt and "imagined 4.00" in imagined.alt
    assert set(BARS) == {IMAGINED, CHOSEN, SCRIPTED}


def test_the_interval_of_runs_leaves_out_those_that_tell_nothing() -> None:
    assert points(grids.over_runs(np.array([1.0, np.nan, 1.0]), 200, "a")) == [1.0, 1.0, 1.0]
    assert np.isnan(points(grids.over_runs(np.array([np.nan]), 200, "a"))).all()
    alone = grids.over_runs(np.array([2.0]), 200, "a")
    assert float(alone.estimate) == 2.0 and np.isnan(alone.low)


@pytest.mark.parametrize("siunitx", [False, True])
def test_latex_typesets_the_tables(siunitx: bool, study: results.StudyRecord, typeset: Callable[..., str]) -> None:
    style = tex.Style(tex.PM, siunitx)
    body = tex.grids(preferences.tables([found(study)]), "Profile: quick.", style)
    log = typeset(body, style.packages)
    assert "Overfull" not in log and "Missing character" not in log
