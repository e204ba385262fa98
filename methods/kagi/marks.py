"""The annotated images of a prompt: the view from above with a labelled grid and candidate points, and the view from
the side with labelled lines (KAGI, §III-B and fig. 3).

Names of columns, rows and lines stand in a margin at the top and at the left, so they hide nothing. Lines are one pixel
wide, in dashes of two tones that are seen on light and dark ground. Text is not smoothed, so every pixel that is drawn
has one of a few exact colours (`drawn_over`), and each point has a colour of its own, one level of 255 from the next
one's: hand-written readers tell the points apart by it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from guidebench.harness.interfaces import Array
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.questions import POINTS, Candidates

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]
SMALLEST, ENLARGED = 200, 400
"""Views with fewer pixels along a side than the first are enlarged by the smallest whole number that gives at least the
second (choice: labels are legible at 200 pixels and clear at 400)."""
MARGIN = 20
"""A margin is this fraction of a view's side (choice: a view of 400 pixels becomes one of 420, a multiple of the 28
pixels that a token of Qwen2.5-VL covers)."""
TEAL: Colour = (0, 150, 131)
"""Colour of the grasp candidate P1; P2's is one more in its last number, and so on (KAGI, fig. 3: teal)."""
BLUE: Colour = (30, 90, 241)
"""Colour of the target candidate Q1 (KAGI, fig. 3: blue)."""
TAGS: tuple[Colour, Colour] = ((0, 98, 87), (20, 52, 166))
"""Ground of the labels of both kinds of points."""
LINKS: tuple[Colour, Colour] = ((0, 186, 160), (72, 132, 254))
"""Colours of the lines from points to labels."""
LIGHT, DARK, PAPER, INK = (239, 239, 239), (41, 41, 41), (254, 254, 254), (21, 21, 21)
"""The two tones of lines, and the margin's ground and text."""


def enlarged(view: Array) -> Array:
    """Return a view uint8 [size, size, 3] with enough pixels for labels: itself from `SMALLEST` pixels on."""
    size = len(view)
    if size >= SMALLEST:
        return view
    side = size * -(-ENLARGED // size)
    return np.asarray(Image.fromarray(view).resize((side, side), Image.Resampling.BICUBIC))


def from_above(view: Array, grid: Grid, candidates: Candidates) -> Array:
    """Return the annotated view from above, uint8 [side + margin, side + margin, 3]."""
    image, margin, side = _framed(view)
    draw = _drawing(image)
    for number in range(1, grid.size):
        at = margin + round(number * side / grid.size)
        _line(image, at, margin, side, along=0)
        _line(image, at, margin, side, along=1)
    font = _font(round(margin * 0.8))
    for number in range(grid.size):
        middle = margin + (number + 0.5) * side / grid.size
        draw.text((middle, margin / 2), chr(ord("a") + number), INK, font, anchor="mm")
        draw.text((margin / 2, middle), str(number + 1), INK, font, anchor="mm")
    _points(draw, candidates, margin, side)
    return np.array(image)


def from_the_side(view: Array, grid: Grid) -> Array:
    """Return the annotated view from the side, uint8 [side + margin, side + margin, 3]."""
    image, margin, side = _framed(view)
    draw, font = _drawing(image), _font(round(margin * 0.8))
    for number in range(grid.size + 1):
        at = margin + round((grid.size - number) * side / grid.size)
        _line(image, min(at, margin + side - 1), margin, side, along=1)
        draw.text((margin / 2, min(at, margin + side - margin * 0.4)), str(number), INK, font, anchor="mm")
    return np.array(image)


def inner(image: Array) -> Array:
    """Return the view within the margins of an annotated image."""
    side = round(len(image) * MARGIN / (MARGIN + 1))
    return image[len(image) - side :, len(image) - side :]


def drawn_over(image: Array) -> Array:
    """Return which pixels of an annotated image uint8 [height, width, 3] are annotations, bool [height, width]."""
    points = [_shade(base, number) for base in (TEAL, BLUE) for number in range(POINTS)]
    annotation_colours = np.array([*points, *TAGS, *LINKS, LIGHT, DARK, PAPER, INK])
    return np.isin(_code(image), _code(annotation_colours))


def cleaned(image: Array) -> Array:
    """Return the view within an annotated image, uint8 [side, side, 3]; annotated pixels get the colour of the nearest
    pixel that is none."""
    from scipy.ndimage import distance_transform_edt

    view = inner(image)
    rows, columns = distance_transform_edt(drawn_over(view), return_distances=False, return_indices=True)
    return np.asarray(view[rows, columns])


def found_points(image: Array, base: Colour) -> dict[int, tuple[float, float]]:
    """Return number (from 1) -> (u, v) of the visible points of a kind, TEAL or BLUE, in an annotated image."""
    view, points = inner(image), {}
    code = _code(view)
    for number in range(POINTS):
        rows, columns = np.nonzero(code == _code(np.array(_shade(base, number))))
        if len(rows):
            points[number + 1] = (
                (float(np.median(columns)) + 0.5) / len(view),
                (float(np.median(rows)) + 0.5) / len(view),
            )
    return points


def _framed(view: Array) -> tuple[Image.Image, int, int]:
    """Return the view with margins, the margins' width and the view's side, in pixels."""
    view = enlarged(view)
    side = len(view)
    margin = round(side / MARGIN)
    framed = np.full((side + margin, side + margin, 3), PAPER, np.uint8)
    framed[margin:, margin:] = view
    return Image.fromarray(framed), margin, side


def _drawing(image: Image.Image) -> ImageDraw.ImageDraw:
    draw = ImageDraw.Draw(image)
    draw.fontmode = "1"
    return draw


def _line(image: Image.Image, at: int, margin: int, side: int, along: int) -> None:
    """Draw a line at a column (along=0) or a row (along=1), in dashes of a hundredth of the side."""
    draw, dash = ImageDraw.Draw(image), max(2, round(side / 100))
    for number, begin in enumerate(range(margin, margin + side, dash)):
        end = min(begin + dash, margin + side) - 1
        tone = LIGHT if number % 2 else DARK
        draw.line((at, begin, at, end) if along == 0 else (begin, at, end, at), tone)


def _points(draw: ImageDraw.ImageDraw, candidates: Candidates, margin: int, side: int) -> None:
    """Draw the candidates, and beside them their labels, which cover neither other labels nor the things between the
    candidates."""
    radius, font = max(2, round(side / 130)), _font(max(9, round(side / 33)))
    kinds = [
        _Kind(letter, shade, tag, link, margin + np.asarray(points, float) * side)
        for letter, shade, tag, link, points in zip("PQ", (TEAL, BLUE), TAGS, LINKS, candidates, strict=True)
    ]
    boxes: list[Box] = []
    for kind in kinds:
        groups = kind.places[:, None]
        if np.ptp(kind.places, axis=0).max() < side / 6:  # one small thing, of which nothing should be hidden
            groups = kind.places[None]
        boxes += [(*(group.min(0) - 2 * radius).tolist(), *(group.max(0) + 2 * radius).tolist()) for group in groups]
    for kind in kinds:
        for number, point in enumerate(kind.places):
            text = f"{kind.letter}{number + 1}"
            box = _label(
                draw.textbbox((0, 0), text, font, anchor="mm"), point, kind.places.mean(0), boxes, margin, side
            )
            boxes.append(box)
            middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            draw.line((*point, *middle), kind.link)
            draw.rectangle(box, kind.tag)
            draw.text(middle, text, PAPER, font, anchor="mm")
    for kind in kinds:
        for number, point in enumerate(kind.places):
            column, row = (min(int(group), margin + side - 1) for group in point)
            inside = (column - radius, row - radius, column + radius, row + radius)
            draw.ellipse(inside, _shade(kind.shade, number), PAPER)


class _Kind(NamedTuple):
    """How the candidates of a kind are drawn, and where, in pixels [n, 2]."""

    letter: str
    shade: Colour
    tag: Colour
    link: Colour
    places: Array


def _label(text: Box, point: Array, centre: Array, boxes: Sequence[Box], margin: int, side: int) -> Box:
    """Return the box of a label: the free box nearest to its point, of equally near ones the one that points away from
    `centre`, the middle of the points; the box over the point itself where none is free. `text`: the text's box around
    (0, 0); `boxes`: those that are not free."""
    half = np.array([(text[2] - text[0]) / 2 + 2, (text[3] - text[1]) / 2 + 2])
    away = np.arctan2(*(point - centre)[::-1])
    for reach in np.arange(1.2, 8) * half[1] * 1.2:
        for turn in (np.arange(12) + 1) // 2 * (np.pi / 6) * np.array([1, -1] * 6):
            middle = np.round(point + reach * np.array([np.cos(away + turn), np.sin(away + turn)]))
            box = _box(middle, half)
            inside = margin <= min(box) and max(box) < margin + side
            if inside and not any(_meet(box, other) for other in boxes):
                return box
    return _box(np.round(np.clip(point, margin + half, margin + side - half - 1)), half)


def _box(middle: Array, half: Array) -> Box:
    x_min, y_min, x_max, y_max = np.concatenate([middle - half, middle + half]).tolist()
    return x_min, y_min, x_max, y_max


def _meet(box: Box, other: Box) -> bool:
    return box[0] <= other[2] and other[0] <= box[2] and box[1] <= other[3] and other[1] <= box[3]


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow's own font has outlines"
    return font


def _shade(base: Colour, number: int) -> Colour:
    return base[0], base[1], base[2] + number


def _code(colours: Array) -> Array:
    """Return an integer that identifies each colour, int32 [...], for colours [..., 3]."""
    wide = np.asarray(colours).astype(np.int32)
    return np.asarray(wide[..., 0] * 65_536 + wide[..., 1] * 256 + wide[..., 2])
