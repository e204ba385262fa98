"""A paper's table filled with ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reports.papers import catalogue, filled, text, verdicts
from reports.papers.estimates import Estimator
from reports.papers.filled import Filled
from reports.papers.matching import Shelf
from results import published

END = 1_000_000


def tables(shelf: Shelf, paper: str = "vlm_rb") -> dict[str, Filled]:
    estimator = Estimator(lambda _: 1.0, reps=200)
    found = filled.fill(catalogue.paper(paper), published.load(paper), shelf, estimator)
    return {table.layout.table: table for table in found}


@pytest.mark.parametrize("paper", list(published.PAPERS))
def test_every_published_number_has_one_place_in_its_table(paper: str, shelf: Callable[..., Shelf]) -> None:
    numbers = published.load(paper)
    empty = Shelf([], catalogue.paper(paper), {})
    found = tables(empty, paper)
    assert set(found) == set(numbers["table"])
    for name, table in found.items():
        placed = [entry.number for line in table.lines for cell in line.cells for entry in cell]
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
    add("ours", {0: {150_000: 1.0, END: 1.0}, 1: {150_000: 0.8, END: 1.0}}, method="vlm_rb")
    add("theirs", {0: {150_000: 0.5, END: 0.8}, 1: {150_000: 0.5, END: 0.8}}, method="uer")
    table = tables(shelf())["7"]
    (line,) = [line for line in table.lines if line.names == ("dqn", "8x8", "uer")]
    best, steps, _ = line.cells
    assert text.published(best) == "+0.0% (1.00/1.00)"
    assert text.ours(best) == "+25.0% [+25.0%, +25.0%] (1.00/0.80)"
    # published as no gain, ours one: not borne out
    assert best[0].verdict == verdicts.NOT_REPRODUCED
    assert text.published(steps) == "+10.7% (150K/168K)"
    assert text.ours(steps) == "+85.0% [+85.0%, +85.0%] (150K/1,000K)"
    assert steps[0].verdict == verdicts.REPRODUCED
    other = [line for line in table.lines if line.names == ("sac", "task3", "uer")]
    assert set(other[0].verdicts) == {verdicts.NOT_RUN}


def test_hardware_and_robots_are_published_only(shelf: Callable[..., Shelf]) -> None:
    empty = Shelf([], catalogue.paper("vlm_rb"), {})
    assert {v for line in tables(empty)["6"].lines for v in line.verdicts} == {verdicts.PUBLISHED_ONLY}
    found = tables(Shelf([], catalogue.paper("kagi"), {}), "kagi")
    assert {v for table in found.values() for line in table.lines for v in line.verdicts} == {verdicts.PUBLISHED_ONLY}
