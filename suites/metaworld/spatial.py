"""The embedder `spatial`: where MetaWorld's gripper, objects and targets are in a frame, by colour; hand-written.

It sees the pixels of a frame and nothing else. Of the gripper it looks for the cyan finger and the red arm. A linear
map of their two places gives the gripper's place in three dimensions; its numbers were fitted once, by least squares,
to 750 frames of camera `corner2` from ten episodes of random actions that are held for twelve steps. Objects and
targets are the places of pixels of six colours. Distances are in units of `UNIT` metres, such that two random frames of
an episode of random actions are about 1 apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from guidebench.harness.interfaces import Array, Suite
from guidebench.harness.parts import ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import EmbedCall

UNIT = 0.1
"""Metres of the gripper's place that are a distance of 1 between two vectors."""
SPAN = 12.0
"""Distance of two vectors that an object's way across the whole frame makes (choice: a gripper that moves by `UNIT`
moves by about a twelfth of a frame)."""
ENOUGH = 40.0
"""Pixels of one colour, in a frame of `SIDE` pixels, of which half of the distance counts (choice: a drawer has 800, a
target 16, which may vanish behind the gripper)."""
SIDE = 256
"""Side of a frame, in pixels, in which `ENOUGH` is measured."""
GLINT = 6
"""Number of pixels of the arm's red, among the 25 around a bright red one, from which that one is a glint of the
arm."""
COLOURS = ("green", "blue", "yellow", "violet", "slate", "bright red")
"""Colours of objects and targets: drawer, peg and most targets; pick-place's target; the button's box; the window;
the door; reach's target."""
CENTRE = np.array([0.482, 0.428, 0.504, 0.234])
"""Mean of the places below in the frames that were fitted: row and column of the finger, and of the arm."""
METRES = np.array([[3.88, -2.32, -0.29], [-0.48, 2.59, -1.28], [-15.59, 8.13, -7.42], [3.19, -1.47, 2.23]])
"""Metres along x, y and z for each unit of these places, in sides of a frame; the fit errs by 4, 2 and 2 cm (root mean
square)."""
WIDTH = 3 + 3 * len(COLOURS)
"""Numbers in a vector: the gripper's place, and place and presence of each colour."""


@register.embedder("spatial")
@dataclass(frozen=True)
class Spatial(ModelPart):
    """Turns frames of MetaWorld into the places of gripper, objects and targets, which it looks for by their colours,
    and texts into random projections of hashed letters; hand-written, a stand-in for a model that has learnt to see.
    Frames and texts are not mapped into one space."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (choice: as the embedder scripted)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Timeout of one answer, after which its process is restarted (choice: ample; it takes milliseconds)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written: places of colours in MetaWorld's frames"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("embed",)
    suites: ClassVar[tuple[str, ...]] = ("metaworld", "metaworld_mt10", "metaworld_pbrl")
    title: ClassVar[str] = "hand-written: places of gripper, objects and targets in MetaWorld's frames, by colour"

    def dimensions(self) -> int:
        """Return `WIDTH`."""
        return WIDTH

    def spawn(self, suite: Suite, task: str) -> Callable[[EmbedCall], Array]:
        """Return the function that answers calls. It sees only the content of a call, not the suite or the task."""
        from guidebench.harness.models.embedders.scripted import Projection

        texts = Projection(WIDTH)
        return lambda call: np.stack(
            [texts.of_text(part) if isinstance(part, str) else of_frame(part) for part in call.items]
        )


def of_frame(frame: Array) -> Array:
    """Return the vector of a frame uint8 [height, width, 3], float32 [WIDTH]: the gripper's place, in units of `UNIT`
    metres from the centre of the fitted frames, then of each of `COLOURS` its row and column from the frame's centre,
    in units of 1 / `SPAN` frames and scaled by its presence n / (n + `ENOUGH`), and this presence.

    A finger or an arm that cannot be seen counts as being where it is on average.
    """
    side = frame.shape[0]
    masks = colours(frame)
    places = np.concatenate([_place(masks[name]) for name in ("finger", "arm")])
    gripper = np.where(np.isnan(places), 0.0, places - CENTRE) @ METRES / UNIT
    numbers = [gripper]
    for name in COLOURS:
        count = float(masks[name].sum()) * (SIDE / side) ** 2
        presence = count / (count + ENOUGH)
        off_centre = np.zeros(2) if not count else _place(masks[name]) - 0.5
        numbers.append(presence * np.append(SPAN * off_centre, 1.0))
    return np.concatenate(numbers).astype(np.float32)


def colours(frame: Array) -> dict[str, Array]:
    """Return which pixels of a frame uint8 [height, width, 3] are of the finger, of the arm, and of each of `COLOURS`,
    bool [height, width] each."""
    red, green, blue = (frame[..., channel].astype(np.float32) for channel in range(3))
    arm = (red > 60) & (green < 0.45 * red) & (blue < 0.45 * red)
    bright = (red > 190) & (green < 60) & (blue < 60)
    return {
        "finger": (green > 120) & (blue > 120) & (red < 0.6 * np.minimum(green, blue)),
        "arm": arm,
        "green": (green > 80) & (green > 1.3 * red) & (green > 1.3 * blue),
        "blue": (blue > 90) & (blue > 1.6 * red) & (blue > 1.6 * green),
        "yellow": (red > 150) & (green > 0.5 * red) & (green < 0.9 * red) & (blue < 0.35 * red),
        "violet": (red > 40) & (red < 150) & (green < 0.78 * red) & (green > 0.5 * red) & (blue > green)
        & (blue < 1.2 * red),
        "slate": (blue > 28) & (blue < 110) & (blue > 1.15 * red) & (green >= red) & (green < blue),
        "bright red": _without_glints(bright, arm & ~bright),
    }  # fmt: skip


def _without_glints(bright: Array, arm: Array) -> Array:
    """Return the bright red pixels that are no glint of the arm, bool [height, width] as both arguments."""
    marks = np.zeros_like(bright)
    for row, column in np.argwhere(bright).tolist():
        around = arm[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3]
        marks[row, column] = around.sum() < GLINT
    return marks


def _place(mask: Array) -> Array:
    """Return the mean row and column of the pixels of a mask, in sides of the frame, float64 [2]; NaN without a
    pixel."""
    count = mask.sum()
    if not count:
        return np.full(2, np.nan)
    along = (np.arange(length) for length in mask.shape)
    sums = np.array([mask.sum(1 - axis) @ at for axis, at in enumerate(along)])
    return sums / float(count * mask.shape[0])
