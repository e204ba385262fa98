"""What holds for every learner of action values."""

from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.streams import Streams
from tests.baselines.learners.conftest import (
    GRID,
    MASKED,
    RECORD,
    SMALL,
    VECTOR,
    batches,
    beside,
    make,
    masked,
    observed,
    same,
    unread,
)
from tests.cell_views import cell_view
from tests.refusals import check_refused

BOTH = pytest.mark.parametrize("learner_of", [Dqn, DuelingDqn, Iqn])


def test_target_is_renewed_when_a_multiple_has_passed() -> None:
    """target_every = 10: at the first update from step 10 on, then from 20 on, and never twice for one multiple."""
    learner = make(Dqn(hidden=(), batch_size=8, target_every=10))
    batch = batches(VECTOR, 0, 8, 2, 1)[0]
    renewed = []
    for step in (4, 8, 12, 12, 16, 20, 24, 45, 48):
        online, target = learner.online.flat.clone(), learner.target.flat.clone()
        learner.update(batch, np.ones(1, bool), step)
        if not torch.equal(learner.target.flat, target):
            assert torch.equal(learner.target.flat, online)  # as it was before this gradient step
            renewed.append(step)
    assert renewed == [12, 20, 45]


def test_target_rate_mixes_online_into_target() -> None:
    learner = make(Dqn(hidden=(), batch_size=8, target_rate=0.25, target_every=1))
    learner.target.flat.add_(1)
    online, target = learner.online.flat.clone(), learner.target.flat.clone()
    learner.update(batches(VECTOR, 0, 8, 2, 1)[0], np.ones(1, bool), 1)
    torch.testing.assert_close(learner.target.flat, 0.25 * online + 0.75 * target)


def test_epsilon_falls_linearly_over_its_share_of_the_run() -> None:
    learner = make(Dqn(exploration_share=0.5))
    assert [learner.epsilon(step) for step in (0, 250, 500, 1000)] == pytest.approx([1.0, 0.525, 0.05, 0.05])
    assert make(Dqn(exploration_share=0.0)).epsilon(1) == pytest.approx(0.05)


def test_share_of_greedy_actions_follows_epsilon() -> None:
    """Action 1 is greedy. At ε = 0.525 it is taken with probability 1 − 0.525/2."""
    learner = make(Dqn(hidden=()))
    learner.load_parameters(0, {"head.0.weight": np.eye(2), "head.0.bias": np.zeros(2)})
    rng = np.random.default_rng(0)
    actions = [learner.act(np.array([[0, 1]], np.float32), np.array([0]), [rng], 250)[0] for _ in range(2000)]
    assert np.mean(actions) == pytest.approx(1 - 0.525 / 2, abs=4 * np.sqrt(0.25 / 2000))


def test_exploring_seeds_draw_as_many_numbers_whatever_happens() -> None:
    """Seed 2 draws the same alone and packed; its stream stands the same after greedy and random actions."""
    config = Dqn(**SMALL)
    packed, alone = make(config, GRID, 5, seeds=(0, 1, 2)), make(config, GRID, 5, seeds=(2,))
    observation = beside(*(batches(GRID, seed, 1, 5, 1)[0] for seed in range(3))).observation[:, 0]
    many, single, reference = [Streams(seed).explore for seed in range(3)], Streams(2).explore, Streams(2).explore
    for _ in range(20):
        actions = packed.act(observation, np.arange(3), many, 400)
        assert actions[2] == alone.act(observation[2:], np.array([0]), [single], 400)[0]
        alone.act(observation[2:], np.array([0]), [reference], 0)
    assert many[2].bit_generator.state == single.bit_generator.state == reference.bit_generator.state


def test_no_network_is_evaluated_when_every_seed_explores(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(Dqn(), GRID, 5)
    monkeypatch.setattr(learner, "network", None)
    observation, rows, rng = np.zeros((1, 5, 5, 3), np.uint8), np.array([0]), np.random.default_rng(0)
    assert {int(learner.act(observation, rows, [rng], 0)[0]) for _ in range(99)} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
def test_greedy_actions_of_a_seed_are_its_own_networks(together: bool) -> None:
    """Seeds that disagree, observations out of order, none of seed 3; all seeds at once is what a GPU does."""
    learner = make(Dqn(hidden=()), seeds=(0, 1, 2, 3))
    learner.online = Parameters(learner.network.specs(), 4, together=together)
    for row, sign in enumerate((1, -1, 1, 1)):
        learner.load_parameters(row, {"head.0.weight": sign * np.eye(2), "head.0.bias": np.zeros(2)})
    observation = np.array([[2, 1], [2, 1], [1, 2], [2, 1], [1, 2]], np.float32)
    assert learner.act(observation, np.array([2, 1, 0, 0, 1]), None, 0).tolist() == [0, 1, 1, 0, 0]


def test_the_value_of_an_observation_is_its_own_seeds_highest_q() -> None:
    learner = make(Dqn(hidden=()), seeds=(0, 1))
    for row, scale in enumerate((1, -1)):
        learner.load_parameters(row, {"head.0.weight": scale * np.eye(2), "head.0.bias": np.zeros(2)})
    state_values = learner.value(np.array([[2, 1], [2, 1], [5, 7]], np.float32), np.array([1, 0, 0]))
    assert state_values.dtype == np.float32 and state_values.tolist() == [-1.0, 2.0, 7.0]


def test_updates_are_due_every_fourth_step_once_learning_starts() -> None:
    learner = make(Dqn(batch_size=2, learning_starts=10, train_every=4, gradient_steps=3))
    assert [step for step in range(21) if learner.updates_due(step)] == [12, 16, 20]
    assert learner.updates_due(12) == 3


def test_a_state_does_not_change_with_later_updates() -> None:
    learner = make(Dqn(hidden=(), batch_size=8))
    state = learner.state(0)
    before = {name: array.copy() for name, array in state["parameters"].items()}
    learner.update(batches(VECTOR, 0, 8, 2, 1)[0], np.ones(1, bool), 1)
    assert same(before, state["parameters"]) and not same(before, dict(learner.parameters(0)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 600}, r"learner\.batch_size=600.*learning_starts=500.*at least 600"),
        ({"epsilon_start": 0.1, "epsilon_end": 0.2}, r"epsilon_end=0\.2.*epsilon_start=0\.1"),
        ({"channels": 0}, r"learner\.channels=0: expected int at least 1"),
        ({"hidden": (64, 0)}, r"learner\.hidden=\[64,0\]"),
        ({"discount": 1.5}, r"learner\.discount=1\.5: expected float in \[0, 1\]"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    check_refused(message, Dqn, **settings)


@pytest.mark.parametrize(
    ("observations", "actions", "reason"),
    [
        (GRID, Actions(5), ""),
        (VECTOR, Actions(2), ""),
        (VECTOR, Actions(shape=(3,)), "discrete"),
        (Observations((64, 64, 3), "uint8"), Actions(5), ""),
        (RECORD, Actions(5), ""),
        (Observations((5, 64, 3), "uint8"), Actions(5), "uint8 of shape (5, 64, 3): no encoder reads it"),
        (Observations((7,), "uint8", (3,)), Actions(5), "grid, codes as a grid"),
    ],
)
def test_spaces_that_do_not_fit_are_named(observations: Observations, actions: Actions, reason: str) -> None:
    fault = Dqn().fits(cell_view(None, "", observations, actions))
    assert reason in fault if reason else fault == ""


def test_estimated_cost_counts_updates_and_acting() -> None:
    """Doubling the batch doubles an update's arithmetic; updating half as often halves its share of a step."""

    def cost(**settings: Any) -> float:
        return Dqn(**settings).seconds_per_step(GRID, Actions(5))

    rare = cost(train_every=10**9)
    assert cost(train_every=8) - rare == pytest.approx((cost(train_every=4) - rare) / 2, rel=1e-3)
    single, double = (cost(batch_size=size, train_every=1) for size in (128, 256))
    arithmetic = 5 * 128 * Dqn().multiplications_to_act(GRID, Actions(5))
    assert double - single == pytest.approx(arithmetic / 3.5e10)
    assert 0 < Dqn().seconds_per_action(GRID, Actions(5)) < rare


@BOTH
def test_the_encoder_of_a_grid_is_the_networks_own(learner_of: type) -> None:
    config = learner_of(channels=8, features=32)
    encoder, network = config.encoder(GRID), config.network(GRID, Actions(3))
    assert encoder.specs().items() <= network.specs().items()
    views = Parameters(encoder.specs(), 1).blocks[0].views
    assert encoder(views, torch.zeros(1, 4, *GRID.shape, dtype=torch.uint8)).shape == (1, 4, 32)


def test_the_encoder_of_a_vector_is_its_hidden_layers() -> None:
    """x·(1, −1) with ReLU, as in the middle of the network; without hidden layers there is nothing to encode by."""
    encoder = Dqn(hidden=(2,)).encoder(Observations((1,), "float32"))
    views = {"encoder.0.weight": torch.tensor([[[1.0, -1.0]]]), "encoder.0.bias": torch.zeros(1, 2)}
    assert encoder(views, torch.tensor([[[3.0], [-2.0]]])).tolist() == [[[3.0, 0.0], [0.0, 2.0]]]
    assert Dqn(hidden=()).encoder(VECTOR) is None and Iqn(hidden=()).encoder(VECTOR) is None


@pytest.mark.gpu
@pytest.mark.parametrize("observations", [GRID, VECTOR, RECORD], ids=["grid", "vector", "record"])
@BOTH
def test_an_update_on_a_gpu_agrees(learner_of: type, observations: Observations) -> None:
    config = learner_of(**SMALL)
    learners = [make(config, observations, 3, seeds=(0, 1), device=device) for device in ("cpu", "cuda")]
    batch = beside(*(batches(observations, seed, 16, 3, 1)[0] for seed in range(2)))
    cpu, gpu = (learner.update(batch, np.ones(2, bool), 1) for learner in learners)
    np.testing.assert_allclose(gpu.td_error, cpu.td_error, atol=1e-4)
    np.testing.assert_allclose(gpu.metrics["grad_norm"], cpu.metrics["grad_norm"], rtol=1e-3)


def test_greedy_actions_and_values_are_of_actions_that_may_be_taken() -> None:
    """Q(x) = x = (2, 1): action 0, but 1 where only that may be taken, and 0 again where the mask admits none."""
    learner = make(Dqn(hidden=()), MASKED)
    learner.load_parameters(0, {"head.0.weight": unread(np.eye(2)), "head.0.bias": np.zeros(2)})
    observations = masked(np.array([[2, 1]] * 4, np.float32), [[1, 1], [0, 1], [1, 0], [0, 0]])
    rows = np.zeros(4, np.int64)
    assert learner.act(observations, rows, None, 0).tolist() == [0, 1, 0, 0]
    assert learner.value(observations, rows).tolist() == [2.0, 1.0, 2.0, 2.0]


@BOTH
def test_random_and_greedy_actions_are_among_those_that_may_be_taken(learner_of: type) -> None:
    """Of five actions 1 and 4 may be taken; a random one is each of them about as often."""
    space = Observations(parts={"x": VECTOR, "may": Observations((5,), "uint8", (2,) * 5, mask=True)})
    learner = make(learner_of(**SMALL), space, 5)
    observation = observed(space, np.random.default_rng(0), 1)
    observation["may"] = [0, 1, 0, 0, 1]
    rng, row = np.random.default_rng(0), np.array([0])
    random = [int(learner.act(observation, row, [rng], 0)[0]) for _ in range(400)]
    assert {*random} == {1, 4} and np.mean(np.array(random) == 1) == pytest.approx(0.5, abs=4 * 0.025)
    assert {int(learner.act(observation, row, [rng], 400)[0]) for _ in range(100)} <= {1, 4}
    assert int(learner.act(observation, row, None, 0)[0]) in (1, 4)


def test_a_mask_of_another_size_than_the_actions_is_refused() -> None:
    fault = Dqn().fits(cell_view(None, "", MASKED, Actions(3)))
    assert fault == "the observation part 'may' is a mask of shape (2,) for 3 actions; give it one number per action"
    assert Dqn().fits(cell_view(None, "", MASKED, Actions(2))) == ""
