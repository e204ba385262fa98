"""A run of KAGI with hand-written models: what it logs, what `bench eval` and the report show of it, other suites."""

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
from tests.methods.contract import BINS, LED, OFFLINE_BINS

pytest.importorskip("ogbench")
WORDS = f"method=kagi {BINS} {OFFLINE_BINS} {LED} guide.object=true tracker=scripted tracker.delay=10 seeds=[0]"
"""Episodes of 20 steps, of which the first online one begins after step 18."""


@pytest.fixture(scope="module")
def study(train_once: Callable[..., Path]) -> Path:
    words = {word.partition("=")[0]: word for word in [*WORDS.split(), "drawing.size=100"]}
    return train_once(*words.values(), packs=[(0,)])


def test_its_logs_say_what_each_model_answered_and_when(study: Path, opengl: None) -> None:
    led = results.load(study, log="waypoints")
    assert led["collected"].any() and not led["collected"].all()
    data = led[~led["collected"]]
    assert data["first"].is_unique and {*data["step"]} == {19 + 3 + 4}, "asked once, as the online phase begins"
    tracked = results.load(study, log="tracked")
    assert tracked["step"].tolist() == [48] and tracked["first"].tolist() == [0], "10 steps after an episode"
    assert (tracked["states"] == 20).all() and (tracked["seen"] > 0).all() and not tracked["failed"].any()
    classified = results.load(study, log="classified")
    assert (classified["states"] == 20).all()
    assert (classified[["false_positives", "false_negatives"]] == 0).all(axis=None)


def test_bench_eval_draws_what_the_chat_was_shown_and_the_report_lays_the_field_over_it(
    study: Path, opengl: None
) -> None:
    run = next(study.glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 0
    questions = results.load(study, log="questions").set_index("episode")
    led = results.load(study, log="waypoints").dropna(subset=["episode"]).set_index("episode")
    assert len(questions) == 2, "episodes of 20 steps from step 18 on, the last of which has no answer yet"
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


def test_it_leads_on_another_suite_that_projects(train: Callable[..., Path], opengl: None) -> None:
    """Nothing is a success, so the critics' values differ from those of the sparse reward by the dense one alone."""
    pytest.importorskip("metaworld")
    words = (
        "suite=metaworld_mt10", "task=drawer-open", "method=sac", "guide=waypoints", "drawing.camera=both",
        "segmenter=oracle",
        "waypoints=oracle", "classifier=oracle", "learner.hidden=[8]", "learner.batch_size=8",
        "learner.learning_starts=10", "training.steps=24", "training.capacity=600", "evaluation.every=24",
        "evaluation.episodes=1",
    )  # fmt: skip
    study = train(*words, packs=[(0,)])
    (led,) = results.load(study, log="waypoints").to_dict("records")
    assert led["collected"] and not led["failed"] and len(json.loads(led["path"])) >= 2
    sparse = train(*words, "guide.formulation=sparse", packs=[(0,)])
    values = [results.load(each, log="metrics")["q_mean"].iloc[-1] for each in (study, sparse)]
    assert values[0] != values[1]
