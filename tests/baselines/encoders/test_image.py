"""The encoder of images beside the same layers of PyTorch."""

import numpy as np
import pytest
import torch

from guidebench.baselines.encoders import Image, Sizes
from guidebench.baselines.encoders.image.network import ImageEncoder
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Observations
from tests.baselines.builds import initialised


def pixels(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8))


def in_modules(encoder: ImageEncoder, arrays: dict[str, np.ndarray]) -> torch.nn.Sequential:
    """One seed's encoder as one writes it with `torch.nn`; it takes uint8 [B, H, W, C]."""
    height, width, channels = encoder.shape
    modules: list[torch.nn.Module] = []
    for number, layer in enumerate(encoder.layers):
        convolution = torch.nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride)
        weight = torch.from_numpy(arrays[f"encoder.conv{number}.weight"])
        convolution.weight.data = weight.permute(0, 3, 1, 2).contiguous()
        convolution.bias.data = torch.from_numpy(arrays[f"encoder.conv{number}.bias"])
        modules += [convolution, torch.nn.ReLU()]
        channels = layer.channels
    high, wide = torch.nn.Sequential(*modules)(torch.zeros(1, encoder.shape[2], height, width)).shape[2:]
    linear = torch.nn.Linear(high * wide * channels, encoder.features)
    # its inputs come channels first, ours last
    weight = torch.from_numpy(arrays["encoder.linear.weight"]).view(high, wide, channels, encoder.features)
    linear.weight.data = weight.permute(3, 2, 0, 1).reshape(encoder.features, -1).contiguous()
    linear.bias.data = torch.from_numpy(arrays["encoder.linear.bias"])
    return torch.nn.Sequential(
        *modules, torch.nn.Flatten(), linear, torch.nn.LayerNorm(encoder.features), torch.nn.ReLU()
    )


@pytest.mark.parametrize("shape", [(36, 40, 3), (84, 84, 2), (15, 21, 4), (7, 7, 3)])
@pytest.mark.parametrize("together", [False, True])
def test_features_and_gradients_are_those_of_torch_modules(shape: tuple[int, int, int], together: bool) -> None:
    encoder = ImageEncoder(Observations(shape, "uint8"), 6)
    parameters, x = initialised(encoder, 2, together=together), pixels(2, 3, *shape)
    outputs = [encoder(block.views, x[block.rows]) for block in parameters.blocks]
    losses = [(features * torch.arange(6)).sum((1, 2)) for features in outputs]
    gradient = parameters.empty_like()
    parameters.gradient(losses, gradient)
    for row in range(2):
        modules = in_modules(encoder, parameters.arrays(row))
        features = modules(x[row].permute(0, 3, 1, 2) / 255)
        torch.testing.assert_close(torch.cat(outputs)[row], features, atol=1e-4, rtol=1e-4)
        (features * torch.arange(6)).sum().backward()
        gradients = gradient.arrays(row)
        expected = modules[0].weight.grad.permute(0, 2, 3, 1).numpy()  # type: ignore[union-attr,operator]
        np.testing.assert_allclose(gradients["encoder.conv0.weight"], expected, atol=2e-4, rtol=1e-3)
        np.testing.assert_allclose(gradients["encoder.scale"], modules[-2].weight.grad.numpy(), atol=2e-4, rtol=1e-3)


def test_a_white_image_of_one_place_by_hand() -> None:
    """7×7 white pixels, each kernel's centre passed on times 2: 1 -> 2 -> 4 -> 8; linear (1, 3)·8 = (8, 24), whose
    normalised values are (−1, 1); scale 2, shift (1, 1): relu (−1, 3) = (0, 3)."""
    encoder = ImageEncoder(Observations((7, 7, 1), "uint8"), 2)
    arrays = {name: np.zeros(spec.shape, np.float32) for name, spec in encoder.specs().items()}
    for number in range(3):
        arrays[f"encoder.conv{number}.weight"][0, 1, 1, 0] = 2
    arrays["encoder.linear.weight"][0] = [1, 3]
    arrays["encoder.scale"][:], arrays["encoder.shift"][:] = 2, 1
    parameters = Parameters(encoder.specs(), 1)
    parameters.load(0, arrays)
    output = encoder(parameters.blocks[0].views, torch.full((1, 1, 7, 7, 1), 255, dtype=torch.uint8))
    np.testing.assert_allclose(output.detach().numpy(), [[[0, 3]]], atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "dtype", "read"),
    [
        ((7, 64, 3), "uint8", True),
        ((6, 64, 3), "uint8", False),
        ((64, 64), "uint8", False),
        ((9, 9, 3), "int16", False),
    ],
)
def test_images_of_bytes_and_seven_pixels_are_read(shape: tuple[int, ...], dtype: str, read: bool) -> None:
    assert Image().reads(Observations(shape, dtype)) == read


@pytest.mark.parametrize("side", [*range(7, 40), 84])
def test_every_side_has_convolutions_that_fit(side: int) -> None:
    space = Observations((side, side + 3, 1), "uint8")
    specs = ImageEncoder(space, 4).specs()
    assert all(min(spec.shape) >= 1 for spec in specs.values())
    assert Image().network(space, Sizes(8, 4), "encoder").specs() == specs
