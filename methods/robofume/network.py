"""The network of the trained classifier: P(success) of a frame, given the words of the prompt."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from guidebench.harness.interfaces import Array

SIZE = 64
"""Pixels along the side of a view after resizing for the network."""


class SuccessNetwork(nn.Module):
    """Finds colours that the prompt's words select, and whether these are at the place that the words name.

    The words give each view filters of single pixels, whose maps are averaged over squares of 4 pixels and joined with
    those of a convolution that does not depend on the words. A second convolution and two layers follow; the words
    scale and shift the features between them.
    """

    def __init__(self, views: int, words: int, filters: int = 6, channels: int = 16, features: int = 64) -> None:
        super().__init__()
        self.views, self.filters = views, filters
        self.colours = nn.Linear(words, views * filters * 4)
        self.shapes = nn.Conv2d(3 * views, channels, 5, 4, 2)
        self.second = nn.Conv2d(views * filters + channels, 32, 3, 2, 1)
        self.joined = nn.Linear(32 * (SIZE // 8) ** 2, features)
        self.chosen = nn.Linear(words, 2 * features)
        self.last = nn.Linear(features, 1)

    def forward(self, frames: Tensor, words: Tensor) -> Tensor:
        """Return the logits [n] of P(success) for frames [n, 3 views, SIZE, SIZE] and words [n, words]."""
        pixels = frames.view(len(frames), self.views, 3, SIZE * SIZE)
        chosen = self.colours(words).view(len(frames), self.views, self.filters, 4)
        coloured = functional.relu(chosen[..., :3] @ pixels + chosen[..., 3:])
        maps = functional.avg_pool2d(coloured.view(len(frames), -1, SIZE, SIZE), 4)
        inputs = torch.cat([8 * maps, functional.relu(self.shapes(frames))], 1)
        features = self.joined(functional.relu(self.second(inputs)).flatten(1))
        scale, shift = self.chosen(words).chunk(2, 1)
        logits: Tensor = self.last(functional.relu(features * (1 + scale) + shift)).squeeze(1)
        return logits


def views_of(frame: Array) -> int:
    """Return how many square views lie side by side in a frame [height, width, 3]."""
    return max(1, round(int(frame.shape[1]) / int(frame.shape[0])))


def prepared(frames: Array) -> Tensor:
    """Return frames uint8 [n, height, width, 3] as the network's input, float32 [n, 3 views, SIZE, SIZE] in [-1, 1]:
    each view resized by averaging, and the views stacked as channels."""
    count = views_of(frames[0])
    pixels = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float()
    views = pixels.tensor_split(count, 3)
    sized = [functional.interpolate(view, (SIZE, SIZE), mode="bilinear", antialias=True) for view in views]
    return torch.cat(sized, 1) / 127.5 - 1
