"""Charts as Vega-Lite specifications without data, and the program that draws them in a page.

Specifications are made with Altair. Each names the data set `rows`, which the page supplies (templates/charts.js).
Every record has `series`, an index: the names of series are in the page's own legend and never become part of a
specification, so a stranger's text can be neither expression nor link. Fields: `x`, `value`, `low`, `high`, `series`.
"""

from __future__ import annotations

import re
from typing import Any

from guidebench.reports.rendering import inline
from guidebench.reports.rendering.kept import kept


@kept("vl-convert-python")
def bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed with its expression interpreter as one script (0.9 MB)."""
    import vl_convert

    # The function scope keeps the bundle's top-level names out of the page.
    libraries = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stubs ask for what it does not need
    return f"(() => {{\n{libraries}\n}})();"


@kept("vl-convert-python")
def packed_bundle() -> str:
    """Return the bundle compressed, as `parts.scripts` takes it."""
    return inline.packed(bundle())


def title(text: str) -> str:
    """Return `text` without what may not be in an axis title, since Vega makes the title part of expressions."""
    return re.sub(r"[^\w ,.:()%/+-]", "", text)[:60]


@kept("altair")
def curves(x: str, y: str, domain: tuple[float, float] | None = (0.0, 1.0), band: bool = True) -> dict[str, Any]:
    """Return a chart of lines over `x`, with a band from `low` to `high` unless no row has them; `x`, `y`: titles of
    the axes."""
    import altair as alt

    x, y = title(x), title(y)
    shown = "format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')"  # 0.2 would be 200m
    across = alt.X("x:Q", title=x, axis=alt.Axis(labelExpr=shown, tickCount=6), scale=alt.Scale(zero=False, nice=False))
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale(zero=False)
    base = alt.Chart(alt.NamedData(name="rows")).encode(x=across, color=alt.Color("series:N", legend=None))
    up = alt.Y("value:Q", title=y, scale=scale)
    between = (
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_area(opacity=0.15, stroke=None)
        .encode(y=alt.Y("low:Q", title=y, scale=scale), y2="high:Q")
    )
    told = [
        alt.Tooltip("name:N", title="Row"),
        alt.Tooltip("x:Q", title=x, format=",.6~g"),
        alt.Tooltip("value:Q", title=y, format=".4~g"),
    ]
    if band:
        told += [
            alt.Tooltip("low:Q", title="from", format=".4~g"),
            alt.Tooltip("high:Q", title="to", format=".4~g"),
        ]
    line = base.mark_line(strokeWidth=2).encode(y=up, strokeDash=alt.StrokeDash("series:N", legend=None))
    points = base.mark_point(filled=True, size=25).encode(y=up, tooltip=told)
    chart = alt.layer(*([between] if band else []), line, points).properties(width="container", height=260)
    return {key: value for key, value in chart.to_dict().items() if key not in ("$schema", "config")}
