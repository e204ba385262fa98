"""The probability that a run of one method scores higher than a run of another."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from guidebench.harness.statistics.resampling import (
    LEVEL,
    REPS,
    Array,
    Interval,
    checked,
    checked_pair,
    chunks,
    draw_resamples,
    ends,
    name_seed,
)


def probability_of_improvement(
    first: Array, second: Array, reps: int = REPS, seed: int = 0, level: float = LEVEL
) -> Interval:
    """Return the mean over tasks of P(run of `first` > run of `second`), ties half; scores [n, tasks] and [m, tasks].

    Agarwal et al. 2021, section 4.3; per task it is the Mann–Whitney statistic U / (n m). Both sides are resampled
    independently. The ends are NaN if a side has one run. Raises ValueError for shapes that do not fit or scores not
    finite.
    """
    first, second = checked_pair(first, second)
    (n, tasks), m = first.shape, len(second)
    once = np.ones((tasks, n, 1), np.uint8), np.ones((tasks, m, 1), np.uint8)
    estimate = _improvement(first, second, *once)[0]
    if min(n, m) < 2:
        return Interval(estimate, np.asarray(np.nan), np.asarray(np.nan))
    ours, theirs = np.random.default_rng(seed).spawn(2)
    values = [
        _improvement(first, second, draw_resamples(n, tasks, size, ours), draw_resamples(m, tasks, size, theirs))
        for size in chunks(reps, (n + m) * tasks)
    ]
    return Interval(estimate, *ends(np.concatenate(values), level))


def improvements(
    scores: Mapping[str, Array], reps: int = REPS, seed: int = 0, level: float = LEVEL
) -> dict[tuple[str, str], Interval]:
    """Return `probability_of_improvement` of the first over the second for every ordered pair of methods.

    A method's draws depend on its name and `seed` only, and serve all its pairs.
    """
    tables = {name: checked(values, "[runs, tasks]") for name, values in scores.items()}
    pairs = {(first, second): checked_pair(tables[first], tables[second]) for first, second in combinations(tables, 2)}
    streams = {name: np.random.default_rng(name_seed(name, seed)) for name in tables}
    values: dict[tuple[str, str], list[Array]] = {pair: [] for pair in pairs}
    for size in chunks(reps, sum(table.size for table in tables.values())):
        counts = {
            name: draw_resamples(len(table), table.shape[1], size, streams[name]) for name, table in tables.items()
        }
        for (first, second), (ours, theirs) in pairs.items():
            values[first, second].append(_improvement(ours, theirs, counts[first], counts[second]))
    by_pair = {}
    for (first, second), (ours, theirs) in pairs.items():
        once = [np.ones((table.shape[1], len(table), 1), np.uint8) for table in (ours, theirs)]
        estimate = _improvement(ours, theirs, *once)[0]
        low = high = np.asarray(np.nan)
        if min(len(ours), len(theirs)) > 1:
            low, high = ends(np.concatenate(values[first, second]), level)
        by_pair[first, second] = Interval(estimate, low, high)
        by_pair[second, first] = Interval(1 - estimate, 1 - high, 1 - low)
    return by_pair


def _improvement(first: Array, second: Array, ours: Array, theirs: Array) -> Array:
    """Map scores [n, tasks], [m, tasks] and counts [tasks, n, reps], [tasks, m, reps] to [reps].

    For each pair of runs the two counts are multiplied, then by 1 if the first wins, by 1/2 if they tie. Such sums are
    exact in single precision up to four million pairs of runs.
    """
    n, tasks = first.shape
    won = (np.sign(first.T[:, :, None] - second.T[:, None]).astype(np.float32) + 1) / 2  # [tasks, n, m]
    total = np.zeros(ours.shape[2])
    for task in range(tasks):
        total += np.einsum("nr,nr->r", ours[task], won[task] @ theirs[task].astype(np.float32))
    return np.asarray(total / (n * len(second) * tasks))
