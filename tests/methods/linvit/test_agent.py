"""The prior that follows from a chat's weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.interfaces import Place, Question
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import EvaluationContext
from guidebench.harness.plan import matrix
from guidebench.methods.linvit.agent import smoothed

WEIGHTS = np.array([[0.75, 0.25, 0]], np.float32)


def test_a_share_is_spread_evenly_over_all_actions() -> None:
    """0.9·(¾, ¼, 0) + 0.1·⅓; actions that may not be taken have no share."""
    for may, share, expected in (
        (None, 0.1, [0.70833333, 0.25833333, 0.03333333]), (None, 1.0, [1 / 3] * 3),
        # Of actions 0 and 2 the chat weighs 0 alone: 0.9 + 0.05 and 0.05; of 2 alone, nothing: all of it.
        (np.array([[True, False, True]]), 0.1, [0.95, 0, 0.05]), (np.array([[False, False, True]]), 0.1, [0, 0, 1]),
    ):  # fmt: skip
        np.testing.assert_allclose(smoothed(WEIGHTS, may, share), [expected], rtol=1e-6)


@pytest.mark.parametrize("may", [None, [[True, True, True]], [[False, False, False]]])
def test_without_an_answer_the_prior_is_uniform(may: list[list[bool]] | None) -> None:
    prior = smoothed(np.zeros((1, 3), np.float32), None if may is None else np.array(may), 0.1)
    np.testing.assert_allclose(prior, [[1 / 3] * 3], rtol=1e-6)
    assert prior.dtype == np.float32


def test_where_the_goal_changes_a_state_is_asked_about_under_each_goal(tmp_path: Path) -> None:
    pytest.importorskip("crafter")
    from guidebench.suites.crafter_ood.goals import VECTORS

    words = "suite=crafter_ood method=linvit task=wooden profile=smoke prior=scripted seeds=1 agent.smoothing=0.0001"
    (cell,) = matrix.plan(words.split()).cells
    build = make_build(cell, [0], "cpu", [tmp_path])
    agent: Any = cell.section("agent").spawn(build)
    contents, goals = list[Any](), ("chop four trees", "make a wood sword")

    def consult(questions: Sequence[Question]) -> list[Any]:
        contents.extend(json.loads(question.content) for question in questions)
        count = build.actions.count
        return [
            {"weights": np.eye(count)[goals.index(json.loads(question.content)["instruction"])].tolist(), "unknown": 0}
            for question in questions
        ]

    observation = np.zeros(2, build.observations.numpy)
    observation["text"][:, :9] = np.frombuffer(b"you see a", np.uint8)
    observation["instruction"] = [VECTORS[goal] for goal in goals]
    ctx: Any = EvaluationContext(100, build.streams, np.zeros(1, np.int64), answer=consult)
    for _ in range(2):
        prior = agent.read(observation, [Place(0, 0), Place(0, 1)], ctx)["prior"]
        assert prior.argmax(1).tolist() == [0, 1]
    assert contents == [{"instruction": goal, "state": "you see a"} for goal in goals], "each is asked about once"
