"""ELLM's section of a report, against numbers worked by hand."""

from typing import Any

import pandas as pd
import pytest

from guidebench.methods.ellm import report


def suggestion_row(
    step: int, goals: str, proposed: int, unknown: int = 0, senseless: int = 0, **more: Any
) -> dict[str, Any]:
    count = len(goals.split(", ")) if goals else 0
    return {
        "step": step, "state": f"you see {step}.", "goals": goals, "kept": count, "proposed": proposed,
        "unknown": unknown, "senseless": senseless, "cut": proposed - unknown - count, "failed": False, **more,
    }  # fmt: skip


def achievement_row(episode: int, goals: str) -> dict[str, Any]:
    count = len(goals.split(", ")) if goals else 0
    return {
        "step": 100 * (episode + 1), "episode": episode, "goals": goals, "count": count, "reward": float(count),
        "length": 100,
    }  # fmt: skip


SUGGESTED = [
    suggestion_row(5, "chop tree, eat cow", 4, unknown=1, senseless=1),
    suggestion_row(9, "", 0, failed=True),
    suggestion_row(80, "chop tree, eat tree, drink water", 4, senseless=1),
]
REACHED = [achievement_row(0, "chop tree"), achievement_row(1, ""), achievement_row(2, "eat cow, chop tree")]


def test_the_numbers_of_a_run() -> None:
    numbers = report.of_run(pd.DataFrame(SUGGESTED), pd.DataFrame(REACHED), 300)
    assert numbers == pytest.approx({
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
