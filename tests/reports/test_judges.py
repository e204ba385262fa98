from __future__ import annotations

import pytest

import results
from reports import judges
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [1]}, 1: {100: [1]}}


def test_judging_is_summed_over_runs_and_a_packed_workers_clock_is_shared(writer: Writer) -> None:
    root = writer.cell("a", CURVES, method="vlm_rb", backend="scripted", model="sprite")
    for seed in (0, 1):
        scores = [0.5, 0.2] if seed else [0.9, 0.1]
        rows = [{"asked": 10, "applied": 30, "score": score, "slots": 32} for score in scores]
        write_rows(root / f"seed-{seed}", "judgements", rows)
        clock = {"seeds": 2, "clips": 4, "judge_seconds": 2.0}  # the worker's, written alike to both seeds
        timings = [{"step": 100, "seconds": 50.0, "wait_seconds": 5.0, **clock}]
        write_rows(root / f"seed-{seed}", "timings", timings)
    (found,) = judges.judging(results.study(writer.finish()), {"a": "the label"})
    assert (found.label, found.judge, found.remark) == ("the label", "sprite (scripted)", "hand-written for this task")
    assert (found.clips, found.yes, found.delay) == (4, 0.5, 20.0)
    assert (found.waited, found.waited_share, found.seconds_per_clip) == (5.0, 0.1, 0.5)


def test_counters_that_start_anew_after_a_resume_are_added(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [1]}}, method="vlm_rb", backend="oracle", model="truth")
    rows = [
        {"step": 10, "seconds": 10.0, "wait_seconds": 1.0, "clips": 10, "judge_seconds": 1.0},
        {"step": 20, "seconds": 20.0, "wait_seconds": 1.0, "clips": 5, "judge_seconds": 2.0},
        {"step": 30, "seconds": 30.0, "wait_seconds": 3.0, "clips": 10, "judge_seconds": 5.0},
    ]
    write_rows(root / "seed-0", "timings", rows)
    (found,) = judges.judging(results.study(writer.finish()), {})
    assert found.seconds_per_clip == pytest.approx(5.0 / 20)
    assert found.waited == 3.0 and "privileged" in found.remark
    assert found.clips == 0 and found.yes is None


def test_a_study_without_judges_has_no_judging(writer: Writer) -> None:
    writer.cell("a", CURVES)
    assert judges.judging(results.study(writer.finish()), {}) == []


def test_a_foreign_script_that_recorded_itself_has_no_judge(writer: Writer) -> None:
    writer.cell("a", CURVES, backend="external", method="mine")
    assert judges.judging(results.study(writer.finish()), {}) == []
    assert judges.remark("external") == "recorded by its own script"
