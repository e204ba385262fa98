"""The test behind a verdict: cases worked by hand, and error rates held by simulation."""

from collections.abc import Callable

import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import Array
from guidebench.reports.papers import equivalence, verdicts
from guidebench.reports.papers.equivalence import Estimate, Published, printed

STUDIES = 2000
EPISODES = 100
"""Number of our episodes, over all seeds."""


def estimate(value: float, error: float, seeds: int = 5) -> Estimate:
    return Estimate(np.array([value]), np.array([error]), np.array([seeds - 1.0]), seeds)


@pytest.mark.parametrize(
    ("published", "ours", "margin", "expected"),
    [
        # t(4) at 95 % is 2.776 and at 90 % 2.132; with five published seeds of our spread both are times sqrt(2)
        (Published(0.8, 0.8, seeds=5), estimate(0.75, 0.04), 0.2, verdicts.REPRODUCED),  # -.05 ± .121 within ± .2
        (Published(0.8, 0.8, seeds=5), estimate(0.75, 0.06), 0.2, verdicts.INCONCLUSIVE),  # -.05 ± .181
        (Published(0.8, 0.8, seeds=5), estimate(0.6, 0.04), 0.2, verdicts.NOT_REPRODUCED),  # -.2 ± .157 at 95 %
        (Published(0.8, 0.8, 0.2, 5), estimate(0.6, 0.04), 0.2, verdicts.INCONCLUSIVE),  # the paper's own error is .2
        (
            Published(0.831, 0.831, seeds=5),
            estimate(0.43, 0.2),
            0.2,
            verdicts.INCONCLUSIVE,
        ),  # a wide interval reproduces nothing
        (
            Published(0.8, 0.8, seeds=5),
            estimate(0.79, 0.0),
            0.2,
            verdicts.REPRODUCED,
        ),  # a quarter of the margin is free
        (Published(0.8, 0.8, seeds=5), estimate(0.8, 0.001, 4), 0.2, verdicts.INCONCLUSIVE),  # four seeds
        (Published(0.7, 0.9, seeds=5), estimate(0.95, 0.04), 0.2, verdicts.REPRODUCED),  # a range has two ends
        (Published(0.1, 0.3, seeds=5), estimate(0.95, 0.04), 0.2, verdicts.NOT_REPRODUCED),
        (Published(557e3, 557e3, seeds=5), estimate(np.inf, 0.0), 111e3, verdicts.NOT_REPRODUCED),  # never, for certain
        (Published(557e3, 557e3, seeds=5), estimate(np.inf, np.inf), 111e3, verdicts.INCONCLUSIVE),
        (Published(0.8, 0.8, seeds=5), estimate(np.nan, np.nan), 0.2, verdicts.INCONCLUSIVE),
    ],
)
def test_a_value_is_equal_within_the_margin_or_differs_or_neither(
    published: Published, ours: Estimate, margin: float, expected: str
) -> None:
    assert equivalence.decided(ours, published, margin) == expected


@pytest.mark.parametrize(
    ("published", "ours", "expected"),
    [
        (241.7, estimate(17.5, 2.0), verdicts.SAME_DIRECTION),  # above zero, and far from what was published
        (61.3, estimate(60, 4), verdicts.REPRODUCED),  # ± 12 within ± 32
        (61.3, estimate(70, 20), verdicts.SAME_DIRECTION),  # above zero by 55, of uncertain size
        (61.3, estimate(30, 20), verdicts.INCONCLUSIVE),
        (61.3, estimate(-5, 3), verdicts.NOT_REPRODUCED),
        (11.0, estimate(0, 2), verdicts.NOT_REPRODUCED),  # -11 ± 7.9, more than a quarter of 22
        (8.0, estimate(3, 2), verdicts.INCONCLUSIVE),  # within the margin, but perhaps no gain
        (0.0, estimate(0, 2), verdicts.REPRODUCED),  # a published value of 0 is tested like any other
        (-52.8, estimate(-30, 3), verdicts.SAME_DIRECTION),
    ],
)
def test_a_gain_needs_its_sign_and_its_size(published: float, ours: Estimate, expected: str) -> None:
    margin = equivalence.margin("gain_percent", "", published, 100)
    assert equivalence.decided(ours, Published(published, published, seeds=5), margin, directed=True) == expected


def test_margins_are_of_the_kind_of_number() -> None:
    assert equivalence.margin("success_rate_sd", "", 0.1, 100) == 0.2
    assert equivalence.margin("success_percent", "difference", 19, 100) == 20
    assert equivalence.margin("success_percent", "relative_gain", 50, 100) == pytest.approx(30)
    assert equivalence.margin("step_saving_percent", "", 50, 100) == 20
    assert equivalence.margin("offline_label_accuracy_percent", "", 72.3, 100) == 5
    assert equivalence.margin("dollars", "", 4.0, 100) == pytest.approx(0.8)


def test_the_margin_of_a_rate_holds_neither_never_nor_always() -> None:
    assert equivalence.margin("best_success_rate", "", 0.6, 100) == 0.2
    assert equivalence.margin("best_success_rate", "", 0.9, 100) == pytest.approx(0.05)
    assert equivalence.margin("success_percent", "", 4, 100) == pytest.approx(2)
    assert equivalence.margin("success_percent", "level", 1, 50) == 2, "at least one of fifty episodes"
    assert equivalence.margin("success_rate", "", 1.0, 80) == 1 / 80


def test_no_success_at_all_does_not_reproduce_four_percent() -> None:
    never, published = estimate(0.0, 0.001), Published(0.04, 0.04, 0.001, 5)
    assert equivalence.decided(never, published, equivalence.margin("success_rate", "", 0.04, 100)) == (
        verdicts.NOT_REPRODUCED
    )


def test_the_paper_s_error_is_what_it_says_or_the_wider_meaning_or_as_ours() -> None:
    assert printed(0.5, 0.2, "sd", 4).error == pytest.approx(0.1)
    assert printed(0.5, 0.2, "population_sd", 5).error == pytest.approx(0.1)  # sd of the sample: .2·√(5/4)
    assert printed(0.5, 0.2, "sem", 4).error == printed(0.5, 0.2, "unknown", 4).error == 0.2
    assert printed(0.5, 0.2, "sd", None) == Published(0.5, 0.5, 0.2, equivalence.UNSTATED_SEEDS)
    none, small, large = (
        equivalence.ends(estimate(0.5, 0.1), Published(0, 0, error, 5)) for error in (np.nan, 0.01, 0.3)
    )
    assert none == small, "as ours, which is the larger"
    # hypot(.1, .3) with .01 / (.0001 / 4 + .0081 / 4) = 4.878 degrees
    assert float(large[1] - 0.5) == pytest.approx(0.3162278 * 2.588, rel=1e-3)


def test_seeds_that_all_reach_a_bound_are_read_with_one_that_did_not() -> None:
    seeds = equivalence.of_seeds(np.ones(5), 1.0)
    assert seeds.value.tolist() == pytest.approx([1, 5 / 6, 1]) and seeds.error.tolist() == pytest.approx([0, 1 / 6, 0])
    assert equivalence.why_inconclusive(seeds) == (equivalence.SEEDS_ALIKE,)
    assert equivalence.decided(seeds, Published(1.0, 1.0, seeds=5), 0.2) == verdicts.INCONCLUSIVE
    assert equivalence.decided(seeds, Published(0.0, 0.0, 0.0, 5), 0.2) == verdicts.NOT_REPRODUCED
    inside = equivalence.of_seeds(np.array([0.5, 0.6, 0.5, 0.6, 0.5]), 1.0)
    assert np.ptp(inside.value) == 0, "seeds within the range show their spread"


def gaussian(deviation: float) -> Callable[..., Array]:
    return lambda mean, size, rng: rng.normal(mean, deviation, size)


def bernoulli(mean: float, size: tuple[int, int], rng: np.random.Generator) -> Array:
    return np.asarray(rng.random(size) < mean, float)


def beta(strength: float) -> Callable[..., Array]:
    return lambda mean, size, rng: (
        rng.beta(mean * strength, (1 - mean) * strength, size) if 0 < mean < 1 else np.full(size, float(mean))
    )


SCORES = {
    "gaussian .05": gaussian(0.05),
    "gaussian .1": gaussian(0.1),
    "gaussian .3": gaussian(0.3),
    "bernoulli": bernoulli,
    "beta .5": beta(0.5),
    "beta 2": beta(2),
    "beta 10": beta(10),
}


def rates(
    score: Callable[..., Array], mean: float, worse: float, seeds: int, theirs: int, error: str
) -> dict[str, float]:
    """Return verdict -> share of simulated studies that reach it, for a paper of `theirs` seeds with this mean and our
    `seeds` seeds whose mean is lower by `worse`."""
    rng = np.random.default_rng(0)
    paper = score(mean, (STUDIES, theirs), rng)
    ours = equivalence.of_seeds(score(mean - worse, (STUDIES, seeds), rng), 1.0)
    printed_error = paper.std(axis=1, ddof=1) / np.sqrt(theirs) if error == "printed" else np.nan
    value = paper.mean(axis=1).round(2)
    reached = equivalence.decided(
        ours, Published(value, value, printed_error, theirs), statistics.margin_of_rate(value, EPISODES)
    )
    return {verdict: float((reached == verdict).mean()) for verdict in verdicts.TESTED}


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("error", ["printed", "none"])
def test_an_identical_method_is_refuted_and_a_worse_one_reproduced_in_at_most_one_study_of_twenty(
    score: str, error: str
) -> None:
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / STUDIES)
    for seeds in (5, 10):
        for theirs in (3, 5):
            for mean in (1.0, 0.8, 0.5):
                case = (SCORES[score], mean)
                same = rates(*case, 0.0, seeds, theirs, error)
                worse = rates(*case, 0.2, seeds, theirs, error)
                message = f"{seeds} seeds beside {theirs} of {mean}"
                assert same[verdicts.NOT_REPRODUCED] <= allowed, message
                assert worse[verdicts.REPRODUCED] <= allowed, message


def gain(ours: Array, theirs: Array) -> Estimate:
    """Return the gain in percent of the baseline, from scores [studies, seeds], with the delta method's error."""
    seeds = ours.shape[1]
    mean, baseline = ours.mean(axis=1), theirs.mean(axis=1)
    shares = [ours.var(axis=1, ddof=1) / mean**2, theirs.var(axis=1, ddof=1) / baseline**2]
    freedom = sum(shares) ** 2 / sum(share**2 for share in shares) * (seeds - 1)
    error = 100 * mean / baseline * np.sqrt(sum(shares) / seeds)
    return Estimate(100 * (mean / baseline - 1)[None], error[None], freedom[None], seeds)


@pytest.mark.parametrize(("mean", "baseline", "strength"), [(0.3, 0.1, 10), (0.5, 0.2, 4), (0.4, 0.4, 4)])
@pytest.mark.parametrize(("seeds", "theirs"), [(5, 3), (10, 3), (10, 5)])
def test_an_identical_gain_is_refuted_in_at_most_one_study_of_twenty(
    mean: float, baseline: float, strength: float, seeds: int, theirs: int
) -> None:
    """Where baselines are low, the paper's gain is large in many studies and says little about its true size."""
    rng, score = np.random.default_rng(0), beta(strength)
    paper = score(mean, (STUDIES, theirs), rng).mean(axis=1) / score(baseline, (STUDIES, theirs), rng).mean(axis=1)
    value = (100 * (paper - 1)).round(1)
    ours = gain(score(mean, (STUDIES, seeds), rng), score(baseline, (STUDIES, seeds), rng))
    margins = 0.2 * (100 + np.maximum(value, 0.0))
    published = Published(value, value, seeds=theirs, origin=equivalence.origin("gain_percent", ""))
    reached = equivalence.decided(ours, published, margins, directed=False)
    assert float((reached == verdicts.NOT_REPRODUCED).mean()) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / STUDIES)


def test_the_paper_s_spread_of_a_gain_grows_with_its_ratio() -> None:
    """A published gain of 200 % means a ratio of three: the error is 2 sqrt(1 + 9), not 2 sqrt(2)."""
    ours = estimate(0, 2)
    plain, grown = (
        equivalence.ends(ours, Published(200, 200, seeds=5, origin=origin)) for origin in (float("nan"), -100.0)
    )
    assert float(grown[1]) / float(plain[1]) == pytest.approx((10 / 2) ** 0.5)
    below = equivalence.ends(ours, Published(-50, -50, seeds=5, origin=-100.0))
    assert float(below[1]) == pytest.approx(float(plain[1])), "never smaller than ours"
    assert [equivalence.origin(*kind) for kind in (("time_saving_percent", ""), ("success_rate", "relative_gain"))] == [
        100.0,
        -100.0,
    ]
    assert np.isnan(equivalence.origin("success_rate", "difference"))
    certain = equivalence.ends(estimate(-100, 0), Published(200, 200, seeds=5, origin=-100.0))
    assert (float(certain[0]), float(certain[1])) == (-100, -100), "ours never succeeds"


def test_five_seeds_of_a_small_spread_decide_and_three_nothing() -> None:
    same, worse = (rates(SCORES["gaussian .05"], 0.6, by, 5, 5, "none") for by in (0.0, 0.2))
    assert same[verdicts.REPRODUCED] > 0.95 and worse[verdicts.NOT_REPRODUCED] > 0.95
    assert rates(bernoulli, 0.8, 0.0, 3, 5, "none")[verdicts.INCONCLUSIVE] == 1
    assert rates(SCORES["gaussian .05"], 0.8, 0.2, 3, 5, "printed")[verdicts.INCONCLUSIVE] == 1
