"""Scores of a finished run: which evaluations count, by which weights, and which quantities there are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from guidebench.harness.claims import claim_score
from guidebench.harness.errors import UserError
from guidebench.harness.records.study import RunDirectory
from guidebench.harness.run import scores
from guidebench.harness.scores import SUCCESS, Score

STEPS = (100, 200, 400, 500)
SUCCESSES = ((0, 0), (0, 1), (1, 1), (1, 0))
"""Two episodes at each step: rates 0, .5, 1, .5."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    rows = [
        {"step": step, "episode": episode, "success": bool(success), "return": 10.0 * success, "score": 2.0 * step}
        for step, successes in zip(STEPS, SUCCESSES, strict=True)
        for episode, success in enumerate(successes)
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "evaluations.parquet")
    outcomes = [{"step": row["step"], "episode": row["episode"], "outcome": "placed", "value": 0.25} for row in rows]
    pd.DataFrame(outcomes).to_parquet(tmp_path / "outcomes.parquet")
    times = {"step": STEPS, "seeds": 2, "seconds": (1.0, 2.0, 3.0, 4.0), "evaluation_seconds": (0.5, 0.6, 0.7, 0.8)}
    pd.DataFrame(times).to_parquet(tmp_path / "timings.parquet")
    return RunDirectory(tmp_path)


def test_area_final_and_late_weigh_the_evaluations(run: RunDirectory) -> None:
    area = (100 * 0.25 + 200 * 0.75 + 100 * 0.75) / 400
    assert scores.run_score(run, claim_score("area success"), SUCCESS).score == pytest.approx(area)
    assert scores.run_score(run, claim_score("final success"), SUCCESS).score == 0.5
    assert scores.run_score(run, claim_score("late success"), SUCCESS).score == pytest.approx(2 / 3)


def test_the_variance_is_that_of_the_weighted_means_of_episodes(run: RunDirectory) -> None:
    of_mean = np.var((0, 1), ddof=1) / 2  # at steps 200 and 500; the others do not vary
    late = scores.run_score(run, claim_score("late success"), SUCCESS)
    assert late.variance == pytest.approx(2 * of_mean / 9) and late.share == pytest.approx(3 * (1 / 9) / 2)
    assert late.seconds == 2.0  # of a worker that trained two seeds


def test_quantities_are_the_score_returns_and_outcomes(run: RunDirectory) -> None:
    assert scores.run_score(run, claim_score("final return"), SUCCESS).score == 5.0
    assert scores.run_score(run, claim_score("final score"), Score("distance")).score == 1_000.0
    assert scores.run_score(run, claim_score("final score"), Score("return")).score == 5.0
    assert scores.run_score(run, claim_score("late placed"), SUCCESS).score == 0.25
    with pytest.raises(UserError, match=r"broken.*placed"):
        scores.run_score(run, claim_score("late broken"), SUCCESS)
