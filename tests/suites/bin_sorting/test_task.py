"""Success, rewards and events in worlds laid out by hand; the protocol without resets; exact states."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from guidebench.harness.capabilities import Steers
from guidebench.suites.bin_sorting import layout, words
from guidebench.suites.bin_sorting.dynamics import _angles, _matrix
from guidebench.suites.bin_sorting.task import SNAPSHOT, BinTask, is_at
from tests.refusals import check_refused

from .conftest import STATE

STILL = np.zeros(7, np.float32)


def put_block(task, xy, number=None):
    """Lay a block at rest at `xy`: block `number`, by default the named one."""
    task._world.place(task._block if number is None else number, np.array(xy), 0.0)
    task._world.refresh()


# Success


@pytest.mark.parametrize(
    ("xy", "succeeds"),
    [((0.42, 0.24), True), ((0.48, 0.30), True), ((0.42, -0.24), False), ((0.42, 0.0), False), ((0.42, 0.14), False)],
)
def test_forward_succeeds_in_the_named_bin_alone_and_does_not_end(xy, succeeds, tasks):
    task = tasks("forward")
    seed = next(seed for seed in range(20) if "left" in (task.reset(seed), task.instruction)[1])
    task.reset(seed)
    assert not task.step(STILL).success
    put_block(task, xy)
    step = task.step(STILL)
    assert (step.success, step.reward, step.terminated) == (succeeds, float(succeeds), False)
    assert task.events().tolist() == [False, succeeds, succeeds]
    assert task.outcomes()["wrong_bin"] == float(xy == (0.42, -0.24))
    task.step(STILL)
    assert not task.events().any()  # the gripper still holds the block, as before


def test_a_block_that_the_gripper_holds_in_the_bin_is_no_success_yet(tasks):
    task = tasks("forward")
    task.reset(0)
    put_block(task, layout.BINS[task._place.removesuffix(" bin")])
    task.step((0, 0, 0, 0, 0, 0, -1))
    assert not task.step(STILL).success  # the gripper keeps its command to close
    assert task.step((0, 0, 0, 0, 0, 0, 0.6)).success


@pytest.mark.parametrize(
    ("xy", "succeeds"), [((0.42, 0.0), True), ((0.52, 0.11), True), ((0.54, 0.0), False), ((0.42, 0.24), False)]
)
def test_backward_succeeds_on_the_tray(xy, succeeds, tasks):
    task = tasks("backward")
    task.reset(0)
    assert layout.bin_of(task._world.poses[task._block]) and not task.step(STILL).success
    put_block(task, xy)
    assert task.step(STILL).success == succeeds


def test_sides_of_the_tray_begin_three_centimetres_from_its_middle():
    for side, xy in {"near": (0.38, 0), "far": (0.46, 0), "left": (0.42, 0.04), "right": (0.42, -0.04)}.items():
        at = np.array([*xy, 0.02])
        assert [place for place in words.PLACES[3:] if is_at(at, place)] == [f"{side} side"]
        assert not is_at(np.array([0.42, 0.02, 0.02]), f"{side} side")
    assert not is_at(np.array([0.42, 0.2, 0.02]), "left side")  # beyond the tray


def test_a_state_from_before_hovering_was_counted_is_restored(tasks):
    task = tasks("forward")
    task.reset(3)
    older = {name: entry for name, entry in task.state().items() if name not in ("stage", "still", "hovered")}
    task.load_state(older)
    assert not any(task.state()["hovered"]) and task.state()["elapsed"] == older["elapsed"]


def test_termination_at_success_is_a_setting():
    task = BinTask("forward", replace(STATE, terminate=True))
    assert not task.step(STILL).terminated
    put_block(task, layout.BINS[task._place.removesuffix(" bin")])
    assert task.step(STILL).terminated


def test_instructions_name_a_colour_and_a_place(tasks):
    instructions = {}
    for name in ("forward", "backward", "other", "sorting"):
        task = tasks(name)
        instructions[name] = {(task.reset(seed), task.instruction)[1] for seed in range(12)}
    bins = {"red": "left", "green": "right", "blue": "left"}
    forward = {f"put the {colour} block into the {side} bin" for colour, side in bins.items()}
    assert instructions["forward"] == instructions["sorting"] == forward
    assert instructions["backward"] == {
        f"take the {colour} block out of the {side} bin and put it on the tray" for colour, side in bins.items()
    }
    assert all(
        any(colour in text for colour in words.OTHERS) and "side of the tray" in text for text in instructions["other"]
    )


# Observations and actions


def test_a_state_holds_arm_named_block_all_blocks_and_goal(tasks):
    task = tasks("forward")
    observation = task.reset(4)
    world, named = task._world, task._block
    assert observation.shape == (35,) and observation.dtype == np.float32
    tip = (world.tip - (0.42, 0, 0.1)) * 5
    block = (world.poses[named, :3] - (0.42, 0, 0.1)) * 5
    np.testing.assert_allclose(observation[:3], tip, atol=1e-6)
    assert observation[6] == 0 and abs(observation[7]) < 0.02  # open, and commanded to be
    np.testing.assert_allclose(observation[8:11], block - tip, atol=1e-6)
    np.testing.assert_allclose(observation[13:16], block, atol=1e-6)
    goal = [words.COLOURS[named] in task.instruction and index == named for index in range(6)]
    assert observation[22:28].astype(bool).tolist() == goal
    assert words.PLACES[int(observation[28:].argmax())] in task.instruction and observation[28:].sum() == 1


def test_the_gripper_keeps_its_command_between_half_and_minus_half(tasks):
    task = tasks("forward")
    task.reset(0)
    closing = []
    for grip in (0.4, -0.4, -0.6, 0.0, 0.4, 0.6, -0.5):
        task.step((0, 0, 0, 0, 0, 0, grip))
        closing.append(task._world.closing)
    assert closing == [False, False, True, True, True, False, False]


def test_actions_move_and_turn_the_gripper_by_the_stated_scale(tasks):
    task = tasks("forward")
    task.reset(0)
    for _ in range(2):
        task.step(STILL)
    before, turned = task._world.tip.copy(), task._world.angles.copy()
    for _ in range(4):
        task.step((0, 0.5, 0, 0, 0, 0.25, 0))
    moved = task._world.tip - before
    # Four actions of .05 m and .15 rad; the arm lags behind its command by less than one of them.
    assert 0.13 < moved[1] < 0.21 and abs(moved[[0, 2]]).max() < 0.03
    assert 0.4 < (task._world.angles - turned)[2] < 0.65


def test_angles_are_read_from_the_matrix():
    assert _matrix(0.0, 0.0, np.pi / 2) == pytest.approx(np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), abs=1e-12)
    assert _matrix(np.pi / 2, 0.0, 0.0) == pytest.approx(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), abs=1e-12)
    assert _angles(_matrix(0.3, -0.4, 2.0)) == pytest.approx([0.3, -0.4, 2.0])


def test_an_action_of_another_shape_is_refused(tasks):
    check_refused(
        r"an action of shape \[5\] was given to bin_sorting; expected \[7\]", tasks("forward").step, np.zeros(5)
    )


# The world stays


def follow(task, rng, noise):
    """Play an episode by the scripted policy with a share of random actions; return whether it ended in success."""
    for _ in range(task.max_steps):
        random = rng.random() < noise
        step = task.step(rng.uniform(-1, 1, 7) if random else task.expert())
    return step.success


def test_episodes_without_a_reset_go_there_and_back(tasks):
    task, rng = tasks("sorting"), np.random.default_rng(0)
    task.reset(0)
    directions = []
    for _ in range(6):
        before = task._world.poses[:, :2].copy()
        directions.append(task._place == "tray")
        assert follow(task, rng, 0.0)
        lying = task._world.poses[:, :2].copy()
        assert np.linalg.norm(lying - before, axis=1).argmax() == task._block
        task.reset()
        np.testing.assert_allclose(task._world.poses[:, :2], lying, atol=2e-3)  # the blocks stay where they are
        assert np.linalg.norm(task._world.tip - layout.HOME) < 5e-3 and not task._world.closing
    assert directions == [False, True] * 3 and task.outcomes()["put_back"] == 0


def test_what_clumsy_episodes_put_out_of_reach_is_put_back_and_counted(tasks):
    task, rng = tasks("sorting"), np.random.default_rng(1)
    task.reset(1)
    for _ in range(4):
        follow(task, rng, 0.3)
        task.reset()
        assert all(layout.reachable(pose) for pose in task._world.poses)
    assert task.outcomes()["put_back"] > 0


@pytest.mark.parametrize("xy", [(0.42, 0.14), (0.24, 0.0), (0.42, 0.31)])
def test_a_block_beside_tray_and_bins_or_at_a_wall_is_put_back(xy, tasks):
    task = tasks("sorting")
    task.reset(0)
    others = [number for number in range(3) if number != task._block]
    put_block(task, xy)
    rest = task._world.poses[others, :2].copy()
    assert task.outcomes()["out_of_reach"] == 1 and task.outcomes()["put_back"] == 0
    block = task._block
    task.reset()
    assert task.outcomes()["put_back"] == 1 and layout.on_tray(task._world.poses[block])
    np.testing.assert_allclose(task._world.poses[others, :2], rest, atol=2e-3)


def test_the_next_episode_takes_out_what_lies_in_a_bin_and_else_sorts(tasks):
    task = tasks("sorting")
    task.reset(0)
    block = task._block
    put_block(task, (0.42, -0.24))
    task.reset()
    assert (task._block, task._place, task._origin) == (block, "tray", "right")
    task.reset()  # the block was not taken out; after this attempt another one is sorted
    assert task._place.endswith("bin") and task._block != block
    for number in range(3):
        put_block(task, (layout.TRAY[0], 0.09 * (number - 1)), number)
    task.reset()
    assert task._place.endswith("bin")  # nothing lies in a bin


def test_the_world_is_laid_out_anew_after_so_many_episodes_and_when_it_is_evaluated():
    task = BinTask("sorting", replace(STATE, rebuild=2))
    lying = []
    for seed in (0, None, None, None):
        task.reset(seed)
        lying.append(task._world.poses[:, :2].copy())
    same = [np.abs(first - second).max() < 2e-3 for first, second in itertools.pairwise(lying)]
    assert same == [True, True, False]
    assert not STATE.in_evaluation().reset_free
    task = BinTask("sorting", STATE.in_evaluation())
    task.reset(0)
    first = task._world.poses[:, :2].copy()
    task.reset()
    assert np.abs(task._world.poses[:, :2] - first).max() > 0.01 and task._place.endswith("bin")


# State


def test_a_snapshot_holds_joints_and_colours(tasks):
    task = tasks("other")
    task.reset(0)
    (record,) = task.snapshot().view(SNAPSHOT)
    assert task.snapshot().shape == (331,) and record["qpos"].tobytes() == task._world.data.qpos.tobytes()
    np.testing.assert_allclose(record["geom_rgba"], [words.RGBA[colour] for colour in words.OTHERS], rtol=1e-6)


# Imprecise resets, and moving to places


def test_displaced_blocks_move_once_as_the_first_action_begins(tasks):
    exact, task = tasks("forward"), BinTask("forward", replace(STATE, displaced=0.03))
    for seed in range(5):
        exact.reset(seed), task.reset(seed)
        assert np.array_equal(exact.snapshot(), task.snapshot())  # what a planner is shown
        before = exact._world.poses.copy()
        exact.step(STILL), task.step(STILL)
        moved = task._world.poses[:, :2] - exact._world.poses[:, :2]
        assert (np.abs(moved) < 0.035).all() and (np.abs(moved).max(axis=1) > 1e-3).all()
        once = task._world.poses.copy()
        task.step(STILL)
        assert np.abs(task._world.poses[:, :2] - once[:, :2]).max() < 2e-3
        assert np.abs(before[:, :2] - exact._world.poses[:, :2]).max() < 2e-3


def test_actions_towards_a_place_bring_the_tip_there(tasks):
    assert isinstance(STATE, Steers)
    task = tasks("forward")
    observation = task.reset(1)
    place = np.array([[0.45, 0.1, 0.15]])
    for _ in range(8):
        (action,) = STATE.towards("forward", observation[None], place, np.array([True]))
        observation = task.step(action).observation
    assert np.linalg.norm(task._world.tip - place[0]) < 0.01 and task._world.closing
    (action,) = STATE.towards("forward", observation[None], place, np.array([False]))
    task.step(action)
    assert not task._world.closing
