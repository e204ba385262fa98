import re

from guidebench.reports.rendering import charts


def test_a_chart_without_a_band_has_neither_area_nor_bounds_in_its_tooltip() -> None:
    domain = (0.0, 1.0)
    with_band, without = (charts.curves("steps", "success rate", domain, band) for band in (True, False))
    assert [layer["mark"]["type"] for layer in with_band["layer"]] == ["area", "line", "point"]
    assert [layer["mark"]["type"] for layer in without["layer"]] == ["line", "point"]
    names = [[field["field"] for field in chart["layer"][-1]["encoding"]["tooltip"]] for chart in (with_band, without)]
    assert names == [["name", "x", "value", "low", "high"], ["name", "x", "value"]]


def test_the_program_that_draws_charts_comes_with_the_licences_of_its_libraries() -> None:
    licences = charts.PROGRAM.with_name("vega.LICENSE").read_text(encoding="utf-8")
    assert {"vega", "vega-lite", "vega-embed", "vega-interpreter", "d3-array"} <= set(re.findall(r"[\w-]+", licences))
    assert "window.vegaEmbed=" in charts.bundle()
