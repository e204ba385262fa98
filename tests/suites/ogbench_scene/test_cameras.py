"""The scene's calibrated cameras: projections compared with drawn frames, the tip, and places of objects and goals."""

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("ogbench")

from guidebench.harness.capabilities import Locates, Projects
from guidebench.suites.ogbench_scene import CALIBRATED, OgbenchScene, SceneDrawing
from guidebench.suites.ogbench_scene.task import SNAPSHOT, Scene
from tests.refusals import check_refused

SUITE = OgbenchScene()


@pytest.mark.parametrize("camera", CALIBRATED)
def test_a_projected_cube_is_where_it_is_drawn(camera, opengl):
    """The cube is where a frame differs from one without it."""
    draw, task, visible_count = SceneDrawing(camera=camera, size=100).spawn("task4"), Scene("task4"), 0
    start = task._env.model.joint("object_joint_0").qposadr[0]
    for seed in range(4):
        task.reset(seed)
        without = np.frombuffer(task.snapshot().tobytes(), SNAPSHOT).copy()
        without["qpos"][0, start + 2] = -5
        frames = draw(np.stack([task.snapshot(), without.view(np.uint8)])).astype(int)
        cube = np.argwhere(np.abs(frames[0] - frames[1]).max(axis=-1) > 30)
        thing, place = SUITE.located("task4", task.snapshot())
        assert thing == pytest.approx(task.info()["privileged/block_0_pos"])
        assert place == pytest.approx((0.33, -0.356, 0.066), abs=1e-3)  # the cube's goal, in the drawer
        if len(cube) >= 4:
            visible_count += 1
            pixel = SUITE.project("task4", camera, thing[None], 100)[0]
            assert np.linalg.norm(cube.mean(axis=0)[::-1] + 0.5 - pixel) < 2, seed
    assert visible_count >= 2


def test_the_tip_is_the_packages_effector():
    task = Scene("drawer")
    observations = [task.reset(0)] + [task.step(np.array([0.5, 1, -1, 0, 0])).observation for _ in range(4)]
    tips = SUITE.tip("drawer", np.stack(observations))
    assert tips.shape == (5, 3) and tips[-1] == pytest.approx(task.info()["proprio/effector_pos"], abs=1e-6)


def test_the_drawer_is_to_be_pulled_out_and_the_button_stays_where_it_is(opengl):
    task = Scene("drawer")
    handle, place = SUITE.located("drawer", task.snapshot())
    assert handle == pytest.approx(task._env._data.site("drawer_handle_center").xpos)
    still = 0.16 + task._env._data.joint("drawer_slide").qpos[0]  # the joint's goal is -.16
    assert np.linalg.norm(place - handle) == pytest.approx(still) and place[2] == pytest.approx(handle[2])
    top, same = SUITE.located("button", Scene("button").snapshot())
    assert np.array_equal(top, same) and 0 < top[2] < 0.2
    window = Scene("unlock_window")
    handle, place = SUITE.located("unlock_window", window.snapshot())
    assert handle == pytest.approx(window._env._data.site("window_handle_center").xpos)
    way = window._env._data.joint("window_slide").qpos[0]  # the joint's goal is 0
    assert handle - place == pytest.approx((way, 0, 0), abs=1e-9) and way > 0.18
    assert isinstance(SUITE, Projects) and isinstance(SUITE, Locates)
    check_refused(r"shape \[3\] is none of ogbench_scene's", SUITE.located, "button", np.zeros(3, np.uint8))
