"""n-step returns: where a stretch ends, what it is folded into, and that guides shape each of its transitions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Experience, Uneven
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.n_step import Stretch, folded, reach
from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.uer import Uer
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Batch, Build, NStep, Observations, RunPhase, Transition, Update
from guidebench.harness.streams import Streams
from guidebench.suites.classic import Classic

THREE = NStep(3, 0.5)


def build(path: Path, seeds: tuple[int, ...] = (0, 1), capacity: int = 6, slots: int = 8) -> Build:
    return Build(
        seeds=seeds, observations=Observations((1,), "float32"), actions=Actions(count=3), horizon=100, events=(),
        steps=100, device="cpu", streams=[Streams(seed) for seed in seeds], capacity=capacity, slots=slots,
        directories=tuple(path / f"seed-{seed}" for seed in seeds), parts={"suite": Classic()},
    )  # fmt: skip


def happened(number: int, terminated: tuple[bool, ...], truncated: tuple[bool, ...]) -> Transition:
    """Return a transition in which every seed goes from `number` to `number` + 1, or to −`number` where its episode
    ends, with reward 2^number."""
    ended = np.array(terminated) | np.array(truncated)
    ones = np.ones((len(terminated), 1), np.float32)
    return Transition(
        observation=ones * number, action=np.full(len(ended), number % 3), reward=np.float32(2**number) * ones[:, 0],
        terminated=np.array(terminated), truncated=np.array(truncated),
        next_observation=np.where(ended[:, None], -number, number + 1).astype(np.float32),
        events=np.zeros((len(ended), 0), bool), snapshot=None, success=np.array(terminated),
    )  # fmt: skip


def fill(store: Any, numbers: range) -> None:
    """Store these transitions: seed 0 never ends an episode; seed 1 terminates at 2 and 8 and is truncated at 5."""
    for number in numbers:
        store.append(happened(number, (False, number in (2, 8)), (False, number == 5)))


def test_a_stretch_ends_with_its_episode_and_at_the_newest_transition(tmp_path: Path) -> None:
    store = Storage(build(tmp_path, capacity=20, slots=24))
    fill(store, range(10))
    slots, length = reach(store, np.array([[0, 1, 2, 8, 9]] * 2), 3)
    assert slots[0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [8, 9, 9], [9, 9, 9]]
    assert length[0].tolist() == [3, 3, 3, 2, 1]
    assert slots[1].tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2], [8, 8, 8], [9, 9, 9]]
    assert length[1].tolist() == [3, 2, 1, 1, 1]


def returns(store: Storage, index: list[list[int]]) -> Batch:
    slots, length = reach(store, np.array(index), 3)
    return folded(Stretch(store.gather(slots.reshape(len(slots), -1)), length, 0.5))


def test_returns_at_ends_are_those_worked_by_hand(tmp_path: Path) -> None:
    """With γ = ½ and r_t = 2^t every term of an n-step return is 2^t: three of them, two or one."""
    store = Storage(build(tmp_path, capacity=20, slots=24))
    fill(store, range(10))
    batch = returns(store, [[3, 4, 8, 9], [3, 4, 1, 7]])
    assert batch.reward.dtype == np.float32
    assert batch.reward.tolist() == [[24, 48, 512, 512], [24, 32, 4, 256]]
    assert batch.steps is not None and batch.steps.tolist() == [[3, 3, 2, 1], [3, 2, 2, 2]]
    assert batch.next_observation[..., 0].tolist() == [[6, 7, 10, 10], [-5, -5, -2, -8]]
    assert batch.terminated.tolist() == [[False] * 4, [False, False, True, True]], "truncated at 5: it bootstraps"
    assert batch.observation[..., 0].tolist() == [[3, 4, 8, 9], [3, 4, 1, 7]]
    assert batch.action.tolist() == [[0, 1, 2, 0], [0, 1, 1, 1]]
    assert batch.number is not None and batch.number.tolist() == [[3, 4, 8, 9], [3, 4, 1, 7]]
    assert batch.task_reward is not None and batch.task_reward[0].tolist() == [8, 16, 256, 512]


def test_stretches_cross_the_rings_edge_and_stop_at_its_write_position(tmp_path: Path) -> None:
    """8 slots: after 20 transitions, 14 to 19 are live in slots 6, 7, 0, 1, 2, 3, and slot 4 holds the forgotten 12."""
    store = Storage(build(tmp_path))
    fill(store, range(20))
    batch = returns(store, [[6, 7, 1, 2, 3]] * 2)
    assert batch.reward[0].tolist() == [3 * 2**14, 3 * 2**15, 3 * 2**17, 2 * 2**18, 2**19]
    assert batch.next_observation[0, :, 0].tolist() == [17, 18, 20, 20, 20]


def test_nothing_is_summed_across_a_break(tmp_path: Path) -> None:
    store = Storage(build(tmp_path, capacity=20, slots=24), broken=True)
    fill(store, range(4))
    store.cut()
    fill(store, range(20, 24))  # slots 4 to 7
    batch = returns(store, [[1, 2, 3, 4]] * 2)
    assert batch.reward[0].tolist() == [6, 8, 8, 3 * 2**20] and batch.steps is not None
    assert batch.steps[0].tolist() == [3, 2, 1, 3]
    assert batch.next_observation[0, :, 0].tolist() == [4, 4, 4, 23], "the state before the break, not after"


def test_a_transition_that_shaping_ends_ends_the_return() -> None:
    """A guide that marks the second of three transitions as terminated leaves two."""

    def column(*values: float) -> np.ndarray:
        return np.array([values], np.float32)

    batch = Batch(
        observation=column(0, 1, 2), action=np.zeros((1, 3), np.int64), reward=column(1, 10, 100),
        next_observation=column(1, 2, 3), terminated=np.array([[False, True, False]]), weight=column(7, 7, 7),
        columns={"extra": column(4, 5, 6)},
    )  # fmt: skip
    shortened = folded(Stretch(batch, np.array([[3]]), 0.5))
    assert (shortened.reward.tolist(), shortened.next_observation.tolist()) == ([[6.0]], [[2.0]])
    assert (
        shortened.terminated.tolist() == [[True]] and shortened.steps is not None and shortened.steps.tolist() == [[2]]
    )
    assert shortened.weight is not None and shortened.weight.tolist() == [[7.0]]
    assert shortened.columns["extra"].tolist() == [[4.0]]


class RecordingLearner(BaseLearner):
    """A learner that asks for three-step returns and records its batches."""

    batch_size = 4
    n_step = THREE

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def update(self, batch: Batch, active: Any, step: int, reducible: Any = None, losses: Any = ()) -> Update:
        self.batches.append(batch)
        return Update(np.ones_like(batch.reward), {"loss": np.zeros(len(active))})


def doubled(batch: Batch) -> Batch:
    return batch._replace(reward=2 * batch.reward)


def context(run_build: Build, step: int = 1) -> Any:
    return SimpleNamespace(
        step=step, observation=np.zeros((run_build.rows, 1), np.float32), ask=None, phase=RunPhase("train", 100)
    )


@pytest.mark.parametrize("replay", [Uer(), Per()])
def test_an_agent_shapes_each_transition_of_the_returns_that_its_learner_asks_for(tmp_path: Path, replay: Any) -> None:
    run_build = build(tmp_path, capacity=20, slots=24)
    learner = RecordingLearner()
    experience = Experience(run_build, replay)
    agent = BaseAgent(run_build, {"": learner}, {"": experience})
    for number in range(10):
        experience.add(happened(number, (False, number in (2, 8)), (False, number == 5)), context(run_build))
    sizes: list[tuple[int, ...]] = []

    def shape(batch: Batch) -> Batch:
        sizes.append(batch.reward.shape)
        return doubled(batch)

    drawn, _ = agent.learn(learner, experience, context(run_build), shape=shape)
    (batch,) = learner.batches
    assert sizes == [(2, 12)] and batch.reward.shape == (2, 4)
    plain = returns(experience.store, drawn.draw.index.tolist())
    np.testing.assert_array_equal(batch.reward, 2 * plain.reward)
    np.testing.assert_array_equal(batch.next_observation, plain.next_observation)
    np.testing.assert_array_equal(drawn.batch.reward, experience.store.column("reward", drawn.draw.index))
    assert (batch.weight is None) == isinstance(replay, Uer)
    if batch.weight is not None:
        np.testing.assert_array_equal(batch.weight, drawn.draw.weight)


def test_seeds_that_store_apart_have_the_returns_that_they_have_alone(tmp_path: Path) -> None:
    """Seed 1 leaves out every fourth step; with three stored transitions it is not ready for a batch of four."""

    def stored(run_build: Build, steps: int) -> Uneven:
        experience = Uneven(run_build, Uer(), name="own")
        for number in range(steps):
            rows = [row for row, seed in enumerate(run_build.seeds) if seed == 0 or number % 4]
            transition = happened(number, (False,) * run_build.rows, (False,) * run_build.rows)
            experience.add(transition, np.array(rows, np.int64), context(run_build))
        return experience

    early = stored(build(tmp_path / "early", capacity=20, slots=24), 4).sample(4, context(build(tmp_path)), None, THREE)
    assert early.ready.tolist() == [True, False]
    batch = early.shaped(doubled)
    assert not batch.reward[1].any() and batch.reward[0].any() and batch.reward.shape == (2, 4)
    both = stored(build(tmp_path / "both", capacity=20, slots=24), 12)
    drawn = both.sample(8, context(build(tmp_path)), None, THREE).shaped(doubled)
    for row in (0, 1):
        run_build = build(tmp_path / f"alone-{row}", (row,), capacity=20, slots=24)
        alone = stored(run_build, 12).sample(8, context(run_build), None, THREE).shaped(doubled)
        for name in ("reward", "next_observation", "steps"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(drawn, name)[row])
    assert drawn.steps is not None
    first, last = drawn.observation[1, :, 0], drawn.next_observation[1, :, 0]
    np.testing.assert_array_equal(last - first, drawn.steps[1])
    assert (last % 4 != 1).all() and (last // 4 == first // 4)[last % 4 > 0].all(), "it never spans a step left out"
