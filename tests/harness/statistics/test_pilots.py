"""Pilots: the range, the bound of the deviation, the number of seeds, and what choosing by a pilot does to a test."""

from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from guidebench.harness.claims import LEVELS, Claims, ClaimScore
from guidebench.harness.run import pilot as pilot_run
from guidebench.harness.run.pilot import SEEDS, Level, PilotPlan, Recommendation
from guidebench.harness.statistics import Sample
from guidebench.harness.statistics.pilots import POWER, Design, PilotScores, candidates, deviation_bound
from guidebench.harness.statistics.verdicts import ClaimScores, Finding, Pair, Verdict, verdicts

EPISODES = 100
TRUE_MEANS = (0.05, 0.35, 0.5, 0.65, 0.95)
SIGMA = 0.04


def pilot(*scores: float, expert: float = 1.0, random: float = 0.0, is_rate: bool = True) -> PilotScores:
    bounds = (0.0, 1.0) if is_rate else None
    return PilotScores(np.array(scores), 0.05, expert, random, bounds, is_rate)


def test_a_difficulty_is_in_the_range_where_the_baseline_neither_fails_nor_masters_it() -> None:
    assert not pilot(0.3, 0.4, 0.5).why_not and "too hard" in pilot(0.0, 0.1, 0.2).why_not
    assert "too easy" in pilot(0.9, 1.0, 0.8).why_not
    assert "expert reaches 0.70" in pilot(0.5, 0.5, 0.5, expert=0.7).why_not
    assert "random actions reach 0.20" in pilot(0.5, 0.5, 0.5, random=0.2).why_not
    assert not pilot(0.5, 0.5, 0.5, expert=float("nan")).why_not  # a suite without a solver


def test_a_score_that_is_no_rate_counts_from_random_to_expert() -> None:
    returns = pilot(40.0, 50.0, 60.0, expert=90.0, random=10.0, is_rate=False)
    assert returns.position == pytest.approx(0.5) and returns.delta == pytest.approx(0.2 * 80)
    assert not returns.why_not and "no better than random" in replace(returns, expert=10.0).why_not
    without_solver = replace(returns, expert=float("nan"))
    assert without_solver.why_not == "no expert and no greatest score"
    assert replace(without_solver, bounds=(0.0, 90.0)).position == pytest.approx(0.5)


def test_the_bound_of_the_deviation_pools_variances_and_grows_with_their_uncertainty() -> None:
    pilots = [pilot(0.3, 0.4, 0.5), pilot(0.5, 0.6, 0.7)]
    quantile = float(stats.chi2.ppf(0.2, 4))  # two degrees of freedom each
    assert quantile == pytest.approx(1.6488, abs=1e-4)
    assert deviation_bound(pilots) == pytest.approx(np.sqrt(0.04 / quantile))
    assert deviation_bound([pilot(0.5, 0.5, 0.5)]) == 0.05  # not below what episodes alone cause


def test_seeds_needed_are_the_fewest_with_the_stated_power() -> None:
    design = Design(0.4, 0.1, 0.05, (0.0, 1.0), 0.05)
    seeds = int(design.seeds_needed(0.2))
    assert design.power(seeds, 0.2) >= POWER > design.power(seeds - 1, 0.2)
    assert Design(0.4, 0.001, 0.0, (0.0, 1.0), 0.05).seeds_needed(0.2) == 4  # 2 / C(8, 4) = .029
    assert Design(0.4, 0.001, 0.0, (0.0, 1.0), 0.02).seeds_needed(0.2) == 5  # 2 / C(10, 5) = .0079
    assert Design(0.4, 2.0, 0.0, None, 0.05).seeds_needed(0.2) == float("inf")


def test_a_difference_without_room_above_is_sought_below() -> None:
    assert Design(0.9, 0.05, 0.0, (0.0, 1.0), 0.05).power(5, 0.2) > 0.9


def test_the_smallest_difference_of_few_seeds_is_found_by_as_many() -> None:
    design = Design(0.4, 0.2, 0.05, (0.0, 1.0), 0.05)
    delta = design.smallest_difference(5)
    assert design.power(5, delta) >= POWER > design.power(5, delta - 0.01)


def test_the_cheapest_study_comes_first_and_others_are_left_out() -> None:
    pilots = [
        ("dear", pilot(0.4, 0.5, 0.6), 900.0),
        ("cheap", pilot(0.4, 0.5, 0.6), 300.0),
        ("easy", pilot(1, 1, 1), 1.0),
    ]
    assert [candidate.name for candidate in candidates(pilots, 0.05, 200)] == ["cheap", "dear"]
    assert candidates([("easy", pilot(1, 1, 1), 1.0)], 0.05) == []


def runs(mean: float, seeds: int, rng: np.random.Generator) -> Sample:
    """Return synthetic runs: their true rates vary by SIGMA between seeds, and EPISODES episodes estimate each."""
    scores = rng.binomial(EPISODES, np.clip(rng.normal(mean, SIGMA, seeds), 0, 1))[:, None] / EPISODES
    return Sample(scores, scores * (1 - scores) / (EPISODES - 1))


def gap(mean: float, effect: float, seeds: int, rng: np.random.Generator) -> float:
    """Return the difference of the means of two methods' runs."""
    return runs(mean + effect, seeds, rng).value() - runs(mean, seeds, rng).value()


class Piloted(PilotPlan):
    """A pilot whose plans and words, which no score changes, are made once."""

    plan_of = lru_cache(PilotPlan.plan_of)
    row_words = lru_cache(PilotPlan.row_words)


def request() -> Piloted:
    """Return a pilot of a guided method beside a baseline at five difficulties of a suite."""
    names = pilot_run.checked_difficulties("minigrid_doorkey", ())[: len(TRUE_MEANS)]
    assert len(names) == len(TRUE_MEANS)
    score = ClaimScore("late", "success")
    return Piloted("minigrid_doorkey", "uer", ("vlm_rb",), names, ("models=scripted",), (), score, hours=20.0)


def recommendation(piloted: Piloted, rng: np.random.Generator) -> Recommendation | None:
    """Return what a pilot of the baseline recommends; None if no difficulty lies in the range. The later of equally
    dear difficulties takes a little longer."""
    levels = []
    for number, (name, mean) in enumerate(zip(piloted.difficulties, TRUE_MEANS, strict=True)):
        sample = runs(mean, len(SEEDS), rng)
        error = float(np.sqrt(np.mean(sample.variances)))
        scores = PilotScores(sample.scores[:, 0], error, 1.0, 0.0, (0.0, 1.0), True)
        levels.append(Level(name, (f"difficulty={name}",), scores, error, 100.0 + number))
    ranked = candidates([(level.name, level.scores, level.seconds) for level in levels], LEVELS[piloted.looks], 100)
    return pilot_run.recommend(piloted, levels, ranked, workers=2) if ranked else None


def true_mean(piloted: Piloted, chosen: Recommendation) -> float:
    """Return the baseline's true mean at the difficulty that a pilot recommends."""
    return TRUE_MEANS[piloted.difficulties.index(chosen.difficulty)]


def verdict_of(claims: Claims, mean: float, effect: float) -> Verdict:
    """Return the verdict on a study's one claim, whose methods' true means are `effect` apart, on the seeds that follow
    from the claims."""
    first, second = (
        runs(level, claims.n, np.random.default_rng((*claims.seeds, side)))
        for side, level in enumerate((mean + effect, mean))
    )
    (claim,) = claims.claims
    sign = 1 if claim.direction == "higher" else -1
    (verdict,) = verdicts(
        [ClaimScores(Pair(first, second), sign, claim.primary, (-1.0, 1.0))], claims.level, claims.delta
    )
    assert verdict is not None
    return verdict


def findings(is_null: bool, studies: int) -> Counter[Finding]:
    """Return finding -> number of studies: choose by a pilot, then test its claims on fresh seeds. The methods differ
    by the δ of the claims, or not at all if `is_null`."""
    counts: Counter[Finding] = Counter()
    piloted, number = request(), 0
    while counts.total() < studies:
        chosen, number = recommendation(piloted, np.random.default_rng((number, is_null))), number + 1
        if chosen is not None and chosen.claims is not None:
            claims = chosen.claims
            counts[verdict_of(claims, true_mean(piloted, chosen), 0.0 if is_null else claims.delta).finding] += 1
    return counts


def test_choosing_by_the_pilot_keeps_the_error_of_a_true_null() -> None:
    counts = findings(is_null=True, studies=1_000)
    rejections = counts["shown"] + counts["shown, against the direction expected"]
    assert rejections <= 62  # of 1,000 at 5 %, exceeded by chance in 4 % of simulations
    assert rejections + counts["not shown"] + counts["no difference of δ"] == 1_000


def test_choosing_by_the_pilot_finds_the_difference_that_its_claims_state() -> None:
    assert findings(is_null=False, studies=400)["shown"] >= 0.75 * 400


def test_choosing_by_the_largest_difference_of_a_pilot_inflates_it() -> None:
    effect, by_difference, by_baseline = 0.05, [], []
    piloted = request()
    for seed in range(400):
        rng = np.random.default_rng(seed)
        by_difference.append(max(gap(mean, effect, len(SEEDS), rng) for mean in TRUE_MEANS[1:4]))
        chosen = recommendation(piloted, rng)
        if chosen is not None and chosen.claims is not None:
            verdict = verdict_of(chosen.claims, true_mean(piloted, chosen), effect)
            by_baseline.append(float(verdict.contrast.difference.estimate))
    assert np.mean(by_difference) > 1.6 * effect and abs(np.mean(by_baseline) - effect) < 0.015
