"""rliable in place of our own estimates: which numbers change, what names it, and its plots."""

from collections.abc import Callable

import pytest

from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import REPS
from guidebench.reports.commands import report as command
from guidebench.reports.rendering import figures, legends
from guidebench.reports.sections import engines, overviews
from guidebench.reports.statistics import with_rliable
from tests.reports.conftest import Reported, Writer, pair

COST = Score("cost", "lower")


def test_points_stay_and_intervals_are_rliable_s(two: Writer) -> None:
    ours_summary = two.summary(200)
    rliable_summary = engines.with_rliable_s(ours_summary, 200)
    for ours, theirs in zip(ours_summary.aggregates, rliable_summary.aggregates, strict=True):
        assert (ours.label, ours.metric, ours.leading) == (theirs.label, theirs.metric, theirs.leading)
        assert float(theirs.interval.estimate) == pytest.approx(float(ours.interval.estimate))
    scores = rliable_summary.overviews[0].scores.final["uer"]
    seed = engines.statistics.name_seed("uer", 0)
    mean = next(
        aggregate for aggregate in rliable_summary.aggregates if (aggregate.label, aggregate.metric) == ("uer", "mean")
    )
    assert (mean.interval, mean.error) == with_rliable.aggregates(scores, 200, seed)["mean"]
    first, second = rliable_summary.overviews[0].scores.final
    better, worse = (rliable_summary.overviews[0].improvement[pair] for pair in ((second, first), (first, second)))
    assert float(better.estimate) == 0.75 and float(worse.high) == pytest.approx(1 - float(better.low))
    assert (
        rliable_summary.rows == ours_summary.rows
        and rliable_summary.overviews[0].ranks is ours_summary.overviews[0].ranks
    )
    assert f"200 resamples by {with_rliable.version()}" in legends.aggregates(rliable_summary)


def test_lower_scores_win_where_they_are_better_and_without_a_range_there_are_no_aggregates(writer: Writer) -> None:
    for task in ("easy", "hard"):
        writer.cell(f"uer-{task}", {s: {200: [9.0 + s]} for s in range(2)}, steps=200, task=task, score=COST)
        writer.cell(f"per-{task}", {s: {200: [1.0]} for s in range(2)}, steps=200, task=task, method="per", score=COST)
    summary = writer.summary(200)
    rliable_summary = engines.with_rliable_s(summary, 100)
    (overview,) = rliable_summary.overviews
    assert float(overview.improvement["per", "uer"].estimate) == 1.0
    assert not rliable_summary.aggregates and any("no range is known" in note for note in rliable_summary.notes)
    drawings = engines.drawings(
        rliable_summary, overviews.drawings(summary.overviews, figures.styles(overview.scores.final))
    )
    assert [drawing.name.partition("-")[0] for drawing in drawings] == ["ranks", "improvement"]


def test_the_command_names_rliable_and_draws_with_it(writer: Writer, report: Callable[..., Reported]) -> None:
    pair(writer, "per, $x$")
    reported = report(writer.finish(), "--statistics", "rliable", "--resamples", "100")
    assert reported.code == 0 and f"by {with_rliable.version()} with 100 resamples" in reported.out
    assert reported.json()["statistics"] == {"engine": with_rliable.version(), "resamples": 100}
    for kind in ("aggregates", "profiles", "improvement"):
        assert (reported.home / f"{kind}-grid.pdf").read_bytes().startswith(b"%PDF")
    assert with_rliable.version() in reported.text("table.tex")
    assert f"by {with_rliable.version()}. uer over per, $x$: 0.25" in reported.text()
    assert report(writer.directory, "--paper", "vlm_rb", "--statistics", "rliable").code == 2
    assert (command.RESAMPLES, command.RLIABLE_RESAMPLES) == (REPS, with_rliable.REPS), "as the help states"
