"""MetaWorld's fixed cameras: projections compared with drawn frames, the tip, and what snapshots contain."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("metaworld")

from guidebench.harness.capabilities import InstructsBySnapshot, Locates, Projects, Steers
from guidebench.suites.metaworld import CALIBRATED, MT10, MetaWorld, MetaWorldDrawing, MetaWorldMT10
from guidebench.suites.metaworld.cameras import UNMARKED
from guidebench.suites.metaworld.task import record
from tests.refusals import check_refused

SUITE = MetaWorld()


@pytest.mark.parametrize("camera", CALIBRATED)
def test_a_projected_puck_is_where_it_is_drawn(camera: Any, opengl: None) -> None:
    """The puck is where a frame differs from one without it; frames in which the arm hides it are left out."""
    task: Any = SUITE.make("push")
    draw = MetaWorldDrawing(camera=camera, size=400).spawn("push")
    task.reset(0)
    places = [(x, y, z) for x in (-0.25, 0, 0.25) for y in (0.5, 0.8) for z in (0.02, 0.3)]
    count, visible_count = len(places) + 1, 0
    shots = np.frombuffer(np.tile(task.snapshot(), count).tobytes(), record(task._env.model)).copy()
    shots["qpos"][:, 9:12] = [*places, (0, 0, -5)]
    frames = draw(shots.view(np.uint8).reshape(count, -1)).astype(int)
    for shot, frame in zip(shots[:-1], frames[:-1], strict=True):
        puck = np.argwhere(np.abs(frame - frames[-1]).max(axis=-1) > 30)
        thing, place = SUITE.located("push", np.frombuffer(shot.tobytes(), np.uint8))
        assert thing == pytest.approx(shot["qpos"][9:12]) and place == pytest.approx(task._env._target_pos)
        (pixel,) = SUITE.project("push", camera, thing[None], 100)
        if len(puck) >= 64:
            visible_count += 1
            assert np.linalg.norm((puck.mean(axis=0)[::-1] + 0.5) / 4 - pixel) < 2
    assert visible_count >= 4


def test_the_tip_is_the_packages_point_between_the_fingers() -> None:
    for name in ("reach", "drawer-open", "peg-insert-side"):
        for suite in (SUITE, MetaWorld(state="reduced")):
            task: Any = suite.make(name)
            observations = [task.reset(0)]
            for _ in range(8):
                observations.append(task.step(task.expert()).observation)
            tips = suite.tip(name, np.stack(observations))
            assert tips.shape == (9, 3) and np.abs(tips[-1] - task._env.tcp_center).max() < 3e-3


def test_a_snapshot_tells_its_task_and_where_its_object_goes() -> None:
    suite = MetaWorldMT10(goal="observable")
    assert isinstance(suite, Projects) and isinstance(suite, InstructsBySnapshot) and isinstance(suite, Locates)
    task: Any = suite.make("mt10")
    instructions = set()
    for _ in range(6):
        task.reset()
        task.step(np.zeros(4, np.float32))  # the package's reset does not update derived positions
        env, shot = task._env, task.snapshot()
        instructions.add(task.instruction)
        assert suite.instruction_at("mt10", shot) == task.instruction
        thing, place = suite.located("mt10", shot)
        name = task._names[task._number]
        expected = env.tcp_center if name == "reach" else env._get_pos_objects()[:3]
        np.testing.assert_allclose(thing, expected, atol=1e-3)
        np.testing.assert_allclose(place, env._target_pos, atol=1e-6)
    assert len(instructions) > 1
    shot[0] = 200
    check_refused("names task 200, and there are 10", suite.instruction_at, "mt10", shot)


def test_the_places_of_tasks_are_the_packages_or_refused() -> None:
    for name in (*MT10[::2], *UNMARKED[:2]):
        task: Any = SUITE.make(name)
        task.reset(1)
        task.step(np.zeros(4, np.float32))
        if name in UNMARKED:
            check_refused(f"{name!r} marks no place", SUITE.located, name, task.snapshot())
            continue
        place = SUITE.located(name, task.snapshot())[1]
        np.testing.assert_allclose(place, task._env._target_pos, atol=1e-6, err_msg=name)
    assert not set(UNMARKED) & set(MT10)


def test_unknown_cameras_and_scenes_without_a_marked_place_are_refused() -> None:
    check_refused("unknown camera 'behindGripper'", SUITE.project, "push", "behindGripper", np.zeros((1, 3)), 100)
    task = SUITE.make("coffee-button")
    check_refused("'coffee-button' marks no place", SUITE.located, "coffee-button", task.snapshot())


def test_actions_towards_a_place_bring_the_fingers_there() -> None:
    assert isinstance(SUITE, Steers)
    task: Any = SUITE.make("reach")
    observation = task.reset(2)
    place = SUITE.tip("reach", observation[None]) + np.array([[0.08, 0.05, -0.06]])
    for _ in range(60):
        (action,) = SUITE.towards("reach", observation[None], place, np.array([True]))
        observation = task.step(action).observation
    assert np.linalg.norm(SUITE.tip("reach", observation[None]) - place) < 0.02 and action[3] == 1
