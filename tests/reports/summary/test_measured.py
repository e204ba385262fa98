"""Every measured study through every kind of statistics."""

from pathlib import Path

import pytest

from guidebench import results
from guidebench.reports.rendering import latex, tables
from guidebench.reports.sections import engines
from guidebench.reports.summary import aggregates, summaries
from guidebench.reports.summary.summaries import Summary

MEASURED = Path(__file__).parents[3] / "results" / "measured"
STUDIES = sorted(file.parent.name for file in MEASURED.glob("*/study.json"))
FEW = 100
"""Number of resamples; the numbers themselves are not tested."""


def _summary(name: str) -> Summary:
    study = results.study(MEASURED / name)
    return summaries.summarise(study, results.load(study), FEW)


@pytest.mark.parametrize("name", STUDIES)
def test_a_measured_study_has_tables_by_every_kind_of_statistics(name: str) -> None:
    own_engine_summary = _summary(name)
    for summary in (own_engine_summary, engines.with_rliable_s(own_engine_summary, FEW)):
        assert tables.terminal(summary) and latex.latex(summary)
        headings = [overview.scores.heading for overview in summary.overviews]
        assert len(set(headings)) == len(headings), "headings are unique"
        for labels in tables.aggregates_by_label(summary.aggregates).values():
            assert all(len(metrics) == 4 for metrics in labels.values()), "a row has each metric once"
        for rows in tables.by_task(summary.rows).values():
            assert len({row.place for row in rows}) == 1


def test_rows_of_other_lengths_are_aggregated_apart() -> None:
    """dsadf trains 40,000 steps on each of three tasks after a stage of 40,000; the baselines have no stage."""
    headings = {aggregate.heading for aggregate in _summary("housekeep_dsadf").aggregates}
    assert headings == {
        "housekeep, 3 tasks, quick profile, by normalised score, 40,000 steps",
        "housekeep, 3 tasks, quick profile, by normalised score, 80,000 steps",
    }


def test_groups_that_nothing_else_distinguishes_have_numbers() -> None:
    summary = _summary("housekeep_dsadf")
    first = summary.overviews[0].scores
    rows = [row for row in summary.rows if row.label in first.final]
    assert [group.apart for group in aggregates._distinct([(first, rows), (first, rows)])] == ["group 1", "group 2"]
