"""DoorKey compared with MiniGrid's own FullyObsWrapper, step by step."""

from typing import Any

import numpy as np
import pytest
from minigrid.envs.doorkey import DoorKeyEnv
from minigrid.wrappers import FullyObsWrapper

from guidebench.suites.minigrid_doorkey.task import FORWARD, PICKUP, TOGGLE, TURN_LEFT, TURN_RIGHT, DoorKey
from tests.refusals import check_refused

TO_MINIGRID = (0, 1, 2, 3, 5)


def same_episode(task: DoorKey, peer: FullyObsWrapper, seed: int | None, policy: Any) -> dict[str, Any]:
    """Play one episode in both environments, compare everything, and return which events happened and its length."""
    first, _ = peer.reset(seed=seed)
    observation = task.reset(seed)
    assert observation.dtype == np.uint8 and np.array_equal(observation, first["image"])
    events: dict[str, Any] = {"carried": False, "opened": False, "on_door": False, "length": 0}
    while True:
        action = policy()
        expected, reward, terminated, truncated, _ = peer.step(TO_MINIGRID[action])
        step = task.step(action)
        events["length"] += 1
        assert np.array_equal(step.observation, expected["image"])
        assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
        assert step.success == (terminated and reward > 0)
        doors = [cell for cell in peer.unwrapped.grid.grid if cell is not None and cell.type == "door"]
        under = peer.unwrapped.grid.get(*peer.unwrapped.agent_pos)
        events["carried"] |= peer.unwrapped.carrying is not None
        events["opened"] |= doors[0].is_open
        events["on_door"] |= under is doors[0]
        if terminated or truncated:
            return {**events, "success": step.success}


def peer_of(size: int) -> FullyObsWrapper:
    return FullyObsWrapper(DoorKeyEnv(size=size, render_mode="rgb_array"))


@pytest.mark.parametrize(("size", "seeds"), [(5, (0, 1)), (6, (3,)), (7, (2, 11)), (8, (0,))])
def test_random_episodes_are_bit_identical_to_fully_obs_wrapper(size, seeds):
    task, peer = DoorKey(size), peer_of(size)
    for seed in seeds:
        draw = np.random.default_rng(seed)
        for episode_seed in (seed, None):  # the second layout continues the random stream of the first
            same_episode(task, peer, episode_seed, lambda draw=draw: draw.integers(5))


@pytest.mark.parametrize("size", [5, 6, 7, 8, 12, 16])
def test_scripted_solutions_are_bit_identical_and_succeed(size):
    task, peer = DoorKey(size), peer_of(size)
    for seed in (7, None, None):
        events = same_episode(task, peer, seed, task.expert)
        assert events["carried"] and events["opened"] and events["on_door"] and events["success"]
        assert events["length"] < 8 * size


def test_noisy_solutions_that_close_and_reopen_doors_are_bit_identical():
    task, peer, draw = DoorKey(8), peer_of(8), np.random.default_rng(3)

    def noisy() -> int:
        return task.expert() if draw.random() < 0.5 else int(draw.integers(5))

    assert all(same_episode(task, peer, seed, noisy)["opened"] for seed in range(8))


def test_an_episode_ends_after_ten_times_the_number_of_cells():
    task = DoorKey(5)
    task.reset(0)
    steps = [task.step(TURN_LEFT) for _ in range(250)]
    assert task.max_steps == 250
    assert [step.truncated for step in steps] == [False] * 249 + [True]
    assert not any(step.terminated or step.success or step.reward for step in steps)


def test_reward_falls_by_nine_tenths_over_the_step_limit():
    task = DoorKey(5)
    task.reset(0)
    length, step = 0, None
    while step is None or not step.terminated:
        step, length = task.step(task.expert()), length + 1
    assert step.reward == 1 - 0.9 * (length / 250)


def test_observations_stay_as_they_were_and_may_be_written_to():
    task, twin = DoorKey(6), DoorKey(6)
    observations = [task.reset(1)]
    copies = [observations[0].copy()]
    twin.reset(1)
    for action in np.random.default_rng(0).integers(0, 5, 60):
        observations.append(task.step(action).observation)
        copies.append(observations[-1].copy())
        twin.step(action).observation[:] = 9
    assert all(np.array_equal(a, b) for a, b in zip(observations, copies, strict=True))
    assert np.array_equal(task.step(TURN_LEFT).observation, twin.step(TURN_LEFT).observation)


@pytest.mark.parametrize("action", [-1, 5, 6])
def test_other_actions_are_refused(action):
    task = DoorKey(5)
    task.reset(0)
    with pytest.raises(KeyError):
        task.step(action)


def test_a_state_of_another_size_is_refused():
    small, large = DoorKey(5), DoorKey(6)
    small.reset(0)
    check_refused(r"\(5, 5, 3\)", large.load_state, small.state())


def test_events_are_what_the_state_tells_of_the_last_step():
    task, draw, counts = DoorKey(8), np.random.default_rng(0), np.zeros(3, int)
    task.reset(0)
    for _ in range(1500):
        before = task.state()
        step = task.step(task.expert() if draw.random() < 0.5 else int(draw.integers(5)))
        after = task.state()
        has_taken_key = before["carrying"] is None and after["carrying"] is not None
        has_opened = door_of(before) != 0 and door_of(after) == 0
        assert task.events().dtype == bool and task.events().tolist() == [has_taken_key, has_opened, step.success]
        counts += task.events()
        if step.terminated or step.truncated:
            task.reset()
            assert not task.events().any()
    assert counts.min() >= 5 and counts[1] > counts[0]  # doors are opened again


def door_of(state: Any) -> int:
    return int(state["codes"][state["codes"][:, :, 0] == 4][0][2])


def test_events_of_one_step_cannot_be_changed_for_another():
    task = DoorKey(5)
    task.reset(0)
    with pytest.raises(ValueError, match="read-only"):
        task.events()[:] = True


def test_position_forgets_clock_and_random_stream_but_not_the_world():
    task = DoorKey(8)
    task.reset(0)
    start = task.position()
    turned = []
    for _ in range(4):
        task.step(TURN_RIGHT)
        turned.append(task.position())
    assert turned[3] == start and len(set(turned)) == 4
    while task.state()["carrying"] is None:
        before, action = task.position(), task.expert()
        task.step(action)
    assert action == PICKUP and task.position() != before
    while task.expert() != TOGGLE:
        task.step(task.expert())
    shut = task.position()
    task.step(TOGGLE)
    open_position = task.position()
    task.step(TOGGLE)
    task.step(TOGGLE)
    assert open_position != shut and task.position() == open_position


def test_a_snapshot_keeps_what_lies_under_the_agent():
    task = DoorKey(6)
    task.reset(4)
    under = set()
    while True:
        step = task.step(task.expert())
        snapshot = task.snapshot()
        assert snapshot.dtype == np.uint8 and snapshot.shape == (6 * 6 * 3 + 3,)
        x, y, direction = snapshot[-3:]
        cells = snapshot[:-3].reshape(6, 6, 3)
        under.add(tuple(cells[x, y].tolist()))
        assert not (cells[:, :, 0] == 10).any()
        cells = cells.copy()
        cells[x, y] = (10, 0, direction)
        assert np.array_equal(cells, step.observation)
        if step.terminated:
            break
    assert under == {(1, 0, 0), (4, 4, 0), (8, 1, 0)}  # floor, open yellow door, goal


def test_the_expert_recovers_from_a_door_closed_behind_it():
    task = DoorKey(8)
    task.reset(3)
    while task.expert() != TOGGLE:
        task.step(task.expert())
    for action in (TOGGLE, FORWARD, FORWARD, TURN_LEFT, TURN_LEFT, TOGGLE):
        step = task.step(action)
    assert task.expert() == TOGGLE
    for _ in range(40):
        step = task.step(task.expert())
        if step.terminated:
            break
    assert step.success


def test_a_restored_episode_ends_at_the_step_at_which_it_would_have_ended() -> None:
    task, restored = DoorKey(5), DoorKey(5)
    task.reset(0)
    for _ in range(task.max_steps - 2):
        task.step(TURN_LEFT)
    restored.reset(1)
    restored.load_state(task.state())
    assert [restored.step(TURN_LEFT).truncated for _ in range(2)] == [False, True]
