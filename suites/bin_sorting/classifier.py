"""The scripted classifier: it finds the named block by its colour in both views, and says whether it lies in its place.

It sees pixels and the prompt alone. A block lies in its place where the view from above shows most of its top there, so
that no gripper is over it, and the view from the side shows it as low as on the ground. States in which the arm hides
the block from above are therefore no success to it (choice: what it misses costs less than what it makes up).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.bin_sorting import layout, words
from guidebench.suites.bin_sorting.cameras import CAMERAS, project
from guidebench.suites.bin_sorting.task import is_at

if TYPE_CHECKING:
    from guidebench.suites.bin_sorting import ScriptedClassifier

SATURATION = 0.5
"""Least saturation of a block's pixels: the tray's and those of the arm's blue caps have up to .4."""
CHROMA = 40
"""Least difference of their brightest and darkest channel, of 255: the floor's dark blue has less."""
HUE = 13.0
"""Largest difference from the hue of the block's colour, degrees; yellow and orange, the nearest, are 28 apart."""
VISIBLE = 0.5
"""Share of its top face that must be visible from above for its position to be read there."""
FEWEST = 4
"""Pixels, in a view of 100, from which something of the colour counts as seen from the side."""
LOW = 0.02
"""Largest distance, in sides of the side view, between the block there and where it would be shown on the ground."""
PLACE = re.compile(r"(left|right) bin|(near|far|left|right) side of the tray|tray")


class Blob(NamedTuple):
    """The pixels of a colour in a view."""

    pixels: float
    """Their number, in pixels of a view of 100 by 100."""
    centre: Array
    """Their mean (column, row), as fractions of the view's side."""


class ColourClassifier:
    """A judge that reads prompts (`harness.interfaces.ReadsPrompts`)."""

    def __init__(self, settings: ScriptedClassifier) -> None:
        self._settings = settings

    def judge(self, clip: Array, prompt: str) -> float:
        """Return 1 where the last frame of a clip shows the named block in its place, else 0, wrongly at the configured
        rates: the draw follows from frame and prompt. UserError for a frame without two views, or a prompt that names
        no known colour or place."""
        frame = clip[-1]
        height, width, _ = frame.shape
        if width != 2 * height:
            raise UserError(
                f"a frame of {height} × {width} pixels was given to classifier=scripted, which reads two views side by "
                f"side; set drawing.camera=both"
            )
        found = placed(frame[:, :height], frame[:, height:], *named(prompt))
        rate = self._settings.false_negative if found else self._settings.false_positive
        return float(found != (_draw(frame, prompt) < rate))


def named(prompt: str) -> tuple[str, str]:
    """Return the colour and the place (`words.PLACES`) that a prompt names: its first colour, and the place that it
    names last, since a block is taken out of the one before. UserError where it names none."""
    text = prompt.lower()
    colour = next((word for word in re.findall("[a-z]+", text) if word in words.COLOURS), "")
    places = [found.group(0).removesuffix(" of the tray") for found in PLACE.finditer(text)]
    if not colour or not places:
        raise UserError(
            f"classifier=scripted finds no {'place' if colour else 'colour'} in {prompt!r}; it knows the colours "
            f"{', '.join(words.COLOURS)} and the places {', '.join(words.PLACES)}"
        )
    return colour, places[-1]


def placed(top: Array, side: Array, colour: str, place: str) -> bool:
    """Return whether the block of a colour lies at a place, by both views, uint8 [size, size, 3]."""
    above, beside = blob(top, colour), blob(side, colour)
    if beside.pixels < FEWEST:
        return False
    if above.pixels < VISIBLE * FACE:
        return False
    lies = np.append(_unprojected(above.centre, 2 * layout.BLOCK), layout.BLOCK)
    low = project("side", lies[None], 1)[0] - beside.centre
    return bool(np.linalg.norm(low) < LOW) and is_at(lies, place)


def blob(view: Array, colour: str) -> Blob:
    """Return the pixels of a colour in a view, uint8 [size, size, 3]."""
    pixels = view.astype(float)
    bright, dark = pixels.max(2), pixels.min(2)
    off = np.abs((_hue(pixels) - _hue(np.array(words.RGBA[colour][:3])) + 180) % 360 - 180)
    mask = (bright - dark >= np.maximum(CHROMA, SATURATION * bright)) & (off <= HUE)
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return Blob(0.0, np.full(2, np.nan))
    size = len(view)
    return Blob(len(rows) * (100 / size) ** 2, np.array([columns.mean() + 0.5, rows.mean() + 0.5]) / size)


def _hue(rgb: Array) -> Array:
    """Return the hue, degrees, of colours [..., 3]."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    return np.asarray(np.degrees(np.arctan2(np.sqrt(3) / 2 * (green - blue), red - (green + blue) / 2)))


def _unprojected(point: Array, height: float) -> Array:
    """Return (x, y), metres, of the point at `height` that the view from above shows at `point`, fractions of its
    side."""
    camera = CAMERAS["top"]
    right, up = camera.axes
    spread = 2 * np.tan(np.radians(camera.fovy) / 2)
    ray = -np.cross(right, up) + spread * ((point[0] - 0.5) * right + (0.5 - point[1]) * up)
    return np.asarray((camera.position + ray * (height - camera.position[2]) / ray[2])[:2])


def _face() -> float:
    """Return the pixels of a block's top face from above, in a view of 100 by 100."""
    corners = np.array([[*layout.TRAY, 2 * layout.BLOCK], [layout.TRAY[0] + 2 * layout.BLOCK, 0, 2 * layout.BLOCK]])
    return float(np.ptp(project("top", corners, 100)[:, 1]) ** 2)


FACE = _face()


def _draw(frame: Array, prompt: str) -> float:
    """Return a number in [0, 1), uniform over frames and prompts, and the same for the same two."""
    hashed = hashlib.blake2b(prompt.encode() + np.ascontiguousarray(frame).tobytes(), digest_size=8)
    return int.from_bytes(hashed.digest(), "big") / 2**64
