"""Frames of MetaWorld's tasks are the package's own, upright; and what perturbations leave unchanged."""

import typing
from typing import Any

import numpy as np
import pytest

pytest.importorskip("metaworld")

from guidebench.suites.metaworld import Camera, MetaWorld, MetaWorldDrawing, MetaWorldMT10
from tests.suites.metaworld.test_task import package

SIZE = 96


@pytest.mark.parametrize(
    ("name", "camera", "kinds"),
    (("door-open", "corner2", ("upright", "package", "mirrored")), ("door-open", "topview", ("upright",))),
)
def test_full_frames_are_those_of_the_packages_own_render(
    name: str, camera: Any, kinds: tuple[Any, ...], opengl: None
) -> None:
    """Only whether a camera hangs upside down decides how its frames are turned."""
    env = package(name, 3, render_mode="rgb_array", camera_name=camera, width=SIZE, height=SIZE)
    task = MetaWorld().make(name)
    env.reset()
    task.reset(3)
    drawers = {
        kind: MetaWorldDrawing(camera=camera, size=SIZE, quality="full", orientation=kind).spawn(name) for kind in kinds
    }
    for number in range(16):
        action = task.expert()  # type: ignore[attr-defined]
        env.step(action)
        task.step(action)
        if number % 15 == 0:
            frames = {kind: drawer(task.snapshot()[None])[0] for kind, drawer in drawers.items()}
            rendered = env.render()
            upright = (
                rendered[::-1, ::-1] if camera.startswith("corner") else rendered
            )  # these cameras hang upside down
            expected = {"upright": upright, "package": rendered, "mirrored": rendered[::-1]}
            for kind, frame in frames.items():
                assert frame.shape == (SIZE, SIZE, 3) and (frame != expected[kind]).sum() == 0, kind
    env.close()


def test_frames_are_upright_from_every_camera_that_sees_the_room(opengl: None) -> None:
    """The floor and the table are brighter than the sky, and below it."""
    shot = MetaWorld().make("push").snapshot()[None]
    for camera in typing.get_args(Camera)[:4]:
        frame = MetaWorldDrawing(camera=camera, size=SIZE).spawn("push")(shot)[0].astype(int)
        sky = np.abs(frame - frame[0, 0]).max(axis=-1) < 8
        assert sky[: SIZE // 4].mean() > sky[-SIZE // 4 :].mean() + 0.3 or camera == "corner3", camera


def test_the_first_frame_shows_the_layout_at_once(opengl: None) -> None:
    """The package would show the drawer where it was before, since it moves it without updating the simulation."""
    task = MetaWorld().make("drawer-open")
    draw = MetaWorldDrawing(size=SIZE).spawn("drawer-open")
    task.reset(1)
    first = draw(task.snapshot()[None])
    task.step(np.zeros(4, np.float32))
    assert (np.abs(first.astype(int) - draw(task.snapshot()[None])).max(axis=-1) > 40).mean() < 0.02


def test_tasks_that_take_turns_are_drawn_each_in_its_own_scene(opengl: None) -> None:
    suite = MetaWorldMT10()
    task: Any = suite.make("mt10")
    drawing = MetaWorldDrawing(size=SIZE)
    shots, expected = [], []
    for _ in range(3):
        task.reset()
        shots.append(task.snapshot())
        name = task._names[task._number]
        alone: Any = suite.make(name)
        alone._env.load_state(task._env.state())
        expected.append(drawing.spawn(name)(alone.snapshot()[None])[0])
    assert len({shot[0] for shot in shots}) > 1
    np.testing.assert_array_equal(drawing.spawn("mt10")(np.array(shots)), expected)


def test_swapped_sprites_mislead_and_textures_hide(opengl: None) -> None:
    shot = MetaWorld().make("drawer-open").snapshot()[None]

    def draw(**settings: Any) -> Any:
        return MetaWorldDrawing(size=SIZE, **settings).spawn("drawer-open")(shot)[0].astype(int)

    plain, swapped = draw(), draw(perturbation="sprite_swap")
    red = (plain[..., 0] > 2 * plain[..., 1]).sum(), (swapped[..., 0] > 2 * swapped[..., 1]).sum()
    green = (plain[..., 1] > 1.2 * plain[..., 0]).sum(), (swapped[..., 1] > 1.2 * swapped[..., 0]).sum()
    assert red[0] > 4 * red[1] > 0 and green[1] > 4 * green[0] > 0  # a red arm and a green drawer, and the reverse
    assert (np.abs(draw(perturbation="texture") - plain).max(axis=-1) > 40).mean() > 0.2
