from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.parts import AskingPart
from guidebench.methods.robofume.dialogue import question
from guidebench.methods.robofume.judges import CLIPS, OracleJudge, TrainedJudge
from guidebench.suites.bin_sorting import BinSorting, ScriptedClassifier
from guidebench.suites.point_maze import PointMaze
from tests.cell_views import cell_view
from tests.refusals import check_refused

RNG = np.random.default_rng


class AskingGuide(AskingPart):
    needs: ClassVar = {"classifier": "judge"}
    puts: ClassVar = {"classifier": ("judge",)}


def question_about(*success: bool) -> Any:
    count = len(success)
    events, snapshots = np.zeros((count, 3), bool), np.zeros((count, 4), np.uint8)
    return question(0, np.arange(count), snapshots, events, np.array(success), "put the red block into the left bin")


def fits(judge: Any, suite: Any = None, camera: str = "both") -> str:
    suite = suite or BinSorting()
    parts = {"suite": suite, "guide": AskingGuide(), "classifier": judge, "drawing": suite.drawing()}
    if suite == BinSorting():
        parts["drawing"] = replace(suite.drawing(), camera=camera)
    return judge.fits(cell_view(parts, task="sorting"))


@pytest.mark.parametrize("name", ["trained", "scripted", "oracle"])
def test_each_classifier_is_named_by_its_role_and_judges_no_clips(name: str) -> None:
    assert registry.meant("judge", name, "classifier") == f"{name}_classifier"
    config = registry.get("judge", f"{name}_classifier")
    assert "single states" in config().fits(cell_view({"suite": BinSorting(), "judge": config()}))
    assert fits(config()) == ""


def test_the_oracle_is_told_each_states_success_and_errs_at_the_stated_rates() -> None:
    for judge, answers in (
        (OracleJudge(), [0, 1]),
        (OracleJudge(false_positive=1.0), [1, 1]),
        (OracleJudge(false_negative=1.0), [0, 0]),
    ):
        judgement = judge._answer(question_about(False, True), RNG(0))
        assert judgement.tolist() == answers and judgement.dtype == np.float32
    many = question_about(*[False] * 2000, *[True] * 2000)
    answers = OracleJudge(false_positive=0.1, false_negative=0.3)._answer(many, RNG(1))
    assert answers[:2000].mean() == pytest.approx(0.1, abs=0.03)
    assert answers[2000:].mean() == pytest.approx(0.7, abs=0.03)
    assert (answers == OracleJudge(false_positive=0.1, false_negative=0.3)._answer(many, RNG(1))).all()
    check_refused(
        r"does not tell its 2 states' successes.*dialogue\.question",
        OracleJudge()._answer,
        question_about(True, False)._replace(measures=None),
        RNG(0),
    )


def test_a_classifier_that_could_not_be_trained_is_refused_with_the_plan() -> None:
    assert "no task 'away' for judge.tasks" in fits(TrainedJudge(tasks=("away",)))
    maze = PointMaze()
    assert "no scripted policies that fail; with judge.failures=0" in TrainedJudge().fits(
        cell_view({"suite": maze, "guide": AskingGuide(), "classifier": TrainedJudge()}, task=maze.tasks[0])
    )
    check_refused("demonstrations", TrainedJudge, demonstrations=0)


def test_the_scripted_one_reads_two_views_of_bin_sorting() -> None:
    assert "set drawing.camera=both" in fits(ScriptedClassifier(), camera="side")
    assert "written for the suite bin_sorting" in fits(ScriptedClassifier(), PointMaze())
    assert CLIPS
