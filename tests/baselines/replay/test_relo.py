"""ReLo against the formulas of VLM-RB, appendix E, worked by hand."""

import numpy as np
import pytest

from guidebench.baselines.replay.relo import Relo
from guidebench.baselines.replay.relo.sampler import ReloSampler
from guidebench.harness.interfaces import Moment, Span, Update

LIVE = Span(0, 4, 6)
SLOTS = np.array([[0, 1, 2, 3]])


def update_of(reducible: list[float]) -> Update:
    return Update(np.zeros((1, len(reducible))), {}, np.array([reducible], np.float32))


def filled(config: Relo, count: int = 4, steps: int = 100) -> ReloSampler:
    sampler = ReloSampler(config, 1, 6, steps)
    for index in range(count):
        sampler.added(index, Span(0, index + 1, 6), None)
    return sampler


def moment(step: int, live: Span = LIVE) -> Moment:
    return Moment(step, live, [np.random.default_rng(0)], np.empty(0), None)


def test_priority_is_the_reducible_loss_clipped_at_zero() -> None:
    sampler = filled(Relo(alpha=0.5, epsilon=0.01))
    sampler.feedback(SLOTS, update_of([0.15, -0.80, 0.0, 1.20]))
    # sqrt of .16, .01, .01, 1.21
    assert sampler.tree.get(SLOTS)[0] == pytest.approx([0.4, 0.1, 0.1, 1.1], rel=1e-6)
    assert sampler.metrics(1)["replay/clipped_share"] == [0.5]


def test_the_floors_share_is_of_the_buffer() -> None:
    sampler = filled(Relo(alpha=0.5, epsilon=0.01))
    assert sampler.metrics(1)["replay/floor_share"] == [0]
    sampler.feedback(SLOTS, update_of([0.15, -0.80, 0.0, 1.20]))
    assert sampler.metrics(1)["replay/floor_share"] == [0.5]
    # a slot drawn twice counts once, by what was told last; one whose error is not finite stays as it was
    sampler.feedback(np.array([[1, 1, 2, 3]]), update_of([-1.0, 0.3, float("nan"), -0.1]))
    assert sampler.metrics(1)["replay/floor_share"] == [0.5] and sampler.metrics(1)["replay/clipped_share"] == [0.5]
    for slot, start in ((4, 1), (5, 2), (0, 3)):  # four are live: slots 0, 1 and 2 leave, the last from the floor
        assert sampler.metrics(1)["replay/floor_share"] == [0.5]
        sampler.added(slot, Span(start, 4, 6), None)
    assert sampler.metrics(1)["replay/floor_share"] == [0.25]
    restored = ReloSampler(Relo(alpha=0.5, epsilon=0.01), 1, 6, 100)
    restored.load_state(0, sampler.state(0))
    assert restored.metrics(1)["replay/floor_share"] == [0.25]


def test_the_difference_is_asked_of_the_learner_as_configured() -> None:
    assert filled(Relo()).wants_reducible == "error"
    assert filled(Relo(difference="loss")).wants_reducible == "loss"


def test_a_new_transition_gets_the_largest_priority_now_stored() -> None:
    sampler = filled(Relo(alpha=0.5, epsilon=0.01))
    assert sampler.tree.get(SLOTS)[0].tolist() == [1.0] * 4  # nothing was known: 1
    sampler.feedback(SLOTS, update_of([0.15, 0.24, 0.0, 1.20]))
    sampler.added(4, Span(0, 5, 6), None)
    assert sampler.tree.get(np.array([[4]]))[0, 0] == pytest.approx(1.1)
    # the largest leaves the buffer: what is largest among the rest counts, not what once was
    sampler.feedback(np.array([[3, 4]]), update_of([0.08, 0.35]))
    sampler.added(5, Span(0, 6, 6), None)
    assert sampler.tree.get(np.array([[5]]))[0, 0] == pytest.approx(0.6)


def test_what_leaves_the_buffer_no_longer_sets_the_largest() -> None:
    sampler = ReloSampler(Relo(alpha=1.0, epsilon=1e-6), 1, 5, 100)
    for index in range(3):
        sampler.added(index, Span(0, index + 1, 5), None)
    sampler.feedback(np.array([[0, 1, 2]]), update_of([9.0, 2.0, 1.0]))
    sampler.added(3, Span(1, 3, 5), None)  # slot 0 leaves as slot 3 comes in
    assert sampler.tree.get(np.array([[3]]))[0, 0] == pytest.approx(2.0, rel=1e-5)
    sampler.feedback(np.array([[3]]), update_of([0.5]))
    sampler.added(4, Span(2, 3, 5), None)  # slot 1 leaves
    assert sampler.tree.get(np.array([[0, 1, 2, 3, 4]]))[0] == pytest.approx([0, 0, 1, 0.5, 1], rel=1e-5)


def test_beta_rises_linearly_over_the_run_and_shapes_the_weights() -> None:
    sampler = filled(Relo(alpha=1.0, epsilon=1e-6), steps=200)
    assert [sampler.beta(step) for step in (0, 100, 200, 300)] == pytest.approx([0.4, 0.7, 1.0, 1.0])
    sampler.feedback(SLOTS, update_of([1.0, 2.0, 4.0, 8.0]))
    draw = sampler.draw(64, moment(100))
    priority = np.array([1.0, 2.0, 4.0, 8.0])[draw.index[0]]
    assert draw.weight[0] == pytest.approx((priority.min() / priority) ** 0.7, rel=1e-5)
    assert filled(Relo(importance_weights=False)).draw(8, moment(1)).weight is None


def test_an_error_that_is_not_finite_leaves_the_priority() -> None:
    sampler = filled(Relo(alpha=1.0, epsilon=0.5))
    sampler.feedback(SLOTS, update_of([1.0, 2.0, 3.0, 4.0]))
    sampler.feedback(SLOTS, update_of([float("nan"), float("inf"), float("-inf"), 5.0]))
    assert sampler.tree.get(SLOTS)[0] == pytest.approx([1.5, 2.5, 3.5, 5.5])
