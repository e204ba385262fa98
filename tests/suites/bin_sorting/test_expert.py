"""Scripted policies solve layouts in every direction, random play does not, and policies made to fail do fail."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guidebench.harness.episodes import demonstrations
from guidebench.suites.bin_sorting import FAILURES, BinSorting, layout
from guidebench.suites.bin_sorting.task import HOVER, STAGES
from tests.refusals import check_refused

from .conftest import STATE

LAYOUTS = 5
HOLD = np.array([0, 0, 0.034, 0, 0, 0, 0])
"""Against the 3.4 mm by which the arm sinks in a step without a command."""


def play(task: Any, seed: int, act: Callable[[], Any]) -> bool:
    """Return whether an episode of layout `seed` ends in success."""
    task.reset(seed)
    for _ in range(task.max_steps):
        step = task.step(act())
    assert step.truncated
    return bool(step.success)


@pytest.mark.parametrize("name", ["forward", "backward", "other"])
def test_the_scripted_policy_solves_layouts_within_the_horizon(name, tasks):
    task = tasks(name)
    assert [play(task, seed, task.expert) for seed in range(LAYOUTS)] == [True] * LAYOUTS


@pytest.mark.parametrize("stage", STAGES)
def test_a_gripper_that_stops_in_a_stage_hovers_in_that_one_alone(stage, tasks):
    """The scripted policy never does; stopped in a stage, the gripper hovers after at least `HOVER` steps."""
    task = tasks("forward")
    assert play(task, 1, task.expert) and not any(task.outcomes()[f"hovers_{name}"] for name in STAGES)
    task.reset(1)
    while task._stage_now() != stage:
        task.step(task.expert())
    for _ in range(HOVER - 1):
        task.step(HOLD)
        assert not any(task.outcomes()[f"hovers_{name}"] for name in STAGES)
    for _ in range(4):  # the arm takes some steps to come to rest
        task.step(HOLD)
    assert [name for name in STAGES if task.outcomes()[f"hovers_{name}"]] == [stage]


def test_random_actions_solve_none(tasks):
    rng = np.random.default_rng(0)
    assert not any(play(tasks("forward"), seed, lambda: rng.uniform(-1, 1, 7)) for seed in range(LAYOUTS))


@pytest.mark.parametrize(
    ("name", "how"), [*(("forward", failure) for failure in FAILURES), ("backward", "wrong place"), ("other", "drop")]
)
def test_a_policy_that_is_to_fail_fails(name, how):
    episode = STATE.fail(name, 3, how)
    assert episode is not None and episode.length == 40 and not episode.success.any()
    lifted, brought, placed = episode.events.any(axis=0)
    assert not placed and lifted == (how != "miss")
    assert not brought or name == "other" or (name, how) == ("backward", "wrong place")  # it is carried over the tray


def test_the_wrong_place_of_a_bin_is_the_other_bin(tasks):
    task = tasks("forward")
    assert not play(task, 2, lambda: task.fail("wrong place"))
    outcomes = task.outcomes()
    hovers = [outcomes.pop(f"hovers_{stage}") for stage in STAGES]
    assert hovers == [1, 0, 0, 0], "it ends at home, while the block still has to be fetched"
    assert outcomes == {"lifted": 1.0, "wrong_bin": 1.0, "out_of_reach": 0.0, "put_back": 0.0}


def test_an_unknown_way_to_fail_is_named(tasks):
    check_refused("unknown failure 'mis'; did you mean 'miss'", STATE.fail, "forward", 0, "mis")
    check_refused("unknown way to fail 'mis'; known: miss, drop, wrong place", tasks("forward").fail, "mis")


def test_demonstrations_repeat_in_another_world_and_meet_all_events():
    (episode,) = demonstrations.make(demonstrations.DemonstrationSpec("bin_sorting", STATE, "backward", 1))
    assert episode.length == 40 and episode.success[-1] and episode.action.dtype == np.float32
    assert episode.events.any(axis=0).all()


def test_the_grasped_start_holds_the_named_block_in_the_air():
    task = BinSorting(observation="state", start="grasped").make("forward")
    for seed in range(3):
        task.reset(seed)
        world = task._world
        block = world.poses[task._block, :3]
        assert block[2] > 0.05 and np.linalg.norm(block - world.tip) < 0.03 and world.closing
        step = task.step(task.expert())
        assert task.events().tolist() == [True, False, False] and not step.success


def test_free_places_are_apart_from_other_blocks():
    poses = np.zeros((3, 7))
    poses[:, :2] = (0.42, 0.0), (0.3, 0.3), (0.53, 0.12)
    from guidebench.suites.bin_sorting.expert import free

    # A grid of 5 by 5 with steps of .05; block 1 is carried, so the centre is taken by block 0 alone: of the places
    # .085 m away or more, (.42, ±.1) and (.32, 0) and (.52, 0) are the nearest, at .1 m from the centre.
    half = np.array([0.1, 0.1])
    place = free(poses, 1, layout.TRAY, half, layout.TRAY)
    assert np.linalg.norm(place - layout.TRAY) == pytest.approx(0.1)
    assert free(poses, 0, layout.TRAY, half, layout.TRAY) == pytest.approx(layout.TRAY)
