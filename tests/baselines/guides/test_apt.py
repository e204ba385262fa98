"""Active pre-training: the entropy reward, the features, what trains them, and runs."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.guides.apt import Apt, entropy
from guidebench.baselines.guides.apt.entropy import nearest, not_counted, reward
from guidebench.baselines.guides.apt.guide import AptGuide
from guidebench.baselines.guides.apt.icm import Icm
from guidebench.baselines.parameters import Parameters
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Batch, Observations, RunPhase
from guidebench.harness.plan import matrix
from tests.baselines.guides.conftest import build, step
from tests.baselines.learners.conftest import GRID, observed
from tests.refusals import check_refused

PAIR = Observations((2,), "float32")
SMALL: dict[str, Any] = {"k": 2, "hidden": (8,), "out": 4, "channels": 4, "features": 6, "batch_size": 8}
LEARNER: Any = SimpleNamespace(updates_due=lambda step, phase_updates=None: 1)
CTX: Any = SimpleNamespace(step=1, phase=RunPhase("train", 100))
TANH = math.tanh(1 / math.sqrt(1 + 1e-5))
"""Entry of the features of (0, 2) or (2, 0) with W = 1 and b = 0: normalised they are ∓1/√(1 + 1e-5)."""


def away(points: list[list[float]], others: list[list[float]], left_out: np.ndarray, k: int) -> list[list[float]]:
    found = nearest(torch.tensor([points]), torch.tensor([others]), torch.from_numpy(left_out[None]), k)
    return [sorted(round(float(value), 5) for value in row) for row in found[0]]


def batch(following: np.ndarray, number: list[list[int]] | None = None, reward: float = 1.0) -> Batch:
    """Transitions to observations `following` [S, B, …], of these numbers."""
    shape = following.shape[:2]
    return Batch(following, np.zeros(shape, np.int64), np.full(shape, reward, np.float32), following,
                 np.zeros(shape, bool), None, number=None if number is None else np.array(number))  # fmt: skip


# The entropy


def test_distances_to_neighbours_leave_out_the_point_itself() -> None:
    """Points 0, 3, 4 and 10 on a line: the nearest two of 0 are 3 and 4 away, of 3 are 1 and 3, of 4 are 1 and 4, of 10
    are 6 and 7."""
    line = [[0.0], [3.0], [4.0], [10.0]]
    own = np.eye(4, dtype=bool)
    assert away(line, line, own, 2) == [[3, 4], [1, 3], [1, 4], [6, 7]]
    assert away(line, line, own & False, 2) == [[0, 3], [0, 1], [0, 1], [0, 6]], "as in URLB's code"


def test_ties_and_equal_points_count_each_and_too_few_particles_leave_infinities() -> None:
    """Of (0, 0) the points (3, 4), (−3, 4), (4, −3) are all 5 away, and (0, 0) again is 0 away."""
    ring = [[3.0, 4.0], [-3.0, 4.0], [4.0, -3.0], [0.0, 0.0]]
    nothing = np.zeros((1, 4), bool)
    assert away([[0.0, 0.0]], ring, nothing, 3) == [[0, 5, 5]]
    assert away([[0.0, 0.0]], ring, np.array([[True, False, False, True]]), 3) == [[5, 5, math.inf]]
    assert away([[0.0, 0.0]], ring, ~nothing, 1) == [[math.inf]]
    assert away([[0.0, 0.0]], ring, nothing, 6) == [[0, 5, 5, 5, math.inf, math.inf]]


def test_equal_points_far_from_the_origin_are_at_distance_zero_and_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against distances in float64, one point at a time."""
    rng = np.random.default_rng(0)
    points = np.tanh(rng.normal(2, 1, (2, 50, 64))).astype(np.float32)
    points[:, 7] = points[:, 3]
    left_out = np.broadcast_to(np.eye(50, dtype=bool), (2, 50, 50))
    given = torch.from_numpy(points), torch.from_numpy(points), torch.from_numpy(left_out.copy())
    found = np.sort(nearest(*given, 5).numpy())
    for seed in range(2):
        for one in range(50):
            apart = np.linalg.norm(points[seed].astype(np.float64) - points[seed, one], axis=1)
            np.testing.assert_allclose(found[seed, one], np.sort(np.delete(apart, one))[:5], rtol=1e-5, atol=1e-7)
    assert found[0, 7, 0] == found[0, 3, 0] == 0
    monkeypatch.setattr(entropy, "FLOATS", 3 * (50 + 5 * 64))
    np.testing.assert_allclose(np.sort(nearest(*given, 5).numpy()), found, rtol=1e-6)


def test_the_reward_is_the_logarithm_of_the_mean_distance() -> None:
    """Distances 1 and 3 at scale 2: log(1 + 2/2); with one neighbour of 6: log(1 + 3); without any: log 1."""
    distances = np.array([[[1, 3], [6, math.inf], [math.inf, math.inf]]])
    np.testing.assert_allclose(reward(distances, np.array([2.0]), 1.0), [[math.log(2), math.log(4), 0]])
    np.testing.assert_allclose(reward(distances, np.array([1.0]), 0.5)[0, 0], math.log(2.5))
    assert np.isnan(reward(np.array([[[math.nan, 1]]]), np.ones(1), 1.0)).all(), "a diverged seed is not hidden"


def test_a_transition_drawn_twice_counts_once_and_is_not_its_own_neighbour() -> None:
    found = not_counted(np.array([[5, 9]]), np.array([[5, 7, 5, 8, 7]]))
    assert found[0].tolist() == [[True, False, True, False, True], [False, False, True, False, True]]


# The guide


def identity(path: Path, **more: Any) -> AptGuide:
    """One seed with φ(s) = tanh(layer norm s), a forward model that tells 0 and an inverse one that tells (0, ln 3)."""
    guide = AptGuide(Apt(**{"k": 1, "hidden": (), "out": 2, **more}), build(path, (0,), PAIR))
    held = guide.networks.arrays(0)
    zero = {name: np.zeros_like(array) for name, array in held.items()}
    zero |= {"trunk.weight": np.eye(2), "trunk.scale": np.ones(2), "inverse.0.bias": np.array([0, math.log(3)])}
    guide.networks.load(0, zero)
    return guide


def test_the_reward_replaces_the_tasks_and_is_that_of_the_next_observation(tmp_path: Path) -> None:
    """Features (−t, t), (t, −t) and again (−t, t): the first and the last are each other's nearest at distance 0, the
    second is 2√2·t from both. Their mean is μ = 2√2·t/3, so the rewards are log 1, log(1 + 3) and log 1."""
    seen = np.array([[[0, 2], [2, 0], [1, 5]]], np.float32)
    guide = identity(tmp_path)
    shaped = guide.shape(batch(seen, [[0, 1, 2]]))
    np.testing.assert_allclose(shaped.reward, [[0, math.log(4), 0]], atol=1e-4)
    told = guide.metrics()
    np.testing.assert_allclose(told["guide/scale"], [2 * math.sqrt(2) * TANH / 3], rtol=1e-5)
    np.testing.assert_allclose(told["guide/distance"], told["guide/scale"])
    np.testing.assert_allclose(told["guide/entropy"], [math.log(4) / 3], rtol=1e-4)
    both = identity(tmp_path, task_weight=0.5).shape(batch(seen, [[0, 1, 2]]))
    np.testing.assert_allclose(both.reward, shaped.reward + 0.5, rtol=1e-6)


def test_the_scale_is_the_mean_of_all_distances_up_to_now(tmp_path: Path) -> None:
    """A first batch of two points 2√2·t apart, then one of two equal points: μ halves, and the reward with it."""
    guide = identity(tmp_path)
    apart, equal = np.array([[[0, 2], [2, 0]]], np.float32), np.array([[[0, 2], [0, 2]]], np.float32)
    np.testing.assert_allclose(guide.shape(batch(apart)).reward, math.log(2), rtol=1e-5)
    np.testing.assert_allclose(guide.shape(batch(equal)).reward, 0, atol=1e-6)
    np.testing.assert_allclose(guide.scale, [math.sqrt(2) * TANH], rtol=1e-5)
    np.testing.assert_allclose(guide.shape(batch(apart)).reward, math.log(1 + 3 / 2), rtol=1e-5)


def test_a_batch_without_two_different_transitions_has_no_reward(tmp_path: Path) -> None:
    guide = identity(tmp_path)
    same = guide.shape(batch(np.array([[[0, 2], [0, 2]]], np.float32), [[4, 4]]))
    assert same.reward.tolist() == [[0, 0]] and np.isnan(guide.metrics()["guide/distance"]).all()


def test_neighbours_may_be_searched_among_a_sample_of_what_is_stored(tmp_path: Path) -> None:
    """Stored: transition 0 to (0, 2) and 1 to (2, 0). Of transition 0, drawn alone, only 1 of the sample counts."""
    guide = identity(tmp_path, sample=32, lr=0.0, batch_size=2)
    store = Storage(build(tmp_path, (0,), PAIR))
    for seen, following in (([5, 5], [0, 2]), ([0, 2], [2, 0])):
        store.append(step(np.array([seen], np.float32), np.array([following], np.float32)))
    guide.before_update(store, LEARNER, CTX)
    one = store.gather(np.array([[0]]))
    assert guide.shape(one).reward.tolist() == [[pytest.approx(math.log(2), rel=1e-5)]]
    assert guide.metrics()["guide/distance"] == pytest.approx([2 * math.sqrt(2) * TANH], rel=1e-5)
    alone = identity(tmp_path)
    assert alone.shape(one).reward.tolist() == [[0]], "among the batch it has no neighbour"


# The features


def icm_losses(parts: dict[str, np.ndarray], actions: Actions, action: Any) -> tuple[list[float], list[float]]:
    """Losses of transitions from (0, 2) to (2, 0) with linear models."""
    icm = Icm(Apt(hidden=(), out=2), PAIR, actions)
    networks = Parameters(icm.specs(), 1)
    zero = {name: np.zeros_like(array) for name, array in networks.arrays(0).items()}
    networks.load(0, zero | {"trunk.weight": np.eye(2), "trunk.scale": np.ones(2)} | parts)
    taken = torch.tensor([action])
    here, there = torch.tensor([[[0.0, 2.0]] * len(action)]), torch.tensor([[[2.0, 0.0]] * len(action)])
    found = icm.losses(networks.blocks[0].views, here, taken, there)
    return found.forward[0].tolist(), found.inverse[0].tolist()


def test_the_losses_of_both_models_with_discrete_actions() -> None:
    """z′ = (t, −t). The forward model tells 0 for action 0 and (3, 4) for action 1, the inverse one odds of 1 to 3."""
    parts = {
        "forward.0.weight": np.array([[0, 0], [0, 0], [0, 0], [3, 4]]),
        "inverse.0.bias": np.array([0, math.log(3)]),
    }
    forward, inverse = icm_losses(parts, Actions(2), [0, 1])
    assert forward == pytest.approx([math.sqrt(2) * TANH, math.hypot(TANH - 3, TANH + 4)], rel=1e-5)
    assert inverse == pytest.approx([-math.log(1 / 4), -math.log(3 / 4)], rel=1e-5)


def test_the_losses_of_both_models_with_vectors_as_actions() -> None:
    """g = (−2t, 2t) from weights (1, −1) on z and z′ crossed; f adds the action's double to z = (−t, t)."""
    parts = {
        "forward.0.weight": np.array([[1, 0], [0, 1], [2, 0], [0, 2]]),
        "inverse.0.weight": np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]),
    }
    forward, inverse = icm_losses(parts, Actions(shape=(2,)), [[0.5, -0.25]])
    told = math.tanh(2 * TANH)
    assert forward == pytest.approx([math.hypot(2 * TANH - 1, -2 * TANH + 0.5)], rel=1e-5)
    assert inverse == pytest.approx([math.hypot(0.5 + told, -0.25 - told)], rel=1e-5)


@pytest.mark.parametrize(("loss", "joint"), [("forward", True), ("forward", False), ("inverse", False)])
def test_a_loss_reaches_its_own_model_and_the_features_unless_it_is_kept_from_them(loss: str, joint: bool) -> None:
    icm = Icm(Apt(**SMALL, joint=joint), GRID, Actions(3))
    networks = Parameters(icm.specs(), 1)
    networks.initialise([np.random.default_rng(0)])
    rng = np.random.default_rng(1)
    seen, following = (torch.from_numpy(observed(GRID, rng, 1, 6)) for _ in range(2))
    views = networks.blocks[0].views
    losses = icm.losses(views, seen, torch.tensor([[0, 1, 2, 0, 1, 2]]), following)
    gradients = torch.autograd.grad(getattr(losses, loss).sum(), list(views.values()), allow_unused=True)
    moved = {name for name, each in zip(views, gradients, strict=True) if each is not None and bool(each.any())}
    models, reached = {"forward", "inverse"}, {name.split(".")[0] for name in moved}
    features = {name.split(".")[0] for name in views} - models
    assert reached == {loss} | (features if joint or loss == "inverse" else set())


def test_training_tells_actions_by_the_features_and_moves_the_encoder(tmp_path: Path) -> None:
    """The action moves the point by ±1; chance is ln 2."""
    guide = AptGuide(Apt(**{**SMALL, "lr": 1e-2, "hidden": (32,), "out": 8}), build(tmp_path, (0,), PAIR))
    before, rng = guide.networks.arrays(0), np.random.default_rng(0)
    for _ in range(300):
        seen = rng.normal(size=(1, 32, 2)).astype(np.float32)
        action = rng.integers(2, size=(1, 32))
        following = seen + np.where(action, 1, -1)[..., None].astype(np.float32) * np.float32([1, 0])
        guide.learn(batch(following)._replace(observation=seen, action=action))
    told = guide.metrics()
    assert told["guide/inverse"][0] < 0.2 * math.log(2)
    assert (guide.networks.arrays(0)["trunk.weight"] != before["trunk.weight"]).all()


# Settings and runs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["guide.k=32"], r"guide\.k=32 neighbours .* learner\.batch_size=32 .* set guide\.k to at most 31, or"),
        (["guide.sample=12"], r"guide\.k=12 neighbours .* guide\.sample=12 .* guide\.sample to more than 12"),
        (["guide.sample=301"], r"guide\.sample=301 is larger than training\.capacity=300.*lower guide\.sample"),
        (["guide.k=0"], r"guide\.k"),
        (["guide.constant=0"], r"guide\.constant"),
    ],
)
def test_neighbours_that_cannot_be_found_are_refused(words: list[str], message: str) -> None:
    given = ["suite=crafter_ood", "profile=smoke", "method=apt_exploration"]
    matrix.plan([*given, "guide.k=31"])
    matrix.plan([*given, "guide.sample=13"])
    check_refused(message, matrix.plan, [*given, *words])


def test_apt_explores_a_task_without_a_goal_and_methods_share_its_stage() -> None:
    words = ["suite=crafter_ood", "task=deforestation", "profile=paper"]
    plan = matrix.plan([*words, "method=apt,sparse", "pretraining=apt_exploration"])
    explored, tuned, sparse = plan.trained
    assert (explored.names.method, explored.names.task) == ("apt_exploration", "free_play")
    assert tuned.stage is not None and sparse.stage is not None and tuned.stage.id == sparse.stage.id == explored.id
    assert (tuned.settings["learner.lr"].value, explored.settings["learner.lr"].value) == (2e-5, 6.25e-5)
    assert (tuned.variant, sparse.variant) == ("", "pretraining=apt_exploration")
