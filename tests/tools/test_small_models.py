"""The table of how models answered follows from what the measured studies recorded."""

from pathlib import Path

import pandas as pd
import pytest

from guidebench import results
from tools.small_models import label_score, rows

HOME = Path(results.__file__).parent / "measured"
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.parametrize(
    ("preference", "truth", "score"),
    [
        ([1, 0], [1.0, 0.0], 1),  # both agree
        ([1, 1], [1.0, 0.0], 0.5),
        ([None, 0.5], [1.0, 0.0], 0.5),  # no label, and an undecided one
        ([0, 0], [1.0, 0.5], 0.25),  # wrong, and no label could be right
    ],
)
def test_a_missing_label_counts_as_a_guess(preference: list[float | None], truth: list[float], score: float) -> None:
    assert label_score(pd.DataFrame({"preference": preference, "truth": truth}, dtype=float)) == score


@pytest.mark.parametrize("name", ["housekeep_real", "pbrl_labels_real"])
def test_the_page_of_models_has_the_rows_of_the_study(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row in rows(results.study(HOME / name)):
        assert f"| {' | '.join(row)} |" in text
