"""Projection heads: what they compute, how they learn, and that seeds stay apart."""

from functools import partial
from pathlib import Path

import numpy as np
import torch

from guidebench.baselines.heads.projection import Heads
from tests.baselines.learners.continuous import build

WIDTHS = {"image": 6, "text": 4}


def heads_of(tmp_path: Path, *seeds: int, rate: float = 0.1) -> Heads:
    return Heads(build(seeds, path=tmp_path), WIDTHS, (5,), 3, rate)


def squared_distance(heads: Heads, vectors: torch.Tensor, block: int, rows: slice) -> torch.Tensor:
    """Return the squared distance of projected images from the projection of a text of ones."""
    text = heads.project(block, "text", torch.ones(len(vectors[rows]), 1, 4))
    return (heads.project(block, "image", vectors[rows]) - text).square().mean((1, 2))


def test_a_head_is_two_layers_with_relu_between_them(tmp_path: Path) -> None:
    heads = heads_of(tmp_path, 3)
    vectors = torch.randn(1, 2, 6, generator=torch.Generator().manual_seed(0))
    weights = {name: torch.from_numpy(array) for name, array in heads.parameters.arrays(0).items()}
    hidden = torch.relu(vectors[0] @ weights["image.0.weight"] + weights["image.0.bias"])
    expected = hidden @ weights["image.1.weight"] + weights["image.1.bias"]
    torch.testing.assert_close(heads.project(0, "image", vectors)[0].detach(), expected)


def test_a_seed_that_does_not_learn_keeps_its_heads_and_a_checkpoint_restores_them(tmp_path: Path) -> None:
    heads = heads_of(tmp_path, 3, 4)
    before = [heads.parameters.arrays(row) for row in range(2)]
    vectors = torch.ones(2, 8, 6)

    loss = partial(squared_distance, heads, vectors)
    heads.step(loss, np.array([True, False]))
    assert not np.array_equal(heads.parameters.arrays(0)["image.0.weight"], before[0]["image.0.weight"])
    np.testing.assert_array_equal(heads.parameters.arrays(1)["image.0.weight"], before[1]["image.0.weight"])
    state = heads.state(0)
    heads.step(loss, np.array([True, False]))
    further = heads.parameters.arrays(0)
    heads.load_state(0, state)
    heads.step(loss, np.array([True, False]))
    np.testing.assert_array_equal(heads.parameters.arrays(0)["image.0.weight"], further["image.0.weight"])
