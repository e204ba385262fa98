"""The scripted judge `motion`: whether a clip shows that something in the scene moved or switched, by its pixels alone.

It is hand-written for this scene and its camera. Images of the drawer and the window at every position, locked and
unlocked, are rendered once without the arm. A frame shows the state that agrees with most of its pixels; pixels hidden
by the arm agree with no state. Other red pixels are the cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.ndimage import binary_dilation, median_filter

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.mujoco.drawing import ModelDrawer
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.drawing import ARM, drawer
from guidebench.suites.ogbench_scene.perturbations import LOCKED, UNLOCKED
from guidebench.suites.ogbench_scene.task import DRAWN_GEOMS, DRAWN_MATERIALS, SNAPSHOT

SLIDES = (("drawer_slide", "drawer_handle", "btngeom_0"), ("window_slide", "window_handle", "btngeom_1"))
"""Sliding joints, each with its handle's material and its button, whose colours both show whether it is locked."""
STEP = 0.01
"""Distance in metres between the rendered positions."""
MOVED = 0.03
"""Distance in metres that a drawer or a window has to move."""
CARRIED = 7 / 200
"""Distance that a cube has to move in the picture, as a share of its side: 3 cm in the middle of the table."""
FEWEST = 12 / 200**2
"""Smallest share of a picture that a visible cube fills: a sixth of an unhidden cube."""
PINK = 60
"""Largest excess of red over green in a cube at its goal, which is pale under the translucent red marker; elsewhere the
excess is 100 and more."""
TOLERANCE = 40
"""Largest difference of a channel in an agreeing pixel."""
CLEAR = 0.05
"""Share of pixels by which a position has to exceed all positions at least MOVED away, for the object to count as
visible."""
TELLING = 5
"""Pixels by which one lock colour has to exceed the other, of 50 and more on a handle and a button."""
STEADY = 5
"""Frames in the median filter, so that a passing arm is not taken for a motion."""


class SlideMotion(NamedTuple):
    """What each of L frames shows of one drawer or window: position, lock and red pixels."""

    position: Array  # float [L], metres, NaN where it is not visible
    lock: Array  # float [L], 0 locked, 1 unlocked, NaN where neither is visible
    red: Array  # bool [L, pixels of a frame], its red pixels


class Slide:
    """The appearance of a drawer or window, with its button, in frames of `draw`."""

    def __init__(self, draw: ModelDrawer, joint: str, handle: str, button: str) -> None:
        model = dynamics.model()
        low, high = model.joint(joint).range
        self._positions = np.linspace(low, high, round((high - low) / STEP) + 1)
        colours = (LOCKED, UNLOCKED)
        states = [_still(model, joint, at, handle, button, colour) for at in self._positions for colour in colours]
        frames = draw(np.stack(states)).reshape(len(states), -1, 3)
        self._pixels = np.flatnonzero(np.ptp(frames, axis=0).max(axis=-1) > TOLERANCE)
        self._looks = _planes(frames[:, self._pixels])
        self._far = np.abs(self._positions[:, None] - self._positions.repeat(2)) > MOVED - STEP / 2
        self._of_lock = (np.abs(self._looks[1::2] - self._looks[::2]) > TOLERANCE).any(axis=1)
        self._red = _red(frames)

    def __call__(self, frames: Array) -> SlideMotion:
        """Return its state in frames uint8 [L, pixels, 3]."""
        best, is_clear, votes = [], [], []
        for frame in _planes(frames[:, self._pixels]):
            agree = (np.abs(self._looks - frame) < TOLERANCE).all(axis=1)
            share = agree.mean(axis=1)
            state = int(share.argmax())
            place = state // 2
            locked, unlocked = agree[2 * place : 2 * place + 2, self._of_lock[place]].sum(axis=1)
            best.append(state)
            is_clear.append(share[state] - share[self._far[place]].max() >= CLEAR)
            votes.append(int(unlocked) - int(locked))
        position = np.where(is_clear, self._positions[np.array(best) // 2], np.nan)
        lock = np.where(np.abs(votes) >= TELLING, np.array(votes) > 0, np.nan)
        return SlideMotion(position, lock, self._red[best])


class MotionJudge:
    """A Judge: P(yes) is 1 for a clip in which the drawer, the window or the cube moves, or a button switches; else 0.

    A motion that is undone within the clip counts. A motion whose beginning and end are hidden by the arm does not.
    """

    def __init__(self) -> None:
        self._side, self._slides = 0, list[Slide]()

    def __call__(self, clips: Sequence[Array]) -> list[float]:
        return [float(any(self.changed_subgoals(np.asarray(clip)).values())) for clip in clips]

    def changed_subgoals(self, frames: Array) -> dict[str, bool]:
        """Return which subgoals' objects visibly change in frames uint8 [L, side, side, 3]; UserError for another
        shape."""
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[1] != frames.shape[2] or frames.shape[3] != 3:
            raise UserError(f"frames {frames.dtype} {frames.shape} given, uint8 [L, side, side, 3] expected")
        if frames.shape[1] != self._side:
            self._side = frames.shape[1]
            draw = drawer(self._side, hidden=(ARM,))
            self._slides = [Slide(draw, *names) for names in SLIDES]
        flat = frames.reshape(len(frames), -1, 3)
        drawn, opened = (slide(flat) for slide in self._slides)
        cube = self._cube(frames, (drawn.red | opened.red).reshape(frames.shape[:3]))
        return {
            "cube": _extent(cube[:, :2]) >= CARRIED * self._side or _extent(cube[:, 2:]) > 0,
            "button_0": _extent(drawn.lock[:, None]) > 0,
            "button_1": _extent(opened.lock[:, None]) > 0,
            "drawer": _extent(drawn.position[:, None]) >= MOVED - STEP / 2,
            "window": _extent(opened.position[:, None]) >= MOVED - STEP / 2,
        }

    def _cube(self, frames: Array, other: Array) -> Array:
        """Return the cube's position and whether it is pink, [L, 3]: the median pixel of red areas away from the
        `other` red objects, and 0 or 1; NaN where it is not visible."""
        near = binary_dilation(other, np.ones((1, 3, 3)), iterations=max(1, self._side // 66))
        positions = np.full((len(frames), 3), np.nan)
        for place, frame, red in zip(positions, frames, _red(frames) & ~near, strict=True):
            if red.sum() >= max(1, FEWEST * self._side**2):
                vivid = frame[red].astype(np.int16)
                pink = np.median(vivid[:, 0] - vivid[:, 1]) < PINK
                place[:] = *np.median(np.argwhere(red), axis=0), pink
        return positions


def _planes(pixels: Array) -> Array:
    """Convert uint8 [n, p, 3] to int16 [n, 3, p], whose differences neither overflow nor are slow."""
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 1), np.int16)


def _red(pixels: Array) -> Array:
    """Return bool [...] of pixels uint8 [..., 3] that are bright and reddish. This includes the pink of a cube at its
    goal, but not the goal's marker alone, which is not bright."""
    red, green, blue = np.moveaxis(pixels.astype(np.int16), -1, 0)
    return np.asarray((red >= 150) & (red - green >= 15) & (red - blue >= 15))


def _extent(values: Array) -> float:
    """Return the extent of values [L, d] after median filtering over time, ignoring NaNs; 0 if there are too few."""
    values = values[~np.isnan(values).any(axis=1)]
    if len(values) < STEADY:
        return 0.0
    return float(np.linalg.norm(np.ptp(median_filter(values, (STEADY, 1), mode="nearest"), axis=0)))


def _still(
    model: mujoco.MjModel, joint: str, position: float, handle: str, button: str, colour: tuple[float, float, float]
) -> Array:
    """Return a snapshot with one slide at `position`, it and its button coloured, and the cube and its marker out of
    sight."""
    still = np.zeros((), SNAPSHOT)
    qpos = still["qpos"]
    qpos[:] = model.qpos0
    qpos[model.joint(joint).qposadr] = position
    qpos[model.joint("object_joint_0").qposadr[0] + 2] = still["mocap_pos"][0, 2] = -1.0
    still["mocap_quat"][0, 0] = 1.0
    still["geom_rgba"], still["mat_rgba"] = (*UNLOCKED, 1.0), (*UNLOCKED, 1.0)
    still["geom_rgba"][DRAWN_GEOMS.index(button)] = still["mat_rgba"][DRAWN_MATERIALS.index(handle)] = (*colour, 1.0)
    return np.frombuffer(still.tobytes(), np.uint8)
