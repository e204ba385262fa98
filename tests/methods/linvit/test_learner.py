"""The soft value, the policy and the target, with numbers worked by hand."""

import numpy as np
import pytest
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Batch, Observations
from guidebench.methods.linvit import MOVED, PriorDqn
from guidebench.methods.linvit.learner import PriorDqnLearner, drawn, policy, soft_value, tilted
from tests.baselines.learners.conftest import VECTOR, make, terms
from tests.cell_views import cell_view

SPACE = Observations(parts={"x": VECTOR, "prior": VECTOR})
"""Two numbers, and the probabilities of two actions."""
LN3 = np.log(3)


def observation(x: object, prior: object) -> np.ndarray:
    """Return records of `SPACE` from vectors [*shape, 2] and priors that broadcast to them."""
    records = np.zeros(np.shape(x)[:-1], SPACE.numpy)
    records["x"], records["prior"] = x, prior
    return records


def by_hand(temperature: float = 1.0, **more: object) -> PriorDqnLearner:
    """Online: Q(x) = x₀ + (−x₁, x₁). Target: Q̄(x) = 1 + (x₀, −x₀)."""
    config = PriorDqn(trunk=(), hidden=(), discount=0.5, temperature=temperature, **more)  # type: ignore[arg-type]
    learner: PriorDqnLearner = make(config, SPACE)
    nothing = {"value.0.bias": [0], "advantage.0.bias": [0, 0]}
    for network, arrays in (
        (learner.online, {"value.0.weight": [[1], [0]], "advantage.0.weight": [[0, 0], [1, 3]]}),
        (learner.target,
         {"value.0.weight": [[0], [0]], "advantage.0.weight": [[2, 0], [0, 0]], "value.0.bias": [1]}),
    ):  # fmt: skip
        network.load(0, {name: np.array(array, np.float32) for name, array in (nothing | arrays).items()})
    return learner


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_soft_value_and_the_policy_of_a_prior_of_three_quarters(temperature: float) -> None:
    """Q = (0, λ ln 3) and π = (¾, ¼): Σ π exp(Q/λ) = ¾ + ¾ = 3/2, and both actions are equally probable."""
    scores = tilted(torch.tensor([0, temperature * LN3]), torch.tensor([0.75, 0.25]), temperature)
    assert soft_value(scores, temperature).item() == pytest.approx(temperature * np.log(1.5), rel=1e-6)
    np.testing.assert_allclose(policy(scores.numpy(), temperature), [0.5, 0.5], atol=1e-6)


def test_extremes_stay_finite_and_an_action_without_probability_has_no_part_and_a_prior_of_zeros_is_uniform() -> None:
    """With λ = 0.001 the better of two actions that are 1 apart counts alone: V = Q + λ ln ½."""
    scores = tilted(torch.tensor([1000.0, 1001.0]), torch.tensor([0.5, 0.5]), 0.001)
    assert soft_value(scores, 0.001).item() == pytest.approx(1001 + 0.001 * np.log(0.5))
    assert policy(scores.numpy(), 0.001).tolist() == [0, 1]
    scores = tilted(torch.tensor([[0.0, 9.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), 1.0)
    assert soft_value(scores, 1.0).tolist() == [0, pytest.approx(0, abs=1e-6)]
    assert policy(scores[0].numpy(), 1.0).tolist() == [1, 0]


def test_a_number_draws_an_action_by_its_probability_and_never_one_without() -> None:
    chances = np.array([0, 0.25, 0, 0.75, 0])
    assert [drawn(chances, number) for number in (0, 0.2499, 0.25, 0.9999999999999999)] == [1, 1, 3, 3]


def test_the_policy_s_entropy_and_what_the_prior_moves_of_it_are_logged() -> None:
    """Q = (0, ln 3) and π = (¾, ¼) give the policy (½, ½), and a uniform prior gives (¼, ¾): a quarter is moved. An
    uniform prior moves nothing of the entropy ¼ ln 4 + ¾ ln 4/3; a prior without the second action leaves none."""
    priors = torch.tensor([[[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]])
    q_values = torch.tensor([0, LN3], dtype=torch.float32).expand(1, 3, 2)
    learner = by_hand()
    for index, (entropy, moved) in enumerate([(np.log(2), 0.25), (np.log(4) - 0.75 * LN3, 0), (0, 0.75)]):
        sees = {"x": torch.zeros(1, 1, 2), "prior": priors[:, [index]]}
        measures = learner.measures(q_values[:, [index]], sees)
        assert measures["entropy"].tolist() == pytest.approx([entropy], abs=1e-6)
        assert measures[MOVED].tolist() == pytest.approx([moved], abs=1e-6)


def test_the_target_is_the_soft_value_after_m_steps() -> None:
    """At s′ = (ln 3, ·), exp(Q̄) = e·(3, ⅓). With π = (0.1, 0.9) V̄ = 1 + ln 0.6, with (½, ½) 1 + ln 5/3. So y = 1 +
    ⅛(1 + ln 0.6), 2 + ¼(1 + ln 5/3) and 3, where Q(s, a) = −1, 4, 1."""
    batch = Batch(
        observation=observation([[[1, 2], [3, 1], [0, 1]]], 0.5),
        action=np.array([[0, 1, 1]]),
        reward=np.array([[1, 2, 3]], np.float32),
        next_observation=observation([[[LN3, 7], [LN3, 0], [LN3, 0]]], [[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]]),
        terminated=np.array([[False, False, True]]),
        weight=None,
        steps=np.array([[3, 2, 3]]),
    )
    loss_terms = terms(by_hand(), batch)
    targets = np.array([1 + (1 + np.log(0.6)) / 8, 2 + (1 + np.log(5 / 3)) / 4, 3])
    np.testing.assert_allclose(loss_terms.td_error[0], [-1, 4, 1] - targets, rtol=1e-6)
    assert loss_terms.reducible is not None and loss_terms.reducible[0, 2].item() == abs(1 - 3) - abs(1 - 3)
    former = np.abs([2, -2] - targets[:2])  # Q̄(s, a) = 2, −2
    np.testing.assert_allclose(loss_terms.reducible[0, :2], np.abs([-1, 4] - targets[:2]) - former, rtol=1e-5)


def test_in_evaluation_a_strong_prior_outweighs_a_small_advantage() -> None:
    """At x = (0, 1) Q = (−1, 1), with π = (0.9, 0.1): with λ = 1 Q + λ ln π = (−1.11, −1.30), with ½ (−1.05, −0.15)."""
    state = observation([[0.0, 1.0]], [0.9, 0.1])
    assert by_hand(1.0).act(state, np.array([0]), None, 0).tolist() == [0]
    assert by_hand(0.5).act(state, np.array([0]), None, 0).tolist() == [1]
    assert by_hand(1.0).value(state, np.array([0]))[0] == pytest.approx(np.log(0.9 / np.e + 0.1 * np.e), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "chance"), [(1.0, 0.1), (0.0, 0.1 * np.e / (0.9 / np.e + 0.1 * np.e))])
def test_in_training_it_draws_from_the_prior_with_epsilon_and_else_from_the_policy(
    epsilon: float, chance: float
) -> None:
    """It draws two numbers for each observation, whatever it does with them."""
    learner, draws = by_hand(1.0, epsilon_start=epsilon, epsilon_end=epsilon), 6000
    states, generator, twin = (
        observation(np.tile([[0.0, 1.0]], (draws, 1)), [0.9, 0.1]),
        *map(np.random.default_rng, (3, 3)),
    )
    actions = learner.act(states, np.zeros(draws, np.int64), [generator], 0)
    assert actions.mean() == pytest.approx(chance, abs=4 * np.sqrt(0.25 / draws))
    assert generator.random() == twin.random(2 * draws + 1)[-1]


def test_the_network_does_not_read_the_prior() -> None:
    learner = make(PriorDqn(trunk=(4,), hidden=(4,)), SPACE)

    def values(prior: list[float]) -> np.ndarray:
        return learner.online.evaluate(
            lambda block, part: learner.network(learner.online.blocks[block].views, part),
            observation([[0.3, -1.0]], prior),
            np.array([0]),
        )

    assert np.array_equal(values([0.9, 0.1]), values([0.2, 0.8]))


def test_it_needs_a_prior_of_all_actions_and_takes_no_double_target() -> None:
    config = PriorDqn()
    assert config.fits(cell_view(observations=SPACE)) == ""
    for space, actions in ((VECTOR, 2), (SPACE, 3)):
        assert "which agent=prior_guided adds" in config.fits(cell_view(observations=space, actions=Actions(actions)))
    assert "it needs discrete actions" in config.fits(cell_view(observations=SPACE, actions=Actions(shape=(2,))))
    with pytest.raises(UserError, match=r"learner\.double=true does not apply to prior_dqn"):
        PriorDqn(double=True)
