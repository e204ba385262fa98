"""A paper's table filled with ours."""

from collections.abc import Callable

import numpy as np
import pytest

from guidebench.harness.statistics import Array
from guidebench.reports.papers import catalogue, equivalence, filled, text, verdicts
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.filled import Filled
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import published

END = 1_000_000


def tables(shelf: Shelf, paper: str = "vlm_rb") -> dict[str, Filled]:
    estimator = Estimator(reps=200)
    filled_tables = filled.fill(catalogue.paper(paper), published.load(paper), shelf, estimator)
    return {table.layout.table: table for table in filled_tables}


@pytest.mark.parametrize("paper", list(published.PAPERS))
def test_every_published_number_has_one_place_in_its_table(paper: str, shelf: Callable[..., Shelf]) -> None:
    numbers = published.load(paper)
    paper_tables = tables(Shelf([], catalogue.paper(paper), {}), paper)
    assert set(paper_tables) == set(numbers["table"])
    for name, table in paper_tables.items():
        placed = [number.number for line in table.lines for cell in line.cells for number in cell]
        assert len(placed) == (numbers["table"] == name).sum()
        if not table.layout.composed:
            assert all(len(cell) <= 1 for line in table.lines for cell in line.cells), f"{name}: two in one place"
        else:
            assert all(
                cell[0].number.metric == column.numbers[0][0]
                for line in table.lines
                for cell, column in zip(line.cells, table.layout.composed, strict=True)
                if len(cell) > 2
            )


def test_a_line_has_the_papers_numbers_and_ours_with_a_verdict(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    rises = (0.8, 0.8, 0.9, 0.7, 0.8)
    add("ours", {seed: {150_000: rise, END: rise} for seed, rise in enumerate(rises)}, method="vlm_rb")
    add(
        "theirs", {seed: {150_000: 0.5, END: rise} for seed, rise in enumerate((0.6, 0.6, 0.7, 0.5, 0.6))}, method="uer"
    )
    add("wide", {seed: {END: rate} for seed, rate in enumerate((0.1, 0.6, 0.2, 0.8, 0.3))}, method="uer", task="16x16")
    table = tables(shelf())["7"]
    (line,) = [line for line in table.lines if line.names == ("dqn", "8x8", "uer")]
    best, steps, _ = line.cells
    assert text.published(best) == "+0.0% (1.00/1.00)"
    assert text.ours(best).startswith("+33% [+") and text.ours(best).endswith("] (0.80/0.60)")
    assert best[0].verdict == verdicts.NOT_REPRODUCED, "published as no gain, ours a third"
    assert best[1].verdict == verdicts.NOT_REPRODUCED, ".80 beside 1.00, with an interval of .18 either way"
    spread = [line.cells[0][-1] for line in table.lines if line.names == ("dqn", "16x16", "uer")]
    assert [number.verdict for number in spread] == [verdicts.INCONCLUSIVE] and spread[0].reasons == (
        equivalence.TOO_WIDE,
    )
    assert text.published(steps) == "+10.7% (150K/168K)"
    assert text.ours(steps).startswith("+85.0%") and text.ours(steps).endswith("(150K/1,000K)")
    assert steps[0].verdict == verdicts.SAME_DIRECTION, "a saving, but of another size"
    other = [line for line in table.lines if line.names == ("sac", "task3", "uer")]
    assert set(other[0].verdicts) == {verdicts.NOT_RUN}


def test_robots_are_published_only(shelf: Callable[..., Shelf]) -> None:
    paper_tables = tables(Shelf([], catalogue.paper("kagi"), {}), "kagi")
    assert {v for table in paper_tables.values() for line in table.lines for v in line.verdicts} == {
        verdicts.PUBLISHED_ONLY
    }


def test_tables_of_speed_show_ours_and_say_that_the_machine_is_another(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    speeds = {"per": 200.0, "vlm_rb": 180.0}
    for method in speeds:
        add(method, {seed: {END: 0.5} for seed in range(5)}, method=method, task="16x16")
    for model in ("perception_lm_1b", "perception_lm_3b"):
        add(model, {seed: {END: 0.5} for seed in range(5)}, method="vlm_rb", backend="transformers", model=model)

    def measured(row: ReportRow, metric: str) -> Array:
        values = {"steps_per_second": speeds[row.cell.method], "seconds_per_clip": 2.0 if "3b" in row.label else 1.0}
        return np.full(len(row.seeds), values.get(metric, np.nan))

    estimator = Estimator(200, measured)
    filled_tables = filled.fill(catalogue.paper("vlm_rb"), published.load("vlm_rb"), shelf(), estimator)
    numbers = {
        (number.number.metric, number.number.method, number.number.variant.get("model", "")): number
        for table in filled_tables
        for line in table.lines
        for cell in line.cells
        for number in cell
        if table.layout.table in ("5", "6")
    }

    def ours(*key: str) -> float:
        number = numbers[key]
        assert number.verdict == verdicts.NOT_COMPARABLE and "measured on other hardware" in number.reasons
        assert number.ours is not None
        return float(number.ours.estimate)

    assert ours("steps_per_second", "per", "") == 200
    assert ours("relative_speed_percent", "vlm_rb", "") == pytest.approx(90)
    assert ours("seconds_per_clip", "vlm_rb", "perception_lm_3b") == 2
    assert ours("seconds_per_clip_change_percent", "vlm_rb", "perception_lm_3b") == pytest.approx(100)
    missing = numbers["seconds_per_clip", "vlm_rb", "perception_lm_8b"]
    assert missing.verdict == verdicts.NOT_RUN and missing.reasons == ("vlm_rb model=perception_lm_8b",)


def test_fewer_than_five_seeds_are_inconclusive_and_say_so(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    for method in ("uer", "vlm_rb"):
        add(method, {seed: {END: 0.8} for seed in range(4)}, method=method)
    paper_tables = tables(shelf())
    (line,) = [line for line in paper_tables["7"].lines if line.names == ("dqn", "8x8", "uer")]
    published_entry = line.cells[0][-1]
    assert published_entry.number.method == "uer" and published_entry.verdict == verdicts.INCONCLUSIVE
    assert published_entry.reasons == ("fewer than five seeds",) and "fewer than five seeds" in text.letters(
        paper_tables.values(), []
    )
