"""Observations are normalised by a dataset's numbers, which a checkpoint and a policy hold."""

import numpy as np
import pytest

from guidebench.baselines.normalising import Normalisation
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Observations

VECTOR = Observations((4,), "float32")
EPISODES = [np.array([[1, 0, 7, 0], [3, 1, 7, 1]], np.float32), np.array([[5, 1, 7, 0]], np.float32)]
"""A coordinate of mean 3 and variance 8/3, two binary entries, and one that never changes."""


def fitted(rows: int = 1, row: int = 0) -> Normalisation:
    normalisation = Normalisation(rows, VECTOR)
    normalisation.fit(row, EPISODES)
    return normalisation


def test_continuous_entries_lose_mean_and_deviation_and_binary_ones_stay() -> None:
    """(5 − 3)/√(8/3) = 1.224745; an entry that never changes is divided by .001: (7.002 − 7)/.001 = 2."""
    observation = np.array([[5, 1, 7.002, 0]], np.float32)
    normalised = fitted().of_rows(observation, np.zeros(1, int))
    np.testing.assert_allclose(normalised, [[1.224745, 1, 2, 0]], rtol=2e-4)
    assert normalised.dtype == np.float32
    assert np.array_equal(observation, np.array([[5, 1, 7.002, 0]], np.float32)), "what is stored stays as it was"


def test_each_seed_has_numbers_of_its_own_and_without_any_nothing_changes() -> None:
    batch = np.full((2, 1, 4), 5, np.float32)
    first, second = fitted(rows=2, row=1).of_batch(batch)[:, 0]
    assert first.tolist() == [5, 5, 5, 5]
    np.testing.assert_allclose(second, [1.224745, 5, -2000, 5], rtol=1e-5)


def test_of_a_record_vectors_of_floats_change_and_pictures_stay() -> None:
    space = Observations(parts={"arm": Observations((1,), "float32"), "camera": Observations((2, 2, 3), "uint8")})
    records = np.zeros(2, space.numpy)
    records["arm"], records["camera"] = [[2], [4]], 9
    normalisation = Normalisation(1, space)
    normalisation.fit(0, [records])
    normalised = normalisation.of_rows(records, np.zeros(2, int))
    assert normalised["arm"].tolist() == [[-1], [1]] and (normalised["camera"] == 9).all()


def test_a_checkpoint_and_a_policy_hold_the_numbers() -> None:
    normalisation, observation = fitted(), np.array([[2, 0, 8, 1]], np.float32)
    expected = normalisation.of_rows(observation, np.zeros(1, int))
    other = Normalisation(1, VECTOR)
    other.load(0, normalisation.arrays(0))
    assert other.fitted.all() and np.array_equal(other.of_rows(observation, np.zeros(1, int)), expected)
    other.load(0, Normalisation(1, VECTOR).arrays(0))
    assert not other.fitted.any(), "a checkpoint, or a new agent, from before the first use has none"


@pytest.mark.parametrize(
    "arrays", [{}, {"normalisation.mean": np.zeros(4)}, dict.fromkeys(fitted().arrays(0), np.zeros(1))]
)
def test_numbers_that_do_not_fit_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(UserError, match=r"trained with agent\.normalise=true"):
        Normalisation(1, VECTOR).load(0, arrays)
