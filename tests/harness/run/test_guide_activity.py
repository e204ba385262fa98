"""What a pilot prints of a guided method's run: its metrics of guidance and its entropy, and no score."""

import math
from pathlib import Path

import pandas as pd
import pytest

from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.run import guide_activity


def cell_of(*words: str) -> Cell:
    return matrix.plan([*words, "profile=quick"]).cells[0]


def logged(path: Path, **metrics: list[float]) -> RunDirectory:
    """Return a run that has logged these metrics alone."""
    run = StudyDirectory(path).run("suite/task/method-cell", 0)
    run.path.mkdir(parents=True)
    pd.DataFrame({name.replace("_of_", "/"): column for name, column in metrics.items()}).to_parquet(
        run.path / "metrics.parquet"
    )
    return run


def test_metrics_of_guidance_are_printed_with_mean_and_last_and_the_entropy_with_its_maximum(tmp_path: Path) -> None:
    cell = cell_of("suite=housekeep", "method=linvit", "prior=scripted")
    run = logged(tmp_path, prior_of_moved=[0.5, 0.1], entropy=[1.5, 0.25], loss=[7.0, 7.0])
    most = math.log(cell.section("suite").spaces(cell.names.task)[1].count)
    assert guide_activity.describe(cell, run) == [
        "Share of the policy's probability that the prior moves: mean 0.3, last 0.1 (prior/moved)",
        f"Entropy of the policy: 0.25 nats at the end, of {most:.2f} for uniform actions",
    ]


def test_the_maximum_of_continuous_actions_is_that_of_their_box(tmp_path: Path) -> None:
    """Four numbers in [-1, 1]: 4 ln 2."""
    cell = cell_of("suite=metaworld_pbrl", "task=button-press", "method=sac")
    lines = guide_activity.describe(cell, logged(tmp_path, entropy=[-1.0]))
    assert lines == ["Entropy of the policy: -1.00 nats at the end, of 2.77 for uniform actions"]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("suite=crafter_ood", "task=wood_sword", "method=model_as_agent"), "Nothing is learnt"),
        (("suite=classic", "task=CartPole-v1", "method=uer"), "The run logs nothing of a guide"),
    ],
)
def test_a_method_that_learns_nothing_and_one_without_a_guide_are_said(
    words: tuple[str, ...], first: str, tmp_path: Path
) -> None:
    (line,) = guide_activity.describe(cell_of(*words), logged(tmp_path, loss=[0.0]))
    assert line.startswith(first)
