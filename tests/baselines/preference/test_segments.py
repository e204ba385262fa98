"""Segments: within one episode, of the last ones, and which pairs tell most."""

from pathlib import Path

import numpy as np
import pytest

from guidebench.baselines.preference.segments import (
    RATED,
    disagreement,
    entropy,
    look_back,
    mean_reward,
    probabilities,
    starts,
)
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Transition
from tests.baselines.learners.continuous import build

ENDED = np.array([0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0], bool)  # episodes of 3, 2 and 4 steps, and 2 of a running one


@pytest.mark.parametrize(
    ("length", "recent", "expected"),
    [
        (1, 100, range(11)),
        (2, 100, [0, 1, 3, 5, 6, 7, 9]),
        (3, 100, [0, 5, 6]),
        (4, 100, [5]),
        (5, 100, []),
        (2, 1, [9]),
        (2, 2, [5, 6, 7, 9]),
        (2, 3, [3, 5, 6, 7, 9]),
    ],
)
def test_segments_begin_where_they_stay_within_one_of_the_last_episodes(length: int, recent: int, expected) -> None:
    assert starts(ENDED, length, recent).tolist() == list(expected)


def test_looking_back_ends_where_the_ring_does(tmp_path: Path) -> None:
    run_build = build((0, 1), observed=1, path=tmp_path, steps=30)
    store = Storage(run_build)
    for number in range(70):
        state, ended = np.full((2, 1), number, np.float32), np.full(2, number % 20 == 19)
        store.append(
            Transition(state, state, state[:, 0], ended, ended, state + 1, np.zeros((2, 0), bool), None, ended)
        )
    full, last = look_back(store, 2, 100), look_back(store, 2, 12)
    assert full.observations[1, :, 0].tolist() == full.rewards[0].tolist() == [*range(40, 70)]
    assert last.observations[0, :, 0].tolist() == [*range(58, 70)] and np.flatnonzero(last.ended[1]).tolist() == [1]
    assert store.column("reward", np.tile(last.slots, (2, 1)))[0].tolist() == [*range(58, 70)]
    begins = starts(full.ended[0], 5, 100)
    assert (40 + begins).tolist() == [*range(40, 56), *range(60, 66)]


def test_an_episode_that_has_just_ended_is_the_last_one() -> None:
    assert starts(ENDED[:9], 2, 1).tolist() == [5, 6, 7]
    assert starts(ENDED[:9], 2, 2).tolist() == [3, 5, 6, 7]


@pytest.mark.parametrize("ended", [[], [False], [True]])
def test_too_few_transitions_hold_no_segment(ended: list[bool]) -> None:
    assert starts(np.array(ended, bool), 2, 100).tolist() == []


def test_mean_reward_is_per_step_of_the_last_episodes_that_ended() -> None:
    rewards = np.arange(11.0)
    assert mean_reward(rewards, ENDED) == pytest.approx(np.arange(9).mean())
    assert mean_reward(rewards[:2], ENDED[:2]) == 0.0
    many = np.tile([False, True], RATED + 1)
    assert mean_reward(np.arange(len(many)), many) == pytest.approx(np.arange(2, len(many)).mean())


def test_a_preference_is_the_softmax_of_returns() -> None:
    shares = probabilities(np.array([[[0.0, 1.0]], [[2.0, 2.0]]]))
    assert shares[:, 0] == pytest.approx([0.7310586, 0.5])


def test_disagreement_is_the_deviation_of_the_members_predictions() -> None:
    assert disagreement(np.array([[0.2, 0.5], [0.8, 0.5]])) == pytest.approx([0.3, 0.0])


def test_entropy_is_that_of_the_mean_prediction() -> None:
    entropies = entropy(np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 1.0]]))
    assert entropies == pytest.approx([np.log(2), np.log(2), 0.0], abs=1e-9)
