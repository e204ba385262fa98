"""Sections of a report for ELLM, FuRL and RoboFuME, of one study written by hand; others are beside their methods."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from guidebench.harness import logs
from guidebench.harness.commands import cli
from guidebench.methods.ellm import Ellm
from tests.methods.ellm.test_report import REACHED, SUGGESTED
from tests.methods.robofume.test_report import rows
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {150: [0, 0], 300: [seed, 1]} for seed in (0, 1)}
CLASSIFIED = ("states", "successes", "positives", "false_positives", "false_negatives", "unanswered")
LOG = {"classified": logs.Log("what the success classifier said", {name: logs.count(name) for name in CLASSIFIED})}
ELLM = logs.together([("guide 'ellm'", Ellm.logs)])


class Report(NamedTuple):
    files: list[str]
    page: str
    summary: dict[str, Any]
    out: str


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    base = tmp_path_factory.mktemp("report")
    writer = Writer(base / "study")
    for name, method, declared in (
        ("a", "ellm_exploration", ELLM), ("b", "furl", None), ("c", "robofume", LOG), ("d", "sac", None)
    ):  # fmt: skip
        model = "" if method == "sac" else "scripted"
        root = writer.cell(name, CURVES, method=method, backend=model, model=model, declared=declared)
        for seed in (0, 1):
            metrics = {"guide/positives": 0.0, "guide/loss": 0.5, "guide/reward": 0.1}
            rows_by_method: dict[str, dict[str, Any]] = {
                "ellm_exploration": {"goals": SUGGESTED[: 3 - seed], "achieved": REACHED[: 3 - seed]},
                "furl": {"metrics": [{"step": s, **metrics, "guide/positives": s * seed} for s in (150, 300)]},
                "robofume": {"classified": [rows(40, 0, 4, 0), rows(280, 20, 2, 5)]},
                "sac": {"metrics": [{"step": 150, "loss": 0.5}]},
            }
            for log, rows_of_log in rows_by_method[method].items():
                write_rows(root / f"seed-{seed}", log, rows_of_log)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(["report", str(writer.finish()), "--output", str(base / "report")]) == 0
    page, summary = ((base / "report" / name).read_text() for name in ("report.html", "summary.json"))
    return Report([path.name for path in Path(base / "report").iterdir()], page, json.loads(summary), out.getvalue())


def test_ellms_shows_what_was_suggested_and_achieved(report: Report) -> None:
    assert "left out" not in report.out and "Suggested goals" in report.page and "drink water" in report.page
    (ellm,) = report.summary["goals"]
    assert ellm["runs"] == 2 and ellm["goals"]["chop tree"] == {"states": 3, "episodes": 3}


def test_furls_draws_what_the_guide_recorded_for_the_rows_that_have_it(report: Report) -> None:
    assert "projections-grid-8x8.png" in report.files
    assert "frames of success (furl · scripted) 150 at the end" in report.page
    assert "frames of success (sac" not in report.page


def test_robofumes_tells_and_draws_a_rows_rates_over_training(report: Report) -> None:
    assert "classifier-grid-8x8.png" in report.files
    _, _, table = report.page.partition("The success classifier")
    assert "0.10" in table and "0.25" in table  # 6 of 60 and 5 of 20
