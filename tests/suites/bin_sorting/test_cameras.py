"""The projection against hand-worked pixels and drawn ones, and regressors against functions known by hand."""

import numpy as np
import pytest

from guidebench.harness.capabilities import InstructsBySnapshot, Locates, Projects
from guidebench.suites.bin_sorting import BinSorting, layout, words
from guidebench.suites.bin_sorting.calibration import Regressor, tip_pixels
from guidebench.suites.bin_sorting.cameras import CAMERAS, project
from guidebench.suites.bin_sorting.task import is_at
from tests.refusals import check_refused

from .conftest import STATE


def test_pixels_of_the_camera_above_by_hand():
    # From (.4, 0, 1.05) m, 38 degrees high; a point at a height of .05 m is 1 m away, so a metre is
    # 50 / tan(19°) = 145.21 pixels. +x is up in the frame, and +y left.
    points = np.array([(0.4, 0, 0.05), (0.4, 0.1, 0.05), (0.5, 0, 0.05), (0.4, 0.05, 0.55), (0.4, 0, 1.2)])
    metre = 50 / np.tan(np.radians(19))
    expected = [(50, 50), (50 - 0.1 * metre, 50), (50, 50 - 0.1 * metre), (50 - 0.1 * metre, 50), (np.nan, np.nan)]
    np.testing.assert_allclose(project("top", points, 100), expected, atol=1e-9)
    np.testing.assert_allclose(project("top", points, 300), 3 * np.array(expected), atol=1e-9)


def test_the_side_camera_looks_at_its_target_and_shows_heights_upwards():
    target, *others = project("side", [(0.4, 0, 0.15), (0.4, 0, 0.3), (0.4, 0.2, 0.15)], 100)
    assert target == pytest.approx((50, 50))
    assert others[0][0] == pytest.approx(50) and others[0][1] < 40  # higher
    assert others[1][0] > 60 and others[1][1] == pytest.approx(50)  # the arm's left is at the right


@pytest.mark.parametrize("camera", CAMERAS)
def test_projected_blocks_are_where_they_are_drawn(camera, opengl, tasks):
    from guidebench.suites.bin_sorting import drawing, dynamics

    draw = drawing.draw_model(dynamics.model(), camera, 100, hidden=(drawing.ARM,))
    task = tasks("forward")
    for seed in range(3):
        task.reset(seed)
        frame = draw(task.snapshot()[None])[0].astype(int)
        expected = STATE.project("forward", camera, task._world.poses[:, :3], 100)
        for channel, pixel in enumerate(expected):  # red, green and blue
            others = np.delete(frame, channel, axis=-1).max(axis=-1)
            mask = frame[..., channel] > np.maximum(30, 1.8 * others)
            assert mask.sum() >= 8
            centroid = np.argwhere(mask).mean(axis=0)[::-1] + 0.5
            assert np.linalg.norm(centroid - pixel) < 2, (seed, channel)


@pytest.mark.parametrize("camera", CAMERAS)
def test_the_marker_of_calibration_frames_is_at_the_projected_tip(camera, opengl):
    points, pixels = tip_pixels(camera, 100, 12, seed=0)
    assert len(points) >= 8
    assert np.linalg.norm(project(camera, points, 100) - pixels, axis=1).max() < 0.5


@pytest.mark.slow
def test_a_regressor_of_calibration_frames_agrees_with_the_projection(opengl):
    regressor = STATE.calibrate("forward", "top", 100)
    points = np.random.default_rng(5).uniform((0.25, -0.35, 0.02), (0.6, 0.35, 0.35), (300, 3))
    off = np.linalg.norm(regressor(points) - STATE.project("forward", "top", points, 100), axis=1)
    assert np.median(off) < 0.5 and np.percentile(off, 95) < 2


def test_a_regressor_finds_a_quadratic_behind_outliers():
    # column = 3 + 2x - y + x², row = 1 + xy - z², worked at (1, 2, 3): column 4, row -6.
    rng = np.random.default_rng(0)
    points = rng.uniform(-5, 5, (60, 3))
    x, y, z = points.T
    pixels = np.stack([3 + 2 * x - y + x * x, 1 + x * y - z * z], axis=1)
    pixels[:18] += rng.choice([-1, 1], (18, 2)) * rng.uniform(20, 60, (18, 2))
    regressor = Regressor(points, pixels)
    assert regressor.inliers.tolist() == [False] * 18 + [True] * 42
    np.testing.assert_allclose(regressor(np.array([(1, 2, 3), (0, 0, 0)])), [(4, -6), (3, 1)], atol=1e-9)


def test_a_regressor_without_inliers_is_refused():
    rng = np.random.default_rng(0)
    points, noise = rng.uniform(0, 1, (60, 3)), rng.uniform(0, 100, (60, 2))
    check_refused(r"a regressor without inliers: \d+ of 60 calibration points agree within 2", Regressor, points, noise)
    check_refused(
        "a regressor needs 20 calibration points or more, and 12 were given", Regressor, points[:12], noise[:12]
    )
    check_refused("must be finite", Regressor, points, np.full((60, 2), np.nan))
    check_refused(r"points \[60, 3\] and pixels \[59, 2\]", Regressor, points, noise[1:])
    check_refused(
        "without inliers", Regressor, points * (1, 1, 0), noise
    )  # all in one plane: ten of them determine no fit


def test_cameras_and_points_are_checked():
    assert isinstance(STATE, Projects) and STATE.cameras_of("forward") == ("top", "side") == tuple(CAMERAS)
    check_refused("unknown camera 'tip'; did you mean 'top'", STATE.project, "forward", "tip", np.zeros((1, 3)), 100)
    check_refused(
        r"points of shape \[3\] cannot be projected; expected \[n, 3\]",
        STATE.project,
        "forward",
        "top",
        np.zeros(3),
        100,
    )
    check_refused("a frame of 0 pixels", STATE.project, "forward", "top", np.zeros((1, 3)), 0)
    check_refused("unknown task", BinSorting().project, "task1", "top", np.zeros((1, 3)), 100)


@pytest.mark.parametrize("name", ("forward", "backward", "other", "sorting"))
def test_a_snapshot_tells_what_is_asked_and_where_the_block_and_its_place_are(name, tasks):
    assert isinstance(STATE, InstructsBySnapshot) and isinstance(STATE, Locates)
    task, told = tasks(name), set()
    for seed in (0, 1, 2, 3, 6, 11):
        task.reset(seed)
        for _ in range(4):
            task.step(task.expert())
        shot = task.snapshot()
        told.add(task.instruction)
        assert STATE.instruction_at("sorting", shot) == task.instruction
        thing, place = STATE.located(name, shot)
        block = words.colours(name).index(next(word for word in task.instruction.split() if word in words.COLOURS))
        assert thing == pytest.approx(task._world.poses[block, :3])
        assert place == pytest.approx([*task._aim().place, layout.BLOCK])
        assert is_at(place, task._place)
    assert len(told) > 2


def test_snapshots_of_another_world_are_refused(tasks):
    shot = tasks("forward").snapshot()
    check_refused(r"shape \[330\] is none of bin_sorting's, \[331\]", STATE.located, "forward", shot[1:])
    shot = shot.copy()
    shot[-3] = 9
    check_refused(r"asks for .* which no instruction of bin_sorting does", STATE.instruction_at, "forward", shot)


def test_the_tip_is_read_from_both_kinds_of_observation(opengl):
    for suite in (STATE, BinSorting(cameras="top")):
        task = suite.make("forward")
        seen = [task.reset(1), task.step((1, 0.5, -1, 0, 0, 0, 0)).observation]
        tips = suite.tip("forward", np.stack(seen))
        assert tips.shape == (2, 3) and tips[0] == pytest.approx(layout.HOME, abs=3e-3)
        assert tips[1] == pytest.approx(task._world.tip, abs=1e-6) and tips[1, 0] > tips[0, 0] + 0.02
