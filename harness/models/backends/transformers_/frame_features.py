"""Encode equal frames once: a vision tower's features of a frame depend on no other frame.

Clips in which the agent stands still or bumps into walls repeat frames, and so do padded clips; the language model
still reads every frame. The tower reads the frames in parts of one size, so that a frame's features do not depend on
how many frames of a batch differ. Two families are supported, recognised by the shape of their pixels: separate frames
(Perception-LM, SmolVLM), and patches with a grid of time, height and width whose tower attends within one time
(Qwen2.5-VL, and Qwen3-VL, whose tower also gives features for the first layers of the language model).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from guidebench.harness.interfaces import Array

AT_A_TIME = 32
"""Frames per batch of the vision tower, or pairs of frames of Qwen's videos. Of fewer a small tower is slower by a few
percent; of more a large one computes more that only fills up (choice)."""


class Features(NamedTuple):
    """Replacement for a vision tower's output."""

    pooler_output: Any
    deepstack_features: Any = None
    """Features that are added to those of the first layers of the language model, one entry for each layer."""


def with_frame_features(model: Any, inputs: Mapping[str, Any], clips: Sequence[Array]) -> dict[str, Any]:
    """Return the inputs with features instead of pixels; unchanged for an unknown family."""
    model_inputs = dict(inputs)
    kind = "video" if "pixel_values_videos" in inputs else "image"
    pixels = model_inputs.get("pixel_values_videos" if kind == "video" else "pixel_values")
    if pixels is None or "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
        return model_inputs
    grid = model_inputs.get(f"{kind}_grid_thw")
    if grid is not None and pixels.ndim == 2:
        features = _of_patches(model.model, kind, pixels, grid, clips)
    elif pixels.ndim == 5:
        features = Features(_of_frames(model.model, pixels, clips))
    else:
        return model_inputs
    del model_inputs["pixel_values_videos" if kind == "video" else "pixel_values"]
    return model_inputs | {"mm_encoder_outputs": {kind: features}}


def _of_frames(body: Any, pixels: torch.Tensor, clips: Sequence[Array]) -> torch.Tensor:
    """Encode pixels [frames, tiles, 3, h, w] or [clips, frames of a clip · tiles, 3, h, w] as [frames · tiles, tokens,
    features]."""
    first, group_of = distinct(clips, 1)
    tiled: torch.Tensor = pixels.flatten(0, 1).unflatten(0, (len(group_of), -1))  # type: ignore[no-untyped-call]
    features = []
    for part in parts(first, clips, 1):
        output = body.get_image_features(pixel_values=tiled[part]).pooler_output
        joined = output if isinstance(output, torch.Tensor) else torch.cat([*output])
        features.append(joined.reshape(len(part), tiled.shape[1], -1, joined.shape[-1]))
    return torch.cat(features)[group_of].flatten(0, 1)


def _of_patches(body: Any, kind: str, pixels: torch.Tensor, grid: torch.Tensor, clips: Sequence[Array]) -> Features:
    """Encode patches [clips · times · height · width, d] with a grid [n, 3] of equal rows as concatenated features."""
    _, height, width = grid[0].tolist()
    times = int(grid[:, 0].sum()) // len(clips)
    together = -(-len(clips[0]) // times)
    first, group_of = distinct(clips, together)
    units = pixels.reshape(len(clips) * times, height * width, -1)
    encoded: list[list[torch.Tensor]] = []
    for part in parts(first, clips, together):
        if kind == "video":
            shape = grid.new_tensor([[len(part), height, width]])
            output = body.get_video_features(units[part].flatten(0, 1), video_grid_thw=shape)
        else:
            shape = grid.new_tensor([[1, height, width]]).expand(len(part), 3)
            output = body.get_image_features(units[part].flatten(0, 1), image_grid_thw=shape)
        layers = [output.pooler_output, *(getattr(output, "deepstack_features", None) or ())]
        joined = [torch.cat(list(layer)) for layer in layers]
        encoded.append([features.reshape(len(part), -1, features.shape[-1]) for features in joined])
    pooled, *deeper = ((torch.cat(layer)[group_of].flatten(0, 1),) for layer in zip(*encoded, strict=True))
    return Features(pooled, deeper)


def parts(positions: Sequence[int], clips: Sequence[Array], together: int) -> list[list[int]]:
    """Return positions of groups of `together` frames in parts of AT_A_TIME, or of fewer if the clips have fewer. The
    last part is filled up with its last position, except for a clip that is computed alone, since the number of its
    groups follows from the clip.

    >>> clip = np.zeros((2, 1))
    >>> parts([0, 3, 5], [clip] * 4, 1), parts([0], [clip], 1)
    ([[0, 3, 5, 5, 5, 5, 5, 5]], [[0]])
    """
    size = min(AT_A_TIME, len(clips) * -(-len(clips[0]) // together))
    split = [[*positions[begin : begin + size]] for begin in range(0, len(positions), size)]
    if len(clips) > 1:
        split[-1] += [split[-1][-1]] * (size - len(split[-1]))
    return split


def distinct(clips: Sequence[Array], together: int) -> tuple[list[int], list[int]]:
    """Return the first position of each distinct group of `together` consecutive frames, and each group's index among
    them.

    >>> distinct([np.array([[7], [7], [8]]), np.array([[8], [9], [7]])], 1)
    ([0, 2, 4], [0, 0, 1, 1, 2, 0])
    """
    indices: dict[bytes, int] = {}
    first: list[int] = []
    which: list[int] = []
    for clip in clips:
        for at in range(0, len(clip), together):
            stretch = clip[at : at + together].tobytes()
            if stretch not in indices:
                indices[stretch] = len(first)
                first.append(len(which))
            which.append(indices[stretch])
    return first, which
