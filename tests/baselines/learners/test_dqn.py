from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.dqn.learner import DqnLearner
from guidebench.harness.interfaces import Batch
from tests.baselines.learners.conftest import MASKED, make, masked, same, terms, unread


def by_hand(**settings: Any) -> DqnLearner:
    """Linear Q-networks: online Q(x) = (x₀, 2x₁), target Q̄(x) = (10x₀, x₁ + 1)."""
    learner = make(Dqn(hidden=(), discount=0.5, **settings))
    learner.online.load(0, {"head.0.weight": np.array([[1, 0], [0, 2]]), "head.0.bias": np.zeros(2)})
    learner.target.load(0, {"head.0.weight": np.array([[10, 0], [0, 1]]), "head.0.bias": np.array([0, 1])})
    return learner


WORKED = Batch(
    observation=np.array([[[1, 1], [1, 1], [3, 0]]], np.float32),
    action=np.array([[0, 1, 0]]),
    reward=np.array([[1, 1, 1]], np.float32),
    next_observation=np.array([[[1, 2], [1, 2], [1, 2]]], np.float32),
    terminated=np.array([[False, False, True]]),
    weight=None,
)
"""Q(s, a) = 1, 2, 3. At s′ = (1, 2): Q = (1, 4) and Q̄ = (10, 3). The last transition terminates."""


def test_double_target_values_the_online_networks_choice() -> None:
    """y = 1 + ½·3 twice, then 1; δ = −1.5, −0.5, 2; Huber 1, 0.125, 1.5."""
    loss_terms = terms(by_hand(), WORKED)
    assert loss_terms.td_error.tolist() == [[-1.5, -0.5, 2.0]]
    assert loss_terms.loss.tolist() == [[1.0, 0.125, 1.5]]
    assert loss_terms.value.tolist() == [[1.0, 2.0, 3.0]]


def test_single_target_is_the_target_networks_maximum() -> None:
    """y = 1 + ½·10 twice, then 1; δ = −5, −4, 2; Huber 4.5, 3.5, 1.5."""
    loss_terms = terms(by_hand(double=False), WORKED)
    assert loss_terms.td_error.tolist() == [[-5.0, -4.0, 2.0]]
    assert loss_terms.loss.tolist() == [[4.5, 3.5, 1.5]]


def test_an_end_by_time_bootstraps() -> None:
    """A truncated transition comes with terminated = False: its δ is 3 − 2.5, not 3 − 1."""
    truncated = WORKED._replace(terminated=np.zeros((1, 3), bool))
    assert terms(by_hand(), truncated).td_error.tolist() == [[-1.5, -0.5, 0.5]]


@pytest.mark.parametrize("double", [True, False])
def test_reducible_is_by_how_much_the_online_error_exceeds_the_targets(double: bool) -> None:
    """y = 1 + ½·10 twice, the target network's own maximum, then 1. Q̄(s, a) = 10, 2, 30:
    |1 − 6| − |10 − 6|, |2 − 6| − |2 − 6|, |3 − 1| − |30 − 1|."""
    assert terms(by_hand(double=double), WORKED).reducible.tolist() == [[1.0, 0.0, -27.0]]
    learner = by_hand(double=double)
    update = learner.update(WORKED, np.ones(1, bool), 1, reducible="error")
    assert update.reducible.dtype == np.float32 and update.reducible.tolist() == [[1.0, 0.0, -27.0]]
    assert update.td_error.tolist() == terms(by_hand(double=double), WORKED).td_error.tolist()


@pytest.mark.parametrize("double", [True, False])
def test_reducible_may_be_a_difference_of_losses(double: bool) -> None:
    """These rewards make y = 0.5, 1.1 and 2.5. Q(s, a) = 1, 2, 3 err by 0.5, 0.9 and 0.5, where Huber's loss is
    quadratic: 0.125, 0.405, 0.125. Q̄(s, a) = 10, 2, 30 err by 9.5, 0.9 and 27.5, with losses 9, 0.405 and 27."""
    near = WORKED._replace(reward=np.array([[-4.5, -3.9, 2.5]], np.float32))
    reducible = by_hand(double=double).update(near, np.ones(1, bool), 1, reducible="loss").reducible
    assert reducible is not None and reducible[0] == pytest.approx([0.125 - 9, 0, 0.125 - 27], rel=1e-5, abs=1e-6)
    reducible = terms(by_hand(double=double), near).reducible  # of errors
    assert reducible[0].tolist() == pytest.approx([0.5 - 9.5, 0, 0.5 - 27.5], abs=1e-5)


@pytest.mark.parametrize(
    ("double", "may", "td_error", "reducible"),
    [
        (True, [1, 0], [-5.0, -4.0, 2.0], [1.0, 0.0, -27.0]),
        (True, [0, 1], [-1.5, -0.5, 2.0], [-6.0, 0.0, -27.0]),
        (False, [1, 0], [-5.0, -4.0, 2.0], [1.0, 0.0, -27.0]),
        (False, [0, 1], [-1.5, -0.5, 2.0], [-6.0, 0.0, -27.0]),
        (False, [0, 0], [-5.0, -4.0, 2.0], [1.0, 0.0, -27.0]),
    ],
)
def test_targets_are_of_actions_that_may_be_taken_next(
    double: bool, may: list[int], td_error: list[float], reducible: list[float]
) -> None:
    """At s′ Q = (1, 4) and Q̄ = (10, 3). If only action 0 may be taken there, y = 1 + ½·10; if only action 1, y =
    1 + ½·3, also for `reducible`: |1 − 2.5| − |10 − 2.5| and |2 − 2.5| − |2 − 2.5|; a mask of zeros is none. The last
    transition terminates."""
    learner = make(Dqn(hidden=(), discount=0.5, double=double), MASKED)
    online, target = np.array([[1, 0], [0, 2]]), np.array([[10, 0], [0, 1]])
    learner.online.load(0, {"head.0.weight": unread(online), "head.0.bias": np.zeros(2)})
    learner.target.load(0, {"head.0.weight": unread(target), "head.0.bias": np.array([0, 1])})
    following = masked(WORKED.next_observation, may)
    batch = WORKED._replace(observation=masked(WORKED.observation, 1), next_observation=following)
    loss_terms = terms(learner, batch)
    assert loss_terms.td_error.tolist() == [td_error] and loss_terms.reducible.tolist() == [reducible]
    assert np.isfinite(learner.update(batch, np.ones(1, bool), 1).metrics["grad_norm"]).all()


def test_reducible_is_neither_computed_nor_told_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three evaluations, four when asked; parameters move by the same bits."""
    learners = [by_hand(), by_hand()]
    for learner, difference in zip(learners, (None, "error"), strict=True):
        evaluations = []
        network = learner.network
        monkeypatch.setattr(learner, "network", lambda *inputs, n=network, e=evaluations: e.append(1) or n(*inputs))
        update = learner.update(WORKED, np.ones(1, bool), 1, difference)
        assert (update.reducible is not None) == bool(difference) and len(evaluations) == 3 + bool(difference)
    assert same(learners[0].state(0), learners[1].state(0))


def test_weights_scale_losses_but_not_td_errors() -> None:
    update = by_hand().update(WORKED._replace(weight=np.array([[1, 0.5, 0]], np.float32)), np.ones(1, bool), 1)
    assert update.metrics["loss"].tolist() == pytest.approx([(1 + 0.0625) / 3])
    assert update.td_error.tolist() == [[-1.5, -0.5, 2.0]]


def test_update_descends_the_gradient_and_tells_what_it_saw() -> None:
    """dL/dQ(s, a) = clip(δ, ±1)/3, so dL/dW[:, 0] = (−1·(1, 1) + 1·(3, 0))/3 and dL/dW[:, 1] = −½·(1, 1)/3."""
    learner = by_hand(max_grad_norm=100.0)
    update = learner.update(WORKED, np.ones(1, bool), step=1)
    weight = np.array([[2, -0.5], [-1, -0.5]]) / 3
    bias = np.array([0, -0.5]) / 3
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.weight"], weight, atol=1e-6)
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.bias"], bias, atol=1e-6)
    assert update.metrics["grad_norm"] == pytest.approx(np.sqrt((weight**2).sum() + (bias**2).sum()))
    assert update.metrics["loss"] == pytest.approx(2.625 / 3) and update.metrics["q_mean"] == pytest.approx(2)
    assert update.td_error.dtype == np.float32 and update.td_error.tolist() == [[-1.5, -0.5, 2.0]]
    # Adam's first step is lr·sign(gradient)
    moved = learner.parameters(0)["head.0.weight"] - np.array([[1, 0], [0, 2]])
    np.testing.assert_allclose(moved, -4e-5 * np.sign(weight), rtol=1e-2)
