"""Numbers that each run has of its own beside its curves: what teachers said, what models cost, from the runs' logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import results
from reports import ledger, preferences, rewards
from reports.statistics import Array
from reports.summary import Row
from results import Study
from results.rows import What

if TYPE_CHECKING:
    import pandas as pd

OfRuns = Callable[["pd.DataFrame"], Mapping[int, float]]
"""The rows of one cell -> the number of each seed that has it."""


class Measure(NamedTuple):
    """A number of a run, from one of its logs."""

    log: What
    of_runs: OfRuns


def _said(name: str, times: float = 1.0) -> OfRuns:
    def of_runs(rows: pd.DataFrame) -> dict[int, float]:
        runs: Iterable[tuple[Any, pd.DataFrame]] = rows.groupby("seed")
        told = {int(seed): preferences.of_run(run).get(name, np.nan) for seed, run in runs}
        return {seed: times * value for seed, value in told.items()}

    return of_runs


def _spent(name: str) -> OfRuns:
    def of_runs(rows: pd.DataFrame) -> dict[int, float]:
        last = rows.sort_values("step").groupby("seed").tail(1)
        return {int(seed): float(value) for seed, value in zip(last["seed"], last[name], strict=True)}

    return of_runs


def _on_unseen_pairs(rows: pd.DataFrame) -> dict[int, float]:
    return {seed: 100 * value for seed, value in rewards.accuracy_of_runs(rows).items()}


OFFLINE = "offline"
"""Starts the name of a metric that a paper takes on data apart from training."""
MEASURES: Mapping[str, Measure] = {
    "label_accuracy_percent": Measure("labels", _said(preferences.ACCURACY, 100)),
    "discard_percent": Measure("labels", _said(f"outcome/{preferences.DISCARDED}", 100)),
    "equal_percent": Measure("labels", _said(f"outcome/{preferences.EQUAL}", 100)),
    "segment_reward": Measure("labels", _said(f"reward/{preferences.IMAGINED}")),
    f"{OFFLINE}_label_accuracy_percent": Measure("probes", _on_unseen_pairs),
    "input_tokens": Measure("ledger", _spent("tokens_in")),
    "output_tokens": Measure("ledger", _spent("tokens_out")),
    "dollars": Measure("ledger", _spent("usd")),
}
"""What a published metric's name means in terms of our logs."""


class Measured:
    """The measures of rows; a log is read once a study."""

    def __init__(self, study_of: Callable[[Row], Study]) -> None:
        self._study_of = study_of
        self._logs: dict[tuple[int, What], pd.DataFrame] = {}
        self._known: dict[tuple[int, str], Array] = {}

    def __call__(self, row: Row, metric: str) -> Array:
        """One number per seed of the row, NaN where its run has none, as what hand-written code would have cost."""
        key = (id(row), metric)
        if key not in self._known:
            measure, study = MEASURES[metric], self._study_of(row)
            rows = self._logs.get((id(study), measure.log))
            if rows is None:
                rows = self._logs[id(study), measure.log] = results.load(study, what=measure.log)
            mine = rows[rows["cell"] == row.cell.id]
            free = measure.log == "ledger" and not ledger.is_billed(row.cell)
            told = measure.of_runs(mine) if len(mine) and not free else {}
            self._known[key] = np.array([told.get(seed, np.nan) for seed in row.seeds], float)
        return self._known[key]
