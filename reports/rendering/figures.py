"""Figures at column width in one style: lines with bands, heat maps, and learning curves.

The same numbers give the same bytes. matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.grouping import grouped
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.rendering import ticks
from guidebench.reports.summary import comparability, scoring
from guidebench.reports.summary.rows import ReportRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH_INCHES = 3.3
DPI = 300
PACKED = 3
"""Compression level of PNG: half the time of the usual 6 for a fifteenth more bytes."""
LABEL_CHARACTERS = 50
FEW = 4
"""Most curves that share one axis; with more, each has a panel of its own, with the others behind it."""
PANEL_CHARACTERS = 27
"""Most characters of a row's name in a line above its panel."""
ROW_CHARACTERS = 24
"""Most characters of a row's name beside a heat map."""
NAMED = 10
"""Most names along an axis of a map of colours."""
LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in luminance."""
CHARACTERS = 200
"""Most characters of a file's name, without its extension."""
SUCCESS = "success rate"
RETURN = "mean return"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that readers with any common colour blindness can distinguish (Okabe and Ito), best contrast first."""
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
BEHIND = "#BBBBBB"
"""Colour of the other curves in a panel."""
SEQUENTIAL, DIVERGING = "cividis", "PuOr"
"""Colour maps that readers with any common colour blindness can order."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "guidebench",
}


class Drawing(NamedTuple):
    """A figure as PNG and PDF, with a text for readers who cannot see it."""

    caption: str
    name: str
    """Start of its file names."""
    png: bytes
    pdf: bytes
    alt: str
    chart: Chart | None = None
    """Its data, if it consists of lines that a page can draw itself."""


class Gallery(NamedTuple):
    """Figures that belong together, under one heading of the page."""

    title: str
    remark: str
    """How to read them, in a sentence or two; may be empty."""
    drawings: Sequence[Drawing]


class Curve(NamedTuple):
    """A named line and its band: `values` [n] at `x` [n]."""

    label: str
    x: Array
    values: Interval


class Chart(NamedTuple):
    """Lines over one axis."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    unit_interval: bool = True
    """Whether values are shares, drawn from 0 to 1."""
    steps: bool = False
    """Whether a value holds up to the next x instead of being joined to the next by a line."""


def learning_curves(rows: Sequence[ReportRow]) -> list[Drawing]:
    """Draw one figure per place of `rows`, in their order; where a task has several places, titles distinguish them."""
    places = styles(row.label for row in rows)
    return numbered(
        Drawing(chart.title, file_name("curves", chart.title), *lines(chart, places), words, chart)
        for chart, words in learning_charts(rows)
    )


def learning_charts(rows: Sequence[ReportRow]) -> list[tuple[Chart, str]]:
    """Return the charts of `learning_curves` as data, each with a text for readers who cannot see it."""
    headings = comparability.headings(row.place for row in rows)
    places_of_task = Counter(place.task_id for place in headings)
    tasks = grouped(rows, lambda row: row.task_id if places_of_task[row.task_id] == 1 else headings[row.place])
    return [(_learning(title, members), _words(title, members)) for title, members in tasks.items()]


def style(index: int) -> dict[str, Any]:
    """Return colour and line style of the line with this index (`styles`), as arguments for matplotlib."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": LINES[index % len(LINES)]}


def styles(labels: Iterable[str]) -> dict[str, int]:
    """Return label -> its index among colours and line styles, the same in every figure of a study."""
    return {label: index for index, label in enumerate(dict.fromkeys(labels))}


def file_name(kind: str, subject: str) -> str:
    """Return the file name `KIND-SUBJECT`, without extension, with safe characters only, cut to a length that file
    systems take."""
    return (f"{kind}-" + re.sub(r"[^A-Za-z0-9_.]+", "-", subject).strip("-."))[:CHARACTERS]


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return a file name, numbered if it is among `taken`."""
    return name if name not in taken else f"{name}-{len(taken) + 1}"


def numbered(drawings: Iterable[Drawing | None]) -> list[Drawing]:
    """Return those drawings that are not None; one that has the file name of an earlier one is numbered."""
    named: list[Drawing] = []
    for drawing in filter(None, drawings):
        named.append(drawing._replace(name=free_name(drawing.name, [other.name for other in named])))
    return named


def _learning(title: str, rows: Sequence[ReportRow]) -> Chart:
    """Return the scores of rows over training as a chart, a curve per row."""
    score = rows[0].score
    share = (score.low, score.high) == (0, 1)
    curves = [Curve(row.label, row.steps, row.curve) for row in rows]
    return Chart(title, "environment steps per seed", scoring.mean_of(score), curves, share)


def files(drawings: Iterable[Drawing]) -> dict[str, bytes]:
    """Return file name -> content of figures, as PNG and PDF."""
    return {f"{drawing.name}.{kind}": getattr(drawing, kind) for drawing in drawings for kind in ("png", "pdf")}


@contextmanager
def canvas(height: float, width: float = WIDTH_INCHES) -> Iterator[Figure]:
    """Yield a figure of the given size in inches, one column wide, to be drawn and `saved` within the block."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def saved(figure: Figure) -> tuple[bytes, bytes]:
    """Return a figure as PNG and PDF; the same figure gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    png, pdf = io.BytesIO(), io.BytesIO()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    if ticks.separate(figure):
        canvas.draw()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").save(
        png, "PNG", dpi=(DPI, DPI), compress_level=PACKED
    )
    figure.set_layout_engine(None)  # one layout serves both files
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return png.getvalue(), pdf.getvalue()


def lines(chart: Chart, places: Mapping[str, int]) -> tuple[bytes, bytes]:
    """Draw a chart and return PNG and PDF, in panels if it has more than `FEW` curves; `places`: label -> index of its
    style (`styles`)."""
    return _single_axes(chart, places) if len(chart.curves) <= FEW else _panels(chart, places)


def _panels(chart: Chart, places: Mapping[str, int]) -> tuple[bytes, bytes]:
    """Draw a panel for each curve, two side by side; grey lines behind a curve are all the others."""
    names = [textwrap.fill(literal(curve.label), PANEL_CHARACTERS) for curve in chart.curves]
    heights = [max(name.count("\n") for name in names[at : at + 2]) for at in range(0, len(names), 2)]
    title = textwrap.fill(literal(chart.title), LABEL_CHARACTERS)
    with canvas(0.4 + 0.13 * title.count("\n") + sum(1.15 + 0.13 * lines for lines in heights)) as figure:
        grid = figure.subplots(len(heights), 2, sharex=True, sharey=True, squeeze=False)
        for axes, name, curve in zip(grid.flat, names, chart.curves, strict=False):
            plot(axes, chart._replace(title="", xlabel="", ylabel="", curves=[curve]), places)
            for other in chart.curves:
                if other is not curve:
                    style = "steps-post" if chart.steps else "default"
                    axes.plot(other.x, other.values.estimate, color=BEHIND, linewidth=0.6, drawstyle=style, zorder=1)
            axes.set_title(name, fontsize=7)
        _shared_ends(grid.flat[0], chart)
        for axes in grid.flat[len(names) :]:
            axes.set_axis_off()
        if len(names) % 2:
            grid[-2, 1].tick_params(labelbottom=True)  # no panel is below it
        figure.suptitle(title, fontsize=8)
        figure.supxlabel(literal(chart.xlabel), fontsize=8)
        figure.supylabel(literal(chart.ylabel), fontsize=8)
        return saved(figure)


def _single_axes(chart: Chart, places: Mapping[str, int]) -> tuple[bytes, bytes]:
    labels = [textwrap.fill(literal(curve.label), LABEL_CHARACTERS) for curve in chart.curves]
    columns = 2 if max(map(len, labels)) <= LABEL_CHARACTERS // 2 and len(labels) > 1 else 1
    below = sum(label.count("\n") + 1 for label in labels)
    with canvas(2.1 + 0.15 * -(-below // columns)) as figure:
        handles = plot(figure.add_subplot(), chart, places)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)
        return saved(figure)


def plot(axes: Axes, chart: Chart, places: Mapping[str, int]) -> list[Line2D]:
    """Draw the lines of a chart on `axes`, with bands where there are intervals; return handles for a legend."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    handles = []
    for label, x, (centre, low, high) in chart.curves:
        index = places[label]
        colour = PALETTE[index % len(PALETTE)]
        handles += axes.plot(
            x,
            centre,
            color=colour,
            linestyle=LINES[index % len(LINES)],
            linewidth=1.2,
            marker=MARKERS[index % len(MARKERS)],
            markersize=2.8,
            markevery=max(1, len(x) // 8),
            drawstyle="steps-post" if chart.steps else "default",
            zorder=3,
            clip_on=False,
        )
        if np.isfinite(low).all():
            step: Any = "post" if chart.steps else None
            many = len(chart.curves) > FEW  # bands overlap: edges distinguish them
            filled, edge = ((colour, 0.06), 0.4) if many else ((colour, 0.18), 0.0)
            axes.fill_between(x, low, high, step=step, facecolor=filled, edgecolor=colour, linewidth=edge)
    if chart.unit_interval:
        axes.set_ylim(0, 1)
    last = _shared_ends(axes, chart)
    axes.set(xlabel=chart.xlabel, ylabel=chart.ylabel)
    axes.set_title(textwrap.fill(literal(chart.title), LABEL_CHARACTERS))
    axes.set_axisbelow(True)
    axes.grid(axis="y", linewidth=0.4, color="#DDDDDD")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=last > 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    return handles


def _shared_ends(axes: Axes, chart: Chart) -> float:
    """Set the x axis to span all curves of the chart; return the last x."""
    first, last = min(curve.x[0] for curve in chart.curves), max(curve.x[-1] for curve in chart.curves)
    axes.set_xlim(0 if first <= last / 2 else first - 1, last if last > 0 else 1)
    return float(last)


class Cells(NamedTuple):
    """A table as colours: `values` and `texts` [rows, columns], NaN where empty; `bold` marks cells to emphasise."""

    values: Array
    texts: Sequence[Sequence[str]]
    bold: Array
    rows: Sequence[str]
    columns: Sequence[str]
    scale: tuple[float, float]
    colours: str = SEQUENTIAL
    intervals: Sequence[Sequence[str]] = ()
    """What stands in small beside each text, such as `33–81`, [rows, columns]; none if empty."""


def heat_map(title: str, cells: Cells, xlabel: str, ylabel: str = "") -> tuple[bytes, bytes]:
    """Draw a table as colours with a number in every cell and return PNG and PDF; numbers are dark or light for
    contrast."""
    names = [textwrap.fill(literal(name), ROW_CHARACTERS) for name in cells.rows]
    lines = [part for line in title.split("\n") for part in textwrap.wrap(literal(line), LABEL_CHARACTERS)]
    least = 0.3 if cells.intervals else 0.24
    height = sum(max(least, 0.11 * (name.count("\n") + 1)) for name in names)
    with canvas(height + 0.65 + 0.13 * len(lines)) as figure:
        axes = figure.add_subplot()
        masked = np.ma.masked_invalid(cells.values)
        image = axes.imshow(
            masked, cmap=cells.colours, vmin=cells.scale[0], vmax=cells.scale[1], aspect="auto", interpolation="nearest"
        )
        for (row, column), value in np.ndenumerate(cells.values):
            dark = np.isfinite(value) and np.dot(image.cmap(image.norm(value))[:3], LUMINANCE) < 0.5
            colour = "white" if dark else "black"
            beside = cells.intervals[row][column] if cells.intervals else ""
            axes.text(
                column,
                row - 0.14 * bool(beside),
                cells.texts[row][column],
                ha="center",
                va="center",
                fontsize=7 if len(cells.columns) <= 8 else 6,
                color=colour,
                fontweight="bold" if cells.bold[row, column] else "normal",
            )
            if beside:
                size = 5.0 if len(cells.columns) <= 6 else 4.0
                axes.text(column, row + 0.24, beside, ha="center", va="center", fontsize=size, color=colour)
        axes.set_xticks(range(len(cells.columns)), [literal(name) for name in cells.columns])
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks(np.arange(0.5, len(cells.columns) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(names) - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlabel=literal(xlabel), ylabel=literal(ylabel))
        figure.suptitle("\n".join(lines), fontsize=8)
        return saved(figure)


def colour_map(title: str, cells: Cells, xlabel: str, ylabel: str = "") -> tuple[bytes, bytes]:
    """Draw a table of many numbers as colours alone, with a scale and a few of the names, and return PNG and PDF."""
    lines = [part for line in title.split("\n") for part in textwrap.wrap(literal(line), LABEL_CHARACTERS)]
    tall = max(1.4, WIDTH_INCHES * min(1.0, len(cells.rows) / len(cells.columns)))  # room for the names of rows
    with canvas(tall + 0.9 + 0.13 * len(lines)) as figure:
        axes = figure.add_subplot()
        masked = np.ma.masked_invalid(cells.values)
        image = axes.imshow(
            masked, cmap=cells.colours, vmin=cells.scale[0], vmax=cells.scale[1], aspect="auto", interpolation="nearest"
        )
        for axis, names in ((axes.xaxis, cells.columns), (axes.yaxis, cells.rows)):
            ticks = range(0, len(names), -(-len(names) // NAMED))
            axis.set_ticks(ticks, [literal(names[tick]) for tick in ticks])
        axes.tick_params(axis="x", labelrotation=90)
        axes.set(xlabel=literal(xlabel), ylabel=literal(ylabel))
        figure.colorbar(image, ax=axes, fraction=0.05)
        figure.suptitle("\n".join(lines), fontsize=8)
        return saved(figure)


def short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def literal(text: str) -> str:
    """Escape text so that matplotlib does not read it as mathematics."""
    return text.replace("$", r"\$")


def _words(title: str, rows: Sequence[ReportRow]) -> str:
    chart = _learning(title, rows)
    digits = scoring.digits(float(curve.values.estimate[-1]) for curve in chart.curves)
    ends = [
        f"{row.label} ends at {curve.values.estimate[-1]:.{digits}f} after {row.last:,} steps"
        for row, curve in zip(rows, chart.curves, strict=True)
    ]
    band = ", with shaded 95 % intervals over seeds" if any(len(row.seeds) > 1 for row in rows) else ""
    return f"Learning curves on {title}: {chart.ylabel} against environment steps{band}. {'; '.join(ends)}."
