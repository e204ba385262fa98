"""Learning curves at column width, the same bytes for the same numbers. matplotlib is imported when one is drawn."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reports.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH_INCHES = 3.3
LABEL_CHARACTERS = 50
CHARACTERS = 200
"""Of a file's name, without its ending."""
SUCCESS = "success rate"
RETURN = "mean return"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that readers with any common colour blindness tell apart (Okabe and Ito), best contrast first."""
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
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
    """A figure as files, and in words for those who cannot see it."""

    where: str
    name: str
    """Start of its file names."""
    png: bytes
    pdf: bytes
    alt: str


class Gallery(NamedTuple):
    """Figures that belong together, under one heading of the page."""

    title: str
    remark: str
    """How to read them, in a sentence or two; may be empty."""
    drawings: Sequence[Drawing]


def learning_curves(rows: Sequence[Row]) -> list[Drawing]:
    """One drawing per task of `rows`, in their order."""
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row.where, []).append(row)
    styles = {label: index for index, label in enumerate(dict.fromkeys(row.label for row in rows))}
    names: list[str] = []
    drawings = []
    for where, members in tasks.items():
        name = file_name("curves", where, names)
        names.append(name)
        png, pdf = _draw(members, styles)
        drawings.append(Drawing(where, name, png, pdf, _words(where, members)))
    return drawings


def file_name(kind: str, what: str, taken: Sequence[str]) -> str:
    """`KIND-WHAT` with only safe characters, no longer than a file's name may be, numbered if it is taken."""
    name = (f"{kind}-" + re.sub(r"[^A-Za-z0-9_.]+", "-", what).strip("-."))[:CHARACTERS]
    return name if name not in taken else f"{name}-{len(taken) + 1}"


def _measure(rows: Sequence[Row]) -> str:
    """What is drawn: the success rate, or the return where no episode of any row succeeded."""
    return SUCCESS if any(row.success.any() for row in rows) else RETURN


def _draw(rows: Sequence[Row], styles: Mapping[str, int]) -> tuple[bytes, bytes]:
    """PNG and PDF; `styles`: label -> its place among colours and lines, the same in every drawing of a study."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = [textwrap.fill(literal(row.label), LABEL_CHARACTERS) for row in rows]
    columns = 2 if max(len(label) for label in labels) <= LABEL_CHARACTERS // 2 and len(rows) > 1 else 1
    lines = sum(label.count("\n") + 1 for label in labels)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 2.1 + 0.15 * -(-lines // columns)), layout="constrained")
        FigureCanvasAgg(figure)
        handles = _plot(figure.add_subplot(), rows, styles)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)
        return saved(figure)


def saved(figure: Figure) -> tuple[bytes, bytes]:
    """PNG and PDF, the same bytes for the same figure."""
    png, pdf = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=300, metadata={"Software": None})
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return png.getvalue(), pdf.getvalue()


def _plot(axes: Axes, rows: Sequence[Row], styles: Mapping[str, int]) -> list[Line2D]:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    measure = _measure(rows)
    handles = []
    for row in rows:
        index = styles[row.label]
        colour = PALETTE[index % len(PALETTE)]
        centre, low, high = row.success_curve if measure == SUCCESS else row.return_curve
        handles += axes.plot(
            row.steps,
            centre,
            color=colour,
            linestyle=LINES[index % len(LINES)],
            linewidth=1.2,
            marker=MARKERS[index % len(MARKERS)],
            markersize=2.8,
            markevery=max(1, len(row.steps) // 8),
            zorder=3,
            clip_on=False,
        )
        if np.isfinite(low).all():
            axes.fill_between(row.steps, low, high, color=colour, alpha=0.18, linewidth=0)
    if measure == SUCCESS:
        axes.set_ylim(0, 1)
    first, last = min(int(row.steps[0]) for row in rows), max(row.last for row in rows)
    axes.set_xlim(0 if first <= last / 2 else first - 1, max(last, 1))
    axes.set_xlabel("environment steps per seed")
    axes.set_ylabel(measure)
    axes.set_title(textwrap.fill(literal(rows[0].where), LABEL_CHARACTERS))
    axes.set_axisbelow(True)
    axes.grid(axis="y", linewidth=0.4, color="#BBBBBB")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    return handles


def short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def literal(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _words(where: str, rows: Sequence[Row]) -> str:
    measure = _measure(rows)
    ends = []
    for row in rows:
        curve = row.success_curve if measure == SUCCESS else row.return_curve
        ends.append(f"{row.label} ends at {curve.estimate[-1]:.2f} after {row.last:,} steps")
    band = ", with shaded 95 % intervals over seeds" if any(len(row.seeds) > 1 for row in rows) else ""
    return f"Learning curves on {where}: {measure} against environment steps{band}. {'; '.join(ends)}."
