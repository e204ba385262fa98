"""Frames of the scene, and what perturbations leave unchanged."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("ogbench")

from guidebench.suites.mujoco import gl  # noqa: E402
from guidebench.suites.ogbench_scene import SceneDrawing  # noqa: E402
from guidebench.suites.ogbench_scene.demonstrations import SOLUTIONS, Expert  # noqa: E402
from guidebench.suites.ogbench_scene.task import Scene  # noqa: E402


@pytest.fixture
def package(monkeypatch, opengl):
    """Let the package's own render() draw on this machine."""
    monkeypatch.setattr("mujoco.gl_context.GLContext", gl.context)


def play_to(name, moments):
    """Yield the task each time after one of these numbers of steps of an expert."""
    task = Scene(name)
    observation = task.reset(0)
    act = Expert(task, SOLUTIONS[name], 0)
    for step in range(max(moments) + 1):
        if step in moments:
            yield task
        observation = task.step(act(observation)).observation


def test_full_frames_are_those_of_the_packages_own_render(package):
    """Compared at the start, and after the button and the drawer's handle have changed colour."""
    drawer = SceneDrawing(quality="full").spawn("button")
    handles = set()
    for task in play_to("button", (0, 20)):
        task._put_back()
        expected, (frame,) = task._env.render(), drawer(task.snapshot()[None])
        assert expected.shape == (200, 200, 3) and np.array_equal(frame, expected)
        handles.add(task._env.model.material("drawer_handle").rgba.tobytes())
    assert len(handles) == 2


def test_swapped_sprites_mislead_and_textures_hide(opengl):
    shot = Scene("task4").snapshot()[None]
    looks = {
        name: SceneDrawing(perturbation=name).spawn("task4")(shot)[0].astype(int)
        for name in ("none", "sprite_swap", "texture")
    }
    blue, red, _ = (looks[name][110, 10] for name in looks)  # on top of the drawer
    assert blue.argmax() == 2 and red.argmax() == 0
    floor = np.s_[175:195, 5:60]
    assert all(np.array_equal(look[floor], looks["none"][floor]) for look in looks.values())
    front = looks["texture"][90:130, 2:15].reshape(-1, 3)
    assert len(np.unique(front // 64, axis=0)) >= 2 and np.ptp(front, axis=0).max() > 100
