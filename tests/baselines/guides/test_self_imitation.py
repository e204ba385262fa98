"""Self-imitation: which episodes are kept, the loss and the steps that it takes."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.experience import Experience
from guidebench.baselines.guides.self_imitation import SelfImitation
from guidebench.baselines.guides.self_imitation.guide import SelfImitationGuide
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.dqn.learner import DqnLearner
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.replay.uer import Uer
from guidebench.harness.interfaces import Actions, Batch, Build, Loss, Observations, RunPhase, Transition
from guidebench.harness.plan import matrix
from guidebench.harness.streams import Streams
from guidebench.suites.classic import Classic
from tests.baselines.learners.conftest import make, same
from tests.cell_views import cell_view
from tests.methods.contract import METHODS
from tests.refusals import check_refused

LEARNER = Dqn(hidden=(), discount=0.5, batch_size=4, learning_starts=8)
SMALL: dict[str, Any] = {"batch_size": 8, "starts": 3, "every": 4, "updates": 2, "capacity": 40}


def build(path: Path, seeds: tuple[int, ...] = (0, 1), capacity: int = 20) -> Build:
    return Build(
        seeds=seeds, observations=Observations((2,), "float32"), actions=Actions(count=2), horizon=10, events=(),
        steps=100, device="cpu", streams=[Streams(seed) for seed in seeds], capacity=capacity, slots=capacity + 10,
        directories=tuple(path / f"seed-{seed}" for seed in seeds), parts={"suite": Classic(), "learner": LEARNER},
    )  # fmt: skip


def ctx(rows: int, step: int = 8, phase: RunPhase = RunPhase("train", 100)) -> Any:  # noqa: B008
    return SimpleNamespace(step=step, observation=np.zeros((rows, 2), np.float32), ask=None, phase=phase)


class Stream:
    """The experience of a learner's seeds; the guide observes each transition."""

    def __init__(self, run_build: Build, **more: Any) -> None:
        self.rows = run_build.rows
        self.guide = SelfImitationGuide(SelfImitation(**{**SMALL, **more}), run_build)
        self.experience = Experience(run_build, Uer(), broken=True)
        self.number = 0

    def add(self, reward: list[float], ended: list[bool], truncated: bool = False) -> None:
        """Store a step in which each seed goes on from (number, row) with action number % 2."""
        observation = np.array([[self.number, row] for row in range(self.rows)], np.float32)
        end, no = np.array(ended), np.zeros(self.rows, bool)
        transition = Transition(
            observation, np.full(self.rows, self.number % 2), np.array(reward, np.float32), no if truncated else end,
            end if truncated else no, observation + np.float32([1, 0]), np.zeros((self.rows, 0), bool), None, end,
        )  # fmt: skip
        self.guide.observed(
            self.experience.add(transition, ctx(self.rows)), transition, self.experience.store, ctx(self.rows)
        )
        self.number += 1

    def stored_batch(self, row: int) -> Batch:
        """Return everything that a seed has stored for imitation."""
        memory = self.guide.memory.by_seed[row]
        return memory.store.gather(np.arange(memory.store.written)[None])


def test_episodes_with_a_positive_reward_are_kept_with_their_returns(tmp_path: Path) -> None:
    """γ = ½. Seed 0 is paid 1, 0, 4: returns 1 + 4/4, 4/2 and 4; then −1 and 0, which is not kept. Seed 1 is truncated
    after 0, 2: returns 1 and 2."""
    stream = Stream(build(tmp_path))
    stream.add([1, 0], [False, False])
    stream.add([0, 2], [False, True], truncated=True)
    stream.add([4, 0], [True, False])
    stream.add([-1, 0], [False, False])
    stream.add([0, 0], [True, True])
    assert stream.guide.metrics()["guide/kept"].tolist() == [3, 2]
    first, second = stream.stored_batch(0), stream.stored_batch(1)
    assert first.columns["return"].tolist() == [[2, 2, 4]] and second.columns["return"].tolist() == [[1, 2]]
    assert first.observation.tolist() == [[[0, 0], [1, 0], [2, 0]]] and second.observation.tolist() == [
        [[0, 1], [1, 1]]
    ]
    assert first.action.tolist() == [[0, 1, 0]] and first.reward.tolist() == [[1, 0, 4]]
    assert first.terminated.tolist() == [[False, False, True]] and second.terminated.tolist() == [[False, False]]


def test_what_is_kept_outlives_the_learners_replay(tmp_path: Path) -> None:
    stream = Stream(build(tmp_path, (0,), capacity=4))
    for number in range(12):
        stream.add([float(number == 2)], [number % 3 == 2])
    assert stream.experience.store.live.count == 4 and not stream.experience.store.holds(np.array([2])).any()
    assert stream.stored_batch(0).columns["return"].tolist() == [[0.25, 0.5, 1]]
    stream = Stream(build(tmp_path / "long", (0,), capacity=4))
    for number in range(6):
        stream.add([1.0], [number == 5])
    assert stream.stored_batch(0).observation[0, :, 0].tolist() == [2, 3, 4, 5], (
        "of a longer episode, what is still stored"
    )


def test_an_episode_does_not_reach_back_across_a_break(tmp_path: Path) -> None:
    stream = Stream(build(tmp_path, (0,)))
    stream.add([1.0], [False])
    stream.experience.cut()
    stream.add([0.0], [False])
    stream.add([2.0], [True])
    assert stream.stored_batch(0).columns["return"].tolist() == [[1, 2]]


def test_only_the_newest_are_kept_and_they_may_be_more_than_one_interval_writes(tmp_path: Path) -> None:
    run_build = build(tmp_path, (0,))
    stream = Stream(run_build, capacity=5)
    for number in range(12):
        stream.add([1.0], [number % 4 == 3])
    assert stream.guide.metrics()["guide/kept"].tolist() == [5]
    assert stream.guide.memory.by_seed[0].store.size >= 5 + run_build.slots + run_build.horizon


def by_hand(scale: float, **more: Any) -> tuple[SelfImitationGuide, DqnLearner, Batch]:
    """Q(x) = (x₀, 2x₁) of seed 0; Q(s, a) = 1, 2, 3, 0 and R = 3, 1, 3, 1, so (R − Q)₊ = 2, 0, 0, 1."""
    learner: DqnLearner = make(Dqn(hidden=(), lr=0.1, max_grad_norm=100.0))
    learner.online.load(0, {"head.0.weight": np.array([[1, 0], [0, 2]]), "head.0.bias": np.zeros(2)})
    batch = Batch(
        observation=np.array([[[1, 5], [7, 1], [3, 0], [0, 0]]], np.float32),
        action=np.array([[0, 1, 0, 1]]),
        reward=np.zeros((1, 4), np.float32),
        next_observation=np.zeros((1, 4, 2), np.float32),
        terminated=np.zeros((1, 4), bool),
        weight=None,
        columns={"return": np.array([[3, 1, 3, 1]], np.float32)},
    )
    guide = SelfImitationGuide.__new__(SelfImitationGuide)
    guide.config, guide._advantage = SelfImitation(weight=scale), np.zeros((1, 4), np.float32)
    return guide, learner, batch._replace(**more)


@pytest.mark.parametrize(
    ("weight", "loss", "gradient"),
    [
        (None, 0.5 * (4 + 1) / 4, [[-2 / 4, 0], [-10 / 4, 0]]),
        ([[0.5, 1, 1, 0.25]], 0.5 * (4 * 0.5 + 1 * 0.25) / 4, [[-1 / 4, 0], [-5 / 4, 0]]),
    ],
)
def test_the_loss_is_half_the_squared_clipped_advantage(weight: Any, loss: float, gradient: Any) -> None:
    """dL/dQ(s, a) = −w(R − Q)₊/4, −2 at (1, 5) with action 0, and −1 at (0, 0) with action 1, where only the bias
    counts."""
    weights = None if weight is None else np.array(weight, np.float32)
    guide, learner, batch = by_hand(0.1, weight=weights)
    metrics = learner.update_added(batch, np.ones(1, bool), (Loss("the guide", ("q",), guide.imitation),))
    assert guide._advantage.tolist() == [[2, 0, 0, 1]]
    assert metrics["q_added"].tolist() == pytest.approx([0.1 * loss])
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.weight"], 0.1 * np.array(gradient), atol=1e-6)
    ends = 1.0 if weight is None else 0.25
    assert learner.gradient.arrays(0)["head.0.bias"][1] == pytest.approx(-0.1 * ends / 4)
    # Adam's first step is lr·sign(gradient), towards the returns
    np.testing.assert_allclose(learner.parameters(0)["head.0.weight"], [[1.1, 0], [0.1, 2]], atol=1e-3)


def test_a_step_on_added_losses_alone_leaves_other_seeds_and_targets(tmp_path: Path) -> None:
    guide, _, batch = by_hand(1.0)
    guide._advantage = np.zeros((2, 4), np.float32)
    learner: DqnLearner = make(Dqn(hidden=()), seeds=(0, 1))
    both = batch._replace(**{
        name: np.concatenate([getattr(batch, name)] * 2)
        for name in ("observation", "action", "reward", "next_observation", "terminated")
    }, columns={"return": np.full((2, 4), 9, np.float32)})  # fmt: skip
    before = [learner.state(row) for row in range(2)]
    learner.update_added(both, np.array([True, False]), (Loss("the guide", ("q",), guide.imitation),))
    after = [learner.state(row) for row in range(2)]
    assert same(before[1], after[1]) and same(before[0]["target"], after[0]["target"])
    assert not same(before[0]["parameters"], after[0]["parameters"]) and after[0]["optimiser"]["steps"] == 1


def test_rounds_come_every_so_many_steps_from_learning_starts_on(tmp_path: Path) -> None:
    stream = Stream(build(tmp_path))
    steps: list[list[bool]] = []

    class Noting(BaseLearner):
        def update_added(self, batch: Any, active: Any, losses: Any) -> Any:
            steps.append(active.tolist())
            return {"q_added": np.zeros(2), "grad_norm": np.zeros(2)}

    learner: Any = Noting()
    stream.add([1, 0], [False, False])
    for step in (8, 12):
        stream.guide.before_update(stream.experience.store, learner, ctx(2, step))
    assert steps == [], "nothing is kept"
    stream.add([1, 0], [False, False])
    stream.add([1, 0], [True, True])
    for step in (4, 8, 9, 10, 11, 12):  # learning starts at 8, and a round comes every 4
        stream.guide.before_update(stream.experience.store, learner, ctx(2, step))
    assert steps == [[True, False]] * 4, "two steps each at 8 and 12, of the seed that has kept three"
    stream.guide.before_update(stream.experience.store, learner, ctx(2, 12, RunPhase("collect", 100, updates=0)))
    assert len(steps) == 4


def test_what_was_drawn_has_its_clipped_advantage_as_priority(tmp_path: Path) -> None:
    """Q = 0 everywhere, so that (R − Q)₊ is R: 1, 2, 4. With α = 1 they are drawn in these proportions."""
    stream = Stream(build(tmp_path, (0,)), alpha=1.0, batch_size=512)
    for reward, ended in ((0, False), (0, False), (4, True)):
        stream.add([reward], [ended])
    learner = make(Dqn(hidden=(), lr=1e-12))
    learner.online.flat.zero_()
    stream.guide.before_update(stream.experience.store, learner, ctx(1))
    tree = stream.guide.memory.by_seed[0].sampler.tree
    assert tree.get(np.array([[0, 1, 2]])).tolist() == [pytest.approx([1, 2, 4], rel=1e-5)]
    metrics = stream.guide.metrics()
    assert metrics["guide/raised"].tolist() == [1] and 2 < metrics["guide/advantage"][0] < 3.5, (
        "the second: (1 + 4 + 16)/7"
    )


def test_a_learner_without_action_values_is_refused_by_name() -> None:
    check_refused(
        "action values, which its learner does not have",
        matrix.plan,
        ["suite=classic", "task=Pendulum-v1", "method=self_imitation"],
    )
    check_refused(
        "BaseLearner takes no gradient step on the losses of the guide X alone",
        BaseLearner().update_added,
        None,
        None,
        (Loss("the guide X", ("q",), None),),
    )
    check_refused(r"guide\.updates=0: expected", SelfImitation, updates=0)


def test_a_plan_counts_the_disk_that_it_takes() -> None:
    """8 bytes for each of two floats, once per slot of the replay, and for as many of its own as it keeps."""
    suite: Any = SimpleNamespace(spaces=lambda task: (Observations((2,), "float32"), Actions(2)))
    parts = {"suite": suite, "training": SimpleNamespace(capacity=50_000), "agent": Standard()}
    assert SelfImitation(capacity=100_000).stored_bytes(parts, "any") == 8 * 3
    assert SelfImitation().fits(cell_view(None, "", Observations((2,), "float32"), Actions(2))) == ""


def test_a_run_keeps_returns_and_imitates_them(train: Callable[..., Path]) -> None:
    study = train(*METHODS["self_imitation"].words.split(), "seeds=[0]", packs=[(0,)])
    metrics = results.load(study, log="metrics")
    assert metrics["guide/kept"].max() > 20 and metrics["guide/raised"].dropna().gt(0).any()
