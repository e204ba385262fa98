"""Scores over tasks: what goes into them, and what they say of methods beside each other."""

import json

import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.interfaces import Score
from guidebench.reports.rendering import figures, latex, legends
from guidebench.reports.sections import overviews
from guidebench.reports.statistics import aggregate
from guidebench.reports.summary import export
from guidebench.reports.summary.aggregates import SHARE, STEPS, Overview
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer, ending, pair


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Return the summary of the cells of `pair`; tests only read it."""
    writer = Writer(tmp_path_factory.mktemp("worked") / "study")
    pair(writer)
    return writer.summary(2_000)


def _overview(summary: Summary) -> Overview:
    (overview,) = summary.overviews
    return overview


def test_scores_curves_and_how_methods_stand_of_a_worked_example(worked: Summary) -> None:
    overview = _overview(worked)
    scores = overview.scores
    assert scores.final["uer"].tolist() == [[0.0, 0.5], [0.25, 0.5]]
    assert scores.curves["per"].tolist() == [[[0.0, 0.5], [0.0, 0.5]], [[0.0, 1.0], [0.0, 0.5]]]
    assert scores.steps.tolist() == [100, 200] and scores.unit == STEPS
    # per wins all pairs on easy, ties all on hard: (1 + .5) / 2
    assert float(overview.improvement["per", "uer"].estimate) == 0.75
    assert float(overview.improvement["uer", "per"].estimate) == 0.25
    # uer's scores 0, .25, .5, .5: three of four above 0, two above .25
    assert overview.thresholds.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert overview.profiles["uer"].estimate.tolist() == [0.75, 0.5, 0.0, 0.0]
    # the middle two of 0, .25, .5, .5
    assert overview.efficiency["uer"].estimate.tolist() == [0.0, 0.375] and overview.ranks is not None
    first = overview.ranks[overview.ranks["rank"] == 1].set_index("method")["probability"]
    assert first.to_dict() == pytest.approx({"uer": 0.25, "per": 0.75})


def test_aggregates_are_those_of_statistics_and_have_the_spread_of_their_resamples(worked: Summary) -> None:
    table = aggregate(_overview(worked).scores.final, 2_000).set_index(["method", "metric"])
    assert len(worked.aggregates) == 8
    for entry in worked.aggregates:
        expected = table.loc[(entry.label, entry.metric), ["estimate", "low", "high"]]
        assert [float(value) for value in entry.interval] == expected.tolist()
    # (a + b) / 4 with a from 0 and .25 twice and b from two alike: a / 2 has variance .125² / 2, halved by the tasks
    (uer,) = (entry for entry in worked.aggregates if (entry.label, entry.metric) == ("uer", "mean"))
    assert uer.error == pytest.approx(0.125 / 2**0.5 / 2, rel=0.05)


def test_the_json_form_has_every_comparison(worked: Summary) -> None:
    (overview,) = json.loads(json.dumps(export.plain(worked), allow_nan=False))["overviews"]
    assert overview["tasks"] == ["easy", "hard"] and overview["seeds"]["uer"] == [0, 1]
    by_pair = {(pair["first"], pair["second"]): pair for pair in overview["probability_of_improvement"]}
    assert by_pair["per", "uer"]["estimate"] == 0.75
    assert overview["iqm_curves"]["uer"][1]["step"] == 200
    profile = overview["performance_profiles"]["uer"]
    assert (profile[1]["score"], profile[1]["estimate"]) == (0.25, 0.5)
    assert {"method": "uer", "rank": 1, "probability": pytest.approx(0.25)} in overview["ranks"]


def test_the_worse_of_two_has_the_interval_of_the_better_from_the_other_end(writer: Writer) -> None:
    writer.cell("a", ending(0, 3, 3), steps=200)
    writer.cell("b", ending(2, 4, 4), steps=200, method="per")
    improvement = _overview(writer.summary(2_000)).improvement
    better, worse = improvement["per", "uer"], improvement["uer", "per"]
    assert better.low < better.estimate < better.high
    assert worse == (1 - better.estimate, 1 - better.high, 1 - better.low)


def test_of_a_single_task_only_the_probability_of_improvement_is_known(writer: Writer) -> None:
    writer.cell("a", ending(0, 1), steps=200)
    assert writer.summary(2_000).overviews == ()
    writer.cell("b", ending(2, 4), steps=200, method="per")
    summary = writer.summary(2_000)
    overview = _overview(summary)
    assert len(overview.improvement) == 2
    assert not overview.profiles and not overview.efficiency and overview.ranks is None and summary.aggregates == ()
    assert [drawing.name for drawing in overviews.drawings(summary.overviews, {})] == ["improvement-grid-8x8"]


def test_tasks_of_different_lengths_meet_at_shares_of_their_steps(writer: Writer) -> None:
    for task, steps in (("short", (50, 100)), ("long", (200, 300, 400))):
        writer.cell(task, {seed: {step: [1, 0] for step in steps} for seed in (0, 1)}, steps=steps[-1], task=task)
    summary = writer.summary(2_000)
    scores = _overview(summary).scores
    assert scores.unit == SHARE and scores.steps.tolist() == [0.5, 1.0]
    assert "grid: curves over tasks show 2 of up to 3 evaluations, those that all rows share" in summary.notes


def test_a_row_that_is_behind_is_beside_no_other(two: Writer) -> None:
    running = {seed: {100: [1] * 4} for seed in (0, 1)}
    for task in ("easy", "hard"):
        two.cell(f"aer-{task}", running, steps=200, task=task, method="aer", status={0: "running", 1: "running"})
    summary = two.summary(2_000)
    assert set(_overview(summary).scores.final) == {"uer", "per"}
    assert any("aer: left out of the aggregates over tasks (not far enough" in note for note in summary.notes)


def test_the_highest_aggregate_and_what_is_tied_with_it_lead_and_the_lowest_gap(writer: Writer) -> None:
    for task in ("easy", "hard"):
        for method, finals in {"a": (4, 3, 4, 4, 3), "b": (3, 4, 3, 4, 4), "c": (0, 1, 0, 0, 1)}.items():
            writer.cell(f"{method}-{task}", ending(*finals), steps=200, task=task, method=method)
    leading = {(entry.label, entry.metric) for entry in writer.summary(2_000).aggregates if entry.leading}
    assert leading == {(f"{name}", metric) for name in "ab" for metric in statistics.METRICS}


def test_all_pairs_agree_with_each_pair_by_itself() -> None:
    rng = np.random.default_rng(0)
    scores = {name: np.round(rng.random((runs, 3)) * 4) / 4 for name, runs in (("a", 5), ("b", 7), ("c", 1))}
    improvements = statistics.improvements(scores, reps=20_000)
    alone = statistics.probability_of_improvement(scores["a"], scores["b"], reps=20_000)
    assert [float(value) for value in improvements["a", "b"]] == pytest.approx(
        [float(value) for value in alone], abs=0.02
    )
    assert improvements["a", "b"].estimate == alone.estimate
    turned = statistics.improvements({name: scores[name] for name in ("b", "a")}, reps=20_000)["a", "b"]
    assert [float(value) for value in turned] == pytest.approx(
        [float(value) for value in improvements["a", "b"]], abs=1e-12
    )
    assert np.isnan(improvements["a", "c"].low) and np.isnan(improvements["c", "a"].high) and len(improvements) == 6


def test_one_seed_has_values_and_no_intervals(writer: Writer) -> None:
    for task in ("easy", "hard"):
        for method in ("uer", "per"):
            writer.cell(f"{method}-{task}", ending(2), steps=200, task=task, method=method)
    summary = writer.summary(2_000)
    overview = _overview(summary)
    for interval in (*overview.improvement.values(), *overview.profiles.values(), *overview.efficiency.values()):
        assert np.isfinite(interval.estimate).all() and np.isnan(interval.low).all()
    assert all(np.isnan(aggregate.error) and not aggregate.leading for aggregate in summary.aggregates)
    assert any("one run: no interval" in note for note in summary.notes)
    json.dumps(export.plain(summary), allow_nan=False)


def test_there_are_four_drawings_of_several_tasks_in_the_colours_of_the_learning_curves(worked: Summary) -> None:
    drawings = overviews.drawings(worked.overviews, figures.styles(row.label for row in worked.rows))
    assert [drawing.name for drawing in drawings] == [
        f"{kind}-grid" for kind in ("efficiency", "profiles", "improvement", "ranks")
    ]
    assert all(drawing.png.startswith(b"\x89PNG") and drawing.pdf.startswith(b"%PDF") for drawing in drawings)
    words = [drawing.alt for drawing in drawings]
    low, high = (round(100 * float(end)) for end in worked.overviews[0].improvement["uer", "per"][1:])
    assert "uer: 0.00, 0.19, 0.38" in words[0] and low <= 25 <= high
    assert f"1  uer: –, 25 [{low}–{high}]; 2  per: 75 [{100 - high}–{100 - low}], –" in words[2]
    assert "per: 75, 25" in words[3]


def test_an_improvement_is_bold_where_the_test_tells_the_means_apart(writer: Writer) -> None:
    """Every run of one method is above every run of the other: 2 of 20 relabellings for three runs a side, 2 of 70 for
    four."""
    for seeds in (3, 4):
        writer.cell("a", {seed: {200: [0]} for seed in range(seeds)}, steps=200)
        writer.cell("b", {seed: {200: [1]} for seed in range(seeds)}, steps=200, method="per")
        cells = overviews._improvement(_overview(writer.summary(2_000)))
        assert cells.bold.tolist() == [[False, seeds == 4], [seeds == 4, False]]


def test_a_row_without_a_planned_seed_leads_no_aggregate_and_tells_nothing_apart(writer: Writer) -> None:
    for task in ("easy", "hard"):
        for method, finals in {"a": (4, 4, 3, 4, 4), "b": (0, 1, 0, 0, 1), "c": (0, 1, 1, 0, 1)}.items():
            planned, state = (range(6), {}) if method == "a" and task == "hard" else (None, {})
            writer.cell(
                f"{method}-{task}", ending(*finals), steps=200, task=task, method=method, planned=planned, status=state
            )
    summary = writer.summary(2_000)
    assert not any(aggregate.leading for aggregate in summary.aggregates), (
        "a is better than both, and compared with neither"
    )
    assert {aggregate.label for aggregate in summary.aggregates if aggregate.missing} == {"a"}
    assert all("a" not in pair for pair in _overview(summary).significant) and "†" in legends.aggregates(summary)
    assert (
        latex.latex(summary).count(r"$^{\dagger}$") == 5
    )  # its row of the task, and of the aggregates mean, median, IQM
    assert [aggregate["missing_seeds"] for aggregate in export.plain(summary)["aggregates"]].count(True) == 4


def test_more_rows_than_a_column_can_show_have_no_matrix(writer: Writer) -> None:
    for number in range(overviews.MOST + 1):
        writer.cell(f"c{number}", ending(0, 1), steps=200, method=f"m{number}")
    summary = writer.summary(2_000)
    assert overviews.drawings(summary.overviews, {}) == [] and len(_overview(summary).improvement) == 110


def _valued(*finals: float) -> dict[int, dict[int, list[float]]]:
    """Return curves of seeds whose only evaluation has these scores."""
    return {seed: {200: [final]} for seed, final in enumerate(finals)}


def test_tasks_of_different_scores_are_put_on_one_scale(writer: Writer) -> None:
    swing, cost = Score("return", low=-500, high=0), Score("cost", "lower", low=0, high=10)
    for method, swung, paid in (("uer", (-400, -300), (8, 9)), ("per", (-100, -50), (1, 2))):
        writer.cell(f"{method}-s", _valued(*swung), steps=200, task="swing", method=method, score=swing)
        writer.cell(f"{method}-p", _valued(*paid), steps=200, task="pay", method=method, score=cost)
    summary = writer.summary(200)
    means = {
        aggregate.label: float(aggregate.interval.estimate)
        for aggregate in summary.aggregates
        if aggregate.metric == "mean"
    }
    # (.2 + .4) / 2 and (.2 + .1) / 2; (.8 + .9) / 2 and (.9 + .8) / 2
    assert means == pytest.approx({"uer": (0.3 + 0.15) / 2, "per": 0.85})
    assert _overview(summary).improvement["per", "uer"].estimate == 1.0
    assert "0 is the worst and 1 the best of the range of each task's score" in legends.aggregates(summary)
    assert overviews.drawings(summary.overviews, figures.styles(means))[0].caption.endswith("by normalised score")


def test_tasks_without_a_known_range_are_not_averaged_but_ranked(writer: Writer) -> None:
    for method, level in (("uer", 0.0), ("per", 1_000.0)):
        for task in ("hopper", "cheetah"):
            curves = _valued(level, level + 1)
            writer.cell(f"{method}-{task}", curves, steps=200, task=task, method=method, score=Score("return"))
    summary = writer.summary(200)
    assert summary.aggregates == ()
    assert (
        "grid: there are no aggregates over tasks, since no range is known of return on hopper, return on cheetah"
        in summary.notes
    )
    overview = _overview(summary)
    assert overview.profiles == overview.efficiency == {} and overview.significant == frozenset()
    assert overview.improvement["per", "uer"].estimate == 1.0 and overview.ranks is not None


def test_other_conditions_are_aggregated_apart(writer: Writer) -> None:
    for goal in ("hidden", "observable"):
        for task in ("reach", "push"):
            settings = {"suite.goal": {"value": goal}}
            variant = f"suite.goal={goal}"
            writer.cell(f"{goal}-{task}", ending(2, 3), steps=200, task=task, settings=settings, variant=variant)
    summary = writer.summary(200)
    assert {aggregate.heading for aggregate in summary.aggregates} == {
        "grid, 2 tasks, quick profile, goal=hidden",
        "grid, 2 tasks, quick profile, goal=observable",
    }
    assert all(not overview.improvement for overview in summary.overviews)
