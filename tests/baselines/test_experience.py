"""Experiences: what seeds store together and separately, what is drawn from it, and which parts are notified."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Experience, Uneven, _of
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.uer import Uer
from guidebench.harness.interfaces import (
    Actions,
    Build,
    Observations,
    StepWords,
    Transition,
    TransitionColumn,
    Update,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.streams import Streams
from guidebench.methods.vlm_rb import VlmRb
from guidebench.suites.classic import Classic
from tests.refusals import check_refused

PLACE = Observations((1,), "float32")


def build(path: Path, seeds: tuple[int, ...] = (3, 5), capacity: int = 50) -> Build:
    return Build(
        seeds=seeds, observations=PLACE, actions=Actions(count=3), horizon=100, events=(), steps=100, device="cpu",
        streams=[Streams(seed) for seed in seeds], capacity=capacity, slots=capacity + 20, parts={"suite": Classic()},
        directories=tuple(path / f"seed-{seed}" for seed in seeds),
    )  # fmt: skip


def ctx(rows: int = 2, step: int = 1) -> Any:
    questions: list[Any] = []
    return SimpleNamespace(
        step=step, observation=np.zeros((rows, 1), np.float32), ask=questions.append, questions=questions
    )


def happened(number: int, ended: bool = False, seeds: tuple[int, ...] = (3, 5)) -> Transition:
    """Return a transition in which each seed observes 100 · seed + number and is rewarded with it."""
    place = np.array([[100 * seed + number] for seed in seeds], np.float32)
    no, end = np.zeros(len(seeds), bool), np.full(len(seeds), ended)
    snapshot = np.full((len(seeds), 4), number, np.uint8)
    return Transition(place, no, place[:, 0], end, no, place + 0.5, np.zeros((len(seeds), 0), bool), snapshot, no)


def uneven(run_build: Build, replay: Any = None) -> Uneven:
    """Return an experience in which seed 3 stores every step and seed 5 every third one."""
    experience, rows = Uneven(run_build, replay or Uer(), name="own"), np.arange(len(run_build.seeds))
    for number in range(30):
        storing = [row for row in rows if run_build.seeds[row] == 3 or number % 3 == 0]
        experience.add(happened(number, number % 10 == 9, run_build.seeds), np.array(storing, np.int64), ctx())
    return experience


@pytest.mark.parametrize("replay", [Uer(), Per()])
def test_seeds_that_store_unevenly_draw_what_they_draw_alone(tmp_path: Path, replay: Any) -> None:
    both = uneven(build(tmp_path / "both"), replay)
    assert both.stored.tolist() == [30, 10]
    drawn = both.sample(8, ctx())
    assert drawn.ready.all() and drawn.batch.observation.shape == (2, 8, 1)
    assert set(drawn.batch.observation[1, :, 0].tolist()) <= set(range(500, 530, 3))
    both.feedback(drawn, Update(np.arange(16, dtype=np.float32).reshape(2, 8), {}))
    again = both.sample(8, ctx(step=2))
    for row, seed in enumerate((3, 5)):
        alone = uneven(build(tmp_path / f"alone-{seed}", (seed,)), replay)
        single = alone.sample(8, ctx(1))
        np.testing.assert_array_equal(single.batch.observation[0], drawn.batch.observation[row])
        alone.feedback(single, Update(np.arange(16, dtype=np.float32).reshape(2, 8)[row : row + 1], {}))
        np.testing.assert_array_equal(alone.sample(8, ctx(1, 2)).draw.index[0], again.draw.index[row])


def test_a_step_that_is_not_stored_is_a_break(tmp_path: Path) -> None:
    """Seed 5 stores every third step, so its next stored observation is not the next observation."""
    experience = uneven(build(tmp_path))
    batch = experience.by_seed[1].store.gather(np.arange(10)[None])
    assert batch.observation[0, :, 0].tolist() == [500 + number for number in range(0, 30, 3)]
    assert batch.next_observation[0, :, 0].tolist() == [500.5 + number for number in range(0, 30, 3)]
    assert batch.terminated[0].tolist() == [number % 10 == 9 for number in range(0, 30, 3)]
    first = experience.by_seed[0].store.gather(np.arange(30)[None])
    ended = np.arange(30) % 10 == 9
    expected = np.where(ended, np.arange(30) + 0.5, np.arange(1, 31)) + 300
    expected[-1] = 329.5
    assert first.next_observation[0, :, 0].tolist() == expected.tolist()


def test_a_seed_that_has_stored_too_little_is_not_ready_and_draws_no_number(tmp_path: Path) -> None:
    experience = uneven(build(tmp_path))
    before = [single._rngs[0].bit_generator.state for single in experience.by_seed]
    drawn = experience.sample(11, ctx())
    assert drawn.ready.tolist() == [True, False]
    assert not drawn.batch.observation[1].any() and drawn.batch.observation[0].any()
    after = [single._rngs[0].bit_generator.state for single in experience.by_seed]
    assert after[0] != before[0] and after[1] == before[1]


def test_experiences_keep_files_and_random_numbers_apart(tmp_path: Path) -> None:
    run_build = build(tmp_path)
    first, second = Experience(run_build, Uer()), Experience(run_build, Uer(), name="second")
    for number in range(20):
        first.add(happened(number), ctx())
        second.add(happened(number + 40), ctx())
    assert (tmp_path / "seed-3" / "replay" / "second" / "reward.bin").exists()
    alone = build(tmp_path / "alone")
    only = Experience(alone, Uer())
    for number in range(20):
        only.add(happened(number), ctx())
    for _ in range(3):
        second.sample(5, ctx())
        np.testing.assert_array_equal(first.sample(5, ctx()).draw.index, only.sample(5, ctx()).draw.index)
    assert not np.array_equal(first.sample(9, ctx()).draw.index, second.sample(9, ctx()).draw.index)


def test_experiences_of_an_agent_that_would_share_files_are_refused(tmp_path: Path) -> None:
    run_build = build(tmp_path)
    uneven_experience = Uneven(run_build, Uer(), name="own")
    BaseAgent(run_build, {}, {"every": Experience(run_build, Uer()), "own": uneven_experience})
    check_refused(
        "two experiences of an agent have the name 'own'",
        BaseAgent,
        run_build,
        {},
        {"every": Experience(run_build, Uer(), name="own"), "own": uneven_experience},
    )


class Returns(BaseLearner):
    """A learner that writes the return of each transition once its episode has ended."""

    columns = (TransitionColumn("return", "late", initial=-1.0),)

    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []

    def ended(self, row, slots, store) -> None:
        self.heard.append((row, len(slots)))
        store.write("return", row, slots, store.read("reward", row, slots)[::-1].cumsum()[::-1])


def test_a_learner_hears_of_episodes_as_far_as_they_are_stored(tmp_path: Path) -> None:
    learner = Returns()
    experience = Experience(build(tmp_path, capacity=4), Uer(), learners=(learner,))
    for number in range(8):
        experience.add(happened(number, number in (1, 7)), ctx())
    assert learner.heard == [(0, 2), (1, 2), (0, 4), (1, 4)]  # six steps, two of which the ring has let go
    batch = experience.store.gather(np.tile(np.arange(4, 8), (2, 1)))
    assert batch.columns["return"].tolist() == [[1222, 918, 613, 307], [2022, 1518, 1013, 507]]
    experience.add(happened(8), ctx())
    assert experience.store.read("return", 0, np.array([8])).tolist() == [-1]


def test_clips_go_to_the_replay_s_judge_and_answers_come_back_by_seed(tmp_path: Path) -> None:
    run_build = build(tmp_path)
    experience = Uneven(run_build, VlmRb(clip_length=3))
    assert experience.judged and experience.judge == "judge"
    context = ctx()
    for number in range(6):
        experience.add(happened(number), np.array([0, 1] if number != 4 else [0]), context)
    clips = [(ask.row, ask.key.tolist(), ask.to) for ask in context.questions]
    assert clips == [(0, [0, 1, 2], "judge"), (1, [0, 1, 2], "judge"), (0, [3, 4, 5], "judge")]  # 1 broke off
    heard = []
    for row in range(2):
        experience.by_seed[row].sampler.scored = lambda at, slots, score, row=row: heard.append(
            (row, at, slots.tolist(), score)
        )
    clip = context.questions[0]
    experience.answered([(clip._replace(row=1), Answer(0.5)), (clip, Answer(None))])
    assert heard == [(1, 0, [0, 1, 2], 0.5)]


class Fixed(BaseLearner):
    """A learner whose updates report a fixed loss."""

    batch_size = 12

    def __init__(self, loss: list[float]) -> None:
        self.loss, self.moved = loss, list[Any]()

    def update(self, batch, active, step, reducible=None, losses=()):
        self.moved.append((active.tolist(), step, batch.reward.copy()))
        return Update(np.zeros(batch.reward.shape, np.float32), {"loss": np.array(self.loss)})


def test_an_agent_learns_of_seeds_that_are_ready_and_one_that_is_not_finite_stops(tmp_path: Path) -> None:
    run_build = build(tmp_path)
    experience, learner = uneven(run_build), Fixed([1.0, float("inf")])
    agent = BaseAgent(run_build, {"": learner}, {"own": experience})
    _, update = agent.learn(learner, experience, ctx(step=7))
    assert learner.moved[0][:2] == ([True, False], 7) and agent.active.tolist() == [True, True]
    assert update.metrics["loss"][0] == 1 and np.isnan(update.metrics["loss"][1])
    learner.batch_size = 8
    agent.learn(learner, experience, ctx(), step=3, shape=lambda batch: batch._replace(reward=batch.reward * 0 - 1))
    assert agent.active.tolist() == [True, False]
    assert learner.moved[1][1] == 3 and (learner.moved[1][2] == -1).all()


@pytest.mark.parametrize("names", [("", "second"), ("first", "first/other")])
def test_each_learner_gets_its_own_parameters_back(tmp_path: Path, names: tuple[str, str]) -> None:
    run_build = build(tmp_path)
    config = Dqn(hidden=(4,), batch_size=4, learning_starts=4)
    agent, other = (BaseAgent(run_build, {name: config.spawn(run_build) for name in names}, {}) for _ in range(2))
    other.load_parameters(1, agent.parameters(0))
    for name in names:
        parameters, again = agent.learners[name].parameters(0), other.learners[name].parameters(1)
        assert all(np.array_equal(parameters[key], again[key]) for key in parameters.keys() | again.keys())


def test_parts_are_joined_to_what_a_task_shows() -> None:
    goal = Observations((2,), "float32")
    flat = PLACE.joined(goal=goal)
    joined = flat.join(np.array([[1], [2]], np.float32), goal=np.array([[3, 4], [5, 6]], np.float32))
    assert joined["observation"].tolist() == [[1], [2]] and joined["goal"].tolist() == [[3, 4], [5, 6]]
    record = Observations(parts={"a": Observations((), "int8"), "b": PLACE})
    records = np.zeros(3, record.numpy)
    records["a"] = [1, 2, 3]
    twice = record.joined(goal=goal).join(records, goal=np.ones((3, 2), np.float32))
    assert twice.dtype.names == ("a", "b", "goal") and twice["a"].tolist() == [1, 2, 3]


def test_a_seeds_part_of_a_transition_has_its_own_words() -> None:
    texts = StepWords(("you see tree.", "you see cow."), ("chop tree", ""))
    part = _of(happened(4)._replace(words=texts, snapshot=None), 1)
    assert part.words == StepWords(("you see cow.",), ("",)) and part.snapshot is None
    assert part.reward.tolist() == [504.0] and _of(happened(4), 0).words is None
