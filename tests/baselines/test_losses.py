"""Losses that a guide adds to a learner's own."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.captured import Captured
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import Batch, Loss
from guidebench.harness.plan import matrix
from tests.baselines.learners.conftest import SMALL, VECTOR, batches, beside, make, same
from tests.baselines.learners.continuous import SMALL as CONTINUOUS
from tests.baselines.learners.continuous import batch, build
from tests.baselines.learners.test_sac import PEAK, WORKED, by_hand
from tests.refusals import check_refused

ACTIVE = np.ones(1, bool)
BOTH_ACTIVE = np.ones(2, bool)


def q(terms: Callable[..., Any]) -> tuple[Loss, ...]:
    """Return a loss that adds `terms(batch, networks)` to group `q`."""
    return (Loss("the guide Test", ("q",), lambda batch, networks: {"q": terms(batch, networks)}),)


def of(group: str, terms: Callable[..., Any]) -> tuple[Loss, ...]:
    """Return a loss that adds `terms(batch, networks)` to a group of an actor-critic learner."""
    return (Loss("the guide Test", ("actor", "critic"), lambda batch, networks: {group: terms(batch, networks)}),)


def test_the_gradient_of_dqn_is_that_of_both_losses() -> None:
    """With all parameters 0, Q = Q̄ = 0 and rewards 0, the learner's own loss and gradient are 0. The mean of Q(s, 1)
    has the gradients mean(s) and 1 by the weights and the bias of action 1."""
    learner = make(Dqn(hidden=(), batch_size=2))
    learner.online.flat.zero_()
    learner.target.flat.zero_()
    observation = np.array([[[1, 2], [3, -8]]], np.float32)
    sampled = Batch(
        observation, np.array([[0, 1]]), np.zeros((1, 2), np.float32), observation, np.zeros((1, 2), bool), None
    )
    learner.config = Dqn(hidden=(), batch_size=2, max_grad_norm=100)
    update = learner.update(
        sampled, ACTIVE, 1, None, q(lambda batch, networks: networks.q(batch.observation)[:, :, 1].mean(1))
    )
    gradient = learner.gradient.arrays(0)
    assert gradient["head.0.weight"].tolist() == [[0, 2], [0, -3]] and gradient["head.0.bias"].tolist() == [0, 1]
    assert update.metrics["q_added"].tolist() == [0] and update.metrics["loss"].tolist() == [0]
    assert update.metrics["grad_norm"].tolist() == pytest.approx([math.sqrt(4 + 9 + 1)])


def gradients(group: str, terms: Callable[..., Any] | None) -> dict[str, np.ndarray]:
    """Return the gradients of a group of `by_hand`'s networks after one update of the worked batch."""
    learner = by_hand(max_grad_norm=None, batch_size=2, learning_starts=2)
    learner.update(WORKED, ACTIVE, 10, None, of(group, terms) if terms else ())
    arrays: dict[str, np.ndarray] = learner.gradients[0 if group == "actor" else 1].arrays(0)
    return arrays


def test_the_gradient_of_sacs_critics_is_that_of_both_losses() -> None:
    """Q_i = w_i·(x₀, x₁, a): the mean over 3 critics and 2 transitions has the gradient mean(x₀, x₁, a)/3 by w_i; means
    over the batch are 1.5, 0 and .25."""
    plain = gradients("critic", None)
    both = gradients("critic", lambda b, networks: networks.critic(b.observation, b.action).mean((1, 2)))
    difference = both["critic.0.weight"][:, :, 0] - plain["critic.0.weight"][:, :, 0]
    np.testing.assert_allclose(difference, [[0.5, 0, 0.25 / 3]] * 3, atol=1e-5)
    np.testing.assert_allclose(both["critic.0.bias"] - plain["critic.0.bias"], [[1 / 3]] * 3, atol=1e-5)


def test_the_gradient_of_sacs_actor_is_that_of_both_losses() -> None:
    """π(s) = tanh x₁, and x₁ = 0 in both transitions, where tanh has slope 1: the mean has the gradients 1.5, 0 by the
    weights of μ and 1 by its bias."""
    plain, both = gradients("actor", None), gradients("actor", lambda b, net: net.policy(b.observation).mean((1, 2)))
    difference = both["actor.0.weight"] - plain["actor.0.weight"]
    np.testing.assert_allclose(difference, [[1.5, 0], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(both["actor.0.bias"] - plain["actor.0.bias"], [1, 0], atol=1e-6)


def test_the_log_probability_of_a_given_action() -> None:
    """μ = 0 and σ = 1: log π(tanh u) = log N(u; 0, 1) − log(1 − tanh² u). At ±1 it stays finite."""
    learner = by_hand()
    actions = torch.tensor([[[0.0], [0.5]]])
    log_probabilities = learner.log_probability(0, torch.zeros(1, 2, 2), actions)[0].tolist()
    assert log_probabilities == pytest.approx([PEAK, PEAK - 0.5 * math.atanh(0.5) ** 2 - math.log(1 - 0.25)])
    actions_drawn, expected = learner.drawn(0, torch.zeros(1, 2, 2), torch.tensor([[[0.3], [-1.0]]]))
    torch.testing.assert_close(learner.log_probability(0, torch.zeros(1, 2, 2), actions_drawn), expected)
    assert learner.log_probability(0, torch.zeros(1, 1, 2), torch.ones(1, 1, 1)).isfinite().all()


def test_a_loss_sees_the_networks_before_the_update() -> None:
    """The actor's term is of the critics as they were, although they move first."""
    learner = Sac(**CONTINUOUS).spawn(build())
    sampled = batch(0)
    before = learner.q(learner.critic.blocks[0].views, *map(torch.tensor, (sampled.observation, sampled.action))).mean(
        (1, 2)
    )
    terms = of("actor", lambda b, net: net.critic(b.observation, net.policy(b.observation)).mean((1, 2)) * 0 + before)
    assert learner.update(sampled, ACTIVE, 1, None, terms).metrics["actor_added"] == pytest.approx(before.tolist())


KINDS: dict[str, tuple[Any, tuple[Loss, ...], tuple[Loss, ...]]] = {
    "dqn": (
        Dqn(**SMALL), q(lambda b, net: net.q(b.observation).square().mean((1, 2))),
        q(lambda b, net: 0 * net.q(b.observation).mean((1, 2))),
    ),
    "iqn": (
        Iqn(**SMALL), q(lambda b, net: net.q(b.observation).square().mean((1, 2))),
        q(lambda b, net: 0 * net.q(b.observation).mean((1, 2))),
    ),
    "sac": (
        Sac(**CONTINUOUS), of("actor", lambda b, net: -net.log_probability(b.observation, b.action).mean(1)),
        of("actor", lambda b, net: 0 * net.drawn(b.observation, b.action)[1].mean(1)),
    ),
    "td3": (
        Td3(**CONTINUOUS), of("actor", lambda b, net: (net.policy(b.observation) - b.action).square().mean((1, 2))),
        of("critic", lambda b, net: 0 * net.critic(b.observation, b.action).mean((1, 2))),
    ),
}  # fmt: skip


def learners(config: Any, seeds: tuple[int, ...]) -> Any:
    return make(config, VECTOR, 2, seeds) if isinstance(config, Dqn | Iqn) else config.spawn(build(seeds))


def batch_of(config: Any, seed: int) -> Batch:
    return batches(VECTOR, seed, 16, 2, 1)[0] if isinstance(config, Dqn | Iqn) else batch(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_term_of_zero_changes_no_bit(kind: str) -> None:
    config, _, nothing = KINDS[kind]
    plain, added = learners(config, (0, 1)), learners(config, (0, 1))
    for step in range(20, 26):
        joint_batch = beside(batch_of(config, step), batch_of(config, 50 + step))
        first, second = (
            plain.update(joint_batch, BOTH_ACTIVE, step, "error"),
            added.update(joint_batch, BOTH_ACTIVE, step, "error", nothing),
        )
        assert np.array_equal(first.td_error, second.td_error) and np.array_equal(first.reducible, second.reducible)
        assert all(np.array_equal(first.metrics[name], second.metrics[name]) for name in first.metrics)
    assert all(same(plain.state(row), added.state(row)) for row in (0, 1))


def test_an_update_with_added_losses_is_not_captured() -> None:
    config, losses, _ = KINDS["sac"]
    plain, captured = learners(config, (0,)), learners(config, (0,))
    captured._learn = Captured(captured.learn)
    for step in range(20, 26):
        for learner in (plain, captured):
            learner.update(batch(step), ACTIVE, step, None, losses)
    assert not captured._learn._warm_ups and same(plain.state(0), captured.state(0))


def test_the_batch_of_a_loss_is_that_of_its_seeds() -> None:
    calls: list[Any] = []

    def look(batch: Any, networks: Any) -> Any:
        calls.append((networks.rows, batch))
        return networks.q(batch.observation).mean((1, 2))

    learner = make(Dqn(**SMALL), VECTOR, 2, (0, 1))
    joint_batch = beside(*(batches(VECTOR, seed, 16, 2, 1)[0] for seed in (0, 1)))
    joint_batch = joint_batch._replace(columns={"mark": np.arange(32).reshape(2, 16)}, success=joint_batch.terminated)
    joint_batch = joint_batch._replace(task_reward=joint_batch.reward, reward=joint_batch.reward + 1)
    learner.update(joint_batch, BOTH_ACTIVE, 1, None, q(look))
    assert [rows for rows, _ in calls] == [slice(0, 1), slice(1, 2)]
    for row, (_, part) in enumerate(calls):
        assert part.columns["mark"].tolist() == [list(range(16 * row, 16 * row + 16))]
        assert (
            torch.equal(part.reward, part.task_reward + 1)
            and part.task_reward[0].tolist() == joint_batch.task_reward[row].tolist()
        )
        assert part.success[0].tolist() == joint_batch.terminated[row].tolist()


def test_two_losses_of_a_group_add_up() -> None:
    config, losses, _ = KINDS["dqn"]
    once, twice = learners(config, (0,)), learners(config, (0,))
    double = q(lambda b, net: 2 * net.q(b.observation).square().mean((1, 2)))
    for step in range(20, 23):
        updates = [once.update(batch_of(config, step), ACTIVE, step, None, double)]
        updates.append(twice.update(batch_of(config, step), ACTIVE, step, None, losses * 2))
        assert updates[0].metrics["q_added"] == pytest.approx(updates[1].metrics["q_added"], rel=1e-4)


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "shape": (lambda b, net: net.q(b.observation).mean(2), r"is of shape \(1, 16\); expected one number per seed"),
    "kind": (lambda b, net: 1.0, r"is a float; expected a tensor with one number per seed, \[1\]"),
    "gradient": (lambda b, net: net.q(b.observation).mean((1, 2)).detach(), "is without gradient; compute it by"),
    "elsewhere": (lambda b, net: torch.ones(1, requires_grad=True), "does not depend on that group's networks"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_term_that_cannot_be_added_is_refused_by_who_gives_it(case: str) -> None:
    terms, says = WRONG[case]
    learner = learners(Dqn(**SMALL), (0,))
    check_refused(
        f"the loss that the guide Test adds to 'q' {says}",
        learner.update,
        batch_of(learner.config, 0),
        ACTIVE,
        1,
        None,
        q(terms),
    )


def test_a_term_of_a_group_that_was_not_declared_is_refused() -> None:
    learner = learners(Dqn(**SMALL), (0,))
    loss = Loss("the guide Test", ("q",), lambda b, net: {"critic": net.q(b.observation).mean((1, 2))})
    check_refused(
        r"unknown group of a loss of the guide Test, .*'critic'.*known: q",
        learner.update,
        batch_of(learner.config, 0),
        ACTIVE,
        1,
        None,
        (loss,),
    )


@pytest.mark.parametrize(
    ("learner", "group", "groups"), [(Dqn(**SMALL), "actor", "q"), (Sac(**CONTINUOUS), "q", "actor, critic")]
)
def test_a_loss_of_a_group_that_the_learner_has_not_is_refused(learner: Any, group: str, groups: str) -> None:
    built_learner = learners(learner, (0,))
    sampled = batch_of(learner, 0) if isinstance(learner, Dqn) else batch(0)
    loss = Loss("the agent Test", (group,), lambda b, net: {})
    check_refused(
        rf"unknown group of the learner, to which the agent Test adds .*known: {groups}\)",
        built_learner.update,
        sampled,
        ACTIVE,
        1000,
        None,
        (loss,),
    )


def test_a_deterministic_policy_has_no_log_probability() -> None:
    learner = learners(Td3(**CONTINUOUS), (0,))
    loss = of("actor", lambda b, net: net.log_probability(b.observation, b.action).mean(1))
    check_refused(
        r"the policy of td3 is deterministic: a loss has its policy\(observation\)",
        learner.update,
        batch(0),
        ACTIVE,
        1000,
        None,
        loss,
    )


GUIDE = """
    from dataclasses import dataclass
    from typing import ClassVar

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    class Adding(BaseGuide):
        calls = 0

        def losses(self, batch, networks):
            self.calls += 1
            value = networks.q(batch.observation).square().mean((1, 2))
            assert (batch.reward == 2 * batch.task_reward).all()
            return {"q": value / 0 if networks.rows.start == 1 and self.calls > 20 else value}

        def shape(self, batch):
            return batch._replace(reward=2 * batch.reward)


    @register.guide("adding")
    @dataclass(frozen=True)
    class AddingPart(AskingPart):
        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        adds: ClassVar = ("q",)

        def spawn(self, build):
            return Adding()


    register.method("adding")(Method(summary="adds a loss", guide="adding", citation="% a test"))
"""
TINY = (
    "suite=classic", "method=adding", "training.steps=400", "evaluation.every=400", "evaluation.episodes=1",
    "learner.hidden=[8]", "learner.learning_starts=40", "learner.batch_size=16",
)  # fmt: skip


def test_a_seed_whose_added_loss_is_not_finite_stops_alone_and_is_named(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    plugin("adding_module", GUIDE, {"guide": "adding", "method": "adding"})
    says = "the loss that the guide Adding adds to 'q' is inf for seed 7, which so stops"
    with pytest.warns(Notice, match=says) as warned:
        study = train(*TINY, "task=CartPole-v1", "seeds=[3,7]", packs=[(3, 7)])
    assert len([warning for warning in warned if "adds to 'q'" in str(warning.message)]) == 1
    runs = {path.parent.name: json.loads(path.read_text()) for path in study.glob("*/*/*/seed-*/run.json")}
    assert runs["seed-3"]["status"] == "finished" and runs["seed-7"]["status"] == "failed"


def test_a_guide_that_adds_to_a_group_that_the_learner_has_not_is_refused_with_the_plan(
    plugin: Callable[..., Path],
) -> None:
    plugin("adding_module", GUIDE, {"guide": "adding", "method": "adding"})
    says = (
        r"guide 'adding' adds to the loss of 'q', a group of parameters that no learner here has "
        r"\(learner 'sac' has actor, critic\); choose another learner"
    )
    check_refused(says, matrix.plan, ["suite=classic", "method=adding", "task=Pendulum-v1", "profile=smoke", "seeds=1"])
