"""Error rates of the reports' statistics, by simulation: the test, intervals, bold rows and ranks of equal methods.

    python -m benchmarks.error_rates [--studies 20000] [--output docs/error_rates.md]

Every study draws the scores of a few methods that are equal, so any claimed difference is an error. The table is
committed as docs/error_rates.md, and tests check it with fewer studies.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Sample, coverage
from guidebench.harness.statistics.permutation import p_of_means
from guidebench.harness.statistics.resampling import Array, ends, rejects

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
ERROR = 0.05
MEANS_ERROR = 0.08
"""Most error where only the means are equal, which is more than the test is made for."""
RUNS = (3, 5, 10)
ROWS = tuple(range(2, 11))


def _solved(chance: float) -> Draw:
    return lambda rng, shape: (rng.random(shape) < chance).astype(float)


def _either(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.binomial(16, np.where(rng.random(shape) < 0.5, 0.98, 0.02)) / 16


EQUAL: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "a seed solves the task with .5": _solved(0.5),
    "a seed solves the task with .8": _solved(0.8),
    "a seed succeeds in .98 or .02 of 16 episodes": _either,
    "Beta(.5, .5)": lambda rng, shape: rng.beta(0.5, 0.5, shape),
}
"""Name -> function that draws the scores of equal methods in a given shape."""
ONLY_MEANS: dict[str, tuple[Draw, Draw]] = {
    "always .5 beside a seed that solves the task with .5": (lambda _, shape: np.full(shape, 0.5), _solved(0.5)),
    "normal, standard deviations 1 and 3": (EQUAL["normal"], lambda rng, shape: 3 * rng.normal(size=shape)),
}
"""Name -> functions that draw the scores of two methods of equal means."""
EXTREME: dict[str, tuple[Draw, Draw]] = {
    "normal, standard deviations 1 and 5": (EQUAL["normal"], lambda rng, shape: 5 * rng.normal(size=shape)),
}
"""The same, of spreads so different that no bound is stated."""


def rejections(first: Draw, second: Draw, runs: int, studies: int, seed: int = 0) -> int:
    """Return in how many studies the means of two methods with this many runs differ at p < .05."""
    rng = np.random.default_rng(seed)
    scores = first(rng, (runs, studies)), second(rng, (runs, studies))
    return int(np.count_nonzero(rejects(p_of_means(*scores))))


def exceeds(count: int, studies: int, error: float = ERROR) -> float:
    """Return the p value of the exact binomial test that the true rate is at most `error`."""
    from scipy import stats

    return float(stats.binom.sf(count - 1, studies, error))


def bold(kind: str, runs: int, studies: int, rows: Sequence[int] = ROWS, seed: int = 0) -> list[int]:
    """Return, for each number of equal rows, in how many tables some row is bold; smaller tables are the first rows of
    larger ones."""
    scores = EQUAL[kind](np.random.default_rng(seed), (max(rows), runs, studies))
    pairs = list(combinations(range(max(rows)), 2))
    p_of_pairs = np.stack([p_of_means(scores[i], scores[j]) for i, j in pairs])
    wrong = dict.fromkeys(rows, 0)
    for study in np.flatnonzero(rejects(p_of_pairs.min(axis=0))):  # nothing is bold in others
        values = scores[:, :, study].mean(axis=1).tolist()
        p_values = dict(zip(pairs, p_of_pairs[:, study].tolist(), strict=True))
        for number in rows:
            wrong[number] += any(statistics.leading(values[:number], p_values))
    return list(wrong.values())


def left_out(kind: str, others: int, runs: int, studies: int, seed: int = 0) -> int:
    """Return in how many matrices some interval of a method equal to the reference excludes 0.

    The smallest p is tested at ERROR / others, and its interval excludes 0 exactly if that test rejects.
    """
    scores = EQUAL[kind](np.random.default_rng(seed), (1 + others, runs, studies))
    p_of_methods = np.stack([p_of_means(scores[index], scores[0]) for index in range(1, 1 + others)])
    return int(np.count_nonzero(rejects(p_of_methods.min(axis=0) * others)))


def placed_apart(
    rows: int, runs: int, tasks: int, studies: int, seed: int = 0, reps: int = 1_000
) -> tuple[float, float, float]:
    """Return the share of leaderboards of equal rows in which some row ranks below another, by rank and by the
    bootstrap, and in which some interval of a rank misses it.

    By the bootstrap, a row ranks lower if the percentile interval of the difference of scores excludes 0. Equal rows
    share every place, so an interval that is not all places misses one.
    """
    from guidebench.reports.leaderboard import ranking

    rng = np.random.default_rng(seed)
    ours = theirs = missed = 0
    for study in range(studies):
        scores = rng.normal(size=(rows, runs, tasks))
        ranks = ranking.ranks([Sample(row_scores) for row_scores in scores])
        ours += bool((ranks.rank > 1).any())
        missed += bool((ranks.low > 1).any() or (ranks.high < rows).any())
        drawn = np.stack(
            [ranking.resamples(row_scores, f"{study}/{index}", reps) for index, row_scores in enumerate(scores)]
        )
        best = drawn[np.argmax([statistics.iqm(row_scores) for row_scores in scores])]
        theirs += bool((ends(best - drawn)[0] > 0).any())
    return ours / studies, theirs / studies, missed / studies


def _table(heads: Sequence[str], lines: Iterator[Sequence[object]]) -> str:
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [heads, ["---"] * len(heads), *lines])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def report(studies: int) -> str:
    """Return the tables as Markdown."""

    def errors() -> Iterator[Sequence[object]]:
        for kind, draw in EQUAL.items():
            yield [kind, "5 %", *(_percent(rejections(draw, draw, runs, studies) / studies) for runs in RUNS)]
        for kind, (first, second) in ONLY_MEANS.items():
            yield [kind, "8 %", *(_percent(rejections(first, second, runs, studies) / studies) for runs in RUNS)]
        for kind, (first, second) in EXTREME.items():
            yield [kind, "—", *(_percent(rejections(first, second, runs, studies) / studies) for runs in RUNS)]

    def bolds() -> Iterator[Sequence[object]]:
        for kind in EQUAL:
            yield [kind, *(_percent(count / studies) for count in bold(kind, 5, studies))]

    def intervals() -> Iterator[Sequence[object]]:
        for kind in EQUAL:
            yield [kind, *(_percent(left_out(kind, 4, runs, studies) / studies) for runs in RUNS)]

    def boards() -> Iterator[Sequence[object]]:
        for rows, runs, tasks in ((2, 3, 1), (2, 5, 1), (2, 10, 1), (2, 3, 5), (10, 3, 1), (10, 5, 1), (10, 10, 1)):
            rates = placed_apart(rows, runs, tasks, max(1, studies // (10 if rows == 2 else 50)))
            yield [rows, f"{runs}, {tasks}", *map(_percent, rates)]

    def covered() -> Iterator[Sequence[object]]:
        for runs in coverage.NORMAL:
            yield [runs, _percent(coverage.simulated(runs, studies)), _percent(coverage.solved(runs))]

    seeds = [f"{runs} seeds" for runs in RUNS]
    parts = [
        "# Error rates",
        f"Written by `python -m benchmarks.error_rates`, from {studies:,} simulated studies a number "
        f"({studies // 10:,} for leaderboards of two rows, {studies // 50:,} of ten). All methods of a study are "
        "equal, so every difference that is claimed is an error. Tests repeat the first two tables with fewer studies.",
        "## Two methods, p < .05",
        "The permutation test is exact where the two distributions are equal: an error of at most 5 %. Where only the "
        "means are, as beside a method without any spread, it is at most 8 % as long as one standard deviation is at "
        "most three times the other; five seeds of five times the spread are above that.",
        _table(["scores of a seed", "at most", *seeds], errors()),
        "## Tables of equal rows in which some row is bold",
        "Five seeds a row; with three none ever is.",
        _table(["scores of a seed", *(f"{rows} rows" for rows in ROWS)], bolds()),
        "## Four methods equal to the reference, of which some interval at Holm's level leaves out 0",
        _table(["scores of a seed", *seeds], intervals()),
        "## Leaderboards of equal rows",
        "Scores are normal. Ranks are tested one pair at a time; their intervals hold for all pairs together.",
        _table(
            [
                "rows",
                "seeds, tasks",
                "some row ranks below another",
                "the same by the bootstrap's interval",
                "some rank's interval misses a place",
            ],
            boards(),
        ),
        "## Coverage of a row's own 95 % bootstrap interval",
        _table(["seeds", "normal scores", "a seed solves the task with .8"], covered()),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=20_000, help="simulated studies per number (%(default)s)")
    parser.add_argument("--output", metavar="FILE", help="where to write the tables (default: the terminal)")
    args = parser.parse_args()
    text = report(args.studies)
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
