"""Properties of the frames of every suite."""

from typing import Any

import numpy as np
import pytest

from guidebench import testing
from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.suites.mujoco import gl
from tests.baselines.learners.conftest import same
from tests.refusals import check_refused

STATE = {"observation": "state"}


def built(name: str, **settings: Any) -> Any:
    return registry.get("suite", name)(**settings)


@pytest.mark.parametrize(
    ("name", "settings", "task", "drawing_settings"),
    [
        ("bin_sorting", STATE, "forward", {"size": 48, "perturbation": "sprite_swap"}),
        ("metaworld", {}, "drawer-open", {"size": 48, "perturbation": "texture"}),
        ("minigrid_doorkey", {}, "5x5", {"tile_size": 8, "perturbation": "sprite_swap"}),
        ("ogbench_scene", {}, "task4", {"size": 48, "perturbation": "texture"}),
        ("point_maze", {}, "umaze", {"size": 48}),
    ],
)
def test_drawing_changes_no_snapshot_and_no_episode(
    name: str, settings: dict[str, Any], task: str, drawing_settings: dict[str, Any], opengl: None
) -> None:
    suite, rng = built(name, **settings), np.random.default_rng(0)
    drawer, drawn_task, plain_task = suite.drawing(**drawing_settings).spawn(task), suite.make(task), suite.make(task)
    assert drawn_task.reset(5).tobytes() == plain_task.reset(5).tobytes()
    for _ in range(8):
        snapshot = drawn_task.snapshot()
        drawer(snapshot[None])
        assert snapshot.tobytes() == drawn_task.snapshot().tobytes() == plain_task.snapshot().tobytes()
        action = testing._action(suite.spaces(task)[1], rng)
        drawn_step, plain_step = drawn_task.step(action), plain_task.step(action)
        assert drawn_step.observation.tobytes() == plain_step.observation.tobytes() and drawn_step[1:] == plain_step[1:]
        assert drawn_task.events().tolist() == plain_task.events().tolist()
    assert same(drawn_task.state(), plain_task.state()) and drawn_task.reset().tobytes() == plain_task.reset().tobytes()


@pytest.mark.parametrize(
    ("name", "settings", "task", "seeds"),
    [
        ("crafter", {}, "game", (0, 1, 0)), ("housekeep", {}, "adjustment_1", (0, 1, 0)),
        ("metaworld", {}, "drawer-open", (0, 1)),
    ],
)  # fmt: skip
def test_textures_follow_from_their_seed(
    name: str, settings: dict[str, Any], task: str, seeds: tuple[int, ...], opengl: None
) -> None:
    """For simulations the tests of `mujoco` show that a seed has one texture."""
    suite = built(name, **settings)
    world = suite.make(task)
    world.reset(0)
    shot = world.snapshot()[None]
    frames = [suite.drawing(size=64, perturbation="texture", seed=seed).spawn(task)(shot) for seed in seeds]
    assert frames[0].shape[:3] == (1, 64, 64)
    assert [np.array_equal(frames[0], frame) for frame in frames[1:]] == [seed == 0 for seed in seeds[1:]]


@pytest.mark.parametrize(
    ("name", "settings", "task"),
    [
        ("bin_sorting", STATE, "forward"), ("metaworld", {}, "push"), ("ogbench_scene", {}, "task3"),
        ("point_maze", {}, "medium"),
    ],
)  # fmt: skip
def test_fast_frames_differ_from_full_ones_by_shadows_and_edges_alone(
    name: str, settings: dict[str, Any], task: str, opengl: None
) -> None:
    suite = built(name, **settings)
    shot = suite.make(task).snapshot()[None]
    fast, full = (suite.drawing(quality=quality, size=128).spawn(task)(shot)[0] for quality in ("fast", "full"))
    assert fast.shape == (128, 128, 3) and 0 < (np.abs(fast.astype(int) - full).max(-1) > 60).mean() < 0.15


@pytest.mark.parametrize(
    ("name", "settings", "task", "drawing_settings"),
    [
        ("bin_sorting", STATE, "forward", {}), ("metaworld_mt10", {}, "mt10", {}),
        ("ogbench_scene", {}, "task3", {"perturbation": "sprite_swap"}),
    ],
)  # fmt: skip
def test_both_cameras_are_shown_side_by_side(
    name: str, settings: dict[str, Any], task: str, drawing_settings: dict[str, Any], opengl: None
) -> None:
    suite = built(name, **settings)
    shots = np.stack([suite.make(task).snapshot()] * 2)
    both, first_view, second_view = (
        suite.drawing(camera=camera, size=48, **drawing_settings).spawn(task)(shots)
        for camera in ("both", *suite.cameras_of(task)[:2])
    )
    assert both.shape == (2, 48, 96, 3) and not np.array_equal(first_view, second_view)
    assert np.array_equal(both[:, :, :48], first_view) and np.array_equal(both[:, :, 48:], second_view)


@pytest.mark.parametrize(
    ("name", "task", "snapshot", "message"),
    [
        ("crafter", "game", np.zeros(12), r"uint8 \[12\] is not one of Crafter"),
        ("housekeep", "adjustment_1", np.zeros(12), r"uint8 \[12\] is not one of Housekeep"),
        ("housekeep", "adjustment_1", np.full(738, 255), "it is damaged"),
        ("minigrid_doorkey", "5x5", np.zeros(111), r"\[L, 78\] expected"),
        ("point_maze", "open", np.zeros(352), r"snapshots of shape \(1, 352\) given, \[L, 40\] expected"),
    ],
)
def test_snapshots_of_another_world_are_refused(
    name: str, task: str, snapshot: Any, message: str, opengl: None
) -> None:
    check_refused(message, built(name).drawing().spawn(task), snapshot.astype(np.uint8)[None])


@pytest.mark.parametrize(
    ("name", "task"),
    [("bin_sorting", "forward"), ("metaworld", "reach"), ("ogbench_scene", "drawer"), ("point_maze", "open")],
)
def test_a_machine_that_cannot_draw_is_told_so(name: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> str:
        raise UserError("frames cannot be drawn: apt-get install libosmesa6")

    monkeypatch.setattr(gl, "backend", nothing)
    drawing = built(name).drawing()
    for call in (drawing.ready, lambda: drawing.spawn(task)):
        check_refused("apt-get install libosmesa6", call)
