"""A report of more rows than a reader can compare: what tables and figures show, and what summary.json holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guidebench import results
from guidebench.reports.commands import report
from guidebench.reports.summary import aggregates, bounding, export, summaries
from guidebench.reports.summary.rows import MOST
from guidebench.results import StudyRecord
from tests.reports.conftest import Writer

EPISODES = 4
LAST = MOST + 9
"""Number of the last method; there is one for each number from 0."""


def final(number: int) -> int:
    """Successes of the last evaluation of a method: three fifths of them are below the best."""
    return number % 5


def many(writer: Writer, tasks: tuple[str, ...] = ("8x8",)) -> StudyRecord:
    """Methods m0 … m`LAST`, m7 of which is called uer, so that it is the baseline."""
    for number in range(LAST + 1):
        for task in tasks:
            wins = [1] * final(number) + [0] * (EPISODES - final(number))
            curves = {seed: {100: [0] * EPISODES, 200: wins} for seed in (0, 1)}
            method = "uer" if number == 7 else f"m{number}"
            writer.cell(f"{task}-{number}", curves, steps=200, method=method, task=task)
    return results.study(writer.finish())


def test_the_baseline_and_the_best_rows_are_kept_in_their_order(writer: Writer) -> None:
    study = many(writer)
    every = summaries.summarise(study, results.load(study), reps=200)
    shown, found = bounding.bounded(study, every)
    assert len(every.rows) == LAST + 1 and len(found.rows) == MOST
    labels = [row.label for row in every.rows]
    assert [row.label for row in found.rows] == [label for label in labels if label in {r.label for r in found.rows}]
    left_out = {row.label for row in every.rows} - {row.label for row in found.rows}
    worst = {f"m{number} · quick" for number in range(LAST + 1) if final(number) == 0}
    assert len(left_out) == LAST + 1 - MOST and left_out <= worst and "uer · quick" not in left_out
    assert {cell.id for cell in shown.cells} == {row.cell.id for row in found.rows}
    assert {run.cell.id for run in shown.runs} == {cell.id for cell in shown.cells} and len(shown.runs) == 2 * MOST
    assert found.notes[0].startswith(f"grid/8x8: tables and figures show {MOST} of {LAST + 1} rows: uer · quick")


def test_rows_that_are_too_many_to_test_in_pairs_have_no_mark_and_that_is_said(writer: Writer) -> None:
    study = many(writer)
    every = summaries.summarise(study, results.load(study), reps=200)
    assert not any(row.leading for row in every.rows)
    assert f"grid/8x8: no pairs of its {LAST + 1} rows are tested, so no row is marked as best" in every.notes
    few = results.select(study, lambda cell: int(cell.id.partition("-")[2]) < MOST)
    few_rows = results.load(few)
    assert any(row.leading for row in summaries.summarise(few, few_rows, reps=200).rows)


def test_a_study_with_few_rows_is_shown_whole(writer: Writer) -> None:
    writer.cell("a", {0: {100: [1]}}, steps=100)
    study = results.study(writer.finish())
    every = summaries.summarise(study, results.load(study), reps=200)
    assert bounding.bounded(study, every) == (study, every)


def test_aggregates_over_tasks_are_of_the_best_and_none_is_told_apart(writer: Writer) -> None:
    study = many(writer, ("easy", "hard"))
    found = summaries.summarise(study, results.load(study), reps=200)
    labels = {entry.label for entry in found.aggregates}
    assert len(labels) == MOST and not any(entry.leading for entry in found.aggregates)
    assert {f"m{number} · quick" for number in range(LAST + 1) if final(number) > 1 and number != 7} <= labels
    (overview,) = found.overviews
    assert set(overview.scores.final) == labels and overview.apart == frozenset()
    assert any(f"{MOST} best of {LAST + 1} rows" in note for note in found.notes)


def test_scores_of_few_labels_are_all_kept(writer: Writer) -> None:
    study = many(writer)
    few = results.select(study, lambda cell: int(cell.id.partition("-")[2]) < MOST)
    notes: list[str] = []
    (scores,) = aggregates.gather(summaries.evaluated(few, results.load(few), notes, 200), notes)
    assert aggregates.fewer(scores, notes) is scores and not scores.chosen


def test_summary_json_holds_every_row_and_curves_of_those_that_are_drawn(writer: Writer, tmp_path: Path) -> None:
    study, output = many(writer), tmp_path / "report"
    assert report.main([str(study.directory), "--output", str(output), "--resamples", "200"]) == 0
    content = json.loads((output / "summary.json").read_text())
    assert len(content["rows"]) == LAST + 1
    assert sum(row["curve"] is not None for row in content["rows"]) == MOST
    page = (output / "report.html").read_text()
    shown = {row["label"] for row in content["rows"] if row["curve"] is not None}
    for row in content["rows"]:
        assert (f'<th scope="row">{row["label"]}</th>' in page) == (row["label"] in shown)
    assert f"{2 * (LAST + 1)} runs of {LAST + 1} configurations" in page
    assert (output / "table.tex").read_text().count(r"\\\\") < 2 * MOST


def test_notes_beyond_the_first_are_counted(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounding, "NOTES", 2)
    writer.cell("a", {0: {100: [1]}}, steps=100, planned=[0, 1, 2, 3])
    study = results.study(writer.finish())
    every = summaries.summarise(study, results.load(study), reps=200)
    _, found = bounding.bounded(study, every)
    assert len(every.notes) > 3
    assert found.notes == (*every.notes[:2], f"{len(every.notes) - 2} more notes are in summary.json")
    assert export.plain(every)["notes"] == list(every.notes)
