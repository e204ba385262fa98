"""Two settings crossed: when a study is a full grid, and what its picture says."""

from typing import Any

import pytest

from guidebench.reports.rendering import figures
from guidebench.reports.sections import Source, builtin, crossed
from guidebench.reports.sections.crossed import SweepGrid
from guidebench.reports.summary import bounding
from tests.reports.conftest import Writer

SPRITE = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}


def _settings(**values: Any) -> dict[str, Any]:
    return {name.replace("__", "."): {"value": value, "layer": "command line"} for name, value in values.items()}


def _cell(writer: Writer, rate: int, planned: bool = True, **values: Any) -> None:
    """Write a cell of two seeds whose last evaluation has `rate` successes of four episodes."""
    curves = {seed: {100: [0] * 4, 200: [1] * rate + [0] * (4 - rate)} for seed in (0, 1)}
    name = "-".join(str(value) for value in values.values())
    writer.cell(name, curves if planned else {}, planned=[0, 1], steps=200, settings=_settings(**values), **SPRITE)


def _grids(writer: Writer) -> list[SweepGrid]:
    study, summary = writer.summarised()
    return crossed.grids(study.cells, summary.rows)


@pytest.fixture
def grid(writer: Writer) -> Writer:
    """A writer with cells of three values by two of two settings; a third setting is the same everywhere."""
    for row, length in enumerate((32, 16)):
        for column, cap in enumerate((0.5, None, 0.25)):
            _cell(writer, row + column, replay__lambda_max=cap, replay__clip_length=length, learner__lr=0.1)
    return writer


def test_two_fields_with_every_pair_of_values_are_a_grid_the_longer_across(grid: Writer) -> None:
    grid.cell("uer", {0: {200: [1]}}, steps=200, method="uer")  # methods are crossed apart
    (crossed_grid,) = _grids(grid)
    assert (crossed_grid.task_id, crossed_grid.label) == ("grid/8x8", "vlm_rb · sprite · quick")
    assert crossed_grid.fields == ("replay.clip_length", "replay.lambda_max")
    assert crossed_grid.values == (("16", "32"), ("0.25", "0.5", "null"))
    finals = [[float(row.final.estimate) for row in line if row] for line in crossed_grid.rows]
    assert finals == [[0.75, 0.25, 0.5], [0.5, 0.0, 0.25]]


def test_a_missing_pair_a_third_field_and_a_single_field_are_no_grid(writer: Writer) -> None:
    for number, (first, second) in enumerate([(1, 1), (1, 2), (2, 1), (2, 2)]):
        _cell(writer, 1, planned=number > 0, a__x=first, a__y=second)
        assert len(_grids(writer)) == (number == 3), number
    (drawing,) = crossed.drawings(_grids(writer))
    assert "a.x=1, a.y=1: not evaluated; a.x=1, a.y=2: 0.25" in drawing.alt
    assert drawing.png.startswith(b"\x89PNG") and drawing.pdf.startswith(b"%PDF")
    _cell(writer, 1, a__x=2, a__y=2, a__z=1)
    assert _grids(writer) == []


def test_the_picture_has_every_number_in_its_place_and_in_words(grid: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    maps: list[figures.Cells] = []
    monkeypatch.setattr(figures, "heat_map", lambda title, cells, xlabel, ylabel: (maps.append(cells), (b"", b""))[1])
    (drawing,) = crossed.drawings(_grids(grid))
    (cells,) = maps
    assert cells.texts == [["0.75", "0.25", "0.50"], ["0.50", "0.00", "0.25"]]
    assert cells.values.tolist() == [[0.75, 0.25, 0.5], [0.5, 0.0, 0.25]]
    assert not cells.bold.any(), "two seeds tell nothing apart"
    assert drawing.name == "crossed-grid-8x8-vlm_rb-sprite-quick"
    assert "replay.clip_length=16, replay.lambda_max=null: 0.50" in drawing.alt


def test_a_map_of_many_pairs_has_colours_alone_and_tells_its_ends(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crossed, "NUMBERED", 2)
    for row, length in enumerate((32, 16)):
        for column, cap in enumerate((0.5, 0.25, 0.75)):
            _cell(writer, row + column, planned=(row, column) != (0, 1), replay__lambda_max=cap, a__length=length)
    (drawing,) = crossed.drawings(_grids(writer))
    assert "5 of 6 pairs are evaluated, from 0.00 (a.length=32, replay.lambda_max=0.5) to" in drawing.alt
    assert "to 0.75 (a.length=16, replay.lambda_max=0.75)." in drawing.alt and drawing.png.startswith(b"\x89PNG")


def test_the_map_has_every_row_of_a_report_that_shows_some(writer: Writer) -> None:
    for number in range(8 * 8):
        _cell(writer, number % 5, a__x=number // 8, a__y=number % 8)
    every = writer.summarised()
    bounded = bounding.bounded(*every)
    labels = {row.cell.id: row.label for row in bounded[1].rows}
    source = Source(*bounded, 200, labels, figures.styles(labels.values()), unbounded=every)
    section = next(section for section in builtin.SECTIONS if section.name == "crossed")
    assert len(bounded[1].rows) < 64
    (crossed_grid,) = section.load(source)
    assert sum(row is not None for line in crossed_grid.rows for row in line) == 64
