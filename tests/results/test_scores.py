"""What an evaluation episode is worth, from the task that names it to the rows that are read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guidebench import Recorder, results
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.plan import config
from guidebench.results.evaluations import evaluations
from tests.reports.conftest import Writer

BADGES = Score("achievements", low=0, high=22)
COST = Score("cost", "lower")


def test_records_without_a_score_mean_success(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [1, 0]}})
    file = root / "cell.json"
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != "score"}))
    study = results.study(writer.finish())
    assert study.cells[0].score == SUCCESS
    assert results.load(study)["score"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("status", ["finished", "running"])
@pytest.mark.parametrize("score", [BADGES, COST, Score("return")])
def test_rows_are_worth_what_their_cell_says(writer: Writer, score: Score, status: str) -> None:
    writer.cell("a", {0: {100: [3, 8]}}, score=score, status={0: status})
    writer.cell("b", {0: {100: [1, 0]}}, method="per")
    study = results.study(writer.finish())
    assert study.cells[0].score == score
    assert results.load(study)["score"].tolist() == [3.0, 8.0, 1.0, 0.0]
    read = evaluations(study)
    assert read["a", 0].scores.tolist() == [5.5] and read["b", 0].scores.tolist() == [0.5]


@pytest.mark.parametrize("status", ["finished", "running"])
def test_more_than_there_is_is_refused_by_name(writer: Writer, status: str) -> None:
    writer.cell("a", {0: {100: [3, 23]}}, score=BADGES, status={0: status})
    study = results.study(writer.finish())
    for read in (results.load, evaluations):
        with pytest.raises(UserError, match=r"row 2, column 'score': 23.0; expected a number in \[0, 22\]"):
            read(study)


def test_a_row_without_its_score_or_with_one_it_has_not_is_refused(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [3]}}, score=BADGES)
    study = writer.finish()
    content = json.loads((root / "cell.json").read_text())
    (root / "cell.json").write_text(json.dumps({key: value for key, value in content.items() if key != "score"}))
    with pytest.raises(UserError, match="unknown column 'score'"):
        results.load(study)
    root = writer.cell("a", {0: {100: [1]}})
    (root / "cell.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="lacks the column 'score'"):
        results.load(study)


@pytest.mark.parametrize(
    "score",
    [
        "success",
        {"name": "return", "direction": "up", "low": None, "high": None},
        {"name": "return", "direction": "higher", "low": 1, "high": 0},
        {"name": "return", "direction": "higher", "low": True, "high": None},
        {"name": "success", "direction": "lower", "low": 0, "high": 1},
        {"name": "\x1b[31m", "direction": "higher", "low": 0, "high": 1},
        {"name": "return", "direction": "higher"},
    ],
)
def test_a_score_that_is_none_is_refused_by_file(writer: Writer, score: object) -> None:
    file = writer.cell("a", {0: {100: [1]}}) / "cell.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "score": score}))
    with pytest.raises(UserError, match=r"cell\.json: score"):
        results.study(writer.finish())


def test_a_recorder_takes_the_score_of_the_suite_or_the_one_it_is_given(tmp_path: Path) -> None:
    named = {"method": "mine", "seed": 0, "steps": 10}
    with Recorder(tmp_path / "a", suite="classic", task="Pendulum-v1", **named) as log:  # type: ignore[arg-type]
        log.episode(step=10, ret=-150.0)
        with pytest.raises(UserError, match="expected a number in"):
            log.episode(step=10, ret=7.0)
    assert results.study(tmp_path / "a").cells[0].score == config.score_of("classic", "Pendulum-v1")
    assert results.load(tmp_path / "a")["score"].tolist() == [-150.0]
    with Recorder(tmp_path / "b", suite="crafter", task="any", score=BADGES, **named) as log:  # type: ignore[arg-type]
        with pytest.raises(UserError, match="achievements"):
            log.episode(step=10, ret=1.0)
        log.episode(step=10, ret=1.0, score=5)
    assert results.load(tmp_path / "b")["score"].tolist() == [5.0]
    with Recorder(tmp_path / "c", suite="crafter", task="any", **named) as log:  # type: ignore[arg-type]
        with pytest.raises(UserError, match="success=… is missing"):
            log.episode(step=10, ret=1.0)
        log.episode(step=10, ret=1.0, success=True)


def test_seeds_of_a_recorded_cell_share_its_score(tmp_path: Path) -> None:
    named = {"suite": "crafter", "task": "any", "method": "mine", "steps": 10}
    Recorder(tmp_path, seed=0, score=BADGES, **named).finish()  # type: ignore[arg-type]
    with pytest.raises(UserError, match="name the same one"):
        Recorder(tmp_path, seed=1, **named)  # type: ignore[arg-type]
