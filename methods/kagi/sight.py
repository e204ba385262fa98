"""The two views of a frame, and the positions of gripper, thing and place in them: (u, v) in the view from above, and
the row h in the view from the side, as fractions of a view's side."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

Project = Callable[[Array], Array]
"""Points of the world [n, 3], metres -> pixels (column, row) [n, 2]; NaN behind the camera."""


class Views(NamedTuple):
    """The two views of frames, uint8 [..., size, size, 3] each."""

    above: Array
    side: Array


def views(frames: Array) -> Views:
    """Return the view from above, on the left, and the side view of frames uint8 [..., size, 2 * size, 3]; raise
    UserError for frames of another shape."""
    *_, height, width, _ = frames.shape
    if width != 2 * height:
        raise UserError(
            f"frames of {width} by {height} pixels do not show the two views side by side that KAGI's models look at; "
            f"set drawing.camera=both"
        )
    return Views(frames[..., :height, :], frames[..., height:, :])


class Sight:
    """The views of one suite and task, with frames of `size` pixels."""

    def __init__(self, suite: Any, task: str, size: int, fitted: bool) -> None:
        """`suite`: a `capabilities.Projects`; `fitted`: whether to use regressors that the suite fits on calibration
        frames in place of its true projection, UserError where they have too few inliers."""
        self._suite, self._task, self._size = suite, task, size
        self._above, self._beside = (self._view(camera, fitted) for camera in suite.cameras_of(task)[:2])

    def _view(self, camera: str, fitted: bool) -> Project:
        if fitted:
            regressor: Project = self._suite.calibrate(self._task, camera, self._size)
            return regressor
        return lambda points: np.asarray(self._suite.project(self._task, camera, points, self._size))

    @property
    def cameras(self) -> tuple[Project, Project]:
        """Return the suite's true projections into the view from above and into the view from the side, as fractions of
        a view's side, even if regressors are fitted."""
        above, side = (
            functools.partial(self._suite.project, self._task, camera, size=1)
            for camera in self._suite.cameras_of(self._task)[:2]
        )
        return above, side

    def project(self, points: Array) -> Array:
        """Return the pixel coordinates (x, y, z) of points of the world [n, 3], float64 [n, 3]: column and row in the
        view from above, and row in the view from the side."""
        return np.concatenate([self._above(points), self._beside(points)[:, 1:]], axis=1)

    def tips(self, observations: Array) -> Array:
        """Return the pixel coordinates (x, y, z) of the gripper's tip, float32 [n, 3], for observations [n, …]."""
        return self.project(self._suite.tip(self._task, observations)).astype(np.float32)

    def places(self, snapshot: Array) -> Array:
        """Return (u, v, h) of the thing and of its target place in the state of a snapshot, float32 [2, 3]. Privileged:
        for oracles only."""
        located: Array = self._suite.located(self._task, snapshot)
        return (self.project(located) / self._size).astype(np.float32)
