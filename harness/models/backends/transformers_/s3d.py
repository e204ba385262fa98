"""S3D, the encoder of videos and texts learnt from HowTo100M, which the transformers library lacks.

The architecture is Xie et al.'s gated separable 3D network (2018) as Miech et al. (2020) train it, with their text
tower. Names of modules and parameters are those of the published checkpoint, which `bench models convert` turns into
the file that is read here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.embedding import Vector
from guidebench.harness.models.backends.transformers_.single_files import read
from guidebench.harness.models.convert import WORDS

SIDE = 250
"""Pixels along each edge of the frames that the network sees (RoboCLIP, released code: a crop of 250 pixels)."""
LONGEST = 16
"""Words of a text that count (Miech et al., released code)."""
WIDTHS: Mapping[str, tuple[int, int, int, int, int, int]] = {
    "3b": (64, 96, 128, 16, 32, 32),
    "3c": (128, 128, 192, 32, 96, 64),
    "4b": (192, 96, 208, 16, 48, 64),
    "4c": (160, 112, 224, 24, 64, 64),
    "4d": (128, 128, 256, 24, 64, 64),
    "4e": (112, 144, 288, 32, 64, 64),
    "4f": (256, 160, 320, 32, 128, 128),
    "5b": (256, 160, 320, 32, 128, 128),
    "5c": (384, 192, 384, 48, 128, 128),
}
"""Inception block -> channels of its branches: 0; 1, reduced and out; 2, reduced and out; 3 (Miech et al., released
code)."""
POOLS: Mapping[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "4b": ((3, 3, 3), (2, 2, 2)),
    "5b": ((2, 2, 2), (2, 2, 2)),
}
"""Inception block -> kernel and stride, over time, height and width, of the pooling before it."""
SPATIAL = ((1, 3, 3), (1, 2, 2))
"""Kernel and stride of the two poolings before the first inception block."""


class Convolution(nn.Module):
    """A convolution, batch norm and ReLU; a separable one is spatial, then temporal, each with its norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: tuple[int, int, int] = (1, 1, 1), separable: bool = False):
        super().__init__()
        depth, height, width = kernel
        first = (1, height, width) if separable else kernel
        around = (first[0] // 2, height // 2, width // 2)
        self.conv1 = nn.Conv3d(inputs, outputs, first, padding=around, bias=False)
        self.bn1 = nn.BatchNorm3d(outputs)
        self.separable = separable
        if separable:
            self.conv2 = nn.Conv3d(outputs, outputs, (depth, 1, 1), padding=(depth // 2, 0, 0), bias=False)
            self.bn2 = nn.BatchNorm3d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x))) if self.separable else x


class Gate(nn.Module):
    """Scales each channel by the sigmoid of a linear function of all channels' means (Xie et al.)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.fc(x.mean((2, 3, 4))))[:, :, None, None, None]


class Inception(nn.Module):
    """Four branches, each gated: 1 × 1; two separable 3 × 3 × 3 behind a reduction; 1 × 1 behind a pooling."""

    def __init__(self, inputs: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        b0, reduced1, b1, reduced2, b2, b3 = widths
        self.conv_b0 = Convolution(inputs, b0)
        self.conv_b1_a = Convolution(inputs, reduced1)
        self.conv_b1_b = Convolution(reduced1, b1, (3, 3, 3), separable=True)
        self.conv_b2_a = Convolution(inputs, reduced2)
        self.conv_b2_b = Convolution(reduced2, b2, (3, 3, 3), separable=True)
        self.conv_b3_b = Convolution(inputs, b3)
        self.gating_b0, self.gating_b1, self.gating_b2, self.gating_b3 = Gate(b0), Gate(b1), Gate(b2), Gate(b3)

    def forward(self, x: Tensor) -> Tensor:
        b0 = self.gating_b0(self.conv_b0(x))
        b1 = self.gating_b1(self.conv_b1_b(self.conv_b1_a(x)))
        b2 = self.gating_b2(self.conv_b2_b(self.conv_b2_a(x)))
        b3 = self.gating_b3(self.conv_b3_b(F.max_pool3d(x, 3, stride=1, padding=1)))
        return torch.cat((b0, b1, b2, b3), 1)


class Texts(nn.Module):
    """Words -> vectors of a lookup table -> linear, ReLU -> maximum over 16 places -> linear."""

    def __init__(self, words: int, word_width: int, hidden: int, width: int) -> None:
        super().__init__()
        self.word_embd = nn.Embedding(words, word_width)
        self.fc1 = nn.Linear(word_width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return vectors [n, d] of tokens int64 [n, 16]; places without a word hold token 0, which counts too."""
        vectors: Tensor = self.fc2(F.relu(self.fc1(self.word_embd(tokens))).amax(1))
        return vectors


class S3D(nn.Module):
    """Videos and texts -> vectors of one space; the vectors are not scaled to length 1."""

    def __init__(self, words: int, word_width: int = 300, hidden: int = 2048, width: int = 512) -> None:
        """`words`: rows of the table of words, one of them for no word; the defaults are the published sizes."""
        super().__init__()
        self.conv1 = Convolution(24, 64, (2, 4, 4))
        self.conv_2b = Convolution(64, 64)
        self.conv_2c = Convolution(64, 192, (3, 3, 3), separable=True)
        self.gating = Gate(192)
        inputs = 192
        for name, (b0, reduced1, b1, reduced2, b2, b3) in WIDTHS.items():
            setattr(self, f"mixed_{name}", Inception(inputs, (b0, reduced1, b1, reduced2, b2, b3)))
            inputs = b0 + b1 + b2 + b3
        self.fc = nn.Linear(inputs, width)
        self.text_module = Texts(words, word_width, hidden, width)

    def forward(self, video: Tensor) -> Tensor:
        """Return vectors [n, d] of videos [n, 3, frames, height, width] in [0, 1]; all three lengths are even."""
        x = self.conv1(blocks(video))[:, :, 1:, 1:, 1:]  # TensorFlow pads such a kernel only behind
        x = self.conv_2c(self.conv_2b(pooled(x, *SPATIAL)))
        x = pooled(self.gating(x), *SPATIAL)
        for name in WIDTHS:
            x = getattr(self, f"mixed_{name}")(pooled(x, *POOLS[name]) if name in POOLS else x)
        vectors: Tensor = self.fc(x.mean((2, 3, 4)))
        return vectors


def blocks(video: Tensor) -> Tensor:
    """Return [n, 24, frames / 2, height / 2, width / 2] of a video [n, 3, frames, height, width]. Each block of
    2 × 2 × 2 pixels becomes one, whose channels are ordered by time, row, column and colour."""
    n, colours, time, height, width = video.shape
    cut = video.reshape(n, colours, time // 2, 2, height // 2, 2, width // 2, 2)
    return cut.permute(0, 3, 5, 7, 1, 2, 4, 6).reshape(n, 8 * colours, time // 2, height // 2, width // 2)


def pooled(x: Tensor, kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> Tensor:
    """Return the maximum pooling of x, padded with zeros by kernel - stride along each axis, more of them behind, as
    TensorFlow's "SAME" pads an even length."""
    missing = [size - step for size, step in zip(kernel, stride, strict=True)]
    padding = [side for total in reversed(missing) for side in (total // 2, total - total // 2)]
    return F.max_pool3d(F.pad(x, padding), kernel, stride, ceil_mode=True)


class S3DEmbedding:
    """Embeds texts and videos with a converted S3D; vectors are not scaled to length 1."""

    def __init__(self, file: str, dtype: str, device: torch.device) -> None:
        """Load the file; raise UserError if it is no S3D with its word list."""
        weights = dict(read(file).tensors)
        listed = weights.pop(WORDS, None)
        if listed is None:
            raise UserError(f"{file} has no word list; convert the checkpoint again, with --words s3d_dict.npy")
        words = bytes(listed.numpy()).decode("utf-8").split("\n")
        self._tokens = {word: number for number, word in enumerate(words, start=1)}
        try:
            table, fc1, fc2 = (weights[f"text_module.{name}.weight"] for name in ("word_embd", "fc1", "fc2"))
            with torch.device("meta"):  # the shapes of a few weights may describe a network that is much larger
                model = S3D(len(table), table.shape[1], len(fc1), len(fc2)).eval().requires_grad_(False)
            model.load_state_dict(weights, assign=True)
        except (KeyError, RuntimeError) as error:
            raise UserError(f"{file} is no S3D: {' '.join(str(error).split())[:200]}") from None
        if len(words) >= len(table):
            raise UserError(f"{file} lists {len(words):,} words, and its table has room for {len(table) - 1:,}")
        self.device, self._dtype = device, getattr(torch, dtype)
        self._model = model.to(device, self._dtype)

    def kind(self, item: str | Array) -> Hashable:
        return "embed", isinstance(item, str), *(() if isinstance(item, str) else item.shape)

    def __call__(self, items: Sequence[Any]) -> list[Vector]:
        if isinstance(items[0], str):
            tokens = torch.stack([self.tokens(text) for text in items])
            vectors, counts = self._model.text_module(tokens.to(self.device)), (tokens > 0).sum(1).tolist()
        elif items[0].ndim == 4:
            videos = torch.stack([self.video(frames) for frames in items])
            vectors, counts = self._model(videos.to(self.device, self._dtype)), [0] * len(items)
        else:
            raise UserError("S3D turns videos and texts into vectors, not single images; choose a model such as CLIP")
        values = vectors.float().cpu().numpy()
        return [Vector(value, int(count)) for value, count in zip(values, counts, strict=True)]

    def tokens(self, text: str) -> Tensor:
        """Return the tokens of a text's first 16 known words, int64 [16], and 0 for the places that are left."""
        tokens = [self._tokens[word] for word in re.findall(r"[\w']+", text.lower()) if word in self._tokens][:LONGEST]
        return torch.tensor(tokens + [0] * (LONGEST - len(tokens)))

    @staticmethod
    def video(frames: Array) -> Tensor:
        """Return a video [3, n, 250, 250] in [0, 1] of frames uint8 [n, height, width, 3]; the last of an odd number of
        frames is shown twice (choice)."""
        if len(frames) % 2:
            frames = np.concatenate([frames, frames[-1:]])
        pixels = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255
        if pixels.shape[2:] != (SIDE, SIDE):
            pixels = F.interpolate(pixels, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
        return pixels.permute(1, 0, 2, 3)
