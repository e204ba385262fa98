"""Segments imagined by a Decision Transformer, which learnt from the suite's solver (RL-SaLLM-F, app. B.7)."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from guidebench.baselines.preference.teaching import Pair
from guidebench.baselines.teachers.llm import Llm
from guidebench.baselines.teachers.llm.teacher import LlmTeacher, demonstrated
from guidebench.harness.interfaces import Coordinates
from tests.cell_views import cell_view
from tests.refusals import check_refused

LENGTH = 4
LABELLED = {"first": 2, "second": 1, "outcome": "labelled", "retries": 0}


class Line:
    """A point goes from its place to a target by a tenth of the way at each step; every third seed fails, the others
    succeed after 12 steps and go on, far away, for 8."""

    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        return Coordinates("tcp", "", (0,)), Coordinates("target", "", (1,), constant=True)

    def demonstrate(self, task: str, seed: int) -> Any:
        if seed % 3 == 0:
            return None
        start, target = np.random.default_rng(seed).uniform(-1, 1, 2)
        places = target + (start - target) * 0.9 ** np.arange(20)
        places[12:] += 100
        states = np.stack([places, np.full(20, target)], 1)
        return SimpleNamespace(observation=states, reward=-np.abs(places - target), success=np.arange(20) == 11)


def build(suite: Any) -> Any:
    return SimpleNamespace(suite=lambda row: suite, task="line")


def test_the_imagined_segment_begins_as_the_preferred_one_and_keeps_what_is_constant() -> None:
    teacher = LlmTeacher(Llm(augment="decision_transformer", expert_episodes=5, expert_updates=20), build(Line()))
    states = np.random.default_rng(0).uniform(-1, 1, (2, LENGTH, 2)).astype(np.float32)
    verdict = teacher.verdict(Pair(0, 0, states, np.zeros((2, LENGTH), np.float32)), LABELLED)
    assert verdict.label == 1.0 and verdict.notes["imagined"] == "kept"
    assert verdict.imagined is not None and verdict.imagined.shape == (LENGTH, 2)
    assert verdict.imagined[0].tolist() == states[1, 0].tolist()
    assert (verdict.imagined[:, 1] == states[1, 0, 1]).all()


def test_a_pair_without_a_preference_gets_none() -> None:
    teacher = LlmTeacher(Llm(augment="decision_transformer"), build(None))
    equal = {"first": 0, "second": None, "outcome": "equal", "retries": 0}
    assert teacher.verdict(Pair(0, 0, np.zeros((2, LENGTH, 2)), np.zeros((2, LENGTH))), equal).imagined is None


def test_a_solver_that_fails_too_often_is_an_error_that_counts() -> None:
    assert len(demonstrated(Line(), "line", 5, LENGTH)) == 5

    class Hopeless(Line):
        def demonstrate(self, task: str, seed: int) -> Any:
            return None

    check_refused(
        "of 15 attempts to demonstrate line 0 succeeded and 0 took more than",
        demonstrated,
        Hopeless(),
        "line",
        5,
        LENGTH,
    )


def test_an_expert_is_learnt_from_up_to_its_first_success() -> None:
    for episode in demonstrated(Line(), "line", 5, LENGTH):
        assert episode.observations.shape == (12, 2) and episode.rewards.shape == (12,)
        assert np.abs(episode.observations).max() < 50


def test_an_expert_that_succeeds_within_a_segment_is_refused_before_training() -> None:
    assert len(demonstrated(Line(), "line", 5, 11)) == 5
    parts = {"suite": Line(), "guide": SimpleNamespace(segment=12)}
    teacher = Llm(augment="decision_transformer", expert_episodes=5)
    message = (
        r"expert_episodes=5 .* line 10 succeeded and 0 took more than guide.segment=12 .*lower .* or guide.segment"
    )
    check_refused(message, teacher.ready, cell_view(parts, "line"))
    Llm(expert_episodes=5).ready(cell_view(parts, "line"))  # needs no expert


def test_a_suite_without_a_solver_is_refused_before_any_work() -> None:
    suite = SimpleNamespace(coordinates=Line().coordinates, horizon=lambda task: 20)
    parts = {"suite": suite, "guide": SimpleNamespace(segment=10)}
    assert "none that demonstrates" in Llm(augment="decision_transformer").fits(cell_view(parts, "line"))
    parts["guide"].segment = 20
    assert "longer than guide.segment" in Llm(augment="decision_transformer").fits(cell_view(parts, "line"))
