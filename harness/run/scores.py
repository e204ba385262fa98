"""Scores of finished runs of the study that this command trains, for the claims that speak of them.

Reports read studies of anybody, within limits and in a process apart (`results`). This module reads what the command's
own workers have just written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.claims import ClaimScore
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.records.study import EVALUATIONS, RunDirectory
from guidebench.harness.scores import Score
from guidebench.harness.statistics import Array, evaluation_weights


class RunScore(NamedTuple):
    """The score of one run that a claim speaks of."""

    score: float
    variance: float
    """Its variance as a mean of episodes; NaN if an evaluation has one episode."""
    share: float
    """The variance of an episode counts by this share: Σ w² / episodes over the evaluations with weights w."""
    seconds: float
    """Seconds that the run took, evaluations included."""


def run_score(run: RunDirectory, score: ClaimScore, task_score: Score) -> RunScore:
    """Return a score of a finished run. Raise UserError if its evaluations lack the quantity.

    The number of an evaluation is the mean over its episodes, and `evaluation_weights` joins the evaluations.
    """
    steps, means, variances, episodes = _curve(run, score.quantity, task_score)
    weights = evaluation_weights(score.timing, steps)
    counted = weights > 0
    squares = weights[counted] ** 2
    share = float((squares / episodes[counted]).sum())
    return RunScore(float(weights @ means), float(squares @ variances[counted]), share, seconds(run))


def sign(score: ClaimScore, task_score: Score) -> int:
    """Return 1 if higher values of a score are better, else -1."""
    return task_score.sign if score.quantity in ("score", task_score.name) else 1


def seconds(run: RunDirectory) -> float:
    """Return the seconds of a run by its last `timings`, which include evaluations and waits, divided by the seeds that
    its worker trained together; 0 without them."""
    if not (run.path / "timings.parquet").exists():
        return 0.0
    table = _columns(run, "timings.parquet", ["seconds", "seeds"])
    return float(table["seconds"][-1] / table["seeds"][-1]) if len(table["seconds"]) else 0.0


def _curve(run: RunDirectory, quantity: str, task_score: Score) -> tuple[Array, Array, Array, Array]:
    """Return the steps of a run's evaluations, the mean over each one's episodes, that mean's variance, and the number
    of episodes."""
    if quantity in ("score", task_score.name):
        quantity = "score" if task_score.recorded else task_score.name
    if quantity in ("score", "success", "return"):
        table = _columns(run, EVALUATIONS, ["step", quantity])
        steps, episodes = table["step"], table[quantity].astype(float)
    else:
        table = _columns(run, "outcomes.parquet", ["step", "outcome", "value"])
        chosen = table["outcome"] == quantity
        if not chosen.any():
            raise unknown("score of an evaluation", quantity, ("score", "success", "return", *_outcomes(run)))
        steps, episodes = table["step"][chosen], table["value"][chosen].astype(float)
    evaluations, places = np.unique(steps, return_inverse=True)
    groups = [episodes[places == number] for number in range(len(evaluations))]
    means = np.array([group.mean() for group in groups])
    variances = np.array([group.var(ddof=1) / len(group) if len(group) > 1 else np.nan for group in groups])
    return evaluations, means, variances, np.array([len(group) for group in groups])


def _outcomes(run: RunDirectory) -> list[str]:
    """Return the names of the outcomes that a run's evaluations counted."""
    if not (run.path / "outcomes.parquet").exists():
        return []
    return sorted(set(_columns(run, "outcomes.parquet", ["outcome"])["outcome"].tolist()))


def _columns(run: RunDirectory, name: str, columns: list[str]) -> dict[str, Array]:
    """Return columns of a run's Parquet file as arrays; all for an empty list. Raise UserError if one is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run.path / name
    try:
        table = pq.read_table(path, columns=columns or None)
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); delete the run's directory and type the command again"
        ) from None
    if lacking := [column for column in columns if column not in table.column_names]:
        raise UserError(f"{path} has no column {lacking[0]!r}; a claim on it needs a task that logs it")
    return {column: table[column].to_numpy() for column in table.column_names}
