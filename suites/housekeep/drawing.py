"""Pictures from snapshots: what the agent's camera sees, by rays through a room of boxes, or a map from above."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep.floors import EYE, RADIUS
from guidebench.suites.housekeep.looks import CEILING, FLOOR, KIND, PATCHES, WALL, Looks, standard
from guidebench.suites.housekeep.snapshots import Scene, unpack

SIDE = 0.14
"""Side of an object's cube in metres."""
HEIGHT = 2.5
"""Height of a room in metres."""
SHADE = (0.82, 0.92, 1.0)
"""Brightness of faces across x, y and z."""
LABELLED = 256
"""Pixels from which on names are written."""
NAMED_SHARE = 0.0006
"""Share of a picture that a thing takes at least to have its name written."""


class HousekeepDrawer:
    """A Drawer: snapshots uint8 [L, 738] -> pictures uint8 [L, size, size, 3]."""

    def __init__(
        self, size: int, view: Literal["agent", "above"] = "agent", labels: bool = True, looks: Looks | None = None
    ) -> None:
        self._size, self._above, self._labels = size, view == "above", labels and size >= LABELLED
        self._looks = looks or standard()
        grid = (np.arange(size) + 0.5) / size * 2 - 1  # a field of view of 90 degrees
        self._right, self._up = (each.ravel().astype(np.float32) for each in np.meshgrid(grid, -grid))

    def __call__(self, snapshots: Array) -> Array:
        return np.stack([self.draw(unpack(snapshot)) for snapshot in np.asarray(snapshots)])

    def draw(self, scene: Scene) -> Array:
        """Return the picture of one scene, uint8 [size, size, 3]."""
        draw = self._map if self._above else self._camera
        picture = draw(scene, *_boxes(scene, np.ones_like(scene.visible) if self._above else scene.visible))
        if scene.held >= 0:
            edge = max(2, self._size // 8)
            corner = np.arange(edge)
            face = (corner + 0.5) / edge
            u, v = np.meshgrid(face, face)
            picture[-edge:, -edge:] = self._face(np.full(u.shape, KIND + scene.held), u, v)
            if self._labels:
                picture = _written(
                    picture, [(self._looks.names[KIND + scene.held], self._size - edge, self._size - edge)]
                )
        return picture

    def _face(self, looks: Array, u: Array, v: Array) -> Array:
        """Return the colours of points on faces, by the look and the two coordinates in [0, 1] of each."""
        if self._looks.patterns is None:
            return np.asarray(self._looks.colours[looks])
        rows, columns = (np.clip((each * PATCHES).astype(int), 0, PATCHES - 1) for each in (u, v))
        return np.asarray(self._looks.patterns[looks, rows, columns])

    # What the camera sees

    def _camera(self, scene: Scene, boxes: Array, looks: Array) -> Array:
        x, y, heading, pitch = scene.pose
        sine, cosine = math.sin(heading), math.cos(heading)
        level = math.cos(pitch) - self._up * math.sin(pitch)
        way = np.stack(
            [
                cosine * level + sine * self._right,
                sine * level - cosine * self._right,
                math.sin(pitch) + self._up * math.cos(pitch),
            ]
        ).astype(np.float32)
        way[np.abs(way) < 1e-7] = 1e-7
        eye = np.array((x, y, EYE), np.float32)
        nearest = np.full(way.shape[1], np.inf, np.float32)
        hit = np.full(way.shape[1], -1)
        axis = np.zeros(way.shape[1], int)
        inverse = 1 / way
        for number, (low, high) in enumerate(boxes):
            ends = ((low - eye)[:, None] * inverse, (high - eye)[:, None] * inverse)
            starts = np.minimum(*ends)
            first, last = starts.max(0), np.maximum(*ends).min(0)
            closer = (first < last) & (first > 0.05) & (first < nearest)
            nearest[closer], hit[closer], axis[closer] = first[closer], number, starts[:, closer].argmax(0)
        picture = self._room(scene, eye, inverse)
        found = hit >= 0
        at, across = hit[found], axis[found]
        points = eye[:, None] + way[:, found] * nearest[found]
        share = (points - boxes[at, 0].T) / (boxes[at, 1] - boxes[at, 0]).T
        others = np.array([(1, 2), (0, 2), (0, 1)])[across]
        every = np.arange(len(at))
        colours = self._face(looks[at], share[others[:, 0], every], share[others[:, 1], every])
        picture[found] = colours * np.array(SHADE)[across][:, None]
        shown = picture.reshape(self._size, self._size, 3).astype(np.uint8)
        return self._named(shown, hit.reshape(self._size, self._size), looks) if self._labels else shown

    def _room(self, scene: Scene, eye: Array, inverse: Array) -> Array:
        """Return the colours of floor, walls and ceiling along rays, float [pixels, 3]."""
        ends = np.array((*scene.size, HEIGHT), np.float32)
        leave = np.maximum(-eye[:, None] * inverse, (ends - eye)[:, None] * inverse)
        side = leave.argmin(0)
        walls = np.array(WALL) * np.array((0.94, 1.0))[np.minimum(side, 1)][:, None]
        flat = np.where((inverse[2] > 0)[:, None], np.array(CEILING), np.array(FLOOR))
        return np.where((side == 2)[:, None], flat, walls)

    def _named(self, picture: Array, hit: Array, looks: Array) -> Array:
        """Write the name of each thing in the middle of what is seen of it."""
        written = []
        for number in np.unique(hit[hit >= 0]).tolist():
            rows, columns = np.nonzero(hit == number)
            if len(rows) >= NAMED_SHARE * hit.size:
                written.append((self._looks.names[looks[number]], columns.mean(), rows.mean()))
        return _written(picture, written)

    # From above

    def _map(self, scene: Scene, boxes: Array, looks: Array) -> Array:
        scale = self._size / max(scene.size)
        picture = np.full((self._size, self._size, 3), WALL, np.uint8)
        width, depth = (round(side * scale) for side in scene.size)
        picture[self._size - depth :, :width] = FLOOR
        written = []
        order = np.argsort(boxes[:, 1, 2] + 10 * (looks >= KIND), kind="stable")
        for number in order.tolist():
            (x0, y0, _), (x1, y1, _) = (boxes[number] * scale).tolist()
            columns = slice(int(x0), max(int(x0) + 1, round(x1)))
            rows = slice(self._size - max(int(y0) + 1, round(y1)), self._size - int(y0))
            area = picture[rows, columns]
            u, v = np.meshgrid(*((np.arange(n) + 0.5) / max(n, 1) for n in area.shape[1::-1]))
            area[:] = self._face(np.full(u.shape, looks[number]), u, v)
            written.append((self._looks.names[looks[number]], (x0 + x1) / 2, self._size - (y0 + y1) / 2))
        x, y, heading, _ = scene.pose
        corners = [
            (
                (x + reach * math.cos(heading + turn)) * scale,
                self._size - (y + reach * math.sin(heading + turn)) * scale,
            )
            for turn, reach in ((0.0, 2 * RADIUS), (2.5, RADIUS), (-2.5, RADIUS))
        ]
        image = Image.fromarray(picture)
        ImageDraw.Draw(image).polygon(corners, fill=(200, 30, 30), outline=(60, 0, 0))
        picture = np.asarray(image).copy()
        return _written(picture, written) if self._labels else picture


def _boxes(scene: Scene, shown: Array) -> tuple[Array, Array]:
    """Return the boxes of receptacles and of the objects that are shown, float32 [n, 2, 3], and their looks, int
    [n]."""
    points = scene.points[shown]
    cubes = np.stack([points - SIDE / 2, points + SIDE / 2], 1)
    boxes = np.concatenate([np.stack([scene.low, scene.high], 1), cubes]).astype(np.float32)
    return boxes, np.concatenate([scene.kinds, KIND + scene.things[shown]])


def _written(picture: Array, names: list[tuple[str, float, float]]) -> Array:
    """Return the picture with names, each in the middle of its place."""
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for name, x, y in names:
        if name:
            wide = draw.textlength(name)
            left, top = min(max(x - wide / 2, 0), picture.shape[1] - wide), min(max(y - 6, 0), picture.shape[0] - 12)
            draw.rectangle((left - 1, top, left + wide + 1, top + 11), fill=(255, 255, 255))
            draw.text((left, top), name, fill=(0, 0, 0))
    return np.asarray(image).copy()
