"""A report of more rows than a reader can compare: what tables and figures show, and what summary.json holds."""

from collections.abc import Callable

import pytest

from guidebench import results
from guidebench.reports.summary import aggregates, bounding, export, names, summaries
from guidebench.reports.summary.rows import MOST
from guidebench.reports.summary.summaries import Summary
from guidebench.results import StudyRecord
from tests.reports.conftest import Reported, Writer

EPISODES = 4
LAST = MOST + 9
"""Number of the last method; methods are numbered from 0."""


def final(number: int) -> int:
    """Return the number of successes, 0 to 4, in the last evaluation of method `number`."""
    return number % 5


@pytest.fixture(scope="module")
def large_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, Summary]:
    """Write a study of methods m0 … m`LAST` on one task; m7 is called uer, so it is the baseline. Read only."""
    return many(Writer(tmp_path_factory.mktemp("whole") / "study"))


def many(writer: Writer, tasks: tuple[str, ...] = ("8x8",)) -> tuple[StudyRecord, Summary]:
    for number in range(LAST + 1):
        for task in tasks:
            wins = [1] * final(number) + [0] * (EPISODES - final(number))
            curves = {seed: {100: [0] * EPISODES, 200: wins} for seed in (0, 1)}
            method = "uer" if number == 7 else f"m{number}"
            writer.cell(f"{task}-{number}", curves, steps=200, method=method, task=task)
    return writer.summarised()


def test_the_baseline_and_the_best_rows_are_kept_in_their_order(large_study: tuple[StudyRecord, Summary]) -> None:
    _, every = large_study
    study, bounded = bounding.bounded(*large_study)
    assert len(every.rows) == LAST + 1 and len(bounded.rows) == MOST
    labels = [row.label for row in every.rows]
    assert [row.label for row in bounded.rows] == [
        label for label in labels if label in {r.label for r in bounded.rows}
    ]
    left_out = {*labels} - {row.label for row in bounded.rows}
    worst = {f"m{number}" for number in range(LAST + 1) if final(number) == 0}
    assert len(left_out) == LAST + 1 - MOST and left_out <= worst and "uer" not in left_out
    assert {cell.id for cell in study.cells} == {row.cell.id for row in bounded.rows}
    assert {run.cell.id for run in study.runs} == {cell.id for cell in study.cells} and len(study.runs) == 2 * MOST
    assert bounded.notes[0].startswith(f"grid/8x8: tables and figures show {MOST} of {LAST + 1} rows: uer")


def test_rows_that_are_too_many_to_test_in_pairs_have_no_mark_and_few_are_all_kept(
    large_study: tuple[StudyRecord, Summary],
) -> None:
    study, every = large_study
    assert not any(row.leading for row in every.rows)
    assert f"grid/8x8: no pairs of its {LAST + 1} rows are tested, so no row is marked as best" in every.notes
    few = results.select(study, lambda cell: int(cell.id.partition("-")[2]) < MOST)
    rows, notes = results.load(few), []
    assert not any("are tested" in note for note in summaries.summarise(few, rows, reps=200).notes)
    labels = names.brief(few.cells, notes).labels
    (scores,) = aggregates.gather(summaries.evaluated(few, rows, notes, 200, labels), notes)
    assert aggregates.fewer(scores, notes) is scores and not scores.chosen


def test_aggregates_over_tasks_are_of_the_best_and_none_is_told_apart(writer: Writer) -> None:
    _, summary = many(writer, ("easy", "hard"))
    labels = {aggregate.label for aggregate in summary.aggregates}
    assert len(labels) == MOST and not any(aggregate.leading for aggregate in summary.aggregates)
    assert {f"m{number}" for number in range(LAST + 1) if final(number) > 1 and number != 7} <= labels
    (overview,) = summary.overviews
    assert set(overview.scores.final) == labels and overview.significant == frozenset()
    assert any(f"{MOST} best of {LAST + 1} rows" in note for note in summary.notes)


def test_summary_json_holds_every_row_and_curves_of_those_that_are_drawn(
    large_study: tuple[StudyRecord, Summary], report: Callable[..., Reported], unrendered: None
) -> None:
    reported = report(large_study[0].directory)
    rows, page = reported.json()["rows"], reported.text()
    assert reported.code == 0 and len(rows) == LAST + 1 and sum(row["curve"] is not None for row in rows) == MOST
    for row in rows:
        assert (f'<th scope="row">{row["label"]}</th>' in page) == (row["curve"] is not None)
    assert f"{2 * (LAST + 1)} runs of {LAST + 1} configurations" in page
    assert reported.text("table.tex").count(r"\\\\") < 2 * MOST


def test_a_study_with_few_rows_is_shown_whole_and_notes_beyond_the_first_are_counted(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounding, "NOTES", 2)
    writer.cell("a", {0: {100: [1]}}, steps=100)
    few = writer.summarised()
    assert bounding.bounded(*few) == few
    writer.cell("a", {0: {100: [1]}}, steps=100, planned=[0, 1, 2, 3])
    study, every = writer.summarised()
    _, bounded = bounding.bounded(study, every)
    assert len(every.notes) > 3
    assert bounded.notes == (*every.notes[:2], f"{len(every.notes) - 2} more notes are in summary.json")
    assert export.plain(every)["notes"] == list(every.notes)
