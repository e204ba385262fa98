"""The encoder of symbolic grids against values worked by hand."""

import numpy as np
import pytest
import torch

from guidebench.baselines.encoders.grid.network import GridEncoder, pool
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Observations
from tests.baselines.builds import codes, initialised

GRID = Observations((5, 6, 3), "uint8", (11, 6, 4))


def test_pooling_gives_the_average_then_the_maximum_of_each_channel() -> None:
    cells = torch.tensor([[[1.0, -4.0], [2.0, -8.0]], [[3.0, 0.0], [6.0, -4.0]]])
    assert pool(cells[None, None]).tolist() == [[[3.0, -4.0, 6.0, 0.0]]]


def test_encoder_without_mixing_describes_the_embedded_cells() -> None:
    """Blocks that add nothing, pooled features passed on: relu of codes' values, averaged and maximal."""
    encoder = GridEncoder(Observations((2, 2, 1), "uint8", (3,)), channels=1, features=2)
    parameters = Parameters(encoder.specs(), 1)
    parameters.load(
        0,
        {
            **{name: np.zeros(spec.shape, np.float32) for name, spec in encoder.specs().items()},
            "encoder.embedding": np.array([[1.0], [-2.0], [5.0]], np.float32),
            "encoder.pooled.weight": np.eye(2, dtype=np.float32),
            "encoder.pooled.bias": np.array([0.0, -1.0], np.float32),
        },
    )
    grid = torch.tensor([[0, 1], [2, 0]], dtype=torch.uint8).view(1, 1, 2, 2, 1)
    assert encoder(parameters.blocks[0].views, grid).tolist() == [[[7 / 4, 4.0]]]


def test_a_block_adds_its_mixed_convolution() -> None:
    """One cell: x = 3, the kernel's centre doubles it and adds 1, mixing multiplies by 10, block after block."""
    encoder = GridEncoder(Observations((1, 1, 1), "uint8", (1,)), channels=1, features=1)
    arrays = {name: np.zeros(spec.shape, np.float32) for name, spec in encoder.specs().items()}
    arrays["encoder.embedding"][:] = 3
    for block in range(3):
        arrays[f"encoder.block{block}.conv.weight"][0, 1, 1, 0] = 2
        arrays[f"encoder.block{block}.conv.bias"][:] = 1
        arrays[f"encoder.block{block}.mix"][:] = 10
    arrays["encoder.pooled.weight"][0] = 1
    parameters = Parameters(encoder.specs(), 1)
    parameters.load(0, arrays)
    expected = 3.0
    for _ in range(3):
        expected += 10 * (2 * expected + 1)
    assert encoder(parameters.blocks[0].views, torch.zeros(1, 1, 1, 1, 1, dtype=torch.uint8)).item() == expected


def test_encoder_has_the_shapes_it_states() -> None:
    encoder = GridEncoder(GRID, channels=8, features=256)
    shapes = {name.removeprefix("encoder."): spec.shape for name, spec in encoder.specs().items()}
    assert shapes["embedding"] == (21, 8) and shapes["pooled.weight"] == (16, 256)
    assert shapes["block2.conv.weight"] == (4, 3, 3, 8) and shapes["block2.mix"] == (4, 8)
    assert encoder(initialised(encoder, 2, together=True).blocks[0].views, codes(GRID, 2, 3)).shape == (2, 3, 256)


@pytest.mark.parametrize(("size", "dilations"), [(16, [1, 2, 4]), (12, [1, 2, 4]), (8, [1, 2, 3]), (5, [1, 2, 2])])
def test_no_kernel_is_wider_than_the_grid(size: int, dilations: list[int]) -> None:
    encoder = GridEncoder(Observations((size, size, 3), "uint8", (11, 6, 4)), 8, 16)
    assert encoder.dilations == dilations


def test_layers_start_in_the_range_of_torch_modules() -> None:
    encoder = GridEncoder(GRID, channels=32, features=64)
    arrays = initialised(encoder, 1, together=True).arrays(0)
    bound = 1 / np.sqrt(32 * 9)  # of Conv2d(32, 16, 3)
    for part in ("weight", "bias"):
        assert 0.8 * bound < np.abs(arrays[f"encoder.block0.conv.{part}"]).max() <= bound
    assert 0.95 / 8 < np.abs(arrays["encoder.pooled.weight"]).max() <= 1 / 8  # of Linear(64, 64)
    assert arrays["encoder.embedding"].std() == pytest.approx(1, abs=0.1)
