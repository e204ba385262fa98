"""Behaviour cloning: its losses by hand, and what holds for learners of several seeds."""

import math
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.agents.offline_online import OfflineOnline
from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.learners.bc import Bc
from guidebench.baselines.learners.bc.learner import SUCCEEDED
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Loss, Transition
from tests.baselines.learners.continuous import batch, build
from tests.cell_views import cell_view
from tests.refusals import check_refused

PEAK = -0.5 * math.log(2 * math.pi)
"""log N(0; 0, 1)."""
SMALL: dict[str, Any] = {"hidden": (16,), "batch_size": 16}
ACTIVE = np.ones(1, bool)
TRANSITIONS = batch(0, 2)._replace(
    observation=np.array([[[1, 0], [0, 2]]], np.float32), action=np.array([[[0.5], [-0.5]]], np.float32), weight=None
)


def by_hand(**settings: Any) -> Any:
    """A linear policy: μ = x₀ and, with `nll`, log σ = x₁."""
    learner: Any = Bc(**{"hidden": (), **settings}).spawn(build())
    outputs = 2 if learner.config.loss == "nll" else 1
    weight = np.eye(2, outputs, dtype=np.float32)
    learner.actor.load(0, {"actor.0.weight": weight, "actor.0.bias": np.zeros(outputs)})
    return learner


def test_the_squared_error_is_of_the_tanh_of_the_mean() -> None:
    """tanh 1 = .761594 beside .5, and 0 beside −.5: errors .068432 and .25, mean .159216."""
    update = by_hand(lr=0.0).update(TRANSITIONS, ACTIVE, 1)
    assert update.td_error[0].tolist() == pytest.approx([0.068432, 0.25], abs=1e-5)
    assert update.metrics["loss"].tolist() == pytest.approx([0.159216], abs=1e-5)


def test_the_squared_error_is_a_mean_over_the_dimensions_of_an_action() -> None:
    learner: Any = Bc(**SMALL).spawn(build(actions=2))
    learner.actor.flat.zero_()
    transitions = batch(0, 1, actions=2)._replace(action=np.array([[[0.6, 0.2]]], np.float32), weight=None)
    assert learner.update(transitions, ACTIVE, 1).metrics["loss"].tolist() == pytest.approx([0.2])  # (.36 + .04)/2


def test_the_likelihood_is_that_of_a_gaussian_with_tanh() -> None:
    """u = atanh ±.5 = ±.549306, log(1 − ¼) = −.287682. First μ = 1, σ = 1: ε = −.450694; then μ = 0, σ = e², the
    largest: ε = −.549306/e²."""
    update = by_hand(lr=0.0, loss="nll").update(TRANSITIONS, ACTIVE, 1)
    first = PEAK - 0.450694**2 / 2 + 0.287682
    second = PEAK - (0.549306 / math.e**2) ** 2 / 2 - 2 + 0.287682
    assert update.td_error[0].tolist() == pytest.approx([-first, -second], abs=1e-5)


def test_log_sigma_is_bounded_below() -> None:
    learner = by_hand(lr=0.0, loss="nll", log_std_min=-1.0)
    observation = np.array([[[0.0, -9.0], [0.0, -1.0]]], np.float32)
    update = learner.update(
        TRANSITIONS._replace(observation=observation, action=np.zeros((1, 2, 1), np.float32)), ACTIVE, 1
    )
    assert update.td_error[0].tolist() == pytest.approx([-(PEAK + 1)] * 2, abs=1e-5)


def test_only_episodes_with_a_success_count_if_asked_for() -> None:
    """Errors .068432 and .25: the mean is over the transitions that count; without any, nothing is learnt."""
    learner = by_hand(lr=0.0, successes_only=True)
    for counts, expected in (([0, 1], 0.25), ([1, 1], 0.159216), ([0, 0], 0.0)):
        transitions = TRANSITIONS._replace(columns={SUCCEEDED.name: np.array([counts], np.float32)})
        assert learner.update(transitions, ACTIVE, 1).metrics["loss"].tolist() == pytest.approx([expected], abs=1e-5)


def test_an_episode_with_one_success_counts_as_a_whole(tmp_path: Any) -> None:
    run_build = build((0, 1), path=tmp_path)
    learner: Any = Bc(**SMALL).spawn(run_build)
    store = Storage(run_build, learner.columns)
    observation, nothing = np.zeros((2, 2), np.float32), np.zeros(2, bool)
    for step in range(3):
        success = np.array([step == 1, False])
        store.append(
            Transition(
                observation,
                observation[:, :1],
                observation[:, 0],
                nothing,
                nothing | (step == 2),
                observation,
                observation[:, :0],
                None,
                success,
            )
        )
    for row in (0, 1):
        learner.ended(row, np.arange(3), store)
    assert store.column(SUCCEEDED.name, np.array([[0, 1, 2]] * 2)).tolist() == [[1, 1, 1], [0, 0, 0]]


def test_it_explores_by_its_gaussian_and_imitates_what_it_is_given() -> None:
    """a = −x₀/2 is learnt by both losses; σ of `nll` falls to its bound."""
    rng = np.random.default_rng(0)
    for loss in ("mse", "nll"):
        learner: Any = Bc(hidden=(16,), batch_size=64, lr=1e-2, loss=loss, log_std_min=-3.0).spawn(build())
        for step in range(300):
            observation = rng.uniform(-1, 1, (1, 64, 2)).astype(np.float32)
            learner.update(
                batch(0, 64)._replace(observation=observation, action=-observation[:, :, :1] / 2, weight=None),
                ACTIVE,
                step,
            )
        observation = np.array([[0.8, 0.3]] * 500, np.float32)
        greedy = learner.act(observation, np.zeros(500, int), None, 0)
        drawn = learner.act(observation, np.zeros(500, int), [rng], 0)
        assert greedy == pytest.approx(-0.4, abs=0.03)
        assert (np.arctanh(drawn).std() == pytest.approx(math.exp(-3), rel=0.2)) == (loss == "nll")
        assert np.array_equal(greedy, drawn) == (loss == "mse")


def test_what_it_cannot_learn_from_is_refused() -> None:
    assert "it needs continuous actions, and these are 2" in Bc().fits(cell_view())
    assert "these have shape (2, 2)" in Bc().fits(cell_view(actions=Actions(shape=(2, 2))))
    vectors = Actions(shape=(2,))
    assert Bc().fits(cell_view({"agent": OfflineOnline()}, actions=vectors)) == ""
    for config in (Bc(), CalQl()):
        says = "it needs an agent with a dataset; choose agent=offline_online"
        assert config.fits(cell_view({"agent": Standard()}, actions=vectors)) == says
    learner: Any = Bc(**SMALL).spawn(build())
    check_refused(
        "the learner bc has one loss and no target network",
        learner.update,
        batch(0),
        ACTIVE,
        1,
        losses=(Loss("a test", ("actor",), lambda batch, networks: {}),),
    )
    check_refused(r"learner.loss=l1: expected one of 'mse', 'nll'", Bc, loss="l1")
    assert [learner.updates_due(5), learner.updates_due(5, 3)] == [1, 3]
