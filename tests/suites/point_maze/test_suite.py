"""The suite's declarations agree with what its tasks do; and a run of it."""

import asyncio

import gymnasium
import numpy as np
import pytest

pytest.importorskip("gymnasium_robotics")

from guidebench.harness.loop import probes
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import matrix
from guidebench.suites.point_maze import PointMaze
from tests.refusals import check_refused

SUITE = PointMaze()
PACKAGE = PointMaze(steps=None, success="last")
"""Settings with the package's own episodes."""


@pytest.mark.parametrize(
    ("name", "registered"), [("open", "Open"), ("umaze", "UMaze"), ("medium", "Medium")]
)  # fmt: skip
def test_horizons_and_maps_are_those_of_the_packages_registry(name, registered):
    from guidebench.suites.point_maze.task import MAPS

    for suffix in ("", "Dense"):
        spec = gymnasium.spec(f"PointMaze_{registered}{suffix}-v3")
        assert spec.max_episode_steps == PACKAGE.horizon(name) and spec.kwargs["maze_map"] == MAPS[name]
        assert not {"continuing_task", "reset_target"} & set(spec.kwargs), "the package's defaults are used"


@pytest.mark.parametrize("name", SUITE.tasks)
def test_coordinates_are_where_the_task_has_ball_and_target(name):
    ball, target = SUITE.coordinates(name)
    task = SUITE.make(name)
    for seed in range(3):
        observation = task.reset(seed)
        assert np.array_equal(observation[list(ball.entries)], np.float32(task._env.data.qpos))
        assert np.array_equal(observation[list(target.entries)], np.float32(task._env.goal))
    assert (ball.name, target.name, ball.constant, target.constant) == ("ball", "target", False, True)


@pytest.mark.parametrize("name", SUITE.tasks)
def test_the_map_in_words_is_the_packages_and_tells_where_its_cells_are(name):
    maze = SUITE.make(name)._env.maze
    surroundings = SUITE.surroundings(name)
    map_lines = [line for line in surroundings.description.splitlines() if line.startswith("[")]
    assert [[int(cell) for cell in row.strip("[]").split(", ")] for row in map_lines] == maze.maze_map
    x_left, top = maze.cell_rowcol_to_xy(np.array([0, 0]))
    assert f"({x_left:g}, {top:g})" in surroundings.description
    x, y = maze.cell_rowcol_to_xy(np.array([1, 2]))
    assert (x, y) == (x_left + 2, top - 1), "x grows to the right and y upwards, a metre a cell"
    assert "around the walls" in surroundings.description and "around the walls" in surroundings.demand


def test_a_language_model_is_shown_the_map_and_asked_for_a_way_around_the_walls():
    from guidebench.baselines.teachers.llm import Llm, Scripted, prompts
    from guidebench.harness.models.calls import Answer

    dialogue = Llm().dialogue(SUITE, "umaze", "chat")
    conversations = []
    reader = Scripted(error=0, first_bias=0).spawn(SUITE, "umaze")

    async def ask(call):
        conversations.append(call.messages)
        return Answer(reader(call.messages))

    pair = np.zeros((2, 10, 6), np.float32)
    pair[0, :, 0], pair[:, :, 4] = np.linspace(0, 0.9, 10), 1
    verdict = asyncio.run(dialogue({"segments": pair.tolist()}, None, ask))
    assert (verdict["first"], verdict["outcome"], verdict["imagined"]) == (1, "labelled", "kept")
    text = conversations[0][0].content[0]
    assert "[1, 0, 0, 0, 1]" in text and text.index("[1, 0, 0, 0, 1]") < text.index("Trajectory 1:")
    assert prompts.way(SUITE.coordinates("umaze"), SUITE.surroundings("umaze")) in conversations[-1][-1].content[0]
    things = SUITE.coordinates("umaze")
    assert prompts.way(things, SUITE.surroundings("umaze")).endswith("cuts no corner.")
    assert prompts.surroundings(None) == "" and "wall" not in prompts.way(things)


def test_the_reward_sees_ball_and_target_alone(tmp_path):
    (cell,) = matrix.plan(["suite=point_maze", "method=pebble", "task=umaze", "profile=smoke"]).cells
    assert cell.section("guide").sees == "coordinates"
    guide = cell.section("guide").spawn(make_build(cell, [0], "cpu", [tmp_path]))
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 6)).astype(np.float32)
    altered = observations.copy()
    altered[:, 2:4] = 9
    rows = np.zeros(5, np.int64)
    assert np.array_equal(guide.reward(observations, rows), guide.reward(altered, rows))
    altered[:, 5] += 1
    assert not np.allclose(guide.reward(observations, rows), guide.reward(altered, rows))
    check_refused(
        r"guide.sees=coordinates, and the suite names no coordinates",
        matrix.plan,
        ["suite=classic", "task=Pendulum-v1", "method=pebble", "guide.sees=coordinates"],
    )


def test_the_paper_profile_is_table_2():
    plan = matrix.plan(["suite=point_maze", "profile=paper"])
    assert [cell.names.task for cell in plan.cells] == ["open", "umaze", "medium"]
    for cell in plan.cells:
        learner, training = cell.section("learner"), cell.section("training")
        assert (learner.hidden, learner.batch_size, learner.alpha) == ((256, 256, 256), 512, 0.1)
        assert (learner.actor_lr, learner.critic_lr, learner.discount) == (3e-4, 3e-4, 0.99)
        assert (learner.target_rate, learner.target_frequency, training.steps) == (0.005, 2, 500_000)
        assert (learner.ensemble, learner.subset, learner.utd, learner.actor_utd) == (2, 2, 1, 1)


def test_dense_and_sparse_reward_are_cells_of_their_own():
    plan = matrix.plan(["suite=point_maze", "suite.reward=dense,sparse", "profile=quick"])
    assert sorted(cell.section("suite").reward for cell in plan.cells) == ["dense", "sparse"]
    assert len({cell.id for cell in plan.cells}) == 2
    check_refused(r"suite\.reward", matrix.plan, ["suite=point_maze", "suite.reward=shaped"])


def test_the_reference_episode_reaches_the_target():
    episode = probes.reference(SUITE, "umaze")
    assert episode is not None and episode.events.any() and episode.observations.shape == (100, 6)


SHORT = ("suite=point_maze", "seeds=[0,1]", "suite.reward=sparse")
