"""Segments that a teacher imagined, beside those that it was shown: paths of moving objects in a side view.

The data are the records `imagined` of runs, one query of each session (RL-SaLLM-F, figure 7).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.statistics import Array
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.summary.records import by_cell, of_cell
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("query", "segment", "t", "name", *"xyz")
"""Columns of the log `imagined` that are read."""
AXES = ("x", "y", "z")
SEGMENTS = ("imagined", "preferred", "other")
REMARK = (
    "One pair of segments of the last session of one seed, and the segment that the teacher imagined to be better than "
    "the one it preferred: from the ring to the end of each line, along the two axes on which most happens. Stars: "
    "things that stay where they are."
)


class Sketch(NamedTuple):
    """The paths of the objects in the segments of one query of one run."""

    label: str
    task_id: str
    seed: int
    step: int
    paths: Mapping[tuple[str, str], Array]
    """(segment, object) -> [n, 3], NaN along an unknown axis."""


def sketches(cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str]) -> list[Sketch]:
    """Return one sketch per cell whose teacher imagined segments, from the records `imagined`: the last recorded query
    of the first seed. `labels`: cell id -> row label."""
    sketches = []
    for cell, label, cell_rows in by_cell(cells, rows, labels):
        seed_rows = of_cell(cell_rows, cell.id, cell_rows["seed"].min())
        query_rows = seed_rows[seed_rows["query"] == seed_rows["query"].max()]
        paths = {
            (str(segment), str(name)): points.sort_values("t")[[*AXES]].to_numpy(float)
            for (segment, name), points in query_rows.groupby(["segment", "name"], sort=False)
        }
        first = query_rows.iloc[0]
        sketches.append(Sketch(label, cell.task_id, int(first["seed"]), int(first["step"]), paths))
    return sketches


def drawings(sketches: Sequence[Sketch]) -> list[Drawing]:
    """Draw one figure per sketch."""
    return figures.numbered(
        draw(sketch, figures.file_name("paths", f"{sketch.task_id}-{sketch.label}")) for sketch in sketches
    )


def draw(sketch: Sketch, name: str) -> Drawing:
    """Draw the paths of a sketch, projected on the two axes of largest extent."""
    across, up = _axes(sketch)
    with figures.canvas(2.6) as canvas:
        axes = canvas.subplots()
        objects = list(dict.fromkeys(object_name for _, object_name in sketch.paths))
        for (segment, object_name), path in sketch.paths.items():
            colour = figures.PALETTE[SEGMENTS.index(segment)] if segment in SEGMENTS else "#555555"
            line = figures.LINES[objects.index(object_name) % len(figures.LINES)]
            if len(path) == 1:
                axes.plot(path[:, across], path[:, up], "*", color=colour, markersize=7)
                continue
            label = f"{segment}: {object_name}"
            axes.plot(path[:, across], path[:, up], color=colour, linestyle=line, linewidth=1.1, label=literal(label))
            axes.plot(path[:1, across], path[:1, up], "o", color=colour, markersize=4, fillstyle="none")
        axes.set(xlabel=AXES[across], ylabel=AXES[up])
        axes.set_title(textwrap.fill(literal(f"{sketch.task_id}, step {sketch.step:,}"), figures.LABEL_CHARACTERS))
        canvas.legend(loc="outside lower center", ncols=2, frameon=False)
        png, pdf = figures.saved(canvas)
    words = (
        f"Imagined and sampled segments on {sketch.task_id}, {sketch.label}, seed {sketch.seed}, step {sketch.step:,}"
    )
    return Drawing(sketch.task_id, name, png, pdf, f"{words}: {_words(sketch)}.")


def _axes(sketch: Sketch) -> tuple[int, int]:
    points = np.concatenate(list(sketch.paths.values()))
    extent = [float(np.ptp(along)) if np.isfinite(along).all() else -1.0 for along in points.T]
    across, up = sorted(sorted(range(3), key=lambda axis: -extent[axis])[:2])
    return across, up


def _words(sketch: Sketch) -> str:
    """Describe how far each moving object ends from each that stays in place."""
    fixed = {object_name: path[0] for (_, object_name), path in sketch.paths.items() if len(path) == 1}
    texts = [
        f"{object_name} of the {segment} one ends {float(np.sqrt(np.nansum((path[-1] - place) ** 2))):.3f} from {other}"
        for (segment, object_name), path in sketch.paths.items()
        if len(path) > 1
        for other, place in fixed.items()
    ]
    return "; ".join(texts) if texts else "paths alone"
