"""The prior that follows from a chat's weights."""

import numpy as np
import pytest

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
