from __future__ import annotations

import re

import pytest
from matplotlib.figure import Figure

import results
from reports import figures, summary
from reports.summary import Row
from tests.reports.conftest import Writer

RISING = {seed: {100: [0, 0], 200: [seed, 1], 300: [1, 1]} for seed in (0, 1)}


def _rows(writer: Writer) -> tuple[Row, ...]:
    study = results.study(writer.finish())
    return summary.summarise(study, results.load(study), reps=200).rows


def test_the_same_numbers_give_the_same_bytes(writer: Writer) -> None:
    writer.cell("a", RISING)
    rows = _rows(writer)
    (first,), (second,) = figures.learning_curves(rows), figures.learning_curves(rows)
    assert first == second
    assert first.png.startswith(b"\x89PNG") and first.pdf.startswith(b"%PDF")
    assert b"CreationDate" not in first.pdf


def test_there_is_a_drawing_per_task_with_safe_distinct_names(writer: Writer) -> None:
    for number, task in enumerate(("8x8", "8/x 8", "8 x/8")):
        writer.cell(f"c{number}", RISING, task=task)
    names = [drawing.name for drawing in figures.learning_curves(_rows(writer))]
    assert names[0] == "curves-grid-8x8" and len(set(names)) == 3
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)


def _axes(rows: tuple[Row, ...]):
    axes = Figure().add_subplot()
    handles = figures._plot(axes, rows, {row.label: index for index, row in enumerate(rows)})
    return axes, handles


def test_the_line_is_the_mean_and_the_band_the_interval(writer: Writer) -> None:
    writer.cell("a", RISING)
    rows = _rows(writer)
    axes, (line,) = _axes(rows)
    assert line.get_xdata().tolist() == [100, 200, 300]
    assert line.get_ydata().tolist() == [0.0, 0.75, 1.0]
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices
    at_200 = sorted(set(edges[edges[:, 0] == 200][:, 1]))
    assert at_200 == [pytest.approx(0.5), pytest.approx(1.0)]


def test_one_seed_has_a_line_and_no_band(writer: Writer) -> None:
    writer.cell("a", {0: RISING[0]})
    axes, handles = _axes(_rows(writer))
    assert len(handles) == 1 and not axes.collections


def test_rows_differ_in_line_and_marker_not_by_colour_alone(writer: Writer) -> None:
    for name in "abcdefg":
        writer.cell(name, RISING, method=name)
    _, handles = _axes(_rows(writer))
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in handles}) == 7
    assert len({line.get_color() for line in handles}) == 7


def test_without_any_success_the_return_is_drawn(writer: Writer) -> None:
    writer.cell("a", {seed: {100: [0, 0]} for seed in (0, 1)})
    rows = _rows(writer)
    axes, _ = _axes(rows)
    assert axes.get_ylabel() == "mean return"
    assert "mean return against environment steps" in figures.learning_curves(rows)[0].alt


def test_names_with_mathematics_and_great_length_are_drawn(writer: Writer) -> None:
    writer.cell("a", RISING, method="_$\\frac{1}$" + "long " * 30)
    (drawing,) = figures.learning_curves(_rows(writer))
    assert "ends at 1.00 after 300 steps" in drawing.alt
