"""The oracle's rules, on measures worked by hand and on real episodes."""

import json
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("metaworld")

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question
from guidebench.harness.plan import matrix
from guidebench.methods.lagea.feedback import OracleFeedback, reading
from guidebench.methods.lagea.feedback.oracle import Finding, development, judged, written
from guidebench.methods.lagea.feedback.taxonomy import CODES, ERRORS, SUCCESSES
from guidebench.suites.metaworld import MetaWorldMT10
from tests.methods.lagea.feedback.attempts import attempt


def measures(near: list[float], grasp: list[float], distance: list[float]) -> Array:
    return np.array([near, grasp, distance], np.float32).T


FAR, STAYS = [0.0, 0, 0, 0], [0.3, 0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    ("near", "grasp", "distance", "succeeded", "code", "steps"),
    [
        ([0, 1, 1, 1], [0, 0, 1, 1], [0.3, 0.3, 0.1, 0.02], True, "good_grasp", (3, 4)),
        ([0, 1, 1, 0], [1, 1, 1, 1], [0.3, 0.2, 0.01, 0.05], True, "good_contact", (2, 3)),
        ([0, 1, 1, 0], [0, 0, 0, 0], [0.3, 0.2, 0.01, 0.05], True, "good_contact", (2, 3)),
        (FAR, FAR, [0.3, 0.2, 0.01, 0.05], True, "good_contact", (3,)),
        ([0.3, 0.1, 0.04, 0.1], [1, 1, 1, 1], [0.3, 0.1, 0.04, 0.1], True, "reached_goal", (3,)),
        (FAR, FAR, STAYS, False, "bad_approach_direction", (1, 4)),
        ([0, 0.4, 0.8, 0.2], [0, 0, 0, 0], [0.0, 0, 0, 0], False, "bad_approach_direction", (3, 4)),
        ([0, 1, 1, 0], FAR, STAYS, False, "failed_grasp", (2, 3)),
        ([0, 1, 1, 1], [1, 1, 1, 1], STAYS, False, "insufficient_force", (1, 2)),
        ([0, 1, 1, 1], [0, 0, 1, 1], [0.3, 0.3, 0.29, 0.285], False, "insufficient_force", (3, 4)),
        ([0, 1, 1, 1], [0, 0, 0, 0], [0.3, 0.3, 0.25, 0.2], False, "insufficient_force", (2, 4)),
        ([0, 1, 1, 0], [0, 0, 1, 0], [0.3, 0.25, 0.1, 0.13], False, "drift_from_goal", (3, 4)),
        ([0, 1, 1, 1], [0, 0, 1, 1], [0.3, 0.25, 0.1, 0.11], False, "insufficient_force", (3,)),
        ([0.2, 0.3, 0.4, 0.5], [1, 1, 1, 1], [0.2, 0.3, 0.4, 0.5], False, "drift_from_goal", (1, 4)),
        ([0.3, 0.2, 0.1, 0.1], [1, 1, 1, 1], [0.3, 0.2, 0.1, 0.1], False, "insufficient_force", (1, 3)),
    ],
)
def test_each_rule_gives_its_code_and_the_steps_that_decided(
    near: list[float], grasp: list[float], distance: list[float], succeeded: bool, code: str, steps: tuple[int, ...]
) -> None:
    assert judged(measures(near, grasp, distance), succeeded) == Finding(code, steps)


@cache
def oracle(error: float) -> Any:
    return OracleFeedback(error=error).spawn(MetaWorldMT10(), "push")


def ask(episode: Array, succeeded: bool, error: float = 0.0, seed: int = 0, **more: Any) -> Any:
    content = {"history": [], "frames": [0], "steps": len(episode), "succeeded": succeeded, **more}
    nothing = np.zeros((1, 0), bool)
    question = Question(0, np.zeros(1, np.int64), None, nothing, json.dumps(content), "feedback", measures=episode)
    return json.loads(json.dumps(oracle(error)(question, np.random.default_rng(seed))))


def test_it_answers_what_the_dialogue_would_return() -> None:
    episode = measures([0, 1, 1, 0], FAR, STAYS)
    reflection = ask(episode, False)
    assert reflection == reading.reflection(
        {
            "task": MetaWorldMT10().make("push").instruction,
            "outcome": "failure",
            "primary_error": {"code": "failed_grasp", "explanation": reflection["explanation"]},
            "secondary_factors": [],
            "key_frame_indices": [2, 3],
            "suggested_fix": reflection["fix"],
            "confidence": 1.0,
            "summary": reflection["summary"],
        },
        range(5),
    )
    assert reflection["text"].startswith("Failure: failed grasp. The gripper was at the object but never held it")
    assert ask(episode, False, embedded="summary")["text"] == reflection["summary"]
    free = ask(episode, False, structured=False)
    assert (free["outcome"], free["code"], free["text"]) == ("", "", reflection["text"])


def test_every_code_is_worded_so_that_the_dialogue_would_accept_it() -> None:
    for code in CODES:
        reply = written(Finding(code, (3, 5)), "push the puck", development(measures([0, 1, 1, 0], FAR, STAYS)))
        assert reading.structured(json.dumps(reply), 6) == reply
        assert reply["outcome"] == ("success" if code in SUCCESSES else "failure")


def test_it_errs_as_often_as_stated_and_never_by_the_right_code() -> None:
    episode = measures(FAR, FAR, STAYS)
    codes = [ask(episode, False, 0.3, seed)["code"] for seed in range(200)]
    wrong = [code for code in codes if code != "bad_approach_direction"]
    assert 41 <= len(wrong) <= 79, "3 standard deviations of 200 draws at 0.3 are 19.4"
    assert set(wrong) == CODES.keys() - {"bad_approach_direction"}
    assert {ask(episode, False, 1.0, seed)["outcome"] for seed in range(20)} == {"success", "failure"}


@pytest.mark.parametrize(
    ("task", "success", "failure"),
    [
        ("reach", "reached_goal", "drift_from_goal"),
        ("pick-place", "good_grasp", "bad_approach_direction"),
        ("drawer-open", "good_contact", "bad_approach_direction"),
    ],
)
def test_real_successes_and_failures_get_different_codes(task: str, success: str, failure: str) -> None:
    for expert, code in ((True, success), (False, failure)):
        episode = attempt(task, expert)
        finding = judged(episode.measures, episode.succeeded)
        assert (episode.succeeded, finding.code) == (expert, code)
        assert all(1 <= step <= 200 for step in finding.steps) and (finding.code in ERRORS) != expert


def test_another_guide_and_a_suite_without_measures_are_refused() -> None:
    with pytest.raises(UserError, match="it writes feedback on episodes, for LaGEA's guide alone"):
        matrix.plan(["suite=metaworld_pbrl", "task=reach", "method=rl_sallm_f", "chat=oracle_feedback"])
    from guidebench.harness.parts import CellView
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    class Guide:
        needs: ClassVar = {"feedback": "chat"}

    suite, oracle = MiniGridDoorKey(), OracleFeedback()
    cell_view = CellView({"suite": suite, "feedback": oracle, "guide": Guide()}, "5x5", *suite.spaces("5x5"))
    assert "the suite does not measure near_object, grasp_success, obj_to_target" in oracle.fits(cell_view)
    suite_of_measures = MetaWorldMT10()
    parts = {"suite": suite_of_measures, "feedback": oracle, "guide": Guide()}
    assert oracle.fits(CellView(parts, "reach", *suite_of_measures.spaces("reach"))) == ""


def test_texts_state_steps_distances_and_the_stage_that_failed() -> None:
    """Near the object in steps 2 and 3 of 4; the distance to the target is 30, 20, 5 and 10 cm."""
    episode = measures([0, 1, 1, 0], [0, 0, 0, 0], [0.3, 0.2, 0.05, 0.1])
    words = development(episode)
    assert words == (
        "The distance to the target was 30 cm at step 1, 5 cm at step 3, its least, and 10 cm at the end, step 4. The "
        "gripper was at the object in 2 of 4 steps, first at step 2."
    )
    reflection = ask(episode, False)
    assert words in reflection["summary"] and words in reflection["text"]
    assert "at the stage of staying at the target" in reflection["summary"]
    assert development(measures([0.1, 0.5, 0.2], FAR[:3], [0, 0, 0])) == (
        "The gripper was never at the object; it was nearest at step 2."
    )


def test_sixty_real_failures_have_at_least_twenty_texts() -> None:
    task, texts = MetaWorldMT10().make("reach"), set()
    for seed in range(60):
        generator = np.random.default_rng(seed)
        task.reset(seed)
        rows = []
        for _ in range(60):
            task.step(generator.uniform(-1, 1, 4).astype(np.float32))
            rows.append(task.measures())
        texts.add(ask(np.stack(rows), False)["text"])
    assert len(texts) >= 20
