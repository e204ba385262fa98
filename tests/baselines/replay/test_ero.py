"""ERO against the formulas of VLM-RB, appendix E, worked by hand."""

import math

import numpy as np
import pytest

from guidebench.baselines.replay.ero import Ero
from guidebench.baselines.replay.ero.sampler import EroSampler
from guidebench.harness.interfaces import Moment, Span, Transition, Update
from guidebench.harness.plan.matrix import plan
from tests.baselines.builds import build
from tests.refusals import check_refused

SLOTS = 40
LIVE = Span(0, 32, SLOTS)


def sampler_of(config: Ero, *seeds: int) -> EroSampler:
    return EroSampler(config, build(seeds=seeds, horizon=10, capacity=32, slots=SLOTS))


def happened(reward: list[float], ended: list[bool]) -> Transition:
    nothing = np.zeros((len(reward), 2), np.float32)
    ends = np.array(ended)
    return Transition(
        observation=nothing, action=np.zeros(len(reward), int), reward=np.array(reward, np.float32), terminated=ends,
        truncated=~ends & False, next_observation=nothing, events=np.zeros((len(reward), 0), bool), snapshot=None,
        success=ends,
    )  # fmt: skip


class Dice:
    """A generator whose numbers are given."""

    def __init__(self, candidates: list[int], coins: list[float]) -> None:
        self.candidates, self.coins = candidates, coins

    def integers(self, high: int, size: int) -> np.ndarray:
        assert size == len(self.candidates)
        return np.array(self.candidates)

    def random(self, out: np.ndarray) -> None:
        out[:] = self.coins


def at(live: Span, *rngs: object) -> Moment:
    return Moment(1, live, rngs, np.empty(0), None)


def by_error(sampler: EroSampler, scale: float, bias: float) -> None:
    """Make the policy p = σ(scale·|δ| + bias), its one hidden unit passing |δ| on."""
    sampler.parameters.load(
        0,
        {
            "policy.0.weight": np.array([[0.0], [1.0], [0.0]]),
            "policy.0.bias": np.zeros(1),
            "policy.1.weight": np.array([[scale]]),
            "policy.1.bias": np.array([bias]),
        },
    )


def test_the_gradient_is_that_of_reinforce_on_the_log_of_retention() -> None:
    sampler = sampler_of(Ero(hidden=(1,)), 0)
    weight, bias, out, shift = np.array([0.5, 1.0, -1.0]), 0.1, 2.0, -0.5
    sampler.parameters.load(
        0,
        {
            "policy.0.weight": weight[:, None],
            "policy.0.bias": np.array([bias]),
            "policy.1.weight": np.array([[out]]),
            "policy.1.bias": np.array([shift]),
        },
    )
    features = np.array([[[1.0, 0.5, 0.25], [0.0, 2.0, 0.5]]], np.float32)
    reward = 0.3
    # hidden .85 and 1.6, logits 1.2 and 2.7; dL/dlogit = -r(1 - p)
    hidden, logits = [0.85, 1.6], [1.2, 2.7]
    slopes = [-reward * (1 - 1 / (1 + math.exp(-logit))) for logit in logits]
    sampler.policy_gradient(np.array([reward]), features)
    gradient = sampler._gradient.arrays(0)
    assert gradient["policy.1.bias"] == pytest.approx([sum(slopes)], rel=1e-5)
    assert gradient["policy.1.weight"][0] == pytest.approx([slopes[0] * hidden[0] + slopes[1] * hidden[1]], rel=1e-5)
    assert gradient["policy.0.bias"] == pytest.approx([2.0 * sum(slopes)], rel=1e-5)
    expected = 2.0 * (slopes[0] * features[0, 0] + slopes[1] * features[0, 1])
    assert gradient["policy.0.weight"][:, 0] == pytest.approx(expected, rel=1e-5)
    assert sampler.retention(features)[0] == pytest.approx([1 / (1 + math.exp(-logit)) for logit in logits], rel=1e-6)


def test_a_rising_return_makes_what_was_replayed_likelier_and_a_falling_one_less_likely() -> None:
    for returns, sign in ([0.0, 1.0], 1), ([1.0, 0.0], -1):
        sampler = sampler_of(Ero(lr=0.01), 0)
        for index in range(32):
            sampler.added(index, Span(0, index + 1, SLOTS), happened([0.0], [False]))
        sampler.draw(8, at(LIVE, np.random.default_rng(0)))
        batch = sampler._batch
        before = sampler.retention(batch).mean()
        sampler.evaluated(np.array(returns[:1]))
        assert sampler.retention(batch).mean() == before, "one evaluation is no change"
        sampler.evaluated(np.array(returns[1:]))
        assert sign * (sampler.retention(batch).mean() - before) > 0


def test_the_reward_is_the_change_of_a_moving_average() -> None:
    sampler = sampler_of(Ero(averaging=0.25), 0)
    rewards = []
    sampler._batch = np.ones((1, 2, 3), np.float32)
    sampler.policy_gradient = lambda reward, batch: rewards.append(float(reward[0])) or sampler._gradient.flat
    for episode_return in (1.0, 0.0, 2.0):
        sampler.evaluated(np.array([episode_return]))
    # averages 1, .75, 1.0625
    assert rewards == pytest.approx([-0.25, 0.3125]) and sampler.mean_return == pytest.approx([1.0625])


def test_kept_candidates_come_first_and_the_likeliest_of_the_others_fill_up() -> None:
    sampler = sampler_of(Ero(hidden=(1,)), 0)
    by_error(sampler, 1.0, 0.0)
    sampler._features[0, :8, 1] = [0.0, 5.0, 1.0, 2.0, 3.0, 4.0, 0.5, 0.2]
    # B = 2, so eight candidates; only candidate 0 (p = .5) passes, then slot 1 has the highest p
    none = [0.999999] * 8
    draw = sampler.draw(2, at(Span(0, 8, SLOTS), Dice(list(range(8)), [0.4, *none[1:]])))
    assert draw.index.tolist() == [[0, 1]] and draw.weight is None
    draw = sampler.draw(2, at(Span(0, 8, SLOTS), Dice(list(range(8)), none)))
    assert draw.index.tolist() == [[1, 5]]
    # more are kept than fit: the first of them, in the order of the uniform draw
    draw = sampler.draw(2, at(Span(0, 8, SLOTS), Dice([7, 6, 5, 4, 3, 2, 1, 0], [0.0] * 8)))
    assert draw.index.tolist() == [[7, 6]]


def test_features_are_reward_error_and_time_and_follow_what_is_learnt() -> None:
    sampler = sampler_of(Ero(), 0)
    for index, (reward, ended) in enumerate([(0.0, False), (0.5, True), (0.0, False)]):
        sampler.added(index, Span(0, index + 1, SLOTS), happened([reward], [ended]))
    # the horizon is 10; a new transition's error is taken to be 1
    assert sampler._features[0, :3] == pytest.approx(np.array([[0, 1, 0.1], [0.5, 1, 0.2], [0, 1, 0.1]]))
    sampler.feedback(np.array([[2, 0]]), Update(np.array([[-3.0, np.nan]]), {}))
    assert sampler._features[0, :3, 1].tolist() == [1.0, 1.0, 3.0]


def test_a_seed_without_a_return_keeps_its_policy_and_its_average() -> None:
    sampler = sampler_of(Ero(lr=0.1), 0, 1)
    sampler._batch = np.ones((2, 4, 3), np.float32)
    sampler.evaluated(np.array([0.0, 0.0]))
    before = sampler.parameters.flat.clone()
    sampler.evaluated(np.array([1.0, np.nan]))
    changed = (sampler.parameters.flat != before).any(1).tolist()
    assert changed == [True, False] and sampler.mean_return.tolist() == [0.5, 0.0]


def test_a_run_with_too_few_evaluations_is_refused() -> None:
    check_refused(
        r"evaluation\.every=300 leaves fewer than two .* less than 300",
        plan,
        ["suite=minigrid_doorkey", "method=ero", "profile=smoke", "evaluation.every=300"],
    )
