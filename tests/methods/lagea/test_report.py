"""LaGEA's sections of a report, against numbers worked by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from guidebench import results
from guidebench.harness import logs
from guidebench.methods.lagea import Lagea, report
from guidebench.reports.sections import Source
from guidebench.reports.summary import summaries
from tests.reports.conftest import Writer, write_rows

DECLARED = logs.together([("guide 'lagea'", Lagea.logs)])
CURVES = {seed: {150: [0, 0], 300: [seed, 1]} for seed in (0, 1)}


def feedback_row(
    episode: int, outcome: str, succeeded: bool, code: str = "failed_grasp", **more: Any
) -> dict[str, Any]:
    texts = dict.fromkeys(("explanation", "secondary", "frames", "fix", "summary"), "x")
    return {
        **{"step": 100 * (episode + 1), "episode": episode, "succeeded": succeeded, "outcome": outcome, "code": code},
        **{**texts, "confidence": 0.5, "retries": 0, "empty": False, **more},
    }


EMPTY = {"outcome": "", "code": "", "empty": True, "retries": 3}
FIRST = [
    feedback_row(0, "failure", False),
    feedback_row(1, "success", False, "good_contact"),
    {**feedback_row(2, "", False), **EMPTY},
]
SECOND = [
    feedback_row(0, "failure", False),
    feedback_row(1, "failure", False),
    feedback_row(2, "success", True, "good_contact", retries=3),
]


def shaping_row(episode: int, frame: int, goal: float, success: bool = False) -> dict[str, Any]:
    return {
        **{"step": 100 * (episode + 1), "episode": episode, "frame": frame, "success": success, "goal": goal},
        **{"feedback": 2 * goal, "share": 0.5, "fused": 1.5 * goal},
    }


SHAPING = [shaping_row(0, frame, 0.1 * frame) for frame in (1, 2, 3)] + [
    shaping_row(10, 1, 0.5),
    shaping_row(10, 2, 0.25, True),
]
METRICS = [
    {"step": step, "guide/rho": 0.1, "guide/alpha": 0.3, "guide/progress": 0.2, "guide/positives": 5.0,
     "guide/loss": 0.4, "guide/reward": 0.01, "guide/bce": 0.5, "guide/nce": 0.6, "guide/contrast": 0.7,
     "guide/failure_cosine": -0.25, **({"guide/success_cosine": 0.5} if step == 300 else {})}
    for step in (150, 300)
]  # fmt: skip


@pytest.fixture
def study(writer: Writer) -> Path:
    """Two seeds of LaGEA beside one of SAC."""
    root = writer.cell("a", CURVES, method="lagea", backend="scripted", model="scripted", declared=DECLARED)
    for seed, rows in enumerate((FIRST, SECOND)):
        write_rows(root / f"seed-{seed}", "feedback", rows)
        write_rows(root / f"seed-{seed}", "shaping", SHAPING)
        write_rows(root / f"seed-{seed}", "metrics", METRICS)
        keyframes = [{"step": 100, "episode": 0, "frame": f, "weight": 1.0 + f, "similarity": 0.5} for f in (0, 4)]
        write_rows(root / f"seed-{seed}", "keyframes", keyframes)
    writer.cell("b", CURVES, method="sac")
    return writer.finish()


def numbers(rows: list[dict[str, Any]]) -> Mapping[str, float]:
    return report.of_run(pd.DataFrame(rows))


def test_a_stated_outcome_is_compared_with_the_episode_s_and_with_always_failure() -> None:
    assert numbers(FIRST[:2]) == {report.ACCURACY: 0.5, report.FAILURE: 1.0, report.EMPTY: 0.0, report.RETRIES: 0.0}
    second, first = numbers(SECOND), numbers(FIRST)
    assert (second[report.ACCURACY], second[report.FAILURE]) == (1.0, pytest.approx(2 / 3))
    assert (first[report.ACCURACY], first[report.EMPTY], first[report.RETRIES]) == (0.5, pytest.approx(1 / 3), 1.0)
    assert np.isnan(numbers([FIRST[2]])[report.ACCURACY]), "one without valid feedback is empty and not wrong"


@pytest.fixture
def source(study: Path) -> Source:
    loaded = results.study(study)
    summary = summaries.summarise(loaded, results.load(loaded), reps=200)
    places = {row.label: number for number, row in enumerate(summary.rows)}
    return Source(loaded, summary, 400, {"a": "ours"}, places, needs=("feedback", "metrics", "shaping", "keyframes"))


def test_numbers_are_means_over_runs(source: Source) -> None:
    (feedback,) = report.feedback(source)
    assert (feedback.label, feedback.task_id, feedback.runs) == ("ours", "grid/8x8", 2)
    assert [*map(float, feedback.numbers[report.ACCURACY])] == [0.75, 0.5, 1.0]
    (table,) = report.SECTIONS[0].tables([feedback])
    assert table.names == (report.ACCURACY, report.FAILURE, report.EMPTY, report.RETRIES)
    assert "ours: 6 episodes, runs: 2" in table.note
    (record,) = report.plain([feedback])
    assert record["episodes"] == 6 and json.dumps(record, allow_nan=False)
    (listing,) = report.listings([feedback])
    assert listing.lines[0] == ("ours", "failed_grasp", "—", "100 %", "33 %"), "of 300 steps"
    assert listing.lines[-1] == ("ours", "episodes with a code", "0", "2", "3")


def test_codes_are_shares_of_the_coded_episodes_of_each_third() -> None:
    shares, counts = report.codes(pd.DataFrame([*FIRST, *SECOND]), 450)
    assert counts == (2, 2, 1), "steps 100, 200 and 300 of 450; one reply was empty"
    assert shares == {"failed_grasp": (1.0, 0.5, 0.0), "good_contact": (0.0, 0.5, 1.0)}


def test_first_and_last_traced_episode_of_the_first_run_are_drawn() -> None:
    rows = pd.DataFrame([{"seed": 1, **row} for row in SHAPING] + [{"seed": 0, **row} for row in reversed(SHAPING)])
    first, last = report.traced(rows)
    assert (first.episode, last.episode, last.step) == (0, 10, 1100)
    assert first.frames.tolist() == [1, 2, 3] and first.parts["fused"].tolist() == pytest.approx([0.15, 0.3, 0.45])
    assert last.success.tolist() == [False, True]
    (drawn,) = report.along("grid/8x8: ours", "episode-x", [first, last])
    assert "episode 10: mean goal reward 0.38" in drawn.alt and "1 of 2 logged steps successful" in drawn.alt


def test_the_gap_is_that_of_the_mean_cosines(source: Source) -> None:
    (alignment,) = [drawing.alt for drawing in report.drawings(None, source) if drawing.name.startswith("alignment")]
    assert "gap of ψ 0.75 at the end" in alignment and "mean ψ (successes)" in alignment
    assert "loss (calibration) 0.5 at the end; loss (discrimination) 0.6 at the end; loss (ref" in alignment
