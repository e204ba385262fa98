"""The judge `motion`: its answers on clips whose content is set by hand."""

import functools

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("ogbench")

from guidebench.suites.minigrid_doorkey import MiniGridDoorKey  # noqa: E402
from guidebench.suites.ogbench_scene import Motion, OgbenchScene, SceneDrawing, dynamics  # noqa: E402
from guidebench.suites.ogbench_scene.motion import MotionJudge  # noqa: E402
from guidebench.suites.ogbench_scene.perturbations import LOCKED, UNLOCKED  # noqa: E402
from guidebench.suites.ogbench_scene.task import SNAPSHOT, Scene  # noqa: E402
from tests.cell_views import cell_view  # noqa: E402
from tests.refusals import check_refused  # noqa: E402

LENGTH = 8
SIX = [0, 1, 3, 4, 6, 7]
PINK = (0.99, 0.85, 0.86)


@functools.cache
def place(joint):
    return int(dynamics.model().joint(joint).qposadr[0])


def clip(**change):
    """Return snapshots [LENGTH, n] of a scene in which parts change from their first value to their last."""
    task = Scene("task4")
    task.reset(0)
    shots = np.repeat(task.snapshot()[None], LENGTH, axis=0)
    records = shots.view(SNAPSHOT)[:, 0]
    records["qpos"][:, place("object_joint_0") :][:, :3] = (0.4, 0.0, 0.02)
    ramp = np.linspace(0, 1, LENGTH)
    switch = (ramp > 0.5)[:, None]
    for part, (first, last) in change.items():
        if part in ("drawer", "window"):
            records["qpos"][:, place(f"{part}_slide")] = first + ramp * (last - first)
        elif part == "cube":
            records["qpos"][:, place("object_joint_0") :][:, :3] += np.outer(ramp, np.subtract(last, first))
        elif part == "pink":
            records["mocap_pos"][:] = 0.4, 0.0, 0.02  # the goal's mark, where a cube is pale
            records["geom_rgba"][:, 0, :3] = np.where(switch, last, first)
        else:
            number = int(part[-1])
            records["geom_rgba"][:, 2 + number, :3] = np.where(switch, last, first)
            records["mat_rgba"][:, number, :3] = np.where(switch, last, first)
    return shots


CHANGES = {
    "drawer": {"drawer": (0.0, -0.06)},
    "window": {"window": (0.05, 0.11)},
    "button_0": {"button_0": (LOCKED, UNLOCKED)},
    "button_1": {"button_1": (UNLOCKED, LOCKED)},
    "cube": {"cube": ((0, 0, 0), (0, 0, 0.08))},
    "pink": {"pink": (LOCKED, PINK)},
}


@pytest.fixture(scope="module")
def judge():
    return MotionJudge()


@functools.lru_cache(maxsize=1)
def drawer(**settings):
    return SceneDrawing(**settings).spawn("task4")


def draw(snapshots, **settings):
    return drawer(**settings)(snapshots)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_as_what_it_is(change, judge, opengl):
    verdicts = judge.changed_subgoals(draw(clip(**CHANGES[change])))
    assert [name for name, happened in verdicts.items() if happened] == ["cube" if change == "pink" else change]


def test_a_still_scene_and_a_moving_arm_are_no_event(judge, opengl):
    shots = clip()
    task, random = Scene("task4"), np.random.default_rng(1)
    moving = []
    for _ in range(LENGTH):
        moving.append(task.snapshot())
        task.step(np.float32([*random.uniform(-1, 1, 2), 1, *random.uniform(-1, 1, 2)]))  # upwards, so it hits nothing
    assert judge([draw(shots), draw(np.stack(moving))]) == [0.0, 0.0]


def test_less_than_three_centimetres_is_no_motion(judge, opengl):
    changes = ({"drawer": (0.0, -0.015)}, {"window": (0.05, 0.065)}, {"cube": ((0, 0, 0), (0, 0.015, 0))})
    assert judge([draw(clip(**change)) for change in changes]) == [0.0] * 3


def test_it_reads_frames_of_any_size_and_quality(judge, opengl):
    change = clip(**CHANGES["drawer"])[SIX]
    assert judge([draw(change, size=100), draw(clip()[SIX], size=100)]) == [1.0, 0.0]
    assert judge([draw(change, size=100, quality="full")]) == [1.0]


def test_it_recognises_no_motion_of_textured_objects(judge, opengl):
    """This checks the instrument: the judge looks at pixels alone."""
    changes = [draw(clip(**CHANGES[change]), perturbation="texture") for change in ("drawer", "window", "cube")]
    assert judge(changes) == [0.0] * 3


def test_another_suite_and_other_frames_are_refused(judge):
    assert Motion().fits(cell_view({"suite": OgbenchScene()})) == ""
    check_refused("choose another judge=", Motion().spawn, MiniGridDoorKey(), "8x8")
    check_refused(r"uint8 \(4, 32, 48, 3\) given", judge, [np.zeros((4, 32, 48, 3), np.uint8)])
