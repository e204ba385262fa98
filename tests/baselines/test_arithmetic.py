"""Multiply-adds are counted layer by layer, of the network that is really built."""

import math

import pytest

from guidebench.baselines import arithmetic
from guidebench.baselines.encoders import Grid, Image, Sizes
from guidebench.baselines.learners.dqn import Dqn
from guidebench.harness.interfaces import Actions, Observations

GRID = Observations((5, 5, 3), "uint8", categories=(11, 6, 4))
VECTOR = Observations((6,), "float32")


def test_every_layer_counts() -> None:
    assert arithmetic.mlp((4, 3, 2)) == 4 * 3 + 3 * 2
    tiny = Observations((2, 2, 1), "uint8", (3,))
    # four cells: embeddings 3·4, three blocks of 3×3 (4 to 2) and back; then 2·4 pooled numbers to 5 features
    assert Grid().multiplications(tiny, Sizes(4, 5)) == 4 * (3 * 4 + 3 * (9 * 4 * 2 + 2 * 4)) + 8 * 5


def test_convolutions_count_once_per_place() -> None:
    """84×84×4 -> 20×20×32 -> 9×9×64 -> 7×7×64 -> 512, as Mnih et al. (2015) have it: 9.34 million."""
    layers = (400 * 64 * 4 * 32, 81 * 16 * 32 * 64, 49 * 9 * 64 * 64, 49 * 64 * 512)
    assert Image().multiplications(Observations((84, 84, 4), "uint8"), Sizes(0, 512)) == sum(layers) == 9_342_976


@pytest.mark.parametrize("observations", [GRID, VECTOR, Observations(parts={"grid": GRID, "place": VECTOR})])
def test_the_count_is_that_of_the_network_s_own_weights(observations: Observations) -> None:
    """A weight matrix is used once per vector and, in the encoder of a grid, once per cell of it."""
    config = Dqn(channels=8, features=16, hidden=(7, 9))
    expected = 0
    for name, spec in config.network(observations, Actions(5)).specs().items():
        if not name.endswith("bias"):
            per_cell = name.startswith("encoder") and "pooled" not in name
            expected += math.prod(spec.shape) * (25 if per_cell else 1)
    assert config.multiplications_to_act(observations, Actions(5)) == expected
