"""Multiply-adds are counted layer by layer, of the network that is really built."""

from __future__ import annotations

import math

import pytest

from guidebench.baselines import arithmetic, networks
from guidebench.harness.interfaces import Observations

GRID = Observations((5, 5, 3), "uint8", categories=(11, 6, 4))


def test_every_layer_counts() -> None:
    assert arithmetic.mlp((4, 3, 2)) == 4 * 3 + 3 * 2
    tiny = Observations((2, 2, 1), "uint8", (3,))
    # four cells: embeddings 3·4, three blocks of 3×3 (4 to 2) and back; then 2·4 pooled numbers to 5 features
    assert arithmetic.grid_encoder(tiny, channels=4, features=5) == 4 * (3 * 4 + 3 * (9 * 4 * 2 + 2 * 4)) + 8 * 5


@pytest.mark.parametrize("observations", [GRID, Observations((6,), "float32")])
def test_the_count_is_that_of_the_network_s_own_weights(observations: Observations) -> None:
    """A weight matrix is used once per vector and, in the encoder, once per cell of the grid."""
    arguments = (observations, 8, 16, (7, 9), 5)
    specs = networks.for_observations(*arguments).specs()
    cells = math.prod(observations.shape[:2]) if observations.categories else 1
    expected = 0
    for name, spec in specs.items():
        if not name.endswith("bias"):
            per_cell = name.startswith("encoder") and "pooled" not in name
            expected += math.prod(spec.shape) * (cells if per_cell else 1)
    assert arithmetic.for_observations(*arguments) == expected


def test_the_encoder_is_the_network_without_what_turns_features_into_values() -> None:
    """On a vector the hidden layers encode, and without them nothing does."""
    vector = Observations((6,), "float32")
    for observations, rest in ((GRID, (16, 7, 9, 5)), (vector, (9, 5))):
        arguments = (observations, 8, 16, (7, 9))
        assert arithmetic.encoder(*arguments) + arithmetic.mlp(rest) == arithmetic.for_observations(*arguments, 5)
    assert arithmetic.encoder(vector, 8, 16, ()) == 0
