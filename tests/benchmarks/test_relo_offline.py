"""The offline test of ReLo: values worked by hand, and that a variant is learnt from the data alone."""

import numpy as np
import pytest

from benchmarks import relo_offline
from benchmarks.relo_offline import VARIANTS, Data, collected, learnt, one_hot, worth


def test_values_are_those_of_the_process_that_the_data_describe() -> None:
    """From state 0, action 0 leads to 1 and action 1 stays; from 1, action 0 ends with 1 once and with .5 once, and
    action 1 leads back to 0. At γ = ½: Q(1, 0) = ¾, Q(0, 0) = ⅜, Q(0, 1) = Q(1, 1) = 3/16. State 2 was only reached."""
    observation = np.array([[0], [0], [1], [1], [1], [0]])
    action = np.array([0, 1, 0, 0, 1, 0])
    reward = np.array([0, 0, 1, 0.5, 0, 0])
    following = np.array([[1], [0], [2], [2], [0], [1]])
    ended = np.array([False, False, True, True, False, False])
    value = worth(observation, action, reward, following, ended, 0.5)
    assert value.tolist() == pytest.approx([3 / 8, 3 / 16, 3 / 4, 3 / 4, 3 / 16, 3 / 8])


def test_only_what_varies_is_one_hot() -> None:
    assert one_hot(np.array([[3, 7, 1], [5, 7, 0], [3, 7, 2]])).tolist() == [
        [1, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [1, 0, 0, 0, 1],
    ]


@pytest.fixture(scope="module")
def data() -> Data:
    return collected(400, 0.5, 0.95)


def test_the_data_are_the_same_whenever_they_are_collected_and_goals_are_worth_their_mean_reward(data: Data) -> None:
    again = collected(400, 0.5, 0.95)
    assert all(np.array_equal(array, repeated) for array, repeated in zip(data, again, strict=True))
    assert data.goal.sum() > 3
    pairs = [tuple(row) for row in np.c_[data.observation, data.action][data.goal]]
    for pair in set(pairs):
        same = [pair == other for other in pairs]
        assert data.value[data.goal][same] == pytest.approx(float(data.reward[data.goal][same].mean()), abs=1e-6)


def test_a_variant_tells_errors_of_every_seed_and_the_floor_of_what_has_one(data: Data, monkeypatch) -> None:
    monkeypatch.setattr(relo_offline, "LOOKS", 2)
    for name, floored in (("uniform", False), ("relo, difference=loss", True)):
        errors = learnt(data, *VARIANTS[name], seeds=2, updates=4)
        assert [look["updates"] for look in errors["curve"]] == [2, 4]
        assert len(errors["goal_error"]) == len(errors["error"]) == 2 and errors["error"][0] != errors["error"][1]
        assert ("floor_share" in errors["curve"][-1]) == floored == (errors["floor_share"] is not None)
