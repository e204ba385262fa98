"""Prioritised replay against the formulas of VLM-RB, appendix E, worked by hand."""

import numpy as np
import pytest
from scipy.stats import chisquare

from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.per.sampler import PerSampler
from guidebench.harness.interfaces import Moment, Span, Update

UNSEEN = (np.empty(0), None)
"""An observation and a store that these samplers do not look at."""


def filled(config: Per, rows: int = 1, count: int = 4, slots: int = 6) -> PerSampler:
    """Return a sampler that stored `count` transitions."""
    sampler = PerSampler(config, rows, slots)
    for index in range(count):
        sampler.added(index, Span(0, index + 1, slots), None)
    return sampler


def streams(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


LIVE = Span(0, 4, 6)
SLOTS = np.array([[0, 1, 2, 3]])


def test_priority_is_a_power_of_the_absolute_error() -> None:
    sampler = filled(Per(alpha=0.5, epsilon=0.01))
    sampler.feedback(SLOTS, Update(np.array([[0.15, -0.24, 0.0, 1.20]], np.float32), {}))
    # sqrt of .16, .25, .01, 1.21
    assert sampler.tree.get(SLOTS)[0] == pytest.approx([0.4, 0.5, 0.1, 1.1], rel=1e-6)


def test_draws_follow_the_priorities() -> None:
    sampler = filled(Per(alpha=0.5, epsilon=1e-6))
    sampler.feedback(SLOTS, Update(np.array([[1.0, 4.0, 9.0, 16.0]]), {}))
    drawn = np.bincount(sampler.draw(40_000, Moment(1, LIVE, streams(0), *UNSEEN)).index[0], minlength=6)
    assert drawn[4:].tolist() == [0, 0]
    # Square roots 1, 2, 3, 4 of a sum of 10.
    assert chisquare(drawn[:4], [4_000, 8_000, 12_000, 16_000]).pvalue > 1e-3


def test_weights_undo_the_bias_of_the_draw() -> None:
    sampler = filled(Per(alpha=1.0, beta=1.0, epsilon=1e-12))
    sampler.feedback(SLOTS, Update(np.array([[1.0, 2.0, 3.0, 4.0]]), {}))
    draw = sampler.draw(64, Moment(1, LIVE, streams(0), *UNSEEN))
    # P = .1, .2, .3, .4 and N = 4, so w = 1/(N·P) = 2.5, 1.25, .8333, .625; over the largest: 1, 1/2, 1/3, 1/4.
    by_slot = np.array([1, 1 / 2, 1 / 3, 1 / 4])
    assert draw.weight is not None and draw.weight.dtype == np.float32
    assert set(draw.index[0]) == {0, 1, 2, 3}
    assert draw.weight[0] == pytest.approx(by_slot[draw.index[0]], rel=1e-6)


def test_weights_with_half_the_correction_and_a_batch_that_lacks_the_rarest() -> None:
    sampler = filled(Per(alpha=1.0, beta=0.5, epsilon=1e-12), rows=2)
    sampler.feedback(np.repeat(SLOTS, 2, axis=0), Update(np.array([[0.0, 0.0, 1.0, 4.0], [0.0, 0.0, 36.0, 4.0]]), {}))
    draw = sampler.draw(64, Moment(1, LIVE, streams(0, 1), *UNSEEN))
    assert draw.weight is not None
    # Each seed over its own largest: (1/1)^.5, (1/4)^.5 and (4/36)^.5, (4/4)^.5.
    assert draw.weight[0] == pytest.approx(np.where(draw.index[0] == 2, 1.0, 0.5), rel=1e-5)
    assert draw.weight[1] == pytest.approx(np.where(draw.index[1] == 3, 1.0, 1 / 3), rel=1e-5)


def test_without_importance_weights_none_are_given() -> None:
    assert filled(Per(importance_weights=False)).draw(8, Moment(1, LIVE, streams(0), *UNSEEN)).weight is None


def test_a_new_transition_starts_small_or_at_the_largest_error_seen() -> None:
    small = filled(Per(alpha=0.5, epsilon=1e-6, small_priority=0.04 - 1e-6), rows=2)
    assert small.tree.get(np.repeat(SLOTS, 2, axis=0)) == pytest.approx(np.full((2, 4), 0.2))
    largest = filled(Per(alpha=1.0, epsilon=1e-6, new_priority="maximum"), rows=2, count=2)
    # Nothing learnt yet: 1. Then the largest error of each seed, which a later smaller one does not lower.
    assert largest.tree.get(np.array([[0, 1]] * 2)) == pytest.approx(np.ones((2, 2)), rel=1e-5)
    largest.feedback(np.array([[0, 1]] * 2), Update(np.array([[-7.0, 2.0], [0.1, 0.2]]), {}))
    largest.feedback(np.array([[0, 1]] * 2), Update(np.array([[1.0, 2.0], [0.1, 0.1]]), {}))
    largest.added(2, Span(0, 3, 6), None)
    assert largest.tree.get(np.array([[2], [2]])) == pytest.approx(np.array([[7.0], [0.2]]), rel=1e-5)


def test_an_error_that_is_not_finite_leaves_the_priority_as_it_was() -> None:
    sampler = filled(Per(alpha=1.0, epsilon=1e-12, new_priority="maximum"))
    sampler.feedback(SLOTS, Update(np.array([[1.0, 2.0, 3.0, 4.0]]), {}))
    sampler.feedback(SLOTS, Update(np.array([[np.nan, 5.0, np.inf, -np.inf]], np.float32), {}))
    sampler.added(4, Span(0, 5, 6), None)
    assert sampler.tree.get(np.array([[0, 1, 2, 3, 4]]))[0] == pytest.approx([1, 5, 3, 4, 5])


def test_slots_that_left_are_never_drawn() -> None:
    """Capacity 3 of 5 slots, twelve transitions, large errors on all that are learnt from."""
    sampler, rngs = PerSampler(Per(new_priority="maximum"), 1, 5), streams(0)
    for written in range(1, 13):
        count = min(written, 3)
        live = Span((written - count) % 5, count, 5)
        sampler.added((written - 1) % 5, live, None)
        draw = sampler.draw(50, Moment(written, live, rngs, *UNSEEN))
        assert set(draw.index[0]) <= set(live.slots(np.arange(count)))
        sampler.feedback(draw.index, Update(np.full(draw.index.shape, 100.0), {}))
    assert set(draw.index[0]) == {1, 0, 4}  # the last three of twelve, (9, 10, 11) % 5
