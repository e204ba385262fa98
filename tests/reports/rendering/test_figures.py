from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Cells, Chart, Curve
from guidebench.reports.summary.rows import ReportRow
from tests.reports.conftest import Writer

RISING = {seed: {100: [0, 0], 200: [seed, 1], 300: [1, 1]} for seed in (0, 1)}


def test_there_is_a_drawing_per_task_with_safe_distinct_names_and_the_same_bytes_each_time(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for any name of a task, and for methods with long names or mathematics in them. The PDF embeds its
    fonts as TrueType, as journals ask."""
    monkeypatch.setitem(figures.STYLE, "pdf.use14corefonts", False)  # tests/matplotlibrc
    for number, task in enumerate(("8x8", "8/x 8", "8 x/8")):
        writer.cell(f"c{number}", RISING, task=task, method="_$\\frac{1}$" + "long " * 30)
    rows = writer.summary().rows
    first, again = figures.learning_curves(rows), figures.learning_curves(rows[:1])
    names = [drawing.name for drawing in first]
    assert names[0] == "curves-grid-8x8" and len(set(names)) == 3
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names) and first[0] == again[0]
    assert first[0].png.startswith(b"\x89PNG") and first[0].pdf.startswith(b"%PDF")
    assert b"/FontFile2" in first[0].pdf and b"/Type3" not in first[0].pdf
    assert b"CreationDate" not in first[0].pdf and "ends at 1.00 after 300 steps" in first[0].alt


def _axes(rows: tuple[ReportRow, ...]):
    axes = Figure().add_subplot()
    return axes, figures.plot(axes, figures._learning("grid/8x8", rows), figures.styles(row.label for row in rows))


def test_the_line_is_the_mean_and_the_band_the_interval(writer: Writer, tmp_path: Path) -> None:
    writer.cell("a", RISING)
    axes, (line,) = _axes(writer.summary().rows)
    assert line.get_xdata().tolist() == [100, 200, 300] and line.get_ydata().tolist() == [0.0, 0.75, 1.0]
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices
    assert sorted(set(edges[edges[:, 0] == 200][:, 1])) == [pytest.approx(0.5), pytest.approx(1.0)]
    alone = Writer(tmp_path / "alone")
    alone.cell("a", {0: {100: [-0.5, 0.5]}}, score=Score("return"))
    rows = alone.summary().rows
    axes, handles = _axes(rows)
    assert len(handles) == 1 and not axes.collections, "one seed has a line and no band"
    assert axes.get_ylabel() == "mean return", "and a task scored by its return has the return drawn"
    assert "mean return against environment steps" in figures.learning_curves(rows)[0].alt


def test_rows_differ_in_line_and_marker_not_by_colour_alone(writer: Writer) -> None:
    for name in "abcdefg":
        writer.cell(name, RISING, method=name)
    _, handles = _axes(writer.summary().rows)
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in handles}) == 7
    assert len({line.get_color() for line in handles}) == 7


@pytest.mark.parametrize(("count", "panels"), [(4, 1), (5, 5), (6, 6)])
def test_more_than_four_curves_have_a_panel_each_before_the_others(
    monkeypatch: pytest.MonkeyPatch, count: int, panels: int
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(figures, "saved", lambda figure: (saved.append(figure), (b"", b""))[1])
    x = np.array([0.0, 10.0, 20.0])
    values = [np.array([0.0, 1.0, 2.0]) * i for i in range(count)]
    curves = [
        Curve(f"$row {i}", x[: 2 + i % 2], Interval(*[height[: 2 + i % 2]] * 3)) for i, height in enumerate(values)
    ]
    figures.lines(Chart("t", "x", "y", curves, unit_interval=False), figures.styles(curve.label for curve in curves))
    visible_axes = [axes for axes in saved[0].axes if axes.axison]
    assert len(visible_axes) == panels
    for i, axes in enumerate(visible_axes if panels > 1 else []):
        front, *behind = axes.get_lines()
        assert axes.get_title() == rf"\$row {i}" and front.get_color() == figures.PALETTE[i]
        assert front.get_ydata().tolist() == curves[i].values.estimate.tolist() and len(axes.collections) == 1
        assert {line.get_color() for line in behind} == {figures.BEHIND} and len(behind) == count - 1
        assert axes.get_xlim() == (0, 20) and axes.get_ylim() == visible_axes[0].get_ylim()


def curves(count: int) -> list[Curve]:
    values = np.array([1.0, 0.5, 0.0])
    return [
        Curve(str(i), np.array([0.0, 0.5, 1.0]), Interval(values, values - 0.1, values + 0.1)) for i in range(count)
    ]


@pytest.mark.parametrize(("count", "width"), [(4, 0.0), (5, 0.4)])
def test_bands_of_more_than_four_curves_on_one_axis_have_edges(count: int, width: float) -> None:
    axes = Figure().add_subplot()
    figures.plot(axes, Chart("t", "x", "y", curves(count)), figures.styles(map(str, range(count))))
    assert [band.get_linewidth()[0] for band in axes.collections] == [width] * count


def test_a_share_that_holds_up_to_the_next_threshold_is_drawn_as_steps() -> None:
    axes = Figure().add_subplot()
    (line,) = figures.plot(axes, Chart("t", "x", "y", curves(1), steps=True), {"0": 0})
    assert line.get_drawstyle() == "steps-post" and axes.get_xlim() == (0.0, 1.0) and axes.get_ylim() == (0.0, 1.0)


def test_numbers_in_a_heat_map_can_be_read_on_their_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(figures, "saved", lambda figure: (saved.append(figure), (b"", b""))[1])
    values = np.array([[0.0, 1.0], [np.nan, 0.5]])
    bold = np.array([[False, True], [False, False]])
    cells = Cells(values, [["0.00", "1.00"], ["—", "0.50"]], bold, ["$a", "b"], ["c", "d"], (0.0, 1.0))
    figures.heat_map("two\nlines", cells, "x", "y")
    (axes,) = saved[0].axes
    texts = {text.get_text(): text for text in axes.texts}
    assert {name: text.get_position() for name, text in texts.items()} == {
        "0.00": (0, 0),
        "1.00": (1, 0),
        "—": (0, 1),
        "0.50": (1, 1),
    }
    # cividis goes from dark blue to yellow; what is missing is white
    assert [texts[name].get_color() for name in ("0.00", "1.00", "—")] == ["white", "black", "black"]
    assert [text.get_fontweight() for text in axes.texts] == ["normal", "bold", "normal", "normal"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [r"\$a", "b"]
    assert saved[0].get_suptitle() == "two\nlines" and saved[0].get_figwidth() == 3.3
