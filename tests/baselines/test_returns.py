from __future__ import annotations

import numpy as np
import pytest

from guidebench.baselines.returns import RETURN, returns_to_go


def test_a_return_is_the_discounted_sum_of_what_follows() -> None:
    """γ = ½ and rewards 1, 0, 4: the last return is 4, before it 0 + 2, and before that 1 + 1."""
    returns = returns_to_go(np.array([1, 0, 4], np.float32), 0.5)
    assert returns.dtype == np.float32 and returns.tolist() == [2, 2, 4]


def test_what_follows_an_episode_that_was_cut_off_is_bootstrapped() -> None:
    """The last observation is worth 8: 4 + 4, then 0 + 4, then 1 + 2."""
    assert returns_to_go(np.array([1, 0, 4], np.float32), 0.5, after=8).tolist() == [3, 4, 8]


def test_long_sums_are_rounded_once() -> None:
    """Σ γ^k over 2,000 steps of reward .1 is .1·(1 − γ^2000)/(1 − γ)."""
    returns = returns_to_go(np.full(2000, 0.1, np.float32), 0.999)
    assert returns[0] == pytest.approx(float(np.float32(0.1)) * (1 - 0.999**2000) / (1 - 0.999), rel=1e-7)


def test_a_return_that_is_not_known_bounds_nothing() -> None:
    assert RETURN.kind == "late" and max(-1e9, RETURN.initial) == -1e9
