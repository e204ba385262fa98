"""What an evaluation episode is worth, from the task that names it to the rows that are read back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

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
    writer.cell("a", {0: {100: [1, 0]}}, record={"score": None})
    study = results.study(writer.finish())
    assert study.cells[0].score == SUCCESS and results.load(study)["score"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("status", ["finished", "running"])
@pytest.mark.parametrize("score", [BADGES, COST, Score("return")])
def test_rows_are_worth_what_their_cell_says(writer: Writer, score: Score, status: str) -> None:
    writer.cell("a", {0: {100: [3, 8]}}, score=score, status={0: status})
    writer.cell("b", {0: {100: [1, 0]}}, method="per")
    study = results.study(writer.finish())
    assert study.cells[0].score == score and results.load(study)["score"].tolist() == [3.0, 8.0, 1.0, 0.0]
    read = evaluations(study)
    assert read["a", 0].scores.tolist() == [5.5] and read["b", 0].scores.tolist() == [0.5]


@pytest.mark.parametrize("status", ["finished", "running"])
def test_more_than_there_is_is_refused_by_name(writer: Writer, status: str) -> None:
    writer.cell("a", {0: {100: [3, 23]}}, score=BADGES, status={0: status})
    study = results.study(writer.finish())
    for read in (results.load, evaluations):
        with pytest.raises(UserError, match=r"row 2, column 'score': 23.0; expected a number in \[0, 22\]"):
            read(study)


@pytest.mark.parametrize(
    ("logged", "recorded", "says"),
    [(BADGES, None, "unknown column 'score'"), (SUCCESS, asdict(BADGES), "lacks the column 'score'")],
)
def test_a_row_without_its_score_or_with_one_it_has_not_is_refused(
    writer: Writer, logged: Score, recorded: Any, says: str
) -> None:
    writer.cell("a", {0: {100: [1]}}, score=logged, record={"score": recorded})
    with pytest.raises(UserError, match=says):
        results.load(writer.finish())


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
    writer.cell("a", {0: {100: [1]}}, record={"score": score})
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
    Recorder(tmp_path / "d", suite="crafter", task="any", score=BADGES, **named).finish()  # type: ignore[arg-type]
    with pytest.raises(UserError, match="name the same one"):  # seeds of a cell share its score
        Recorder(tmp_path / "d", suite="crafter", task="any", **{**named, "seed": 1})  # type: ignore[arg-type]
