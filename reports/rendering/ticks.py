"""Labels of ticks that do not run into each other, whatever a figure's width."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

GAP = 3.0
"""Least distance of two labels in points, less than a digit's width."""


def separate(figure: Figure) -> bool:
    """Leave out labels along the x axes of a drawn figure until no two touch, and turn those at the ends of
    neighbouring panels inwards; return whether anything changed, so that the figure must be drawn again."""
    gap = GAP * figure.dpi / 72
    changed = [_thin(axes, gap) for axes in figure.axes if axes.get_visible()]
    return _turned(figure, gap) or any(changed)


def _labels(axes: Axes) -> list[tuple[float, Text]]:
    """Return the visible labels along the x axis with their positions, in the order of the axis."""
    low, high = sorted(axes.get_xlim())
    room = 1e-6 * (high - low)
    labels = [
        (float(tick.get_loc()), tick.label1)
        for tick in axes.xaxis.get_major_ticks()
        if tick.label1.get_visible() and tick.label1.get_text() and low - room <= tick.get_loc() <= high + room
    ]
    return sorted(labels, key=lambda label: label[0])


def _thin(axes: Axes, gap: float) -> bool:
    """Keep the labels of every k-th tick, with the smallest k at which no two touch; return whether any was removed."""
    labels = _labels(axes)
    if axes.xaxis.get_tick_params().get("labelrotation") or len(labels) < 2:
        return False
    boxes = [text.get_window_extent() for _, text in labels]
    step = next(step for step in range(1, len(boxes) + 1) if _are_apart(boxes[::step], gap))
    if step > 1:
        axes.set_xticks([place for place, _ in labels[::step]], [text.get_text() for _, text in labels[::step]])
    return step > 1


def _are_apart(boxes: list[Bbox], gap: float) -> bool:
    ordered = sorted(boxes, key=lambda box: box.x0)
    return all(following.x0 - box.x1 >= gap for box, following in pairwise(ordered))


def _turned(figure: Figure, gap: float) -> bool:
    """Right-align the last x label of each panel that would touch the first label of the next panel in its line; return
    whether any was."""
    ends = [(labels[0][1], labels[-1][1]) for axes in figure.axes if axes.get_visible() and (labels := _labels(axes))]
    changed = False
    for _, last in ends:
        box = last.get_window_extent()
        for first, _ in ends:
            other = first.get_window_extent()
            beside = abs(box.y0 - other.y0) < box.height and box.x0 < other.x0
            if first is not last and beside and other.x0 - box.x1 < gap:
                last.set_horizontalalignment("right")
                changed = True
    return changed
