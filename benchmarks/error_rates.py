"""Error rates of the reports' statistics, by simulation: coverage of intervals, marks and ranks of equal methods.

    python -m benchmarks.error_rates [--studies 20000]

Every study draws the scores of a few methods from one distribution, so any claimed difference is an error.
docs/reports.md and docs/leaderboard.md state these numbers, and tests check them with fewer studies.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import combinations

import numpy as np

from guidebench.reports import statistics
from guidebench.reports.statistics import Spread, coverage
from guidebench.reports.statistics.resampling import Array, ends

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
ERROR = 0.05
ROUNDING = 1e-12

KINDS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "16 episodes, success .8": lambda rng, shape: rng.binomial(16, 0.8, shape) / 16,
    "a seed solves the task with .8": lambda rng, shape: (rng.random(shape) < 0.8).astype(float),
    "a seed succeeds in .98 or .02 of 16 episodes": lambda rng, shape: (
        rng.binomial(16, np.where(rng.random(shape) < 0.5, 0.98, 0.02)) / 16
    ),
}
"""Name -> function that draws scores of a given shape"""
HELD = ("normal", "16 episodes, success .8")
"""Distributions for which the tests state an error of 5 %."""


def p_values(first: Array, second: Array, paired: bool) -> Array:
    """Return `statistics.t_test` for many studies at once: scores [n, studies] and [m, studies] of one task -> p
    [studies]."""
    from scipy import stats

    gap = np.abs(first.mean(axis=0) - second.mean(axis=0))
    n, m = len(first), len(second)
    if paired:
        own = _spread(first - second)
        errors = [(np.sqrt(own.variance / n), own.freedom)]
        least = statistics.least(n, 0)
    else:
        errors = statistics.welch(_spread(first), _spread(second))
        least = statistics.least(n, m)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.stack([2 * stats.t.sf(gap / error, freedom) for error, freedom in errors])
    still = np.where(gap > ROUNDING, least, 1.0)
    return np.where(errors[-1][0] > 0, found.max(axis=0, where=~np.isnan(found), initial=0.0), still)


def _spread(scores: Array) -> Spread:
    variance = np.var(scores, axis=0, ddof=1)
    variance[np.sqrt(variance) <= ROUNDING] = 0.0
    return Spread(variance, np.asarray(len(scores)), np.asarray(len(scores) - 1.0))


def unmarked(kind: str, methods: int, runs: int, paired: bool, studies: int, seed: int = 0) -> float:
    """Return the share of tables of equal methods in which some row is not marked as best or tied with the best."""
    scores = KINDS[kind](np.random.default_rng(seed), (methods, runs, studies))
    pairs = list(combinations(range(methods), 2))
    found = np.stack([p_values(scores[i], scores[j], paired) for i, j in pairs])
    wrong = 0
    for study in np.flatnonzero(found.min(axis=0) * len(pairs) < ERROR):  # others claim nothing
        values = scores[:, :, study].mean(axis=1).tolist()
        wrong += not all(statistics.leading(values, dict(zip(pairs, found[:, study].tolist(), strict=True))))
    return wrong / studies


def left_out(kind: str, others: int, runs: int, paired: bool, studies: int, seed: int = 0) -> float:
    """Return the share of matrices in which some interval of a method equal to the reference excludes 0.

    The smallest p is tested at ERROR / others, and its interval excludes 0 exactly if that test rejects.
    """
    scores = KINDS[kind](np.random.default_rng(seed), (1 + others, runs, studies))
    found = np.stack([p_values(scores[index], scores[0], paired) for index in range(1, 1 + others)])
    return float(np.mean(found.min(axis=0) * others < ERROR))


def placed_apart(
    rows: int, runs: int, tasks: int, studies: int, seed: int = 0, reps: int = 1_000
) -> tuple[float, float]:
    """Return the share of leaderboards of equal rows in which some row ranks below another, by rank and by the
    bootstrap.

    By the bootstrap, a row ranks lower if the percentile interval of the difference of scores excludes 0.
    """
    from guidebench.reports.leaderboard import ranking

    rng = np.random.default_rng(seed)
    ours = theirs = 0
    for study in range(studies):
        scores = rng.normal(size=(rows, runs, tasks))
        names = [f"{study}/{index}" for index in range(rows)]
        scored = [ranking.scored(own, name, reps) for own, name in zip(scores, names, strict=True)]
        ours += bool((ranking.ranks(scored).rank > 1).any())
        drawn = np.stack([ranking.resamples(own, name, reps) for own, name in zip(scores, names, strict=True)])
        best = drawn[np.argmax([each.score.estimate for each in scored])]
        theirs += bool((ends(best - drawn)[0] > 0).any())
    return ours / studies, theirs / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--studies", type=int, default=20_000, help="simulated studies per number (%(default)s; leaderboards: a tenth)"
    )
    studies = parser.parse_args().studies
    print("coverage of the 95 % bootstrap interval of a mean: normal scores; a seed solves the task with .8")
    for runs in coverage.NORMAL:
        print(f"  {runs:2} seeds  {coverage.simulated(runs, studies):.3f}  {coverage.solved(runs):.3f}")
    for kind in KINDS:
        print(f"{kind}: tables of equal methods in which some row is not marked; paired, not paired")
        for runs in (3, 5, 10):
            for methods in (2, 3, 4, 5, 6):
                found = [unmarked(kind, methods, runs, paired, studies) for paired in (True, False)]
                print(f"  {runs:2} seeds, {methods} methods  {found[0]:.3f}  {found[1]:.3f}")
        print(f"{kind}: four methods equal to the reference, of which some interval leaves out 0; paired, not paired")
        for runs in (3, 5, 10):
            found = [left_out(kind, 4, runs, paired, studies) for paired in (True, False)]
            print(f"  {runs:2} seeds  {found[0]:.3f}  {found[1]:.3f}")
    print("10 seeds beside 3 equal ones, standard deviations 1 and 5: p < .05 (the pooled t test: a third)")
    rng = np.random.default_rng(0)
    found = p_values(rng.normal(size=(10, studies)), 5 * rng.normal(size=(3, studies)), False)
    print(f"  {np.mean(found < ERROR):.3f}")
    print("leaderboards of equal rows on which some row stands below another: by rank; by the percentile bootstrap")
    for rows, runs, tasks in ((2, 3, 1), (2, 5, 1), (2, 10, 1), (2, 3, 5), (10, 3, 1), (10, 5, 1), (10, 10, 1)):
        both = placed_apart(rows, runs, tasks, max(1, studies // 10))
        print(f"  {rows:2} rows, {runs:2} seeds, {tasks} tasks  {both[0]:.3f}  {both[1]:.3f}")


if __name__ == "__main__":
    main()
