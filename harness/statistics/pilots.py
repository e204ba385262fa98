"""What pilots of a baseline say: at which difficulties methods could differ, and how many seeds show a difference.

A pilot is a few runs of the baseline alone, so choosing by it does not choose the answer. A difficulty is in the range
if the baseline lies between .2 and .8 of what is possible, where `expert` can do nearly everything and `random` nearly
nothing. The number of seeds is the smallest with which the exact test finds a difference δ in 80 % of simulated
studies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from guidebench.harness.statistics import permutation
from guidebench.harness.statistics.power import t_test_power
from guidebench.harness.statistics.resampling import Array

RANGE = (0.2, 0.8)
"""Least and greatest position of the baseline."""
EXPERT, RANDOM = 0.9, 0.1
"""Least rate of `expert`, and greatest rate of `random`."""
DELTA = 0.2
"""The difference that a study is to find, as a share of the score's span, or of the way from `random` to `expert`."""
QUANTILE = 0.2
"""Quantile of χ² that makes the deviation of few pilot runs an upper bound."""
STUDIES, POWER, MOST_SEEDS = 2_000, 0.8, 100
FEWEST_SEEDS = 4
"""Fewest seeds a side that any scores could tell apart at 5 %."""
_HALVINGS = 12


@dataclass(frozen=True)
class PilotScores:
    """Scores of the pilot's runs at one difficulty, such that higher is better."""

    baseline: Array
    """Score of each of the baseline's runs, [seeds]."""
    error: float
    """Standard error of one run's score from its episodes alone; NaN where it is not known."""
    expert: float
    """Mean score of `expert`; NaN if the suite has no solver, whose place the greatest possible score takes."""
    random: float
    """Mean score of `random`."""
    bounds: tuple[float, float] | None
    """Least and greatest possible score; None if a bound is not known."""
    is_rate: bool
    """Whether the score is a rate in [0, 1]."""

    @property
    def mean(self) -> float:
        return float(self.baseline.mean())

    @property
    def deviation(self) -> float:
        """Return the deviation between seeds; NaN of one run."""
        return float(self.baseline.std(ddof=1)) if len(self.baseline) > 1 else float("nan")

    @property
    def position(self) -> float:
        """Return a rate as it is, and any other mean as a share of the way from `random` to `expert`."""
        if self.is_rate:
            return self.mean
        way = self.ceiling - self.random
        return (self.mean - self.random) / way if way > 0 else float("nan")

    @property
    def ceiling(self) -> float:
        """Return the score of `expert`, else the greatest possible one; NaN if neither is known."""
        if np.isfinite(self.expert) or self.bounds is None:
            return self.expert
        return self.bounds[1]

    @property
    def delta(self) -> float:
        """Return the difference that a study is to find, in the score's unit."""
        if self.bounds is not None:
            return DELTA * (self.bounds[1] - self.bounds[0])
        return DELTA * (self.ceiling - self.random)

    @property
    def floor(self) -> float:
        """Return the deviation that the episodes of an evaluation alone cause."""
        return self.error if np.isfinite(self.error) else 0.0

    @property
    def why_not(self) -> str:
        """Return why methods could hardly differ at this difficulty, in words; "" if it is in the range."""
        if self.is_rate and self.expert < EXPERT:
            return f"expert reaches {self.expert:.2f}, below {EXPERT}"
        if self.is_rate and self.random > RANDOM:
            return f"random actions reach {self.random:.2f}, above {RANDOM}"
        if not np.isfinite(self.position):
            return "expert is no better than random" if np.isfinite(self.ceiling) else "no expert and no greatest score"
        if self.position < RANGE[0]:
            return f"too hard: the baseline stands at {self.position:.2f}, below {RANGE[0]}"
        return (
            f"too easy: the baseline stands at {self.position:.2f}, above {RANGE[1]}"
            if self.position > RANGE[1]
            else ""
        )


def deviation_bound(pilots: Sequence[PilotScores]) -> float:
    """Return an upper bound of the deviation between seeds: σ_U² = s² df / χ², with the variance s² pooled over the
    difficulties, its degrees of freedom df, and the lower .2 quantile of χ² with df; at least the largest floor.

    NaN if no difficulty has two runs.
    """
    from scipy import stats

    freedom = sum(len(pilot.baseline) - 1 for pilot in pilots)
    if not freedom:
        return float("nan")
    squares = sum(float(((pilot.baseline - pilot.mean) ** 2).sum()) for pilot in pilots)
    bound = float(np.sqrt(squares / stats.chi2.ppf(QUANTILE, freedom)))
    return max(bound, *(pilot.floor for pilot in pilots))


@dataclass(frozen=True)
class Design:
    """The study for which seeds are counted."""

    mean: float
    """Mean score of the baseline."""
    sigma: float
    """Deviation between seeds, of both methods."""
    error: float
    """Standard error of one run's score from its episodes alone."""
    bounds: tuple[float, float] | None
    level: float
    """Error allowed to one claim: α / m with m primary claims, at each look."""

    def power(self, seeds: int, delta: float, studies: int = STUDIES) -> float:
        """Return the share of simulated studies in which the test finds a difference.

        Scores are normal around the baseline's mean and around that mean + δ, or - δ where there is no room above, and
        are cut at the bounds. The test is the exact one of runs and the normal one of episodes; p is the larger.
        """
        if permutation.smallest_p(seeds, seeds) > self.level + permutation.ROUNDING:
            return 0.0
        first, second = (scores[:seeds] for scores in self._scores(delta, studies))
        significant = permutation.p_of_means(first, second) <= self.level + permutation.ROUNDING
        if self.error > 0:
            from scipy import stats

            least = stats.norm.isf(self.level / 2) * self.error * np.sqrt(2 / seeds)
            significant &= np.abs(first.mean(axis=0) - second.mean(axis=0)) >= least
        return float(significant.mean())

    def _scores(self, delta: float, studies: int) -> tuple[Array, Array]:
        """Return the simulated scores of both methods, [seeds, studies] each."""
        low, high = self.bounds or (-np.inf, np.inf)
        shift = delta if self.mean + delta <= high or high - self.mean >= self.mean - low else -delta
        noise = self.sigma * _noise(studies)
        return np.clip(self.mean + shift + noise[0], low, high), np.clip(self.mean + noise[1], low, high)

    def seeds_needed(self, delta: float, studies: int = STUDIES) -> float:
        """Return the smallest number of seeds a side that finds δ in 80 % of studies; infinite above 100.

        Student's t test, which rejects about as often, says where to begin.
        """
        if delta <= 0:
            return float("inf")
        enough = np.flatnonzero(t_test_power(*self._scores(delta, studies), 1 - self.level) >= POWER)
        seeds = max(FEWEST_SEEDS, int(enough[0]) + 1 if len(enough) else MOST_SEEDS)
        while seeds > FEWEST_SEEDS and self.power(seeds - 1, delta, studies) >= POWER:
            seeds -= 1
        while seeds <= MOST_SEEDS and self.power(seeds, delta, studies) < POWER:
            seeds += 1
        return float(seeds) if seeds <= MOST_SEEDS else float("inf")

    def smallest_difference(self, seeds: int, studies: int = STUDIES) -> float:
        """Return the smallest difference that so many seeds find in 80 % of studies; infinite if they find none that
        the bounds allow."""
        room = max(self.bounds[1] - self.mean, self.mean - self.bounds[0]) if self.bounds else np.inf
        high = min(room, 20 * max(self.sigma, self.error))
        if self.power(seeds, high, studies) < POWER:
            return float("inf")
        low = 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(seeds, middle, studies) >= POWER else (middle, high)
        return high


@lru_cache(maxsize=4)
def _noise(studies: int) -> Array:
    """Return standard normal deviates of both sides, [2, seeds, studies]; the same for every design."""
    return np.random.default_rng(0).standard_normal((2, MOST_SEEDS, studies))


@dataclass(frozen=True)
class Candidate:
    """A difficulty in the range, and what a study there needs."""

    name: str
    scores: PilotScores
    seconds: float
    """Seconds on one core that one seed of all rows takes."""
    design: Design
    seeds: float
    """Seeds a side that find `scores.delta`."""

    @property
    def cost(self) -> float:
        """Return the seconds on one core of the whole study."""
        return self.seconds * self.seeds


def candidates(
    pilots: Sequence[tuple[str, PilotScores, float]], level: float, studies: int = STUDIES
) -> list[Candidate]:
    """Return the difficulties in the range, the cheapest study first. `pilots`: name of a difficulty, its scores, and
    the seconds of one seed of all rows; `level`: error allowed to one claim."""
    usable = [pilot for pilot in pilots if not pilot[1].why_not]
    if not usable:
        return []
    sigma = deviation_bound([scores for _, scores, _ in usable])
    ranked = []
    for name, scores, seconds in usable:
        design = Design(scores.mean, max(sigma, scores.floor), scores.floor, scores.bounds, level)
        ranked.append(Candidate(name, scores, seconds, design, design.seeds_needed(scores.delta, studies)))
    return sorted(ranked, key=lambda candidate: (candidate.cost, candidate.seconds))
