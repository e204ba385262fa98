"""RoboFuME's section of a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from guidebench.harness.commands import cli
from guidebench.harness.logs import Log, count
from guidebench.methods.robofume.report import NEGATIVE, POSITIVE, UNANSWERED, of_run
from tests.reports.conftest import Writer, write_rows

NAMES = ("states", "successes", "positives", "false_positives", "false_negatives", "unanswered")
LOG = {"classified": Log("what the success classifier said of an episode", {name: count(name) for name in NAMES})}


def rows(step: int, successes: int, positives: int, negatives: int) -> dict[str, int]:
    """An episode of 40 states."""
    called = successes + positives - negatives
    return {
        "step": step, "states": 40, "successes": successes, "positives": called, "false_positives": positives,
        "false_negatives": negatives, "unanswered": 2,
    }  # fmt: skip


def test_rates_are_shares_of_all_judged_states_of_a_run() -> None:
    found = of_run(pd.DataFrame([rows(40, 0, 3, 0), rows(80, 20, 3, 5)]))
    assert found == {POSITIVE: 6 / 60, NEGATIVE: 5 / 20, UNANSWERED: 4 / 80}
    assert np.isnan(of_run(pd.DataFrame([rows(40, 0, 3, 0)]))[NEGATIVE])


def test_a_rows_rates_are_told_and_drawn_over_training(writer: Writer, tmp_path: Path, capsys) -> None:
    curves = {seed: {150: [0, 0], 300: [seed, 1]} for seed in (0, 1)}
    root = writer.cell("a", curves, method="furl", backend="scripted", model="scripted", declared=LOG)
    for seed in (0, 1):
        write_rows(root / f"seed-{seed}", "classified", [rows(40, 0, 4, 0), rows(280, 20, 2, 5)])
    assert cli.main(["report", str(writer.finish()), "--output", str(tmp_path / "report")]) == 0
    assert "left out" not in capsys.readouterr().out
    assert (tmp_path / "report" / "classifier-grid-8x8.png").is_file()
    page = (tmp_path / "report" / "report.html").read_text()
    assert "The success classifier" in page
    assert "0.10" in page and "0.25" in page  # 6 of 60 and 5 of 20
