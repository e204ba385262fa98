"""Random network distillation: the bonus, its normalisation, and what trains it."""

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.baselines.guides.rnd import Rnd
from guidebench.baselines.guides.rnd.guide import LEAST, RndGuide
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Batch, RunPhase
from guidebench.harness.plan import matrix
from tests.baselines.guides.conftest import build, step
from tests.methods.contract import METHODS
from tests.refusals import check_refused

SMALL: dict[str, Any] = {"hidden": (8,), "out": 4, "channels": 4, "features": 6, "batch_size": 8, "every": 4}


def batch(seen: np.ndarray) -> Batch:
    """Transitions to observations `seen` [S, B, …] with reward 1."""
    return Batch(seen, np.zeros(seen.shape[:2], np.int64), np.ones(seen.shape[:2], np.float32), seen,
                 np.zeros(seen.shape[:2], bool), None)  # fmt: skip


LEARNER: Any = SimpleNamespace(updates_due=lambda step, phase_updates=None: 1)
CTX: Any = SimpleNamespace(step=1, phase=RunPhase("train", 100))


def by_hand(path: Path, **more: Any) -> RndGuide:
    """One seed whose networks are linear, f(x) = (2x, −x) and f̂(x) = (x, 1), so b = (x² + (x + 1)²)/2."""
    guide = RndGuide(Rnd(**{"hidden": (), "out": 2, "every": 4, **more}), build(path, (0,)))
    guide.fixed.load(0, {"target.0.weight": np.array([[2, -1]]), "target.0.bias": np.zeros(2)})
    guide.predictor.load(0, {"predictor.0.weight": np.array([[1, 0]]), "predictor.0.bias": np.array([0, 1])})
    return guide


def test_the_bonus_is_the_mean_squared_error_of_the_normalised_next_observation(tmp_path: Path) -> None:
    """Before anything is stored the mean is 0 and both deviations are 1. With mean 1 and variance 4, x is halved after
    1 is subtracted: b(1) = ½, b(3) = (1 + 4)/2; clipped at 5, b(99) = (25 + 36)/2."""
    guide = by_hand(tmp_path, weight=0.5)
    seen = np.array([[[0], [1], [-2]]], np.float32)
    assert guide.shape(batch(seen)).reward.tolist() == [[1 + 0.25, 1 + 1.25, 1 + 1.25]]
    assert guide.metrics()["guide/bonus"].tolist() == pytest.approx([(0.5 + 2.5 + 2.5) / 3])
    guide.observation_moments.add(0, np.array([[-1.0], [3.0]]))
    found = guide.bonus(np.array([[1], [3], [99]], np.float32), np.zeros(3, np.int64))
    assert found.tolist() == [0.5, 2.5, 30.5]
    assert guide.reward(np.array([[3]], np.float32), np.zeros(1, np.int64)).tolist() == [1.25]


def test_statistics_are_those_of_what_was_stored_and_of_the_bonus_returns(tmp_path: Path) -> None:
    """Next observations 1, −1, 1, −1: mean 0 and variance 1, so x = s′ and b = 5/2, ½, 5/2, ½. With γ = ½ the bonus
    returns are 2.5, 1.75, 3.375, 2.1875, whose standard deviation divides the bonus."""
    guide = by_hand(tmp_path, discount=0.5, weight=1.0)
    store = Storage(build(tmp_path, (0,)), guide.columns)
    path = [9, 1, -1, 1, -1, 50, 60, 70]
    for here, following in itertools.pairwise(path):
        one = step(np.array([[here]], np.float32), np.array([[following]], np.float32))
        guide.observed(store.append(one), one, store, CTX)
    assert guide.observation_moments.count.tolist() == [4], "seven are stored, and four is the last multiple of `every`"
    assert (guide.observation_moments.mean[0, 0], guide.observation_moments.variance[0, 0]) == (0, 1)
    returns = [2.5, 1.75, 3.375, 2.1875]
    assert guide.returned.mean[0].tolist() == pytest.approx([np.mean(returns)])
    assert guide.scale.tolist() == pytest.approx([np.std(returns)])
    shaped = guide.shape(batch(np.array([[[1]]], np.float32)))
    assert shaped.reward.tolist() == [pytest.approx([1 + 2.5 / np.std(returns)])]


def test_a_feature_that_never_varies_is_not_divided_by_nothing(tmp_path: Path) -> None:
    guide = by_hand(tmp_path)
    guide.observation_moments.add(0, np.full((5, 1), 3.0))
    guide.returned.add(0, np.full((5, 1), 3.0))
    assert guide.scale.tolist() == [LEAST]
    assert guide.bonus(np.array([[3], [4]], np.float32), np.zeros(2, np.int64)).tolist() == [0.5, 30.5]


def test_the_predictor_descends_its_error_and_the_target_stays(tmp_path: Path) -> None:
    """At x = 1 the errors are −1 and 2: db/df̂ = (−1, 2), so Adam's first step moves the first output up by the learning
    rate and the second down."""
    guide = by_hand(tmp_path, lr=0.01)
    target = guide.fixed.flat.clone()
    guide.learn(np.array([[[1], [1]]], np.float32))
    moved = guide.predictor.arrays(0)
    np.testing.assert_allclose(moved["predictor.0.bias"], [0.01, 1 - 0.01], rtol=1e-5)
    np.testing.assert_allclose(moved["predictor.0.weight"], [[1.01, -0.01]], rtol=1e-5)
    assert guide.metrics()["guide/loss"].tolist() == [2.5] and bool((guide.fixed.flat == target).all())


def test_statistics_need_a_replay_that_holds_what_they_count() -> None:
    words = ["suite=crafter_ood", "profile=smoke", "method=curiosity"]
    check_refused(r"guide\.every=400 is larger than training\.capacity=300", matrix.plan, [*words, "guide.every=400"])
    matrix.plan(words)


def test_a_run_is_paid_and_learns(train: Callable[..., Path]) -> None:
    """With three-step returns, whose every transition gets its bonus."""
    study = train(*METHODS["curiosity"].words.split(), "seeds=[0]", packs=[(0,)])
    told = results.load(study, log="metrics")
    assert told["guide/bonus"].gt(0).all() and told["guide/loss"].gt(0).all() and told["guide/scale"].gt(0).all()
