from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import latex, legends, tables, wording
from guidebench.reports.summary.export import plain
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer

HIGH = {seed: {100: [0, 1, 1, 1], 200: [1, 1, 1, 1]} for seed in (0, 1)}
LOW = {seed: {100: [0, 0, 0, 0], 200: [0, 0, 0, 1]} for seed in (0, 1)}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    writer = Writer(tmp_path_factory.mktemp("two") / "study")
    writer.judged_beside(HIGH, uer=LOW)
    return writer.summary(500, "a_study & more")


def _text(summary: Summary, width: int = 140) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for table in tables.terminal(summary):
            console.print(table)
    return capture.get()


@pytest.mark.parametrize("width", [110, 140])
def test_the_terminal_table_shows_each_number_and_marks_the_best(two: Summary, width: int) -> None:
    best = replace(two, rows=(two.rows[0], replace(two.rows[1], leading=True)))
    lines = _text(best, width).splitlines()
    uer, _ = (line for line in lines if line.strip().startswith("uer"))
    # the curve of each seed rises from 0 to 0.25 between its two evaluations; both reach the best, their own
    assert " ".join(uer.split()[1:]) == "0.25 [0.25, 0.25] 0.12 0.25 (0.25) 200 0.12 2 (2)"
    vlm_rb, difference = (line for line in lines if line.strip().startswith("vlm_rb"))
    assert "1.00 [1.00, 1.00]*" in vlm_rb and "0.75 (2 seeds cannot tell) 0.333 4 2" in " ".join(difference.split())
    assert "grid/8x8, quick profile" in lines[0]


def test_brackets_in_names_are_not_taken_for_markup_and_one_seed_is_one_seed(writer: Writer) -> None:
    writer.cell("a", {0: {200: [1]}}, method="[bold]uer[/bold]", steps=200)
    summary = writer.summary(500)
    legend = legends.results(summary, "*")
    assert "[bold]uer[/bold]" in _text(summary)
    assert "Mean over 1 seed of the success rate over 1 episode at" in legend and "seeds (1 evaluation)." in legend


def test_a_task_scored_by_its_return_has_no_column_of_zeros(writer: Writer) -> None:
    swing = {"score": Score("return", low=-2000, high=0), "task": "swing"}
    writer.cell("a", {seed: {100: [-400], 200: [-160.25 - seed]} for seed in (0, 1)}, steps=200, **swing)
    writer.cell("b", {seed: {100: [-200], 200: [-150]} for seed in (0, 1)}, steps=200, method="per", **swing)
    lines = _text(writer.summary(500)).splitlines()
    assert lines[0].strip() == "grid/swing, quick profile, by return"
    uer, _ = (line for line in lines if line.strip().startswith("uer"))
    assert " ".join(uer.split()[1:]) == "-160.8 [-161.2, -160.2] -280.4 -160.8 (-160.8) 200 2 (1)"
    head = " ".join(" ".join(lines[1:5]).split())
    assert "final return" in head and "success" not in head and "IQM" not in head
    assert any("-150.0 [-150.0, -150.0]" in line for line in lines)


def test_lower_is_better_where_the_score_says_so(writer: Writer) -> None:
    cost = Score("cost", "lower", low=0, high=10)
    writer.cell("a", {seed: {100: [8], 200: [4 + seed / 4, 6]} for seed in range(5)}, steps=200, score=cost)
    writer.cell("b", {seed: {100: [3], 200: [3 - seed / 4]} for seed in range(5)}, steps=200, score=cost, method="per")
    summary = writer.summary(500)
    uer, per = summary.rows
    assert (uer.best, uer.best_step, uer.mean_of_best) == (5.25, 200, 5.25)
    assert (per.best, per.reached, uer.target) == (2.5, 100, 5.25) and per.leading and not uer.leading
    text = _text(summary)
    assert "final cost (lower is better)" in text and "of minima" in text
    assert f"*: {legends.BEST}" in legends.results(summary, "*")
    (overview,) = summary.overviews
    assert overview.improvement[per.label, uer.label].estimate == 1.0


def test_not_reached_is_more_than_the_budget(writer: Writer) -> None:
    writer.cell("a", HIGH, steps=200)
    writer.cell("b", LOW, steps=200, method="per")
    rows = writer.summary(500).rows
    assert [tables.reached(row) for row in rows] == ["200", "> 200"]
    assert [tables.seeds(row) for row in rows] == ["2 (2)", "2 (0)"]


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        *((tables.p_value, *case) for case in ((0.0004, "< 0.001"), (0.0414, "0.041"), (1.0, "1.000"), (np.nan, "—"))),
        *((tables.number, *case) for case in ((0.125, "0.12"), (-0.001, "0.00"), (np.nan, "—"), (1, "1.00"))),
    ],
)
def test_p_values_have_three_decimals_and_numbers_two(
    words: Callable[[float], str], value: float, expected: str
) -> None:
    assert words(value) == expected


def test_the_notes_line_names_seeds_profile_judge_and_resamples(two: Summary) -> None:
    note = legends.paragraph(two, "Bold")
    for words in ("2 seeds", "4 episodes", "2 evaluations", "500 resamples", "Profile: quick"):
        assert words in note
    assert "Judge sprite: scripted, hand-written for this task" in note and "Partial" not in note


def test_a_row_of_which_a_planned_seed_failed_before_its_first_evaluation_is_not_the_best(writer: Writer) -> None:
    """The better row lost a seed. Of the others, one is better by .5 in each of six seeds, which is significant."""
    for name, ends in {"a": [1, 1, 1, 1], "b": [0, 1, 1, 1], "c": [0, 0, 0, 1]}.items():
        state = {5: "failed"} if name == "a" else {}
        runs = {seed: {} if seed in state else {200: ends} for seed in range(6)}
        writer.cell(name, runs, steps=200, method=name, status=state, error="ValueError: no")
    summary = writer.summary(500)
    assert [(row.leading, row.alone, row.missing) for row in summary.rows] == [
        (False, True, (5,)),
        (True, False, ()),
        (False, False, ()),
    ]
    text, note = _text(summary), legends.paragraph(summary, "Bold")
    assert "1.00 [1.00, 1.00]†" in text and "0.75 [0.75, 0.75]*" in text and "0.25 [0.25, 0.25]*" not in text
    assert (
        "†: at an earlier step than the others, a planned seed has failed or is missing, or too few questions" in note
    )
    assert any("planned seed 5 failed or missing so far" in words for words in summary.notes)


@pytest.mark.parametrize(("seeds", "warning"), [(1, "A single seed has no interval"), (4, "79 %"), (10, "")])
def test_the_notes_line_says_what_few_seeds_cannot_show(writer: Writer, seeds: int, warning: str) -> None:
    writer.cell("a", {seed: LOW[0] for seed in range(seeds)}, steps=200)
    note = legends.paragraph(writer.summary(500), "Bold")
    few = "mean over 4 seeds of one task is too narrow. It holds the true mean in 79 % of cases where scores are normal"
    for words in ("A single seed has no interval", few):
        assert (words in note) is (bool(warning) and warning in words)


def _grid(names: int) -> list[list[str]]:
    """Return the words of each printed line of a grid with `names` columns: column n is n/10 for `one` and (n + 1)/10
    for `other`."""
    lines = {
        label: tuple(Interval(*map(np.asarray, ((number + more) / 10, 0.0, 1.0))) for number in range(names))
        for label, more in (("one", 0), ("other", 1))
    }
    grid = Grid("parts", tuple(f"part{number}" for number in range(names)), lines, digits={"part1": 1})
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(tables.grids([grid])[0])
    return [line.split() for line in capture.get().splitlines() if line.strip(" ─")]


def test_a_grid_has_a_column_for_each_estimate_and_a_line_for_each_where_there_are_many() -> None:
    few, many = _grid(6), _grid(7)
    assert few[1] == ["row", *(f"part{number}" for number in range(6))]
    assert few[2][:7] == ["one", "0.00", "[0.00,", "1.00]", "0.1", "[0.0,", "1.0]"]
    assert many[1] == ["row", "one", "other"] and len(many) == 2 + 7
    assert many[3] == ["part1", "0.1", "[0.0,", "1.0]", "0.2", "[0.0,", "1.0]"]
    assert many[8] == ["part6", "0.60", "[0.00,", "1.00]", "0.70", "[0.00,", "1.00]"]


def test_rows_with_three_evaluations_have_the_mean_of_the_last_three(writer: Writer) -> None:
    """Successes of four: 0, 1, 2 and 4 in one seed, none in the other: (1 + 2 + 4) / 12 and 0 on average."""
    writer.cell("a", {0: ending([0, 1, 2, 4]), 1: ending([0, 0, 0, 0])}, steps=400)
    summary = writer.summary(500)
    assert float(summary.rows[0].late.estimate) == pytest.approx(7 / 24)
    assert " late " in _text(summary) and " 0.29 " in _text(summary)
    assert legends.LATE in legends.paragraph(summary, "*")
    assert plain(summary)["rows"][0]["late"]["estimate"] == pytest.approx(7 / 24)
    chosen = latex.latex(summary, latex.Style(wording=wording.wording(columns=["score", "late"])))
    assert "Late" in chosen.split(r"\midrule")[0] and "& 0.29 " in chosen and legends.LATE in chosen
    assert "Late" not in latex.latex(summary)


def test_rows_with_two_evaluations_have_no_late_score(two: Summary) -> None:
    assert not np.isfinite(two.rows[0].late.estimate)
    assert " late " not in _text(two) and legends.LATE not in legends.paragraph(two, "*")


def ending(successes: list[int]) -> dict[int, list[int]]:
    return {100 * (index + 1): [1] * of + [0] * (4 - of) for index, of in enumerate(successes)}
