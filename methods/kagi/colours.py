"""Segmentation by colour for the hand-written segmenter: blocks, tray and bins, as an instruction names them.

It is made for the frames and instructions of bin sorting: a block is a saturated blob, the tray the largest brown
area, and a bin the largest grey area beside it. An instruction without a known colour or place is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.methods.kagi.keypoints import SPECK

HUES: Mapping[str, tuple[float, float]] = {
    "red": (320, 15), "orange": (15, 42), "yellow": (42, 92), "green": (92, 178), "blue": (178, 253),
    "purple": (253, 320),
}  # fmt: skip
"""Colour -> its range of hues, in degrees, from the first up to the second."""
BROWN = (10.0, 45.0)
VIVID = 0.55
"""Least saturation of a block; tray, arm and floor have at most .5 (measured on frames of bin sorting)."""
CHROMA = 0.2
"""Least difference between the channels of a block's pixel, of 1, which keeps dark floors out."""
GREY = 0.2
"""Largest saturation of a bin."""
DARK = 0.2
"""Least brightness of a bin and of the tray, of 1."""
BEYOND = 0.35
"""Part of the tray's half side beyond its middle from which a place counts as one of its sides."""
SIDES: Mapping[str, tuple[int, int]] = {"near": (0, 1), "far": (0, -1), "left": (1, -1), "right": (1, 1)}
"""Side of the tray -> axis of the view from above (rows or columns) and direction along it."""
PLACES = ("left bin", "right bin", "tray", *(f"{side} side" for side in SIDES))


def colour_in(text: str) -> str:
    """Return the first known colour that a text names; raise UserError if it names none."""
    match = re.search(rf"\b({'|'.join(HUES)})\b", text.casefold())
    if match is None:
        raise UserError(
            f"the instruction {text[:200]!r} names no colour that the hand-written segmenter knows "
            f"({', '.join(HUES)}); choose segmenter=transformers, or a suite whose things have colours"
        )
    return match[1]


def place_in(text: str) -> str:
    """Return the last known place that a text names, where a thing is to be; raise UserError if it names none.

    >>> place_in("take the red block out of the left bin and put it on the tray")
    'tray'
    >>> place_in("move the orange block to the far side of the tray")
    'far side'
    """
    plain = re.sub(r"\bside of the tray\b", "side", text.casefold())
    names: list[str] = re.findall(rf"\b({'|'.join(PLACES)})\b", plain)
    if not names:
        raise UserError(
            f"the instruction {text[:200]!r} names no place that the hand-written segmenter knows "
            f"({', '.join(PLACES)}); choose segmenter=transformers"
        )
    return names[-1]


class Pixels(NamedTuple):
    """An image's colours, float64 [height, width] each."""

    hue: Array  # degrees, [0, 360)
    saturation: Array  # [0, 1]
    chroma: Array  # difference of the largest and the least channel, [0, 1]
    value: Array  # [0, 1]


def look(image: Array) -> Pixels:
    """Return the colours of an image uint8 [height, width, 3]."""
    red, green, blue = np.moveaxis(np.asarray(image, np.float64) / 255, -1, 0)
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    scale = np.where(chroma > 0, chroma, 1.0)
    of_red, of_green = ((green - blue) / scale) % 6, (blue - red) / scale + 2
    sixths = np.select([value == red, value == green], [of_red, of_green], (red - green) / scale + 4)
    saturation = np.divide(chroma, value, out=np.zeros_like(value), where=value > 0)
    return Pixels(np.where(chroma > 0, 60 * sixths, 0.0), saturation, chroma, value)


def block(pixels: Pixels, colour: str) -> Array | None:
    """Return the mask, bool [height, width], of the block of a colour; None where it cannot be seen."""
    hue, saturation, chroma, _ = pixels
    return blob((saturation >= VIVID) & (chroma >= CHROMA) & _between(hue, *HUES[colour]))


def blocks(pixels: Pixels) -> dict[str, Array]:
    """Return colour -> mask, bool [height, width], of the blocks that can be seen."""
    return {colour: mask for colour in HUES if (mask := block(pixels, colour)) is not None}


def places(pixels: Pixels) -> dict[str, Array]:
    """Return place -> mask, bool [height, width], of the places of `PLACES` that a view from above shows; none where it
    shows no tray."""
    hue, saturation, _, value = pixels
    tray = blob((saturation > GREY) & (saturation < VIVID) & (value > DARK) & _between(hue, *BROWN))
    if tray is None:
        return {}
    rows, columns = np.nonzero(tray)
    low, high = np.array([rows.min(), columns.min()]), np.array([rows.max(), columns.max()]) + 1
    middle, half = (low + high) / 2, (high - low) / 2
    row, column = np.indices(tray.shape)
    masks = {"tray": tray}
    for side, (axis, direction) in SIDES.items():
        along = ((row, column)[axis] + 0.5 - middle[axis]) * direction
        masks[f"{side} side"] = tray & (along > BEYOND * half[axis])
    grey = (saturation < GREY) & (value > DARK) & (row >= low[0]) & (row < high[0])
    beside = {"left bin": grey & (column < low[1]), "right bin": grey & (column >= high[1])}
    return masks | {name: mask for name, near in beside.items() if (mask := blob(near)) is not None}


def blob(mask: Array) -> Array | None:
    """Return the largest connected part of a mask, bool [height, width]; None if it is smaller than `SPECK`."""
    from scipy import ndimage

    parts, number = ndimage.label(mask)
    if not number:
        return None
    sizes = np.bincount(parts.ravel())[1:]
    largest: Array = parts == 1 + sizes.argmax()
    return largest if sizes.max() >= max(SPECK * mask.size, 1) else None


def _between(hue: Array, begin: float, end: float) -> Array:
    inside: Array = (hue >= begin) & (hue < end) if begin < end else (hue >= begin) | (hue < end)
    return inside
