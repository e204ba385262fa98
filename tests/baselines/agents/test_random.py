"""The random agent: its actions, its runs, and that an evaluation repeats."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from guidebench import results
from guidebench.baselines.agents.random import RandomActor
from guidebench.harness.interfaces import Actions
from guidebench.harness.plan import matrix
from guidebench.harness.streams import Streams

WORDS = ("suite=minigrid_doorkey", "task=5x5", "method=random", "evaluation.episodes=6")


def acted(actor: RandomActor, steps: int, step: int, numbers: list[int]) -> np.ndarray:
    """Return the actions of each episode, [steps, episodes, …]."""
    ctx: Any = SimpleNamespace(step=step)
    actor.begin(np.zeros((len(numbers), 1)), ctx)
    return np.stack([actor.act(np.zeros((len(numbers), 1)), np.array(numbers), ctx) for _ in range(steps)])


def test_discrete_actions_are_uniform() -> None:
    actions = acted(RandomActor(Actions(5), "", [(Streams(3), 0), (Streams(3), 1)]), 10_000, 0, [0, 1])
    counts = np.stack([np.bincount(row_actions, minlength=5) for row_actions in actions.T])
    assert counts.shape == (2, 5)
    assert (abs(counts - 2_000) < 5 * np.sqrt(10_000 * 0.2 * 0.8)).all()  # five standard deviations
    assert (actions[:, 0] != actions[:, 1]).any()


def test_only_actions_that_a_mask_admits_are_taken() -> None:
    observation = np.zeros(2, [("may", np.uint8, 4)])
    observation["may"] = [[0, 1, 0, 1], [1, 0, 0, 0]]
    actor, ctx = RandomActor(Actions(4), "may", [(Streams(3), 0), (Streams(3), 1)]), SimpleNamespace(step=0)
    actor.begin(observation, ctx)  # type: ignore[arg-type]
    actions = np.stack([actor.act(observation, np.array([0, 1]), ctx) for _ in range(1_000)])  # type: ignore[arg-type]
    assert set(actions[:, 0].tolist()) == {1, 3} and abs((actions[:, 0] == 1).mean() - 0.5) < 0.08
    assert set(actions[:, 1].tolist()) == {0}


def test_a_mask_that_admits_none_leaves_all_actions() -> None:
    observation = np.zeros(1, [("may", np.uint8, 4)])
    actor, ctx = RandomActor(Actions(4), "may", [(Streams(3), 0)]), SimpleNamespace(step=0)
    actor.begin(observation, ctx)  # type: ignore[arg-type]
    actions = {int(actor.act(observation, np.array([0]), ctx)[0]) for _ in range(100)}  # type: ignore[arg-type]
    assert actions == {0, 1, 2, 3}


def test_episodes_that_begin_alike_differ_so_all_are_played() -> None:
    """On one fixed layout a policy that learns is evaluated in one episode, and a random one in as many as set."""
    words = ["suite=metaworld", "task=reach", "suite.layouts=by_run", "profile=smoke", "evaluation.episodes=3"]
    episodes = {
        cell.names.method: cell.section("evaluation").episodes
        for cell in matrix.plan([*words, "method=sac,random,expert"]).cells
    }
    assert episodes == {"sac": 1, "random": 3, "expert": 1}


def test_continuous_actions_fill_the_interval() -> None:
    actions = acted(RandomActor(Actions(shape=(3,)), "", [(Streams(3), 0)]), 10_000, 0, [0])
    assert actions.shape == (10_000, 1, 3) and actions.dtype == np.float32
    assert -1 <= actions.min() < -0.99 and 0.99 < actions.max() <= 1
    assert abs(actions.mean()) < 5 / np.sqrt(3 * 30_000)


def test_an_episodes_actions_depend_on_seed_step_and_episode_alone() -> None:
    both = acted(RandomActor(Actions(9), "", [(Streams(1), 0), (Streams(2), 4)]), 50, 700, [0, 1])
    alone = acted(RandomActor(Actions(9), "", [(Streams(2), 4)]), 50, 700, [0])
    assert (both[:, 1:] == alone).all()
    for other in (acted(RandomActor(Actions(9), "", [(Streams(2), 5)]), 50, 700, [0]),
                  acted(RandomActor(Actions(9), "", [(Streams(2), 4)]), 50, 701, [0])):  # fmt: skip
        assert (other != alone).any()


def test_a_run_is_evaluations_alone(train: Any) -> None:
    study = train(*WORDS, "training.steps=40", "evaluation.every=20", packs=[(0,)])
    episodes = results.load(study)
    assert episodes["step"].tolist() == [20] * 6 + [40] * 6
    assert not episodes["success"].all()
