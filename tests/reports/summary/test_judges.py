from __future__ import annotations

from collections.abc import Mapping

import pytest
from rich.console import Console

from guidebench import results
from guidebench.reports.rendering import tables
from guidebench.reports.summary import judges
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [1]}, 1: {100: [1]}}
SPRITE = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}


def judging(writer: Writer, labels: Mapping[str, str] = {}) -> list[judges.Judging]:
    study = results.study(writer.finish())
    judged, timed = (results.noted(study, log) for log in ("judgements", "timings"))
    return judges.judging(study.cells, judged, timed, labels)


def test_judging_is_summed_over_runs_and_a_packed_workers_clock_is_shared(writer: Writer) -> None:
    root = writer.cell("a", CURVES, **SPRITE)
    for seed in (0, 1):
        scores = [0.5, 0.2] if seed else [0.9, 0.1]
        rows = [{"asked": 10, "applied": 30, "score": score, "slots": 32} for score in scores]
        write_rows(root / f"seed-{seed}", "judgements", rows)
        clock = {"seeds": 2, "clips": 4, "judge_seconds": 2.0}  # the worker's, written alike to both seeds
        timings = [{"step": 100, "seconds": 50.0, "wait_seconds": 5.0, **clock}]
        write_rows(root / f"seed-{seed}", "timings", timings)
    (row,) = judging(writer, {"a": "the label"})
    assert (row.label, row.judge, row.remark) == ("the label", "sprite (scripted)", "hand-written for this task")
    assert (row.positive, row.agreement, row.delay) == ((1, 4), None, 20.0)
    assert (row.waited, row.waited_share, row.seconds_per_clip) == (5.0, 0.1, 0.5)


def test_counters_that_start_anew_after_a_resume_are_added(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [1]}}, method="vlm_rb", backend="oracle", model="truth")
    rows = [
        {"step": 10, "seconds": 10.0, "wait_seconds": 1.0, "clips": 10, "judge_seconds": 1.0},
        {"step": 20, "seconds": 20.0, "wait_seconds": 1.0, "clips": 5, "judge_seconds": 2.0},
        {"step": 30, "seconds": 30.0, "wait_seconds": 3.0, "clips": 10, "judge_seconds": 5.0},
    ]
    write_rows(root / "seed-0", "timings", rows)
    (row,) = judging(writer)
    assert row.seconds_per_clip == pytest.approx(5.0 / 20) and row.waited == 3.0 and "privileged" in row.remark
    assert row.positive == (0, 0) and str(row.positive) == "—"


def test_a_clip_without_an_answer_counts_as_such_and_not_as_judged(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [1]}}, method="vlm_rb", backend="openai", model="gpt-4o-mini")
    rows = [{"asked": 1, "applied": 2, "score": 0.9}, {"asked": 2, "applied": 3, "failure": "timeout"}]
    write_rows(root / "seed-0", "judgements", rows)
    clock = {"seconds": 50.0, "evaluation_seconds": 8.0, "checkpoint_seconds": 2.0, "clips": 2, "judge_seconds": 5.0}
    write_rows(root / "seed-0", "timings", [{"step": 100, "wait_seconds": 5.0, **clock}])
    (row,) = judging(writer)
    assert (row.positive, row.unanswered) == ((1, 1), (1, 2)) and "server's word" in row.remark
    assert (row.judging_share, row.steps_per_second) == (0.1, 2.5)


EVENTFUL = [(0.9, 1), (0.7, 2), (0.6, 1), (0.2, 1), (0.8, 0), (0.5, 0), (0.1, 0)]
"""(score, number of events) of each clip."""


@pytest.mark.parametrize(
    ("threshold", "agree", "hits", "alarms"), [(None, 5, 3, 1), (0.5, 5, 3, 1), (0.65, 4, 2, 1), (0.0, 4, 4, 3)]
)
def test_agreement_counts_scores_above_the_method_s_threshold_beside_the_events(
    writer: Writer, threshold: float | None, agree: int, hits: int, alarms: int
) -> None:
    settings = None if threshold is None else {"replay.threshold": {"value": threshold, "source": "", "layer": ""}}
    root = writer.cell("a", CURVES, settings=settings, **SPRITE)
    for seed, rows in ((0, EVENTFUL[:4]), (1, EVENTFUL[4:])):
        rows = [{"asked": 1, "applied": 2, "score": score, "events": events} for score, events in rows]
        write_rows(root / f"seed-{seed}", "judgements", rows)
    (row,) = judging(writer)
    assert row.agreement == ((agree, 7), (hits, 4), (alarms, 3)) and row.positive == (hits + alarms, 7)


def test_clips_whose_events_are_not_on_record_are_left_out_of_the_agreement(writer: Writer) -> None:
    root = writer.cell("a", {0: {100: [1]}}, **SPRITE)
    unknown = {"asked": 1, "applied": 2, "score": 0.9}
    write_rows(root / "seed-0", "judgements", [unknown, {**unknown, "events": 0}])
    (row,) = judging(writer)
    assert row.positive == (2, 2) and row.agreement == ((0, 1), (0, 0), (1, 1))
    assert list(map(str, row.agreement)) == ["0.000 of 1", "—", "1.000 of 1"]


def test_the_terminal_shows_agreement_as_privileged_and_nothing_where_there_is_none(writer: Writer) -> None:
    def text() -> str:
        console = Console(width=140, color_system=None)
        with console.capture() as capture:
            for table in tables.listings(judges.listings(judging(writer))):
                console.print(table)
        return capture.get()

    root = writer.cell("a", {0: {100: [1]}}, **SPRITE)
    rows = [{"asked": 1, "applied": 2, "score": score} for score, _ in EVENTFUL]
    write_rows(root / "seed-0", "judgements", rows)
    assert text() == ""
    judgements = [{**row, "events": events} for row, (_, events) in zip(rows, EVENTFUL, strict=True)]
    write_rows(root / "seed-0", "judgements", judgements)
    output = text()
    assert "privileged information, for diagnosis only" in output and "on grid/8x8" in output
    assert all(share in output for share in ("0.571 of 7", "0.714 of 7", "0.750 of 4", "0.333 of 3"))


def test_each_of_two_judges_is_told_by_its_own_answers(writer: Writer) -> None:
    parts = {
        "critic": {"kind": "judge", "name": "oracle", "backend": "oracle", "model": "truth"},
        "judge": {"kind": "judge", "name": "sprite", "backend": "scripted", "model": "sprite"},
    }
    settings = {"replay.threshold": {"value": 0.8, "source": "", "layer": ""}}
    names = {"method": "two", "backend": "oracle+scripted", "model": "truth+sprite", "settings": settings}
    run = writer.cell("a", {0: {100: [1]}}, **names, record={"parts": parts}) / "seed-0"
    right = [{"asked": 1, "applied": 2, "score": score, "events": int(score > 0.8)} for score in (0.9, 0.6, 0.1)]
    wrong = {"asked": 1, "applied": 6, "score": 0.7, "events": 0, "role": "critic"}
    write_rows(run, "judgements", [*right, wrong, wrong | {"score": 0.1}])
    write_rows(run, "timings", [{"step": 100, "seconds": 50.0, "clips": 5, "judge_seconds": 1.0}])
    critic, judge = rows = judging(writer)
    assert (critic.judge, judge.judge) == ("critic: truth (oracle)", "judge: sprite (scripted)")
    assert (critic.agreement, judge.agreement) == (((1, 2), (0, 0), (1, 2)), ((3, 3), (1, 1), (0, 2)))
    assert (critic.positive, critic.delay, judge.positive, judge.delay) == ((1, 2), 5.0, (1, 3), 1.0)
    assert "privileged" in critic.remark and judge.remark == "hand-written for this task"
    assert critic.judging_share is judge.judging_share is None, "the clock counts both together"
    took, beside, _ = judges.listings(rows)
    assert [line[2] for line in took.lines] == [critic.judge, judge.judge]
    assert [line[1] for line in beside.lines] == [f"grid/8x8, {critic.judge}", f"grid/8x8, {judge.judge}"]


def test_what_answers_is_told_and_a_teacher_a_foreign_script_or_a_plain_run_is_no_judge(writer: Writer) -> None:
    oracle = {"backend": "oracle", "model": "oracle"}
    writer.cell("a", CURVES, method="pebble", parts={"judge": "", "teacher": "oracle"}, **oracle)
    writer.cell("b", CURVES, method="vlm_rb", parts={"judge": "oracle"}, **oracle)
    writer.cell("c", CURVES, backend="external", method="mine")
    writer.cell("d", CURVES)
    writer.cell("e", CURVES, method="vlm_rb", backend="placebo", model="placebo", parts={"judge": "placebo"})
    writer.cell("f", CURVES, method="mine", backend="scripted", model="uniform", parts={"chat": "uniform"})
    writer.cell("g", CURVES, method="mine", backend="scripted", model="a", parts={"chat": "of_an_absent_package"})
    assert [entry.label for entry in judging(writer)] == ["vlm_rb · oracle · quick", "vlm_rb · placebo · quick"]
    cells = results.study(writer.directory).cells
    assert [judges.remark(cell).rpartition(" ")[2] for cell in cells[:3]] == ["reward", "events", "script"]
    assert judges.remark(cells[4]) == "placebo: answers given to other questions, which hold no information"
    declared = [judges.remark(cell) for cell in cells[5:]]
    assert declared == ["no model: all candidates are equally likely", "hand-written for this task"]
    assert [judges.answering(cell) for cell in cells[:2]] == ["teacher", "judge"]
