"""AER against the rule of VLM-RB, appendix E, worked by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.parameters import Spec
from guidebench.baselines.replay.aer import Aer
from guidebench.baselines.replay.aer.sampler import AerSampler
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Moment, Observations, Transition
from guidebench.harness.parts import LearnerPart
from guidebench.harness.plan.matrix import plan
from tests.baselines.builds import build
from tests.cell_views import cell_view
from tests.refusals import check_refused

PLANE = Observations((2,), "float32")
OBSERVATION = np.zeros((1, 2), np.float32)


class Halving:
    """An encoder whose features are known: half of the observation."""

    def specs(self) -> dict[str, Spec]:
        return {"unused": Spec((1,), "uniform", 1.0)}

    def __call__(self, parameters: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        return inputs / 2


LEARNER = SimpleNamespace(encoder=lambda observations: Halving(), encoder_width=lambda observations: 2)


def built(path: Path, learner: object, seeds: tuple[int, ...] = (0,), capacity: int = 30) -> tuple[AerSampler, Storage]:
    run_build = build(
        path, seeds, PLANE, horizon=10, capacity=capacity, slots=capacity + 40, parts={"learner": learner}
    )
    sampler = AerSampler(Aer(), run_build)
    return sampler, Storage(run_build, (), sampler.columns)


def store(sampler: AerSampler, storage: Storage, points: list[tuple[float, float]]) -> None:
    """Store a transition at each point, the same for every seed."""
    rows = sampler.parameters.rows
    for point in points:
        observation = np.tile(np.array(point, np.float32), (rows, 1))
        no = np.zeros(rows, bool)
        transition = Transition(
            observation, np.zeros(rows, int), np.zeros(rows), no, no, observation, np.zeros((rows, 0), bool), None, no
        )
        slot = storage.append(transition)
        sampler.added(slot, storage.live, transition)


class Dice:
    """A generator whose draws are given; it records the size of the last request."""

    def __init__(self, *draws: int) -> None:
        self.draws, self.last_size = draws, 0

    def integers(self, high: int, size: int) -> np.ndarray:
        self.last_size = size
        return np.resize(np.array(self.draws), size)


def test_the_pool_shrinks_linearly_from_four_batches_to_one(tmp_path: Path) -> None:
    sampler, storage = built(tmp_path, LEARNER)
    store(sampler, storage, [(1, 0), (2, 0)])
    sizes = []
    for step in (0, 10, 50, 99, 100):
        dice = Dice(0, 1)
        sampler.draw(6, Moment(step, storage.live, [dice], OBSERVATION, storage))
        sizes.append(dice.last_size)
    # floor of 6 times 4, 3.7, 2.5, 1.03, 1
    assert sizes == [24, 22, 15, 6, 6]


def test_the_nearest_candidates_to_the_current_observation_are_chosen(tmp_path: Path) -> None:
    sampler, storage = built(tmp_path, LEARNER)
    store(sampler, storage, [(0, 0), (3, 4), (1, 0), (6, 8), (0, 2), (-1, 0), (9, 9), (5, 5)])
    observation = np.array([[5.0, 7.0]], np.float32)
    # squared distances from (5, 7), features halved: slot 3 is 2/4, slot 7 4/4, slot 1 13/4, slot 6 20/4
    draw = sampler.draw(2, Moment(0, storage.live, [Dice(0, 1, 2, 3, 4, 5, 6, 7)], observation, storage))
    assert draw.index.tolist() == [[3, 7]] and draw.weight is None
    draw = sampler.draw(2, Moment(0, storage.live, [Dice(6, 0, 1, 2, 4, 5, 0, 0)], observation, storage))
    assert draw.index.tolist() == [[1, 6]], "only among the candidates"


def test_of_equally_near_candidates_the_first_drawn_is_chosen(tmp_path: Path) -> None:
    sampler, storage = built(tmp_path, LEARNER)
    store(sampler, storage, [(1, 0), (0, 1), (-1, 0), (0, -1)])
    draw = sampler.draw(1, Moment(0, storage.live, [Dice(2, 1, 0, 3)], OBSERVATION, storage))
    assert draw.index.tolist() == [[2]]


def test_without_more_candidates_than_places_draws_are_uniform(tmp_path: Path) -> None:
    sampler, storage = built(tmp_path, LEARNER)
    store(sampler, storage, [(1, 0), (100, 0), (2, 0)])
    draw = sampler.draw(4, Moment(100, storage.live, [Dice(1, 1, 0, 2)], OBSERVATION, storage))
    assert draw.index.tolist() == [[1, 1, 0, 2]]


def test_the_encoder_has_the_learner_s_architecture_and_each_seed_its_own_start(tmp_path: Path) -> None:
    learner = Dqn(hidden=(8, 5))
    sampler, storage = built(tmp_path, learner, seeds=(0, 1))
    network = list(learner.network(PLANE, Actions(count=2)).specs().values())
    assert list(sampler.encoder.specs().values()) == network[:4] and len(network) == 6
    before = sampler.parameters.flat.clone()
    store(sampler, storage, [(1, 0), (0, 1), (3, 3)])
    observation = np.zeros((2, 2), np.float32)
    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    sampler.draw(2, Moment(0, storage.live, rngs, observation, storage))
    assert torch.equal(before, sampler.parameters.flat) and not torch.equal(before[0], before[1])
    stored = storage.column("features", np.array([[0, 1, 2]] * 2))
    observations = np.array([[(1, 0), (0, 1), (3, 3)]] * 2, np.float32)
    assert stored.shape == (2, 3, 5) and stored == pytest.approx(sampler.features(observations))


def test_features_do_not_join_the_batch(tmp_path: Path) -> None:
    sampler, storage = built(tmp_path, LEARNER)
    store(sampler, storage, [(1, 0)])
    assert storage.gather(np.array([[0]])).columns == {}


def test_observations_that_the_learner_does_not_encode_are_refused() -> None:
    check_refused(
        r"replay 'aer' does not fit .* Dqn has none .* at least one layer",
        plan,
        ["suite=classic", "method=aer", "profile=smoke", "learner=dqn", "learner.hidden=[]"],
    )
    bare = type("Bare", (LearnerPart,), {"seconds_per_step": None, "seconds_per_action": None})
    assert "Bare has none" in Aer().fits(cell_view({"learner": bare()}, "", PLANE))
