"""Rewards of frames: pixels by hand, the same as PyTorch's own modules, every seed for itself."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from guidebench.baselines.preference.reward_inputs import LAST, LAYERS, ConvNet, area_mean
from guidebench.baselines.preference.rewards import Preferences, RewardEnsemble
from guidebench.harness.interfaces import Array
from tests.baselines.learners.continuous import build

SIZE = 47
"""The smallest that the convolutions leave a pixel of."""


def ensemble(seeds: tuple[int, ...] = (0,), members: int = 2, size: int = SIZE) -> RewardEnsemble:
    return RewardEnsemble(build(seeds), ConvNet(size), members, 1e-3, 4, 0.0)


def frames(seed: int, *shape: int, size: int = SIZE) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (*shape, size, size, 3)).astype(np.uint8)


def preferences(seed: int, count: int) -> Preferences:
    """Of two frames the brighter one is preferred; of noise, but for that."""
    pairs = frames(seed, count, 2, 1) // 2
    bright = np.random.default_rng(seed).integers(0, 2, count)
    pairs[np.arange(count), bright] += 100
    made = Preferences(1, SIZE, SIZE, 3, dtype="uint8")
    made.add([*pairs], [*bright.astype(float)])
    return made


def train(made: RewardEnsemble, sets: list[Preferences], seeds: tuple[int, ...], epochs: int = 2) -> Any:
    return made.train(sets, np.ones(len(sets), bool), [np.random.default_rng(50 + s) for s in seeds], epochs, 1.0)


def modules(made: RewardEnsemble, row: int, member: int) -> nn.Module:
    """One network of the ensemble in PyTorch's own modules."""
    layers, into = [], 3
    for out, kernel, stride in LAYERS:
        layers += [nn.Conv2d(into, out, kernel, stride), nn.ReLU()]
        into = out
    network = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(1), nn.Tanh())
    network(torch.zeros(1, 3, SIZE, SIZE))
    own = {name: torch.tensor(value[member]) for name, value in made.parameters.arrays(row).items()}
    with torch.no_grad():
        for number, layer in enumerate(each for each in network if isinstance(each, (nn.Conv2d, nn.Linear))):
            layer.bias.copy_(own[f"reward.{number}.bias"])
            weight = own[f"reward.{number}.weight"]
            layer.weight.copy_(weight if weight.ndim == 4 else weight.T)
    return network


def channels_first(seen: Array) -> torch.Tensor:
    return torch.tensor(seen, dtype=torch.float32).movedim(-1, -3) / 255


def test_a_reduced_pixel_is_the_mean_of_the_area_that_it_covers() -> None:
    frame = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1).repeat(3, 3)
    # (0 + 1 + 4 + 5)/4 = 2.5, halves go up
    assert area_mean(frame, 2)[0, :, :, 0].tolist() == [[3, 5], [11, 13]]
    three = np.array([[[0, 30, 60], [90, 120, 150], [180, 210, 240]]], np.uint8)[..., None].repeat(3, 3)
    # of 3 x 3 the middle line and column lie on the edge of 2 x 2 and count to the left and above:
    # (0 + 30 + 90 + 120)/4, (60 + 150)/2, (180 + 210)/2
    assert area_mean(three, 2)[0, :, :, 2].tolist() == [[60, 105], [195, 240]]
    wide = np.array([[[10, 20, 30, 40]]], np.uint8)[..., None].repeat(3, 3)
    assert area_mean(wide, 2)[0, :, :, 1].tolist() == [[15, 35], [15, 35]]
    assert area_mean(frame, 4) is frame and area_mean(frame, 2).dtype == np.uint8


def test_a_frame_of_a_whole_multiple_is_at_most_one_level_from_the_exact_mean() -> None:
    frame = frames(0, 1, size=256)
    exact = frame.reshape(1, 64, 4, 64, 4, 3).mean((2, 4))
    off = np.abs(area_mean(frame, 64) - exact)
    assert off.max() < 1.01 and (off > 0.5).mean() < 0.5  # lines are rounded, then their means


def test_every_frame_is_reduced_for_itself() -> None:
    many = frames(0, 5, size=100)
    assert np.array_equal(area_mean(many, 64), np.concatenate([area_mean(each[None], 64) for each in many]))


def test_a_reward_of_frames_is_that_of_pytorchs_modules_and_of_its_members_in_the_mean() -> None:
    made, seen = ensemble((0, 1), members=3), frames(1, 2, 4)
    train(made, [preferences(0, 6), preferences(1, 6)], (0, 1))  # away from where all rewards are alike
    with torch.no_grad():
        alone = np.stack([
            [modules(made, row, n)(channels_first(seen[row])).numpy()[:, 0] for n in range(3)] for row in range(2)
        ])  # fmt: skip
    assert alone.std() > 1e-3
    assert made.reward(seen) == pytest.approx(alone.mean(1), abs=1e-6)
    assert made.reward_of(seen[:, 0], np.arange(2)) == pytest.approx(alone[:, :, 0].mean(1), abs=1e-6)
    pairs = seen[1].reshape(2, 2, 1, SIZE, SIZE, 3)
    assert made.returns(1, pairs) == pytest.approx(alone[1].reshape(3, 2, 2), abs=1e-6)


def test_networks_begin_as_the_papers_code_has_them() -> None:
    arrays = ensemble().parameters.arrays(0)
    assert abs(arrays["reward.4.weight"]).max() <= LAST and abs(arrays["reward.4.bias"]).max() <= LAST
    for layer, fan_in in enumerate((75, 144, 288, 576)):
        assert not arrays[f"reward.{layer}.bias"].any()
        assert 0.9 / np.sqrt(fan_in) < abs(arrays[f"reward.{layer}.weight"]).max() <= 1 / np.sqrt(fan_in)


def test_pairs_of_frames_are_kept_as_they_are_and_restored() -> None:
    data, kept = preferences(0, 3), Preferences(1, SIZE, SIZE, 3, dtype="uint8")
    assert data.pairs.dtype == np.uint8 and data.pairs.shape == (3, 2, 1, SIZE, SIZE, 3)
    kept.load_state(data.state())
    assert np.array_equal(kept.pairs, data.pairs) and np.array_equal(kept.labels, data.labels)


def test_a_reward_of_frames_learns_what_is_preferred() -> None:
    made = ensemble()
    fit = train(made, [preferences(0, 40)], (0,), epochs=8)
    unseen = preferences(1, 30)
    more = np.diff(made.returns(0, unseen.pairs).mean(0), axis=1)[:, 0]
    assert fit.accuracy[0] > 0.9 and np.mean((more > 0) == unseen.labels) > 0.9


@pytest.mark.parametrize("size", [10, 46])
def test_frames_too_small_for_the_convolutions_are_refused(size: int) -> None:
    with pytest.raises(AssertionError, match="smaller than what the convolutions look at"):
        ConvNet(size)
