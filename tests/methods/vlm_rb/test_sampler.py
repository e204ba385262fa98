"""VLM-RB's sampling: schedule, default priority, mixture and TD boost against numbers worked by hand."""

import numpy as np
import pytest
from scipy.stats import chisquare

from guidebench.harness.interfaces import Moment, Span, Update
from guidebench.methods.vlm_rb import VlmRb
from guidebench.methods.vlm_rb.sampler import BoostedSampler, JudgedSampler, prioritised_share

UNSEEN = (np.empty(0), None)
"""An observation and a store that these samplers do not look at."""
STEPS = 1000
ALL = Span(0, 8, 10)


def sampler_of(config: VlmRb, rows: int, slots: int, steps: int) -> JudgedSampler:
    return (BoostedSampler if config.td_boost else JudgedSampler)(config, rows, slots, steps)


def filled(config: VlmRb, rows: int = 1, count: int = 8) -> JudgedSampler:
    """Return a sampler of 10 slots that stored `count` transitions, none of them judged."""
    sampler = sampler_of(config, rows, 10, STEPS)
    for index in range(count):
        sampler.added(index, Span(0, index + 1, 10), None)
    return sampler


def streams(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def draw_counts(sampler: JudgedSampler, step: int, live: Span = ALL, count: int = 40_000) -> np.ndarray:
    return np.bincount(sampler.draw(count, Moment(step, live, streams(0), *UNSEEN)).index[0], minlength=live.size)


def priorities(sampler: JudgedSampler, row: int = 0) -> list[float]:
    return sampler.tree.leaves(row).tolist()


def test_share_grows_linearly_over_half_the_run() -> None:
    for config, shares in (
        (VlmRb(), {0: 0, 100: 0.1, 250: 0.25, 500: 0.5, 501: 0.5, 1000: 0.5}),
        (VlmRb(lambda_max=1.0, schedule_share=0.25), {125: 0.5}), (VlmRb(schedule_share=0.0), {1: 0.5}),
        (VlmRb(lambda_max=None), {0: 1.0}),
    ):  # fmt: skip
        assert {step: prioritised_share(config, step, 1000) for step in shares} == pytest.approx(shares)


def test_default_priority_is_the_mean_over_judged_clips() -> None:
    sampler = filled(VlmRb(alpha=1.0), rows=2, count=4)
    assert sampler.default_priority.tolist() == [1.0, 1.0]
    sampler.scored(0, np.array([0, 1]), 0.2)
    assert sampler.default_priority.tolist() == [0.0, 1.0]
    sampler.scored(0, np.array([2]), 0.51)
    sampler.scored(0, np.array([], np.int64), 0.9)  # its transitions have left; the clip counts all the same
    assert sampler.default_priority[0] == pytest.approx(2 / 3)
    sampler.added(4, Span(0, 5, 10), None)
    sampler.scored(0, np.array([3]), 0.5)  # not above the threshold
    sampler.added(5, Span(0, 6, 10), None)
    assert priorities(sampler)[:6] == pytest.approx([0, 0, 1, 0, 2 / 3, 2 / 4])
    assert priorities(sampler, 1)[:6] == [1.0] * 6
    assert {name.removeprefix("replay/"): value.tolist() for name, value in sampler.metrics(250).items()} == {
        "default_priority": [0.5, 1.0], "lambda": [0.25, 0.25], "judged_share": [4 / 6, 0.0],
    }  # fmt: skip


def test_batches_mix_judged_and_uniform_draws() -> None:
    """λ = .5; clips {0, 1} yes, {2, 3, 4} no, 5 to 7 not judged, stored while p̄ was 1."""
    sampler = filled(VlmRb())
    sampler.scored(0, np.array([0, 1]), 0.9)
    sampler.scored(0, np.array([2, 3, 4]), 0.1)
    counts = draw_counts(sampler, 1000)
    # Half over the five with p = 1, half over all eight: 4,000 + 2,500 and 2,500.
    assert counts[8:].tolist() == [0, 0]
    assert chisquare(counts[:8], [6500, 6500, 2500, 2500, 2500, 6500, 6500, 6500]).pvalue > 1e-3


def test_unjudged_transitions_are_drawn_by_a_power_of_the_default_priority() -> None:
    """None of table 4: judged priority alone. p̄ = .25 when slot 7 comes, and .25^.5 = .5 beside slot 0 with 1."""
    sampler = filled(VlmRb(lambda_max=None, alpha=0.5), count=7)
    sampler.scored(0, np.array([0]), 1.0)
    for _ in range(3):
        sampler.scored(0, np.arange(1, 7), 0.0)
    sampler.added(7, ALL, None)
    counts = draw_counts(sampler, 1, count=30_000)
    assert counts[1:7].sum() == 0
    assert chisquare(counts[[0, 7]], [20_000, 10_000]).pvalue > 1e-3


def test_a_fraction_of_a_transition_is_drawn_as_often_as_it_says() -> None:
    """λB = .35 · 8 = 2.8: two of each batch for certain, a third in four of five."""
    sampler = filled(VlmRb(lambda_max=0.35))
    sampler.scored(0, np.arange(1, 8), 0.0)  # q^P draws slot 0 alone
    sampler.scored(0, np.array([0]), 1.0)
    rngs = streams(0)
    batches = np.stack([sampler.draw(8, Moment(1000, ALL, rngs, *UNSEEN)).index[0] for _ in range(4000)])
    assert (batches[:, :2] == 0).all()
    # The third is 0 if prioritised (.8) or by chance (.2 / 8), the fourth by chance alone (1/8).
    third, fourth = (batches[:, 2] == 0).sum(), (batches[:, 3] == 0).sum()
    assert chisquare([third, 4000 - third], [3300, 700]).pvalue > 1e-3
    assert chisquare([fourth, 4000 - fourth], [500, 3500]).pvalue > 1e-3


def test_batches_are_uniform_at_the_start_of_the_schedule_and_while_no_transition_has_priority() -> None:
    sampler = filled(VlmRb())
    sampler.scored(0, np.arange(7), 0.0)
    assert chisquare(draw_counts(sampler, 0)[:8]).pvalue > 1e-3
    sampler = filled(VlmRb(lambda_max=None), rows=2)
    sampler.scored(0, np.arange(8), 0.0)
    sampler.scored(1, np.arange(1, 8), 0.0)
    draw = sampler.draw(40_000, Moment(1, ALL, streams(0, 1), *UNSEEN))
    assert draw.weight is None
    assert chisquare(np.bincount(draw.index[0], minlength=8)).pvalue > 1e-3
    assert set(draw.index[1]) == {0}


def test_boosted_priority_is_the_product_with_the_latest_error() -> None:
    sampler = filled(VlmRb(td_boost=True, alpha=0.5, epsilon=0.0), count=4)
    assert priorities(sampler)[:4] == [1.0] * 4
    sampler.feedback(np.array([[0, 1, 2]]), Update(np.array([[-4.0, 9.0, 16.0]]), {}))
    assert priorities(sampler)[:4] == [2.0, 3.0, 4.0, 1.0]
    sampler.scored(0, np.array([0, 2]), 0.0)
    sampler.scored(0, np.array([1]), 1.0)
    assert priorities(sampler)[:4] == [0.0, 3.0, 0.0, 1.0]
    # p stays what it was set to; the product follows the error. A new transition has p = p̄ = 1/2 and error 1.
    sampler.added(4, Span(0, 5, 10), None)
    for errors in ([25.0, 25.0, 8.0], [np.nan, np.nan, np.inf]):
        sampler.feedback(np.array([[0, 1, 4]]), Update(np.array([errors]), {}))
        assert priorities(sampler)[:5] == pytest.approx([0.0, 5.0, 0.0, 1.0, 2.0])


def test_draws_follow_the_boosted_product() -> None:
    sampler = filled(VlmRb(td_boost=True, alpha=1.0, epsilon=1e-6, lambda_max=None))
    sampler.feedback(np.arange(8)[None], Update(np.array([[1.0, 2.0, 3.0, 9.0, 9.0, 9.0, 9.0, 4.0]]), {}))
    sampler.scored(0, np.arange(3, 7), 0.0)
    counts = draw_counts(sampler, 1)
    assert counts[3:7].sum() == 0
    assert chisquare(counts[[0, 1, 2, 7]], [4_000, 8_000, 12_000, 16_000]).pvalue > 1e-3


@pytest.mark.parametrize("td_boost", [False, True])
def test_slots_that_left_are_never_drawn_and_lose_their_judgement(td_boost: bool) -> None:
    """Capacity 3 of 5 slots; every transition is judged meaningful as soon as it is stored."""
    sampler, rngs = sampler_of(VlmRb(td_boost=td_boost), 1, 5, 10), streams(0)
    for written in range(1, 13):
        count = min(written, 3)
        live = Span((written - count) % 5, count, 5)
        sampler.added((written - 1) % 5, live, None)
        if written < 12:
            sampler.scored(0, np.array([(written - 1) % 5]), 1.0)
        draw = sampler.draw(60, Moment(written, live, rngs, *UNSEEN))
        assert set(draw.index[0]) == set(live.slots(np.arange(count)))
        sampler.feedback(draw.index, Update(np.full(draw.index.shape, 3.0), {}))
    assert sampler.metrics(12)["replay/judged_share"].tolist() == [2 / 3]


def train(sampler: JudgedSampler, rngs: list[np.random.Generator], seeds: list[int], start: int, stop: int) -> list:
    """Store transitions, judge clips of four, draw and learn, and return the draws; seed, step and slot decide
    everything."""
    batches = []
    for step in range(start, stop):
        count = min(step + 1, 40)
        live = Span((step + 1 - count) % 50, count, 50)
        sampler.added(step % 50, live, None)
        if step % 4 == 3 and step > 10:
            for row, seed in enumerate(seeds):
                sampler.scored(row, np.arange(step - 7, step - 3) % 50, (seed * 7 + step * 3) % 11 / 11)
        draw = sampler.draw(16, Moment(step, live, rngs, *UNSEEN))
        errors = [np.sin(draw.index[row] * (seed + 2.0) + step) for row, seed in enumerate(seeds)]
        sampler.feedback(draw.index, Update(np.array(errors, np.float32), {}))
        batches.append(draw.index)
    return batches


@pytest.mark.parametrize("td_boost", [False, True])
def test_a_restored_sampler_goes_on_with_the_same_draws(td_boost: bool) -> None:
    """Two seeds are saved at step 90 and go on in the other order."""
    config = VlmRb(td_boost=td_boost)
    sampler, rngs = sampler_of(config, 2, 50, 200), streams(0, 1)
    train(sampler, rngs, [0, 1], 0, 90)
    states = [(sampler.state(row), rngs[row].bit_generator.state) for row in range(2)]
    metrics = sampler.metrics(90)
    rest = train(sampler, rngs, [0, 1], 90, 150)
    restored, resumed = sampler_of(config, 2, 50, 200), streams(8, 9)
    for row, (state, stream) in enumerate(reversed(states)):
        restored.load_state(row, state)
        resumed[row].bit_generator.state = stream
    assert {name: value[::-1].tolist() for name, value in restored.metrics(90).items()} == {
        name: value.tolist() for name, value in metrics.items()
    }
    again = train(restored, resumed, [1, 0], 90, 150)
    assert all(np.array_equal(first, second[::-1]) for first, second in zip(rest, again, strict=True))
