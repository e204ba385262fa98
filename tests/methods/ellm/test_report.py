"""ELLM's section of a report, against numbers worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from guidebench.harness import logs
from guidebench.harness.commands import cli
from guidebench.methods.ellm import Ellm, report
from tests.reports.conftest import Writer, write_rows

DECLARED = logs.together([("guide 'ellm'", Ellm.logs)])
CURVES = {seed: {150: [0, 0], 300: [seed, 1]} for seed in (0, 1)}


def told(step: int, goals: str, proposed: int, unknown: int = 0, senseless: int = 0, **more: Any) -> dict[str, Any]:
    kept = len(goals.split(", ")) if goals else 0
    return {
        "step": step, "state": f"you see {step}.", "goals": goals, "kept": kept, "proposed": proposed,
        "unknown": unknown, "senseless": senseless, "cut": proposed - unknown - kept, "failed": False, **more,
    }  # fmt: skip


def reached(episode: int, goals: str) -> dict[str, Any]:
    count = len(goals.split(", ")) if goals else 0
    return {
        "step": 100 * (episode + 1), "episode": episode, "goals": goals, "count": count, "reward": float(count),
        "length": 100,
    }  # fmt: skip


SUGGESTED = [
    told(5, "chop tree, eat cow", 4, unknown=1, senseless=1),
    told(9, "", 0, failed=True),
    told(80, "chop tree, eat tree, drink water", 4, senseless=1),
]
REACHED = [reached(0, "chop tree"), reached(1, ""), reached(2, "eat cow, chop tree")]


def test_the_numbers_of_a_run() -> None:
    found = report.of_run(pd.DataFrame(SUGGESTED), pd.DataFrame(REACHED), 300)
    assert found == pytest.approx({
        "questions per million steps": 1e6 * 3 / 300, "failed": 1 / 3, "goals per state": 5 / 3,
        "unknown goals": 1 / 8, "senseless goals": 2 / 8, "achieved per episode": 1.0, "distinct achieved": 2.0,
        "suggested goals achieved": 2 / 4,
    })  # fmt: skip
    assert report.counts(pd.DataFrame(SUGGESTED), pd.DataFrame(REACHED)) == {
        "chop tree": (2, 2), "eat cow": (1, 1), "drink water": (1, 0), "eat tree": (1, 0)
    }  # fmt: skip
    nothing = report.of_run(pd.DataFrame(SUGGESTED[1:2]), pd.DataFrame(REACHED).iloc[:0], 300)
    assert nothing["failed"] == 1.0 and nothing["distinct achieved"] == 0.0
    assert {name for name, value in nothing.items() if value != value} == {
        "unknown goals", "senseless goals", "achieved per episode", "suggested goals achieved"
    }  # fmt: skip


def test_a_report_shows_what_was_suggested_and_achieved(writer: Writer, tmp_path: Path, capsys: Any) -> None:
    root = writer.cell("a", CURVES, method="ellm_exploration", backend="scripted", model="scripted", declared=DECLARED)
    for seed in (0, 1):
        write_rows(root / f"seed-{seed}", "goals", SUGGESTED[: 3 - seed])
        write_rows(root / f"seed-{seed}", "achieved", REACHED[: 3 - seed])
    writer.cell("b", CURVES, method="sac")
    assert cli.main(["report", str(writer.finish()), "--output", str(tmp_path / "report")]) == 0
    assert "left out" not in capsys.readouterr().out
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Suggested goals" in page and "drink water" in page
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    (mine,) = summary["goals"]
    assert mine["runs"] == 2 and mine["goals"]["chop tree"] == {"states": 3, "episodes": 3}
