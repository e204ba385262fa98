"""Whole runs of KAGI with hand-written models: from data and then reset-free, killed while questions are open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.methods.kagi import marks
from guidebench.methods.kagi.questions import read
from tests.skeletons.test_skeletons import survives

pytest.importorskip("ogbench")
SMALL = (
    "suite=bin_sorting", "learner.hidden=[8]", "learner.batch_size=8", "learner.cql_actions=2",
    "learner.learning_starts=8", "training.steps=100", "training.capacity=300", "evaluation.every=50",
    "evaluation.episodes=1", "suite.length=20", "agent.offline_share=0.3", "seeds=[0,1]",
)  # fmt: skip
MODELS = ("classifier=oracle", "classifier.delay=7")
LEADERS = ("segmenter=scripted", "segmenter.delay=3", "waypoints=scripted", "waypoints.delay=4")
FILES = ("evaluations.parquet", "policy.safetensors", "classified.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("observed", ["state", "images"])
def test_runs_are_killed_offline_and_online_with_questions_open(
    observed: str, train: Callable[..., Path], tmp_path: Path, opengl: None
) -> None:
    """At step 32 the questions about the data are open, at 72 those about an episode that has begun at 71."""
    words = (*SMALL, *MODELS, *LEADERS, "method=kagi", f"suite.observation={observed}", "drawing.size=100")
    study = survives(train, tmp_path, words, {"training": 32, "evaluation": 50}, (*FILES, "waypoints.parquet"))
    led = results.load(study, what="waypoints")
    assert {*led["seed"]} == {0, 1} and led["collected"].any() and not led["collected"].all()
    data = led.query("seed == 0 and not collected")
    assert data["first"].is_unique and {*data["step"]} == {31 + 3 + 4}, "asked once, as the online phase begins"


@pytest.mark.slow
def test_runs_that_follow_the_object_are_killed(train: Callable[..., Path], tmp_path: Path, opengl: None) -> None:
    """Each episode of 20 steps is asked about as it ends, the first one at step 50, and answered 30 steps later: at
    step 75, after which the run is killed a second time, two questions are open, and the third episode has begun."""
    words = (*SMALL, *MODELS, *LEADERS, "method=kagi", "suite.observation=state", "drawing.size=100")
    words += ("guide.object=true", "tracker=scripted", "tracker.delay=30")
    files = (*FILES, "waypoints.parquet", "tracked.parquet")
    study = survives(train, tmp_path, words, {"evaluation": 50, "training": 80}, files)
    told = results.load(study, what="tracked").query("seed == 0")
    assert told["step"].tolist() == [80, 100] and told["first"].tolist() == [0, 20]
    assert (told["states"] == 20).all() and (told["seen"] > 0).all() and not told["failed"].any()


@pytest.mark.slow
def test_bench_eval_draws_what_the_chat_was_shown_and_the_report_lays_the_field_over_it(
    train: Callable[..., Path], opengl: None
) -> None:
    words = (*SMALL[:-1], *MODELS, *LEADERS, "seeds=[0]", "method=kagi", "suite.observation=state", "drawing.size=100")
    study = train(*words, packs=[(0,)])
    run = next(study.glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 0
    questions = results.load(study, what="questions").set_index("episode")
    led = results.load(study, what="waypoints").dropna(subset=["episode"]).set_index("episode")
    assert len(questions) == 4, "episodes of 20 steps from step 30 on"
    for episode, row in questions.iterrows():
        about = json.loads((run / "questions" / f"questions-waypoints-{episode:05d}.json").read_text())
        frame, *images = (
            np.asarray(imageio.imread(run / "questions" / file))
            for file in (about["frame"], *(part["file"] for part in about["messages"][0]["parts"] if "file" in part))
        )
        asked = read(json.loads(row["asked"]))
        above = marks.from_above(frame[:, :100], asked.grid, asked.candidates)
        np.testing.assert_array_equal(images[0], above)
        np.testing.assert_array_equal(images[1], marks.from_the_side(frame[:, 100:], asked.grid))
        if episode in led.index:
            texts = {each["name"]: each["text"] for each in about["told"]}
            assert texts["instruction"] == asked.instruction and texts["blocks"] == led.loc[episode, "blocks"]
            assert (texts["grasp"][0], texts["target"][0]) == ("P", "Q")
    assert cli.main(["report", str(study)]) == 0
    assert len([*(study / "report").glob("fields-*.png")]) == 1


@pytest.mark.slow
def test_robofume_is_killed_and_goes_on(train: Callable[..., Path], tmp_path: Path, opengl: None) -> None:
    words = (*SMALL, *MODELS, "method=robofume", "suite.observation=state")
    study = survives(train, tmp_path, words, {"training": 55}, FILES)
    told = results.load(study, what="classified")
    assert (told["states"] == 20).all() and (told[["false_positives", "false_negatives"]] == 0).all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "task"), [("metaworld_mt10", "drawer-open"), ("ogbench_scene", "drawer")])
def test_it_leads_on_other_suites_that_project(suite: str, task: str, train: Callable[..., Path]) -> None:
    """Nothing is a success, so the critics' values differ from those of the sparse reward by the dense one alone."""
    if suite == "metaworld_mt10":
        pytest.importorskip("metaworld")
    words = (
        f"suite={suite}", f"task={task}", "method=sac", "guide=waypoints", "drawing.camera=both", "segmenter=oracle",
        "waypoints=oracle", "classifier=oracle", "learner.hidden=[8]", "learner.batch_size=8",
        "learner.learning_starts=10", "training.steps=60", "training.capacity=600", "evaluation.every=60",
        "evaluation.episodes=1",
    )  # fmt: skip
    study = train(*words, packs=[(0,)])
    (led,) = results.load(study, what="waypoints").to_dict("records")
    assert led["collected"] and not led["failed"] and len(json.loads(led["path"])) >= 2
    sparse = train(*words, "guide.formulation=sparse", packs=[(0,)])
    values = [results.load(each, what="metrics")["q_mean"].iloc[-1] for each in (study, sparse)]
    assert values[0] != values[1]
