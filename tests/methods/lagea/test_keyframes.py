"""Key frames and weights of steps, with values worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guidebench.methods.lagea import keyframes

SHARES = (0.5, 0.25, 0.25)
signals = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=60).map(np.array)


def test_saliency_is_the_sum_of_three_scores() -> None:
    # s = 0, 0, 1, 1: mean ½, deviation ½. v = 0, 0, 1, 0 and a = 0, 0, 1, -1.
    # z(s) = -1, -1, 1, 1. z|v|: mean ¼, deviation √3/4. z|a|: mean ½, deviation ½.
    p = keyframes.saliency(np.array([0.0, 0, 1, 1]), SHARES)
    low, high = -1 / np.sqrt(3), np.sqrt(3)
    expected = [
        0.25 * low + 0.25 * -1,
        0.25 * low + 0.25 * -1,
        0.5 * 1 + 0.25 * high + 0.25 * 1,
        0.5 * 1 + 0.25 * low + 0.25 * 1,
    ]
    np.testing.assert_allclose(p, expected)
    assert not keyframes.saliency(np.full(7, 0.3), SHARES).any(), "a signal that never changes has no salient frame"


def test_key_frames_are_the_ends_and_the_most_salient_ones_at_a_distance() -> None:
    similarity = np.zeros(21)
    similarity[10:] = 1.0  # by far the most salient frame is 10, then 11, whose acceleration is as large
    # The next ones at a distance of 4 from 0, 10 and 20 that are near the goal: 14, which excludes 15 to 17.
    for frames in ([0, 20], [0, 10, 20], [0, 10, 14, 20]):
        assert keyframes.salient(similarity, SHARES, most=len(frames), spacing=4).tolist() == frames


def test_the_released_code_takes_turns_first_and_fills_up_what_is_far_from_all() -> None:
    similarity = np.interp(np.arange(101), [0, 30, 60, 100], [0.0, 0.8, 0.2, 1.0])
    found = keyframes.turning(similarity, (0.5, 0.3, 0.2), most=6, spacing=5)
    assert {0, 31, 61, 100} <= set(found.tolist()), "the similarity falls from frame 31 on, and rises again from 61 on"
    assert len(found) == 6 and np.diff(found).min() >= 5
    assert keyframes.turning(similarity[:5], SHARES, most=6, spacing=5).tolist() == [0, 1, 2, 3, 4]


def test_after_many_turns_the_released_code_takes_one_salient_frame() -> None:
    """Of ten frames eight are ends and turns, more than 70 %: then one most salient frame, then a distant one."""
    steps = np.arange(121)
    similarity = np.interp(steps, [0, 15, 30, 45, 60, 75, 90, 120], [0, 0.5, 0.1, 0.6, 0.2, 0.7, 0.3, 0.9])
    p = keyframes.saliency(similarity, SHARES)
    found = keyframes.turning(similarity, SHARES, most=10, spacing=5)
    turns = [0, 16, 31, 46, 61, 76, 91, 120]
    assert set(turns) <= set(found.tolist()) and len(found) == 10
    apart = np.array([frame for frame in steps if min(abs(frame - turn) for turn in turns) >= 5])
    assert apart[p[apart].argmax()] in found


def test_weights_are_triangles_around_key_frames_over_a_floor_with_mean_one() -> None:
    # h = 1: w̃ = 1, ½, 0, ½, 1; β = .2: w = 1, .6, .2, .6, 1, whose mean is .68.
    found = keyframes.weights(np.array([0, 4]), 5, window=1, floor=0.2)
    np.testing.assert_allclose(found, np.array([1, 0.6, 0.2, 0.6, 1]) / 0.68)


def test_the_model_sees_the_key_frames_and_evenly_spread_others() -> None:
    shown = keyframes.prompt_frames(np.array([0, 7, 100]), 101, 6)
    assert len(shown) == 6 and {0, 7, 100} <= set(shown.tolist())
    assert shown.tolist() == sorted(set(shown.tolist()))
    assert keyframes.prompt_frames(np.array([0, 2]), 3, 6).tolist() == [0, 1, 2]
    assert keyframes.prompt_frames(np.arange(0, 100, 10), 101, 4).tolist() == [0, 30, 60, 90]
    assert len(keyframes.prompt_frames(np.zeros(0, np.int64), 501, 28)) == 28


@given(signals, st.integers(2, 12), st.integers(1, 9), st.sampled_from(sorted(keyframes.SELECTORS)))
def test_key_frames_are_few_different_and_apart(similarity: np.ndarray, most: int, spacing: int, how: str) -> None:
    found = keyframes.SELECTORS[how](similarity, SHARES, most, spacing)
    assert found[0] == 0 and found[-1] == len(similarity) - 1 and len(found) <= most
    assert (np.diff(found) > 0).all()
    if how == "saliency" and len(similarity) > spacing:
        assert (np.diff(found) >= spacing).all()


@given(
    st.integers(2, 80).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))),
    st.integers(0, 15),
    st.floats(0.01, 1),
)
def test_weights_stay_positive_below_one_over_the_floor_with_mean_one(
    episode: tuple[int, set[int]], window: int, floor: float
) -> None:
    count, chosen = episode
    found = keyframes.weights(np.array(sorted(chosen)), count, window, floor)
    assert found.mean() == pytest.approx(1) and (found > 0).all() and (found <= 1 / floor + 1e-9).all()
