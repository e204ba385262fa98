"""Regressors from points to pixels, fitted by RANSAC on calibration frames, as a real robot without a known projection
needs them (KAGI, §III-C; quadratic features: choice, since linear ones are wrong by pixels)."""

from __future__ import annotations

import functools

import numpy as np

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array
from guidebench.suites.bin_sorting.cameras import CAMERAS

FEATURES = 10
"""Features of a point: 1, x, y, z, their squares and their products."""
TOLERANCE = 2.0
"""Distance from its prediction, in pixels of a frame of 100, up to which a calibration point agrees."""
FEWEST = 2 * FEATURES
"""Points that must agree: any ten can be fitted exactly, whatever they are."""
TRIALS = 200
DETAIL = 4
"""Calibration frames are drawn this many times larger than those whose pixels are asked for."""
BELOW = -1.0
"""Height of what calibration frames do not show, metres."""


class Regressor:
    """Maps points [n, 3], in metres, to pixels (column, row), float [n, 2]. `inliers` is bool [m], of the points that
    it was fitted on."""

    def __init__(self, points: Array, pixels: Array, tolerance: float = TOLERANCE, seed: int = 0) -> None:
        """Fit by RANSAC: of `TRIALS` fits of ten random points, the one with which most points agree within
        `tolerance` pixels, then a least-squares fit of those. UserError for other shapes than [m, 3] and [m, 2], for
        values that are not finite, and where fewer than `FEWEST` points agree."""
        points, pixels = np.asarray(points, float), np.asarray(pixels, float)
        if points.ndim != 2 or points.shape[1] != 3 or pixels.shape != (len(points), 2):
            raise UserError(f"points {list(points.shape)} and pixels {list(pixels.shape)}, expected [m, 3] and [m, 2]")
        if not (np.isfinite(points).all() and np.isfinite(pixels).all()):
            raise UserError("calibration points and pixels must be finite; leave out frames that do not show the tip")
        if len(points) < FEWEST:
            raise UserError(f"a regressor needs {FEWEST} calibration points or more, and {len(points)} were given")
        self._centre, self._scale = points.mean(axis=0), np.maximum(np.ptp(points, axis=0) / 2, 1e-9)
        features, rng = self._features(points), np.random.default_rng(seed)
        self.inliers = np.zeros(len(points), bool)
        for _ in range(TRIALS):
            few = rng.choice(len(points), FEATURES, replace=False)
            weights, _, rank, _ = np.linalg.lstsq(features[few], pixels[few], rcond=None)
            agree = np.linalg.norm(features @ weights - pixels, axis=1) <= tolerance
            if rank == FEATURES and agree.sum() > self.inliers.sum():
                self.inliers = agree
        if self.inliers.sum() < FEWEST:
            raise UserError(
                f"a regressor without inliers: {self.inliers.sum()} of {len(points)} calibration points agree within "
                f"{tolerance:g} pixels, and {FEWEST} must; check that points and pixels belong to the same frames"
            )
        self._weights = np.linalg.lstsq(features[self.inliers], pixels[self.inliers], rcond=None)[0]

    def __call__(self, points: Array) -> Array:
        found: Array = self._features(np.asarray(points, float)) @ self._weights
        return found

    def _features(self, points: Array) -> Array:
        x, y, z = ((points - self._centre) / self._scale).T
        return np.stack([np.ones_like(x), x, y, z, x * x, y * y, z * z, x * y, y * z, z * x], axis=1)


@functools.lru_cache(maxsize=8)
def calibrate(camera: str, size: int, frames: int, seed: int) -> Regressor:
    """Return a camera's regressor, fitted on frames that show a marker at the gripper's tip without the arm, at random
    places of the workspace. UserError for an unknown camera, and where too few frames agree."""
    if camera not in CAMERAS:
        raise unknown("camera", camera, tuple(CAMERAS))
    points, pixels = tip_pixels(camera, size, frames, seed)
    return Regressor(points, pixels, TOLERANCE * size / 100, seed)


def tip_pixels(camera: str, size: int, frames: int, seed: int) -> tuple[Array, Array]:
    """Return the tip's positions [m, 3] in random calibration frames, and its pixels [m, 2] in them; frames that do not
    show all of it are left out. It is where the marker's colour is."""
    from guidebench.suites.bin_sorting import drawing, dynamics
    from guidebench.suites.bin_sorting.task import SNAPSHOT

    model, world = dynamics.model(), dynamics.make()
    model.geom_group[model.geom(f"ur5e/robotiq/{dynamics.MARKER}").id] = 0
    low, high = world._workspace_bounds
    points = np.random.default_rng(seed).uniform(low, high, (frames, 3))
    shots = np.zeros(frames, SNAPSHOT)
    for shot, point in zip(shots, points, strict=True):
        qpos = world.posed(point)
        qpos[world.blocks + 2] = BELOW
        shot["qpos"] = qpos
    draw = drawing.draw_model(model, camera, DETAIL * size, hidden=(drawing.ARM,))
    drawn = draw(shots.view(np.uint8).reshape(frames, -1)).astype(int)
    red, green, blue = np.moveaxis(drawn, -1, 0)
    marker = (red - green > 60) & (blue - green > 60)
    inner = marker[:, 1:-1, 1:-1].sum(axis=(1, 2))
    seen = (inner > 0) & (inner == marker.sum(axis=(1, 2)))  # the whole marker is in the frame
    pixels = [(np.argwhere(mask).mean(axis=0)[::-1] + 0.5) / DETAIL for mask in marker[seen]]
    return points[seen], np.array(pixels).reshape(-1, 2)
