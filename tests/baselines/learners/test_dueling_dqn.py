"""The dueling network, and the target after several steps."""

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.baselines.learners.dueling_dqn.learner import DuelingDqnLearner
from guidebench.harness.interfaces import Actions, Batch, NStep
from guidebench.harness.plan import matrix
from tests.baselines.learners.conftest import RECORD, VECTOR, make, observed, terms
from tests.refusals import check_refused

SMALL = {"batch_size": 16, "learning_starts": 16, "channels": 16, "features": 32, "trunk": (16,), "hidden": (32,)}


def by_hand(**more: float) -> DuelingDqnLearner:
    """Online: V(x) = x₀ and A(x) = (x₁, 3x₁), so Q(x) = x₀ + (−x₁, x₁). Target: V̄ = 1, Ā = (2x₀, 0), so Q̄(x) = 1 +
    (x₀, −x₀)."""
    learner: DuelingDqnLearner = make(DuelingDqn(trunk=(), hidden=(), discount=0.5, **more))
    online = {"value.0.weight": [[1], [0]], "advantage.0.weight": [[0, 0], [1, 3]]}
    target = {"value.0.weight": [[0], [0]], "advantage.0.weight": [[2, 0], [0, 0]], "value.0.bias": [1]}
    nothing = {"value.0.bias": [0], "advantage.0.bias": [0, 0]}
    learner.online.load(0, {name: np.array(array, np.float32) for name, array in (nothing | online).items()})
    learner.target.load(0, {name: np.array(array, np.float32) for name, array in (nothing | target).items()})
    return learner


WORKED = Batch(
    observation=np.array([[[1, 2], [3, 1], [0, 1]]], np.float32),
    action=np.array([[0, 1, 1]]),
    reward=np.array([[1, 2, 3]], np.float32),
    next_observation=np.array([[[2, 1], [2, -1], [2, 1]]], np.float32),
    terminated=np.array([[False, False, True]]),
    weight=None,
    steps=np.array([[3, 2, 3]]),
)
"""Q(s, a) = −1, 4, 1. At s′ = (2, 1), Q = (1, 3) prefers action 1, where Q̄ = (3, −1) is −1; at (2, −1) it is 3."""


def test_the_two_streams_are_joined_about_the_mean_advantage() -> None:
    learner = by_hand()
    observation = torch.tensor([[[1.0, 2.0], [3.0, 1.0]]])
    assert learner.network(learner.online.blocks[0].views, observation).tolist() == [[[-1.0, 3.0], [2.0, 4.0]]]
    assert learner.network(learner.target.blocks[0].views, observation).tolist() == [[[2.0, 0.0], [4.0, -2.0]]]


def test_the_value_after_m_steps_counts_with_gamma_to_the_m() -> None:
    """y = 1 + ⅛·(−1), 2 + ¼·3 and 3; δ = −1.875, 1.25, −2; Huber 1.375, 0.75, 1.5."""
    loss_terms = terms(by_hand(), WORKED)
    assert loss_terms.td_error.tolist() == [[-1.875, 1.25, -2.0]]
    assert loss_terms.loss.tolist() == [[1.375, 0.75, 1.5]]
    single = terms(by_hand(), WORKED._replace(steps=None))
    assert single.td_error.tolist() == [[-1.5, 0.5, -2.0]], "y = 1 − ½ and 2 + 1½ after one step"


def test_reducible_compares_both_networks_with_the_same_return() -> None:
    """The target network's own maxima at s′ are 3 and 3: y = 1.375, 2.75, 3. Q̄(s, a) = 2, −2, 1."""
    reducible = terms(by_hand(), WORKED).reducible
    assert reducible is not None and reducible.tolist() == [[2.375 - 0.625, 1.25 - 4.75, 2 - 2]]


def test_it_asks_for_its_own_returns() -> None:
    assert make(DuelingDqn(n_step=5, discount=0.9, **SMALL)).n_step == NStep(5, 0.9)


@pytest.mark.parametrize("space", [VECTOR, RECORD], ids=["vector", "record"])
@pytest.mark.parametrize("trunk", [(), (7,), (9, 5)])
def test_any_observation_gives_one_value_per_action(space, trunk: tuple[int, ...]) -> None:
    config = DuelingDqn(**{**SMALL, "trunk": trunk})
    learner = make(config, space, 3, seeds=(0, 1))
    observations = observed(space, np.random.default_rng(0), 4)
    action_values = learner._values(observations, np.array([0, 1, 1, 0]))
    assert (
        action_values.shape == (4, 3)
        and np.isfinite(action_values).all()
        and len({*action_values.ravel().tolist()}) == 12
    )


@pytest.mark.parametrize("trunk", [(), (9, 5)])
def test_its_encoder_ends_where_the_two_streams_begin(trunk: tuple[int, ...]) -> None:
    config = DuelingDqn(**{**SMALL, "trunk": trunk})
    assert config.encoder_width(VECTOR) == (trunk[-1] if trunk else 0)
    assert (config.encoder(VECTOR) is None) == (not trunk)
    if trunk:
        assert {spec.shape for spec in config.encoder(VECTOR).specs().values()} >= {(2, 9), (9, 5)}


def test_multiplications_count_every_weight_once() -> None:
    """2·16 + 16·(32·2) + 32·(1 + 3) of a vector."""
    assert DuelingDqn(**SMALL).multiplications_to_act(VECTOR, Actions(3)) == 2 * 16 + 16 * 64 + 32 * 4


def test_settings_that_cannot_be_are_refused_by_name() -> None:
    check_refused(r"learner\.n_step=0: expected", DuelingDqn, n_step=0)
    check_refused("it needs discrete actions", matrix.plan, ["suite=classic", "task=Pendulum-v1", "method=sparse"])


@pytest.mark.parametrize("suite", ["crafter", "crafter_ood"])
@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_crafter_trains_it_by_default(suite: str, profile: str) -> None:
    plan = matrix.plan([f"suite={suite}", f"profile={profile}"])
    for cell in plan.cells:
        assert (cell.names.method, cell.learner) == ("sparse", "dueling_dqn")
        assert cell.section("learner").n_step == 3
        if profile == "paper":
            assert cell.section("learner") == DuelingDqn()
