"""Inputs of a learnt reward: the state in which an action was taken, or a frame of the state after it.

A task's snapshot of a transition shows the state after the step (as RL-VLM-F's code draws it). So a reward of frames
rates the state that a step led to, in pairs and in stored transitions alike, and a teacher that is shown this state
labels the same frames that the reward is trained on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from guidebench.baselines.networks import MLP, Network, ToOne, linear_specs
from guidebench.baselines.parameters import Spec
from guidebench.harness.interfaces import Array, Build, Coordinates, Drawer, Transition, TransitionColumn

LAYERS = ((16, 5, 3), (32, 3, 2), (64, 3, 2), (128, 3, 2))
"""Channels, kernel and stride of the convolutions (RL-VLM-F's code)."""
LAST = 1e-3
"""Bound of the last layer's uniform initialisation (RL-VLM-F's code)."""


class RewardInput(Protocol):
    """The input of a reward."""

    column: str
    """Column of the store that holds it."""
    shape: tuple[int, ...]
    dtype: str
    network: Network
    """The network [S, B, *shape] -> [S, B, 1], before the tanh."""
    chunk: int
    """Number of transitions relabelled at once."""
    extra_columns: tuple[TransitionColumn, ...]
    """Columns stored for it in addition to the transitions."""
    wants_snapshots: bool

    def of(self, transition: Transition) -> Array:
        """Return a transition's input, [S, *shape]."""


class States:
    """The state in which each action was taken, read by layers with LeakyReLU between them (RL-SaLLM-F, app. A.2)."""

    column, dtype, wants_snapshots = "observation", "float32", False
    extra_columns: tuple[TransitionColumn, ...] = ()

    def __init__(self, build: Build, hidden: Sequence[int]) -> None:
        self.shape = build.observations.shape
        self.network: Network = MLP(self.shape[0], hidden, 1, "reward", activation=F.leaky_relu_)
        # on a CPU few enough that activations stay in its cache
        self.chunk = 256 if build.device == "cpu" else 65_536

    def of(self, transition: Transition) -> Array:
        return transition.observation


class NamedCoordinates(States):
    """The entries of that state that the suite's coordinates name, each once (RL-SaLLM-F's code, in its mazes)."""

    def __init__(self, build: Build, hidden: Sequence[int]) -> None:
        super().__init__(build, hidden)
        self.network = EntrySubset(entries(build.parts["suite"].coordinates(build.task)), hidden)


def entries(things: Sequence[Coordinates]) -> tuple[int, ...]:
    """Return the observation entries of all present positions, in ascending order."""
    return tuple(sorted({entry for thing in things for entry in thing.entries}))


class EntrySubset:
    """Layers with LeakyReLU between them that read only some entries of their inputs: [S, B, D] -> [S, B, 1]."""

    def __init__(self, chosen: Sequence[int], hidden: Sequence[int]) -> None:
        self._chosen = torch.tensor(chosen)
        self._layers = MLP(len(chosen), hidden, 1, "reward", activation=F.leaky_relu_)

    def specs(self) -> dict[str, Spec]:
        return self._layers.specs()

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        return self._layers(parameters, inputs.index_select(2, self._chosen.to(inputs.device)))


class Frames:
    """A frame of the state after each step, reduced to `size` x `size` pixels and stored, read by convolutions."""

    column, dtype, wants_snapshots = "frame", "uint8", True

    def __init__(self, build: Build, size: int) -> None:
        self.shape: tuple[int, ...] = (size, size, 3)
        self.extra_columns: tuple[TransitionColumn, ...] = (
            TransitionColumn(self.column, "fixed", self.shape, self.dtype, batched=False),
        )
        self.network: Network = ConvNet(size)
        self.chunk = 64 if build.device == "cpu" else 1_024
        self._build = build

    @functools.cached_property
    def _draw(self) -> Drawer:
        """The drawer, created when the first frame is drawn; acting alone needs none."""
        drawer: Drawer = self._build.parts["drawing"].spawn(self._build.task)
        return drawer

    def of(self, transition: Transition) -> Array:
        assert transition.snapshot is not None, "snapshots were wanted"
        return area_mean(self._draw(transition.snapshot), self.shape[0])


REWARD_INPUTS: Mapping[str, Callable[[Any, Build], RewardInput]] = {
    "state": lambda config, build: States(build, config.hidden),
    "coordinates": lambda config, build: NamedCoordinates(build, config.hidden),
    "frame": lambda config, build: Frames(build, config.frame_size),
}
"""Inputs by name, from a guide's configuration."""


def area_mean(frames: Array, size: int) -> Array:
    """Reduce frames uint8 [n, height, width, 3] to uint8 [n, size, size, 3]: a pixel is the mean of the pixels whose
    centres lie in its area. This is Pillow's box filter, which rounds the means along lines first."""
    if frames.shape[1:3] == (size, size):
        return frames
    return np.stack([
        np.asarray(Image.fromarray(frame).resize((size, size), Image.Resampling.BOX)) for frame in frames
    ])  # fmt: skip


class ConvNet:
    """Frames in [0, 255], [S, B, size, size, 3] -> [S, B, 1]: convolutions without padding and ReLU, one linear layer
    (RL-VLM-F's code). Convolutions start uniform in ±1/sqrt(fan in), with biases of 0."""

    def __init__(self, size: int) -> None:
        self.side = size
        for _, kernel, stride in LAYERS:
            self.side = (self.side - kernel) // stride + 1
        assert self.side > 0, "frames are smaller than what the convolutions look at"

    def specs(self) -> dict[str, Spec]:
        specs, into = {}, 3
        for layer, (out, kernel, _) in enumerate(LAYERS):
            scale = 1 / math.sqrt(into * kernel * kernel)
            specs[f"reward.{layer}.weight"] = Spec((out, into, kernel, kernel), "uniform", scale)
            specs[f"reward.{layer}.bias"] = Spec((out,), "constant", 0.0)
            into = out
        last = linear_specs(f"reward.{len(LAYERS)}", into * self.side**2, 1)
        return specs | {name: spec._replace(scale=LAST) for name, spec in last.items()}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        networks, batch = inputs.shape[:2]
        # one group of channels per network
        x = (inputs.to(torch.float32) / 255).permute(1, 0, 4, 2, 3).flatten(1, 2)
        for layer, (_, _, stride) in enumerate(LAYERS):
            weight, bias = parameters[f"reward.{layer}.weight"], parameters[f"reward.{layer}.bias"]
            x = F.conv2d(x, weight.flatten(0, 1), bias.flatten(), stride, groups=networks).relu_()
        features = x.reshape(batch, networks, -1).transpose(0, 1)
        last = f"reward.{len(LAYERS)}"
        found: Tensor = ToOne.apply(features, parameters[f"{last}.weight"], parameters[f"{last}.bias"])
        return found
