"""Ranks of methods among each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.statistics.resampling import REPS, Array, checked, chunks, name_seed

if TYPE_CHECKING:
    import pandas as pd


def ranks(scores: Mapping[str, Array], reps: int = REPS, seed: int = 0) -> pd.DataFrame:
    """Return the probability that a run of each method takes each rank on a task, averaged over tasks; rank 1 is best.

    `scores`: method -> [runs, tasks], the same tasks for all; numbers of runs may differ. Each of `reps` draws takes,
    for every task, one run of each method (Agarwal et al. 2021, section 5); tied methods share their ranks equally.
    Columns: method, rank, probability; over ranks, and over methods, probabilities add up to 1. Raises ValueError for
    shapes that do not fit or scores that are not finite.
    """
    import pandas as pd

    tables = {name: checked(values, "[runs, tasks]") for name, values in scores.items()}
    shapes = {name: values.shape for name, values in tables.items()}
    if len({tasks for _, tasks in shapes.values()}) != 1:
        raise ValueError(f"scores have shapes {shapes}; expected methods with the same tasks (axis 1)")
    methods = len(tables)
    places = np.arange(methods)
    before, tied = places[:, None, None], places[:, None] + 1
    share = ((places >= before) & (places < before + tied)) / tied  # tied methods share ranks
    chances = np.zeros((methods, methods))
    streams = [np.random.default_rng(name_seed(name, seed)) for name in tables]
    for size in chunks(reps, sum(values.size for values in tables.values())):
        draws = np.stack(
            [
                np.take_along_axis(values, stream.integers(0, len(values), size=(size, values.shape[1])), axis=0)
                for values, stream in zip(tables.values(), streams, strict=True)
            ]
        ).reshape(methods, -1)  # [methods, draws × tasks]
        for method, drawn in enumerate(draws):
            above, level = (draws > drawn).sum(axis=0), (draws == drawn).sum(axis=0)
            cases = np.bincount(above * methods + level - 1, minlength=methods**2)
            chances[method] += cases @ share.reshape(-1, methods)
    chances /= reps * next(iter(shapes.values()))[1]
    rows = [
        (name, int(place) + 1, chance)
        for name, row in zip(tables, chances, strict=True)
        for place, chance in zip(places, row, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "rank", "probability"])
