"""MetaWorld's tasks compared with the package's own environments: layouts, goals, rewards and state."""

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("metaworld")

from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.policies import ENV_POLICY_MAP

from guidebench.harness.interfaces import Array
from guidebench.suites.metaworld import MT10, REDUCED, TASKS, MetaWorld, MetaWorldMT10, MetaWorldPbRL
from guidebench.suites.metaworld.task import MetaWorldTask, record
from guidebench.suites.metaworld.words import LAGEA

"""Tasks whose experts are in contact after 60 steps: views into the simulation, free joints, hinges, slides."""


def package(name: str, seed: int, hidden: bool = False, **settings: Any) -> Any:
    """Return the package's environment with layouts drawn by `seed`, set up as the package intends."""
    env: Any = ALL_V3_ENVIRONMENTS[f"{name}-v3"](**settings)  # type: ignore[abstract]
    env._partially_observable = hidden
    env.__dict__.pop("sawyer_observation_space", None)
    env._set_task_called = env.seeded_rand_vec = True
    env.seed(seed)
    env._freeze_rand_vec = False
    return env


def touching(task: Any) -> bool:
    """Return whether the arm is in contact with anything."""
    model, contact = task._env.model, task._env.data.contact
    of_arm = model.body_rootid[model.geom_bodyid[contact.geom]] == model.body("base").id
    return bool((of_arm.sum(axis=-1) == 1).any())


def moves(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 4)).astype(np.float32)


def episode(task: Any, seed: int | None, actions: Array) -> list[Any]:
    first = task.reset(seed)
    return [first.tobytes(), *((s.observation.tobytes(), s.reward) for s in map(task.step, actions))]


@pytest.mark.parametrize("name", (*MT10[::2], "button-press", "door-unlock", "bin-picking", "hammer"))
def test_episodes_and_measures_are_the_packages_own(name: str) -> None:
    env, task = package(name, 3), MetaWorld().make(name)
    expected = env.reset()[0]
    assert np.array_equal(task.reset(3), np.float32(expected)) and not task.measures().any()  # type: ignore[attr-defined]
    assert (names := [*MetaWorld().measures(name)]) == ["near_object", "grasp_success", "obj_to_target"]
    for action in moves(25):
        expected, reward, _, _, info = env.step(action)
        step = task.step(action)
        assert np.array_equal(step.observation, np.float32(expected)) and step.reward == float(reward)
        assert step.success == bool(info["success"]) and not step.terminated
        measures = task.measures()  # type: ignore[attr-defined]
        assert measures.dtype == np.float32 and np.isfinite(measures).all()
        assert np.array_equal(measures, np.array([info[name] for name in names], np.float32))


@pytest.mark.parametrize("name", ("stick-push", "pick-place"))
def test_episodes_in_which_the_expert_grasps_are_the_packages_own_too(name: str) -> None:
    """In these tasks success depends on whether both fingers press on the object."""
    env, task = package(name, 4), MetaWorld().make(name)
    env.reset()
    task.reset(4)
    touched = 0
    for _ in range(130):
        action = task.expert()  # type: ignore[attr-defined]
        expected, reward, _, _, info = env.step(action)
        step = task.step(action)
        assert (step.reward, step.success) == (float(reward), bool(info["success"]))
        assert np.array_equal(step.observation, np.float32(expected))
        assert task._env.touching_main_object == env.touching_main_object  # type: ignore[attr-defined]
        touched += bool(env.touching_main_object)
    assert touched > 10 and step.success


def test_measures_are_part_of_a_state_and_zero_in_the_next_episode() -> None:
    task, fresh = MetaWorld().make("push"), MetaWorld().make("push")
    task.reset(3)
    for action in moves(5):
        task.step(action)
    measures = task.measures()  # type: ignore[attr-defined]
    assert measures[2] > 0.1, "the puck is away from its target"
    fresh.load_state(task.state())
    assert np.array_equal(fresh.measures(), measures)  # type: ignore[attr-defined]
    fresh.reset(4)
    assert not fresh.measures().any() and np.array_equal(task.measures(), measures)  # type: ignore[attr-defined]


def test_a_hidden_goal_is_the_packages_and_zero() -> None:
    env, task = package("reach", 3, hidden=True), MetaWorld(goal="hidden").make("reach")
    assert np.array_equal(task.reset(3)[:36], np.float32(env.reset()[0][:36]))
    for action in moves(5):
        step = task.step(action)
        assert np.array_equal(step.observation, np.float32(env.step(action)[0])) and not step.observation[-3:].any()


def test_a_seed_repeats_layouts_whatever_was_before_and_without_one_the_stream_goes_on() -> None:
    actions = moves(10)
    for name in ("bin-picking", "window-open", "push"):
        task, fresh = MetaWorld().make(name), MetaWorld().make(name)
        first = episode(task, 4, actions)
        second = episode(task, None, actions)
        assert first[0] != second[0]
        assert [episode(fresh, 4, actions), episode(fresh, None, actions)] == [first, second]
        assert episode(task, 4, actions) == first


def test_the_global_generator_is_neither_read_nor_written() -> None:
    task = MetaWorld().make("push")
    np.random.seed(0)
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr, unused-ignore]
    first = episode(task, 1, moves(3))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # type: ignore[index, unused-ignore]
    np.random.seed(1)
    assert episode(task, 1, moves(3)) == first


def test_fixed_layouts_are_the_same_in_every_episode_and_of_every_seed() -> None:
    fixed = MetaWorld(layouts="fixed", layout=7).make("push")
    starts = {fixed.reset(seed).tobytes() for seed in (0, 1, None, None)}
    assert starts == {MetaWorld().make("push").reset(7).tobytes()}
    assert MetaWorld(layouts="fixed", layout=8).make("push").reset(7).tobytes() not in starts


def test_sparse_reward_is_success_minus_one() -> None:
    task = MetaWorld(reward="sparse").make("reach")
    task.reset(0)
    steps = [task.step(task.expert()) for _ in range(80)]  # type: ignore[attr-defined]
    assert [step.reward for step in steps] == [float(step.success) - 1 for step in steps]
    assert {step.reward for step in steps} == {-1.0, 0.0}


def test_a_reduced_state_holds_entries_of_the_full_one() -> None:
    for name in ("drawer-open", "reach"):
        full, reduced = MetaWorld().make(name), MetaWorldPbRL().make(name)
        index = list(REDUCED) if name == "drawer-open" else [0, 1, 2, 18, 19, 20, 36, 37, 38]
        assert np.array_equal(full.reset(2)[index], reduced.reset(2))
        for action in moves(5):
            assert np.array_equal(full.step(action).observation[index], reduced.step(action).observation)


@pytest.mark.parametrize("name", ("drawer-open", "reach"))
@pytest.mark.parametrize("state", ("full", "reduced"))
def test_coordinates_are_where_things_are_now_and_were_a_step_before(name: str, state: Any) -> None:
    suite = MetaWorld(state=state)
    task: Any = suite.make(name)
    task.reset(0)
    before = task.step(moves(1)[0]).observation
    now = task.step(moves(2)[1]).observation
    coordinates = {coordinate.name: coordinate for coordinate in suite.coordinates(name)}
    expected = {"tcp", "target"} if (name, state) == ("reach", "reduced") else {"tcp", "obj", "target"}
    assert set(coordinates) == expected
    env = task._env
    places = {"tcp": env.data.body("hand").xpos, "target": env._target_pos, "obj": env._get_pos_objects()}
    for thing, coordinate in coordinates.items():
        np.testing.assert_allclose(now[list(coordinate.entries)], places[thing], atol=1e-6)
        assert coordinate.constant == (thing == "target") == (not coordinate.former)
        if coordinate.former:
            np.testing.assert_array_equal(now[list(coordinate.former)], before[list(coordinate.entries)])
    assert (
        "handle" in coordinates["obj"].meaning if name == "drawer-open" else "gripper" in coordinates["target"].meaning
    )
    assert {coordinate.name for coordinate in MetaWorld(state=state, goal="hidden").coordinates(name)} == expected - {
        "target"
    }


def test_an_episode_lasts_500_steps_and_success_is_that_of_the_step() -> None:
    task: Any = MetaWorld().make("door-open")
    task.reset(0)
    steps, events = [], []
    for _ in range(500):
        steps.append(task.step(task.expert()))
        events.append(bool(task.events()[0]))
    assert [step.truncated for step in steps] == [False] * 499 + [True]
    success = np.array([step.success for step in steps])
    assert success.any() and not success[-1], "the expert lets go of the door again"
    assert task.subgoals() == {"success_any": True}
    assert events == list(success & ~np.append(False, success[:-1]))


@pytest.mark.parametrize("name", (*MT10[1::2], "button-press", "handle-pull"))
def test_scripted_experts_succeed(name: str) -> None:
    task: Any = MetaWorld(goal="hidden", state="reduced").make(name)
    for seed in (3,):
        task.reset(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(300):
                action = task.expert()
                assert action.dtype == np.float32 and np.abs(action).max() <= 1
                if task.step(action).success:
                    break
        assert task.subgoals()["success_any"], (name, seed)


@pytest.mark.parametrize("name", ("reach", "door-open", "window-close"))
def test_the_goal_is_the_packages_first_success_in_both_goal_modes(name: str) -> None:
    """The package's environment is played by its policy until its `info` reports success."""
    env, policy = package(name, 13), ENV_POLICY_MAP[f"{name}-v3"]()
    observation, outcome = env.reset()[0], {"success": 0.0}
    for _ in range(500):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the policy's actions are out of bounds before they are clipped
            action = np.float32(np.clip(policy.get_action(observation.copy()), -1, 1))
        observation, _, _, _, outcome = env.step(action)
        if outcome["success"]:
            break
    assert outcome["success"], "the policy succeeds in this layout"
    expected = {field: getattr(env.data, field) for field in ("qpos", "mocap_pos", "mocap_quat")}
    expected |= {field: getattr(env.model, field) for field in ("body_pos", "site_pos")}
    observable, hidden = MetaWorldMT10(goal="observable").of_run(13), MetaWorldMT10(goal="hidden").of_run(13)
    assert not observable.fixed and hidden.fixed
    for suite, seed in ((observable, 13), (hidden, 13), (hidden, 5)):  # the layout of a hidden goal is the run's
        goal = suite.goal_snapshot(name, seed)
        assert goal is not None and goal.dtype == np.uint8 and goal.ndim == 1
        goal_state = np.frombuffer(goal.tobytes(), record(env.model))[0]
        assert all(np.array_equal(goal_state[field], value) for field, value in expected.items())
    repeated = hidden.goal_snapshot(name, 5)
    assert repeated is not None and repeated.tobytes() == goal.tobytes()
    other = observable.goal_snapshot(name, 14)
    assert other is None or other.tobytes() != goal.tobytes()


def test_a_goal_is_taken_before_success_is_lost_again() -> None:
    lasting = MetaWorld().demonstrate("reach", 5)
    assert lasting is not None and lasting.length == 500 and lasting.success[-1]
    undone = MetaWorld().demonstrate("door-open", 0)  # opened, then pushed too far
    goal = MetaWorld().goal_snapshot("door-open", 0)
    assert undone is not None and goal is not None and not undone.success[-1]
    first = int(undone.success.argmax())
    assert np.array_equal(goal, undone.snapshot[first]) and not np.array_equal(goal, undone.snapshot[-1])


def test_a_layout_that_the_policy_never_solves_has_no_goal() -> None:
    assert MetaWorldMT10(goal="hidden").of_run(11).goal_snapshot("door-open", 0) is None


def test_a_goal_of_tasks_by_turns_is_that_of_the_task_whose_turn_it_is() -> None:
    suite = MetaWorldMT10(goal="observable", layouts="random", reward="dense")
    task: Any = suite.make("mt10")
    task.reset(3)
    goal = suite.goal_snapshot("mt10", 3)
    assert goal is not None and goal.shape == task.snapshot().shape and goal[0] == task.snapshot()[0]


def test_tasks_take_turns_in_fifty_layouts_and_say_which_they_are() -> None:
    suite = MetaWorldMT10(goal="observable", layouts="random", reward="dense")
    task: Any = suite.make("mt10")
    names, layouts, lengths = set(), set(), set()
    first = task.reset(0)
    for _ in range(40):
        observation = task.reset()
        assert observation.shape == suite.spaces("mt10")[0].shape == (49,) and observation[39:].sum() == 1
        name = MT10[int(observation[39:].argmax())]
        names.add(name)
        layouts.add((name, observation[:39].tobytes()))
        assert task.instruction == LAGEA[name]
        step = task.step(np.zeros(4, np.float32))
        assert np.array_equal(step.observation[39:], observation[39:])
        assert set(task.subgoals()) == {name, "success_any"}
        lengths.add(len(task.snapshot()))
    assert len(names) >= 8 and len(lengths) == 1 and np.array_equal(task.reset(0), first)
    push = MetaWorld().make("push")
    push_layouts = {push.reset(layout).tobytes() for layout in range(50)}
    assert {layout for name, layout in layouts if name == "push"} <= push_layouts


def test_what_the_package_remembers_by_looking_into_the_simulation_stays_a_view() -> None:
    task: Any = MetaWorld().make("door-unlock")
    state = task.state()
    assert not {"init_left_pad", "init_right_pad", "obj_init_pos"} & set(state["dynamics"]["attributes"])
    other: Any = MetaWorld().make("door-unlock")
    other.load_state(state)
    assert np.shares_memory(other._env.obj_init_pos, other._env.data.xpos)


def test_the_names_are_the_packages() -> None:
    assert sorted(f"{name}-v3" for name in TASKS) == sorted(ALL_V3_ENVIRONMENTS)
    assert isinstance(MetaWorld().make(TASKS[-1]), MetaWorldTask)
