"""The scene compared with OGBench's own environment, its shaping with values worked by hand, and its state in
contact."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ogbench")

from ogbench.manipspace.envs.scene_env import SceneEnv

from guidebench.suites.ogbench_scene import SUBGOALS
from guidebench.suites.ogbench_scene.task import DRAWN_GEOMS, SNAPSHOT, Scene

from .conftest import STILL, Toucher, arrange, touching

STARTS = {"task3": ((1, 0), 0.0, 0.2), "task4": ((0, 0), 0.0, 0.0), "task5": ((0, 0), 0.0, 0.0)}
GOALS = {
    "task3": ((0.4, 0.15, 0.02), (1, 1), -0.16, 0.0),
    "task4": ((0.33, -0.356, 0.065986), (1, 0), 0.0, 0.0),
    "task5": ((0.33, -0.356, 0.065986), (0, 0), 0.0, 0.2),
}
"""Goals of each task, as in the package: cube, buttons, drawer, window."""


@pytest.fixture(scope="module")
def package():
    return gymnasium.make("scene-singletask-task3-v0", success_timing="post").unwrapped


@pytest.fixture
def same_goal_moves(monkeypatch):
    """Seed the space from which the package draws two moves per reset, as ours is; the package leaves it unseeded."""
    space = property(lambda env: gymnasium.spaces.Box(-1.0, 1.0, (5,), np.float32, seed=0))
    monkeypatch.setattr(SceneEnv, "action_space", space)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_episodes_in_contact_are_the_packages_bit_for_bit(package, same_goal_moves, number):
    package._reward_task_id = number
    task, policy, touched = Scene(f"task{number}"), Toucher(number), 0
    for seed in (number, None):  # the second layout continues the random stream of the first
        expected, _ = package.reset(seed=seed)
        assert np.array_equal(np.float32(expected), task.reset(seed))
        for _ in range(60):
            action = policy(task)
            expected, native, terminated, _, info = package.step(action)
            step = task.step(action)
            assert step.observation.dtype == np.float32 and np.array_equal(np.float32(expected), step.observation)
            assert task._potential(task._met) == pytest.approx(1 + native / 5)  # the package counts what does not hold
            assert step.terminated == terminated == step.success == info["success"]
            touched += touching(task)
    assert touched > 15 and np.array_equal(task._env.buttons, package._cur_button_states)


def test_first_observations_are_the_packages_own(package):
    package._reward_task_id = 3
    task = Scene("task3")
    for seed in range(5):
        assert np.array_equal(np.float32(package.reset(seed=seed)[0]), task.reset(seed))


@pytest.mark.parametrize(
    ("name", "potential"), [("task3", 0.2), ("task4", 0.6), ("task5", 0.6), ("button", 0.0), ("unlock_window", 0.0)]
)
def test_the_share_of_subgoals_met_at_the_start(name, potential):
    task = Scene(name)
    for seed in range(3):
        task.reset(seed)
        assert sum(task.subgoals().values()) / len(task.subgoals()) == potential
        assert task.outcomes() == {"completion": potential}
        assert not task.events().any()


@pytest.mark.parametrize("name", GOALS)
def test_starts_and_goals_are_the_papers(name):
    task = Scene(name)
    data = task._env.data
    cube, buttons, drawer, window = GOALS[name]
    for seed in range(5):
        task.reset(seed)
        assert tuple(task._env.buttons) == STARTS[name][0] and tuple(task._env._target_button_states) == buttons
        assert abs(data.joint("drawer_slide").qpos[0] - STARTS[name][1]) <= 0.01
        assert abs(data.joint("window_slide").qpos[0] - STARTS[name][2]) <= 0.01
        assert (task._env._target_drawer_pos, task._env._target_window_pos) == (drawer, window)
        assert np.allclose(data.mocap_pos[0], cube)


def test_the_window_task_begins_as_the_packages_third_and_has_two_of_its_goals(package, same_goal_moves):
    package._reward_task_id = 3
    init, goal = (package.task_infos[2][end] for end in ("init", "goal"))
    task = Scene("unlock_window")
    data, peer = task._env.data, package.data
    for seed in (5, 6):
        package.reset(seed=seed)
        task.reset(seed)
        for joint in ("object_joint_0", "drawer_slide", "window_slide"):
            assert data.joint(joint).qpos == pytest.approx(peer.joint(joint).qpos, abs=1e-6)
        assert data.joint("window_slide").qpos[0] == pytest.approx(init["window_pos"], abs=0.01)
        assert task._env.buttons.tolist() == init["button_states"].tolist() == [1, 0]
    assert task._env._target_window_pos == goal["window_pos"] == 0.0
    assert task._env._target_button_states[1] == goal["button_states"][1] == 1
    assert [*task.subgoals()] == ["button_1", "window"] and task.max_steps == 300


def test_the_window_task_is_solved_by_its_button_and_its_window_alone():
    task = Scene("unlock_window")
    arrange(task, window=0.1, cube=(0.3, 0.1, 0.1), drawer=-0.08)
    assert task.outcomes() == {"completion": 0.0}
    arrange(task, window=0.0, buttons=(0, 0))
    assert task.outcomes() == {"completion": 0.5}
    task._env.buttons = np.array((0, 1))  # unlocked during the step
    step = task.step(STILL)
    assert step.success and step.terminated and step.reward == pytest.approx(-1 + 0.99 - 0.5)
    assert [SUBGOALS[number] for number in np.flatnonzero(task.events())] == ["button_1"]


@pytest.mark.parametrize("name", GOALS)
def test_each_subgoal_alone(name):
    cube, buttons, drawer, window = GOALS[name]
    away = {"cube": (0.3, 0.1, 0.1), "buttons": (1 - buttons[0], 1 - buttons[1]),
            "drawer": -0.08, "window": 0.1}  # fmt: skip
    at = {"cube": {"cube": cube}, "button_0": {"buttons": (buttons[0], 1 - buttons[1])},
          "button_1": {"buttons": (1 - buttons[0], buttons[1])}, "drawer": {"drawer": drawer},
          "window": {"window": window}}  # fmt: skip
    task = Scene(name)
    arrange(task, **away)
    assert not any(task.subgoals().values())
    for subgoal, layout in at.items():
        arrange(task, **{**away, **layout})
        assert [reached for reached, is_met in task.subgoals().items() if is_met] == [subgoal]
        assert task._potential(task._met) == 0.2


def test_a_subgoal_holds_up_to_four_centimetres():
    task = Scene("task4")
    x, y, z = GOALS["task4"][0]
    for offset, is_met in ((0.0399, True), (0.0401, False)):
        arrange(task, drawer=-offset, window=offset, cube=(x + offset, y, z))
        assert [task.subgoals()[name] for name in ("cube", "drawer", "window")] == [is_met] * 3


def test_rewards_worked_by_hand():
    task = Scene("task4")  # window, drawer and button 1 hold: φ = .6
    assert task.step(STILL).reward == pytest.approx(-1 + 0.99 * 0.6 - 0.6)
    arrange(task, buttons=(1, 0))  # φ = .8, and stays
    assert task.step(STILL).reward == pytest.approx(-1.008)
    task._env.buttons = np.array((0, 1))  # a step that undoes two: φ from .8 to .4
    step = task.step(STILL)
    assert step.reward == pytest.approx(-1 + 0.396 - 0.8) and not step.terminated


def test_the_episode_ends_where_all_hold_with_its_potential_not_zeroed():
    task = Scene("task3")
    cube, buttons, drawer, window = GOALS["task3"]
    arrange(task, cube=cube, buttons=(1, 0), drawer=drawer, window=window)  # φ = .8
    assert not task.step(STILL).terminated
    task._env.buttons = np.array(buttons)
    step = task.step(STILL)
    assert (step.terminated, step.success, step.truncated) == (True, True, False)
    assert step.reward == pytest.approx(-1 + 0.99 - 0.8)
    assert task.events().tolist() == [False, False, True, False, False] and all(task.subgoals().values())


def test_events_are_subgoals_that_begin_to_hold():
    task = Scene("task4")
    task._env.buttons = np.array((1, 1))
    task.step(STILL)
    assert task.events().tolist() == [False, True, False, False, False]  # button 1 ceased to hold: no event
    task.step(STILL)
    assert not task.events().any()  # a state that continues is no event


@pytest.mark.parametrize(("name", "subgoal"), [("button", "button_0"), ("drawer", "drawer")])
def test_tasks_of_one_subgoal_ask_for_nothing_else(name, subgoal):
    task = Scene(name)
    assert task.subgoals() == {subgoal: False} and task.step(STILL).reward == -1
    arrange(task, cube=(0.3, 0.15, 0.02), window=0.2)
    task._env.buttons = np.array((1, 0))
    if name == "drawer":
        arrange(task, drawer=-0.13)
        task._met = np.zeros(5, bool)
    step = task.step(STILL)
    assert step.success and step.terminated and step.reward == pytest.approx(-1 + 0.99)
    assert task.events().tolist() == [event == subgoal for event in SUBGOALS]


@pytest.mark.parametrize(("name", "horizon"), [("task5", 750), ("drawer", 200)])
def test_an_episode_is_truncated_at_its_horizon(name, horizon):
    task = Scene(name)
    task._elapsed = horizon - 2
    assert task.max_steps == horizon
    assert [task.step(STILL).truncated for _ in range(2)] == [False, True]


def test_tasks_that_share_a_model_do_not_touch_each_other():
    tasks = [Scene(name) for name in ("task3", "task4", "task5", "drawer")]

    def play(turns):
        step_bytes, policies = [[] for _ in tasks], [Toucher(3) for _ in tasks]
        for seed, task in enumerate(tasks):
            task.reset(seed)
        for turn in turns:
            step_bytes[turn].append(bytes_of_step(tasks[turn], policies[turn](tasks[turn])))
        return step_bytes

    assert play(np.repeat(range(4), 25)) == play(np.tile(range(4), 25))


def bytes_of_step(task, action):
    """Take a step; return the bytes of its observation, its other fields and the snapshot after it."""
    step = task.step(action)
    return step.observation.tobytes() + repr(tuple(step)[1:]).encode() + task.snapshot().tobytes()


def test_a_snapshot_holds_what_drawing_reads():
    task = Scene("task4")
    task.reset(0)
    data = task._env.data
    locked = task.snapshot()
    assert locked.dtype == np.uint8 and locked.shape == (SNAPSHOT.itemsize,) == (352,)
    (record,) = np.frombuffer(locked, SNAPSHOT)
    assert np.array_equal(record["qpos"], data.qpos) and np.array_equal(record["mocap_pos"], data.mocap_pos)
    colours = dict(zip(DRAWN_GEOMS, record["geom_rgba"].tolist(), strict=True))
    assert colours["btngeom_0"] == colours["btngeom_1"] == record["mat_rgba"][0].tolist()  # red: locked
    assert colours["target_object_0"][3] == pytest.approx(0.2)
    arrange(task, buttons=(1, 0))
    (record,) = np.frombuffer(task.snapshot(), SNAPSHOT)
    assert np.allclose(record["geom_rgba"][2], 0.9 + 0.1 * np.eye(4)[3]) and record["mat_rgba"][0].tolist()[0] < 0.95
    assert np.array_equal(np.frombuffer(locked, SNAPSHOT)["geom_rgba"][0][2], record["geom_rgba"][3])  # not a view


def test_everything_else_in_the_model_stays_as_it_was():
    """What a snapshot leaves out of the model never changes, except locks and the sites of a group that is not
    drawn."""
    task = Scene("task4")
    env, model = task._env, task._env.model
    names = [name for name in dir(model) if isinstance(getattr(model, name, None), np.ndarray)]
    before = {name: getattr(model, name).copy() for name in names}
    policy = Toucher(0)
    for _ in range(120):
        task.step(policy(task))
    Scene("task5").step(STILL), task._put_back()
    changed = {name for name in names if not np.array_equal(before[name], getattr(env.model, name))}
    assert {"dof_damping", "geom_rgba", "mat_rgba"} <= changed <= {"dof_damping", "geom_rgba", "mat_rgba", "site_pos"}
    moved = np.flatnonzero((before["site_pos"] != model.site_pos).any(1))
    assert all(model.site_group[moved] == 5)
    recoloured = np.flatnonzero((before["geom_rgba"] != model.geom_rgba).any(1))
    assert {model.geom(geom).name for geom in recoloured} <= set(DRAWN_GEOMS)
