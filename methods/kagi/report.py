"""A section of the report: the dense reward as a field over both views, with waypoints and the path taken (KAGI)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.methods.kagi import fields
from guidebench.methods.kagi.blocks import FEWEST, MOST
from guidebench.methods.kagi.rewards import Shape, dense
from guidebench.methods.kagi.tracking import columns_beside
from guidebench.methods.kagi.waypoints import POINTS
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.runs import episodes
from guidebench.reports.runs.reading import brief, pixels
from guidebench.reports.sections import Section, Source

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from guidebench.reports.summary.rows import ReportRow

LED = ("collected", "first", "failed", "instruction", "path")
ASKED = ("episode", "first", "cameras")
TAKEN = ("first", "tips")
"""Columns of the logs `waypoints`, `questions` and `paths` that are read."""
LARGEST = 1024
"""Most pixels along a side of a field and of a frame's view."""
FAR = 1e6
"""Largest coordinate that is drawn, in sides of a view."""
LETTERS = 62
"""Most characters of a line above the views."""
WAY, TAKEN_WAY = "#FFFFFF", "#E69F00"
"""Colours of the waypoints and of the path taken."""
OPACITY = (0.15, 0.75)
"""Opacity of the field over a frame: that of a reward of 0, and the largest."""
FIELD = "viridis"
"""Colours of the field, in the order of lightness; they differ from those of frames and of the path."""
WORDS = (
    "The dense reward of a gripper at each place, over the first frame of an episode: of the first run with traced "
    "episodes, the first, the middle and the last of those that have waypoints. Numbered circles are the waypoints, "
    "and the orange line is the gripper's path in that episode, from the dot to the cross. The reward depends on "
    "column and row in the view from above and on the row in the view from the side; what a pixel leaves open is taken "
    "from the waypoint nearest to it in that view: from above its height, from the side its place, moved up or down "
    "and across the line of sight. The white contour is a reward of .5, at the distance φ from the next waypoint. "
    "Edges are where another waypoint becomes the nearest one and the reward leads to the one after it. Without "
    "frames, `bench eval RUN --frames` and another `bench report` put them under the field."
)


class Scene(NamedTuple):
    """An episode and its field."""

    episode: int
    step: int
    """Environment step at which its waypoints were known."""
    instruction: str
    waypoints: Array
    """[m, k] in pixels."""
    tips: Array
    """(x, y, z) of the gripper after its steps, [n, 3], in pixels."""
    cameras: Array | None
    """[2, 3, 4]; None if the view from the side is not drawn."""
    shape: Shape
    size: int
    """Pixels along a side of the views."""
    frame: Array | None
    """Its first frame, uint8 [s, 2 * s, 3] or [s, s, 3]; None if none is drawn."""

    @property
    def rewards(self) -> Array:
        """The dense reward of the path's points, float32 [n]."""
        return dense(self.tips[:, : self.waypoints.shape[1]], self.waypoints, self.shape)


class Scenes(NamedTuple):
    row: ReportRow
    seed: int
    scenes: Sequence[Scene]


def scenes(source: Source) -> list[Scenes]:
    """Return the traced episodes of each row's first run that has some."""
    logs = {"waypoints": LED, "questions": ASKED, "paths": TAKEN}
    rows = {log: source.rows(log, *columns) for log, columns in logs.items()}
    found = []
    for row in source.summary.rows:
        mine = {log: each[each["cell"] == row.cell.id] for log, each in rows.items()}
        for seed in sorted(mine["questions"]["seed"].unique()):
            frames = _frames(source, row.cell.id, int(seed))
            its = {log: each[each["seed"] == seed] for log, each in mine.items()}
            chosen = _of_run(row.cell.settings, its, frames, f"{row.where}, {row.label}, seed {seed}", source.notes)
            if chosen:
                found.append(Scenes(row, int(seed), chosen))
                break
    return found


def _of_run(
    settings: Mapping[str, Any],
    logs: Mapping[str, pd.DataFrame],
    frames: Mapping[int, bytes],
    where: str,
    notes: list[str],
) -> list[Scene]:
    """Return the first, the middle and the last traced episode of a run with waypoints; what does not fit is noted."""
    led = {int(row["first"]): row for row in logs["waypoints"].to_dict("records") if row["collected"]}
    taken = {int(row["first"]): row for row in logs["paths"].to_dict("records")}
    known = []
    for row in logs["questions"].sort_values("episode").to_dict("records"):
        first = int(row["first"])
        if first in taken and first in led and not led[first]["failed"]:
            known.append((row, led[first], taken[first]))
    chosen = np.unique(np.linspace(0, len(known) - 1, min(3, len(known))).round().astype(int))
    found = []
    for asked, mine, went in (known[number] for number in chosen.tolist()):
        try:
            found.append(_scene(settings, asked, mine, went, frames.get(int(asked["episode"]), b"")))
        except (UserError, ValueError, TypeError, OSError, RecursionError, SyntaxError) as error:
            notes.append(f"{where}: the reward of episode {asked['episode']} is not drawn ({brief(str(error), 200)})")
    return found


def _scene(settings: Mapping[str, Any], asked: Any, led: Any, went: Any, png: bytes) -> Scene:
    lam, phi, size = (_setting(settings, f"guide.{name}") for name in ("lam", "phi", "pixels"))
    if not 1 <= size <= LARGEST:
        raise UserError(f"guide.pixels is {size:g}; a field of at most {LARGEST} pixels is drawn")
    waypoints = _array(led["path"], "path", (FEWEST, MOST), (2, 3)) * size
    tips = _array(went["tips"], "tips", (1, POINTS), (3,))
    cameras = None
    if waypoints.shape[1] == 3 and isinstance(asked.get("cameras"), str):
        cameras = _array(asked["cameras"], "cameras", (2, 2), (3,), more=(4,))
    return Scene(
        int(asked["episode"]), int(led["step"]), str(led["instruction"]), waypoints, tips, cameras, Shape(lam, phi),
        int(size), _decoded(png) if png else None,
    )  # fmt: skip


def _array(text: Any, name: str, counts: tuple[int, int], widths: tuple[int, ...], more: tuple[int, ...] = ()) -> Array:
    """Return the numbers of a text of a log, float64 [n, width, …]; UserError for other sizes, and numbers that are not
    finite."""
    found = np.array(json.loads(str(text)), float)
    fits = found.ndim == 2 + len(more) and counts[0] <= len(found) <= counts[1] and found.shape[1] in widths
    if not fits or found.shape[2:] != more:
        raise UserError(f"{name} has the shape {[*found.shape]}, expected {counts[0]} to {counts[1]} of {widths}")
    if not (np.abs(found) < FAR).all():
        raise UserError(f"{name} holds a number that is not finite or larger than {FAR:g}")
    return found


def _setting(settings: Mapping[str, Any], name: str) -> float:
    entry = settings.get(name)
    value = entry.get("value") if isinstance(entry, Mapping) else entry
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < FAR:
        raise UserError(f"{name} is {brief(repr(value), 60)} in the cell's record; expected a number of at least 0")
    return float(value)


def _frames(source: Source, cell: str, seed: int) -> dict[int, bytes]:
    """Return episode -> PNG of its first frame, as `bench eval --frames` drew it."""
    run = next((run for run in source.study.runs if run.cell.id == cell and run.seed == seed), None)
    if run is None:
        return {}
    found, notes = episodes.questions(source.study.directory / run.directory)
    source.notes.extend(notes)
    return {asked.episode: asked.frame for asked in found if (asked.log, asked.role) == ("questions", "waypoints")}


def _decoded(png: bytes) -> Array:
    """Return a frame of one or two square views, uint8 [s, s or 2 * s, 3]; UserError for anything else."""
    if pixels(png) > 2 * LARGEST**2:
        raise UserError(f"its frame has {pixels(png):,} pixels; at most {2 * LARGEST**2:,} are drawn")
    frame = reader_process.call("decoding a frame", reader_process.SECONDS, outside.picture, png)
    if frame.shape[1] not in (len(frame), 2 * len(frame)):
        raise UserError(f"its frame is {frame.shape[1]} × {len(frame)} pixels; expected one or two square views")
    return frame


def drawings(found: Sequence[Scenes], source: Source) -> list[Drawing]:
    """Draw the episodes of each row."""
    drawn: list[Drawing] = []
    for each in found:
        name = figures.file_name("fields", f"{each.row.where}-{each.row.label}", [made.name for made in drawn])
        drawn.append(drawing(f"{each.row.where}: {each.row.label}, seed {each.seed}", name, each.scenes))
    return drawn


def drawing(where: str, name: str, found: Sequence[Scene]) -> Drawing:
    """Return the figure of some episodes: one line each, the view from above and, where it counts, from the side."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    wide = any(scene.cameras is not None for scene in found)
    title = textwrap.fill(literal(where), figures.LABEL_CHARACTERS)
    with figures.canvas(1.15 + 0.13 * title.count("\n") + (1.95 if wide else 3.4) * len(found)) as figure:
        every = figure.subplots(len(found), 1 + wide, squeeze=False)
        for axes, scene in zip(every, found, strict=True):
            told = textwrap.fill(literal(f"“{brief(scene.instruction, 2 * LETTERS)}”"), LETTERS)
            head = f"episode {scene.episode}: mean reward along the path {np.mean(scene.rewards):.2f}"
            axes[0].set_title(f"{head}\n{told}", fontsize=7, loc="left")
            _draw(axes[0], scene, side=False)
            if wide and scene.cameras is not None:
                _draw(axes[1], scene, side=True)
            elif wide:
                axes[1].set_axis_off()
        figure.suptitle(title, fontsize=8)
        scale = ScalarMappable(Normalize(0, 1), FIELD)
        figure.colorbar(scale, ax=every, orientation="horizontal", label="dense reward", fraction=0.04, aspect=40)
        figure.legend(*every[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=True,
                      facecolor="#BBBBBB", edgecolor="none", handlelength=1.6, columnspacing=1.0)  # fmt: skip
        png, pdf = figures.saved(figure)
    words = "; ".join(
        f"episode {scene.episode}: {len(scene.waypoints)} waypoints, mean reward along the path "
        f"{np.mean(scene.rewards):.2f}, at most {np.max(scene.rewards):.2f}"
        for scene in found
    )
    return Drawing(where, name, png, pdf, f"Dense reward over the views, {where}. {words}.")


def _draw(axes: Axes, scene: Scene, side: bool) -> None:
    """Draw a view: over the frame the field, the clearer the higher the reward, then waypoints and path."""
    size = scene.size
    if side:
        assert scene.cameras is not None
        field = fields.beside(scene.waypoints, scene.cameras, scene.shape, size)
        way, taken = (
            np.stack([columns_beside(scene.cameras[0], scene.cameras[1], points / size) * size, points[:, 2]], axis=1)
            for points in (scene.waypoints, scene.tips)
        )
    else:
        field, way, taken = fields.above(scene.waypoints, scene.shape, size), scene.waypoints[:, :2], scene.tips[:, :2]
    extent = (0, size, size, 0)
    shown = _view(scene.frame, side)
    if shown is not None:
        axes.imshow(shown, extent=extent, interpolation="bicubic")
    opacity = np.clip(OPACITY[0] + field, 0, OPACITY[1]) if shown is not None else 1.0
    axes.imshow(field, cmap=FIELD, vmin=0, vmax=1, extent=extent, alpha=opacity, interpolation="nearest")
    axes.contour(np.arange(size) + 0.5, np.arange(size) + 0.5, field, [0.5], colors=WAY, linewidths=0.5)
    axes.plot([], color=WAY, linewidth=0.8, label="reward .5")
    axes.plot(*way.T, color=WAY, linewidth=0.8, linestyle=(0, (2, 1.5)), label="waypoints 1, 2, …")
    axes.plot(*taken.T, color="black", linewidth=1.5)
    axes.plot(*taken.T, color=TAKEN_WAY, linewidth=0.9, label="gripper")
    edge: Any = {"color": TAKEN_WAY, "markeredgecolor": "black", "markeredgewidth": 0.5, "linestyle": ""}
    axes.plot(*taken[0], marker="o", markersize=4, **edge)
    axes.plot(*taken[-1], marker="X", markersize=5, label="its end", **edge)
    for (column, row), names in _numbered(way).items():
        axes.text(
            column, row, names, fontsize=5, ha="center", va="center", clip_on=True,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": WAY, "edgecolor": "black", "linewidth": 0.4},
        )  # fmt: skip
    told = {"facecolor": "black", "alpha": 0.6, "edgecolor": "none", "pad": 1.5}
    axes.text(0.02, 0.98, "from the side" if side else "from above", color="white", fontsize=6, va="top", bbox=told,
              transform=axes.transAxes)  # fmt: skip
    axes.set(xlim=(0, size), ylim=(size, 0), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)


def _view(frame: Array | None, side: bool) -> Array | None:
    if frame is None or (side and frame.shape[1] == len(frame)):
        return None
    return frame[:, len(frame) :] if side else frame[:, : len(frame)]


def _numbered(way: Array) -> dict[tuple[float, float], str]:
    """Return place -> the numbers from 1 of the waypoints there, as several may be one above the other."""
    found: dict[tuple[float, float], list[int]] = {}
    for number, place in enumerate(way.round(1).tolist()):
        if np.isfinite(place).all():
            found.setdefault((place[0], place[1]), []).append(number + 1)
    return {place: ",".join(map(str, numbers)) for place, numbers in found.items()}


SECTIONS = (
    Section(
        name="fields",
        title="Rewards over the views",
        order=816,
        needs=("waypoints", "questions", "paths"),
        words=WORDS,
        load=scenes,
        drawings=drawings,
    ),
)
"""KAGI's section of a report."""
