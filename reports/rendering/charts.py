"""Charts as Vega-Lite specifications without data, and the program that draws them in a page.

Each specification names the data set `rows`, which the page supplies (templates/charts.js). Every record has `series`,
an index: the names of series are in the page's own legend and never become part of a specification, so a stranger's
text can be neither expression nor link. Fields: `x`, `value`, `low`, `high`, `series`.
"""

from __future__ import annotations

import base64
import functools
import gzip
import re
from typing import Any

from guidebench.reports.rendering.inline import TEMPLATES

PROGRAM = TEMPLATES / "vega.js.gz"
"""Vega, Vega-Lite and vega-embed with its expression interpreter as one script, made by `python -m tools.vega`."""
NUMBER = "format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')"
"""Expression of an axis label, in which 0.2 is not 200m."""


@functools.cache
def bundle() -> str:
    """Return the JavaScript of `PROGRAM`, 0.9 MB."""
    return gzip.decompress(PROGRAM.read_bytes()).decode("utf-8")


@functools.cache
def packed_bundle() -> str:
    """Return the gzip-compressed JavaScript of `PROGRAM` in base64, as the template macro `parts.scripts` takes it."""
    return base64.b64encode(PROGRAM.read_bytes()).decode("ascii")


def title(text: str) -> str:
    """Return an axis title without characters that Vega could read as part of an expression, cut to 60."""
    return re.sub(r"[^\w ,.:()%/+-]", "", text)[:60]


def curves(x: str, y: str, domain: tuple[float, float] | None = (0.0, 1.0), band: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification of lines over `x`, with a band from `low` to `high` unless `band` is false.
    `x`, `y`: axis titles; `domain`: range of the y axis, None for that of the data."""
    x, y = title(x), title(y)
    across = {
        **_quantity("x", x),
        "axis": {"labelExpr": NUMBER, "tickCount": 6},
        "scale": {"zero": False, "nice": False},
    }
    scale = {"domain": list(domain)} if domain else {"zero": False}
    series = {"field": "series", "type": "nominal", "legend": None}
    shared = {"x": across, "color": series}
    up = {**_quantity("value", y), "scale": scale}
    area = {
        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
        "mark": {"type": "area", "opacity": 0.15, "stroke": None},
        "encoding": {**shared, "y": {**_quantity("low", y), "scale": scale}, "y2": {"field": "high"}},
    }
    line = {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {**shared, "y": up, "strokeDash": series}}
    tooltip = [
        {"field": "name", "type": "nominal", "title": "Row"},
        {**_quantity("x", x), "format": ",.6~g"},
        {**_quantity("value", y), "format": ".4~g"},
    ]
    if band:
        tooltip += [{**_quantity(field, name), "format": ".4~g"} for field, name in (("low", "from"), ("high", "to"))]
    points = {
        "mark": {"type": "point", "filled": True, "size": 25},
        "encoding": {**shared, "y": up, "tooltip": tooltip},
    }
    layers = [area, line, points] if band else [line, points]
    return {"data": {"name": "rows"}, "layer": layers, "width": "container", "height": 260}


def _quantity(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title}
