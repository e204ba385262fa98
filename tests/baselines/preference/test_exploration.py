"""Intrinsic rewards: distances as by brute force, equations by hand."""

import numpy as np
import pytest
import torch

from guidebench.baselines.preference.exploration import (
    FLOOR,
    INTRINSIC,
    LogDistance,
    NormalisedDistance,
    neighbour_distance,
)

LINE = torch.tensor([[0.0], [1.0], [3.0], [7.0], [15.0]])


@pytest.mark.parametrize(("k", "expected"), [(1, [1, 1, 2, 4, 8]), (2, [3, 2, 3, 6, 12]), (4, [15, 14, 12, 8, 15])])
def test_distance_to_the_kth_neighbour_leaves_out_the_state_itself(k: int, expected: list[float]) -> None:
    assert neighbour_distance(LINE, LINE, k).tolist() == expected


def test_with_fewer_neighbours_than_k_the_farthest_counts() -> None:
    assert neighbour_distance(LINE, LINE, 9).tolist() == [15, 14, 12, 8, 15]
    assert neighbour_distance(LINE[:1], LINE[:1], 5).tolist() == [0]


@pytest.mark.parametrize(("stored", "batch", "k"), [(3, 3, 5), (64, 10, 5), (65, 64, 1), (500, 70, 5), (3000, 130, 12)])
def test_neighbours_are_those_of_brute_force(stored: int, batch: int, k: int) -> None:
    rng = np.random.default_rng(stored)
    # far from the origin and close together, where |x|² + |y|² − 2xy alone would be noise
    states = 50 + 0.01 * rng.standard_normal((stored, 17))
    states[rng.integers(stored, size=stored // 10)] = states[0]  # some were seen more than once
    all_states = torch.tensor(states, dtype=torch.float32)
    chosen = rng.integers(stored, size=batch)
    exact = np.linalg.norm(all_states.double().numpy()[chosen, None] - all_states.double().numpy()[None], axis=2)
    expected = np.sort(exact, 1)[:, min(k, stored - 1)]
    assert neighbour_distance(all_states[chosen], all_states, k).numpy() == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_paper_pays_the_logarithm_and_a_state_seen_before_the_floors() -> None:
    pay = LogDistance(1)
    assert pay(LINE, LINE) == pytest.approx(np.log([1, 1, 2, 4, 8]))
    twice = torch.cat([LINE, LINE[:1]])
    assert pay(twice[:2], twice) == pytest.approx([np.log(FLOOR), 0.0])
    assert pay.state() == {}


def test_the_code_pays_the_distance_over_the_deviation_of_all_so_far() -> None:
    pay = NormalisedDistance(1)
    first = np.array([1, 1, 2, 4, 8.0])
    assert pay(LINE, LINE) == pytest.approx(first / first.std())
    resumed = INTRINSIC["distance"](1)
    resumed.load_state(pay.state())
    more = torch.tensor([[0.0], [5.0]])
    expected = np.array([5.0, 5.0]) / np.concatenate([first, [5.0, 5.0]]).std()
    assert pay(more, more) == pytest.approx(expected) and resumed(more, more) == pytest.approx(expected)
    assert pay.state() == resumed.state()


def test_distances_that_never_differ_are_paid_finitely() -> None:
    assert np.isfinite(NormalisedDistance(1)(LINE[:2], LINE[:2])).all()
