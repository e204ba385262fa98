"""What stands beside a verdict: our difference from the baseline."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.reports.papers import catalogue, filled, text
from guidebench.reports.papers.comparisons import difference
from guidebench.reports.papers.estimates import Estimator, Setting
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import published

END = 1_000_000
Add = Callable[..., Path]
Shelves = Callable[..., Shelf]


def finals(*rates: float) -> dict[int, dict[int, float]]:
    return {seed: {END // 2: 0.0, END: rate} for seed, rate in enumerate(rates)}


def rows(shelf: Shelf) -> dict[str, ReportRow]:
    return {f"{row.cell.method} {row.cell.task}": row for row in shelf._rows}


def test_the_final_score_less_the_baselines_with_p_and_seeds_needed(add: Add, shelf: Shelves) -> None:
    """All of five seeds are above five others, as in 2 of 252 relabellings; four seeds a side would be enough."""
    add("ours", finals(1.0, 0.9, 0.9, 0.8, 0.9), method="vlm_rb")
    add("theirs", finals(0.2, 0.1, 0.3, 0.2, 0.1), method="uer")
    rows_shelf = shelf()
    ours, theirs = rows(rows_shelf)["vlm_rb 8x8"], rows(rows_shelf)["uer 8x8"]
    assert rows_shelf.baseline(ours) is theirs and rows_shelf.baseline(theirs) is None
    comparison = difference([(ours, theirs)])
    assert (
        comparison is not None
        and comparison.comparison.p == pytest.approx(2 / 252)
        and comparison.comparison.needed == 4
    )
    words = text.difference(comparison)
    assert words.startswith("final success 0.72 [0.55, 0.82") and words.endswith("] from uer, p 0.008, 4 seeds needed")
    assert difference([(theirs, None)]) is None and text.difference(None) == ""


def test_the_difference_stands_beside_every_verdict_on_ours(add: Add, shelf: Shelves) -> None:
    add("ours", finals(1.0, 0.9, 0.9), method="vlm_rb")
    add("theirs", finals(0.2, 0.1, 0.3), method="uer")
    paper = catalogue.paper("vlm_rb")
    tables = filled.fill(paper, published.load("vlm_rb"), shelf(), Estimator(reps=200))
    (table,) = (table for table in tables if table.layout.table == "7")
    (line,) = (line for line in table.lines if line.names == ("dqn", "8x8", "uer"))
    words = "final success 0.73 (3 seeds cannot tell) from uer, p 0.100, 4 seeds needed"
    assert text.differences(line) == words
    assert "final success 0.73 (3 seeds cannot tell) from uer" in text.latex(table, {}, "", "")
    assert "(3 seeds cannot tell)" in text.ours(line.cells[0]), "and neither can the gain"


def test_over_several_tasks_the_mean_is_compared_where_all_have_as_many_seeds(add: Add, shelf: Shelves) -> None:
    """Two tasks with three seeds a side have 400 relabellings, of which 2 are as extreme."""
    for task, shift in (("8x8", 0.0), ("16x16", 0.1)):
        add(f"ours-{task}", finals(*(rate + shift for rate in (0.8, 0.9, 0.7))), method="vlm_rb", task=task)
        add(f"theirs-{task}", finals(*(rate + shift for rate in (0.2, 0.1, 0.3))), method="uer", task=task)
    rows_shelf = shelf()
    pairs = [(row, rows_shelf.baseline(row)) for name, row in rows(rows_shelf).items() if name.startswith("vlm_rb")]
    comparison = difference(pairs)
    assert (
        comparison is not None
        and comparison.comparison.p == pytest.approx(2 / 400)
        and comparison.comparison.needed == 3
    )
    assert (
        float(comparison.comparison.difference.estimate) == pytest.approx(0.6)
        and comparison.comparison.difference.low > 0
    )


def test_a_gain_is_cut_at_what_is_possible_beside_the_baseline(add: Add, shelf: Shelves) -> None:
    """If the baseline's best is .5, no rate can gain more than 100 %."""
    add("ours", finals(1.0, 0.2, 1.0, 0.1, 0.9), method="vlm_rb")
    add("theirs", finals(0.1, 0.9, 0.5, 0.9, 0.1), method="uer")
    both = rows(shelf())
    settings = [Setting(both["vlm_rb 8x8"], both["uer 8x8"])]
    gain = Estimator(reps=500)("gain_percent", settings)
    assert float(gain.interval.high) == pytest.approx(100) and gain.interval.low >= -100
    assert gain.interval_note == ""
