"""A section of the report: the dense reward as a field over both views, with waypoints and the path taken (KAGI)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.grouping import grouped
from guidebench.harness.interfaces import Array
from guidebench.harness.records.study import QUESTIONS
from guidebench.harness.texts import brief
from guidebench.methods.kagi import fields
from guidebench.methods.kagi.blocks import FEWEST, MOST
from guidebench.methods.kagi.rewards import Shape, dense
from guidebench.methods.kagi.tracking import columns_beside
from guidebench.methods.kagi.waypoints import POINTS
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.runs import episodes
from guidebench.reports.runs.reading import pixels
from guidebench.reports.sections import Section, Source
from guidebench.reports.summary.records import value_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from guidebench.reports.summary.rows import ReportRow

WAYPOINT_COLUMNS = ("collected", "first", "failed", "instruction", "path")
QUESTION_COLUMNS = ("episode", "first", "cameras")
PATH_COLUMNS = ("first", "tips")
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
    """A traced episode to draw: its first frame, its waypoints, the gripper's path and the reward's shape."""

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
        """The dense reward at the points of the gripper's path, float32 [n]."""
        return dense(self.tips[:, : self.waypoints.shape[1]], self.waypoints, self.shape)


class Scenes(NamedTuple):
    """The drawn episodes of one run of a row."""

    row: ReportRow
    seed: int
    scenes: Sequence[Scene]


def scenes(source: Source) -> list[Scenes]:
    """Return, for each row, the episodes to draw of its first run that has traced episodes."""
    logs = {"waypoints": WAYPOINT_COLUMNS, "questions": QUESTION_COLUMNS, "paths": PATH_COLUMNS}
    rows = {log: source.rows(log, *columns) for log, columns in logs.items()}
    all_scenes = []
    for row in source.summary.rows:
        cell_logs = {log: records[records["cell"] == row.cell.id] for log, records in rows.items()}
        for seed in sorted(cell_logs["questions"]["seed"].unique()):
            frames = _frames(source, row.cell.id, int(seed))
            run_logs = {log: records[records["seed"] == seed] for log, records in cell_logs.items()}
            chosen = _of_run(
                row.cell.settings, run_logs, frames, f"{row.task_id}, {row.label}, seed {seed}", source.notes
            )
            if chosen:
                all_scenes.append(Scenes(row, int(seed), chosen))
                break
    return all_scenes


def _of_run(
    settings: Mapping[str, Any],
    logs: Mapping[str, pd.DataFrame],
    frames: Mapping[int, bytes],
    run_name: str,
    notes: list[str],
) -> list[Scene]:
    """Return the first, the middle and the last traced episode of a run that have waypoints; add a note to `notes` for
    an episode whose logs cannot be read. `logs`: log -> records of the run; `frames`: episode -> PNG."""
    waypoints_at = {int(row["first"]): row for row in logs["waypoints"].to_dict("records") if row["collected"]}
    paths = {int(row["first"]): row for row in logs["paths"].to_dict("records")}
    candidates = []
    for row in logs["questions"].sort_values("episode").to_dict("records"):
        first = int(row["first"])
        if first in paths and first in waypoints_at and not waypoints_at[first]["failed"]:
            candidates.append((row, waypoints_at[first], paths[first]))
    chosen = np.unique(np.linspace(0, len(candidates) - 1, min(3, len(candidates))).round().astype(int))
    run_scenes = []
    for question, waypoints, path in (candidates[number] for number in chosen.tolist()):
        try:
            run_scenes.append(_scene(settings, question, waypoints, path, frames.get(int(question["episode"]), b"")))
        except (UserError, ValueError, TypeError, OSError, RecursionError, SyntaxError) as error:
            notes.append(
                f"{run_name}: the reward of episode {question['episode']} is not drawn ({brief(str(error), 200)})"
            )
    return run_scenes


def _scene(settings: Mapping[str, Any], question: Any, waypoint_row: Any, path_row: Any, png: bytes) -> Scene:
    lam, phi, size = (_setting(settings, f"guide.{name}") for name in ("lam", "phi", "pixels"))
    if not 1 <= size <= LARGEST:
        raise UserError(f"guide.pixels is {size:g}; a field of at most {LARGEST} pixels is drawn")
    waypoints = _array(waypoint_row["path"], "path", (FEWEST, MOST), (2, 3)) * size
    tips = _array(path_row["tips"], "tips", (1, POINTS), (3,))
    cameras = None
    if waypoints.shape[1] == 3 and isinstance(question.get("cameras"), str):
        cameras = _array(question["cameras"], "cameras", (2, 2), (3,), more=(4,))
    return Scene(
        int(question["episode"]), int(waypoint_row["step"]), str(waypoint_row["instruction"]), waypoints, tips,
        cameras, Shape(lam, phi), int(size), _decoded(png) if png else None,
    )  # fmt: skip


def _array(text: Any, name: str, counts: tuple[int, int], widths: tuple[int, ...], more: tuple[int, ...] = ()) -> Array:
    """Return the numbers of a log's JSON text, float64 [n, width, *more]. UserError unless n is in the range `counts`
    and width one of `widths`, and for numbers that are not finite or too large."""
    numbers = np.array(json.loads(str(text)), float)
    fits = numbers.ndim == 2 + len(more) and counts[0] <= len(numbers) <= counts[1] and numbers.shape[1] in widths
    if not fits or numbers.shape[2:] != more:
        raise UserError(f"{name} has the shape {[*numbers.shape]}, expected {counts[0]} to {counts[1]} of {widths}")
    if not (np.abs(numbers) < FAR).all():
        raise UserError(f"{name} holds a number that is not finite or larger than {FAR:g}")
    return numbers


def _setting(settings: Mapping[str, Any], name: str) -> float:
    setting = settings.get(name)
    number = value_of(setting)
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number < FAR:
        raise UserError(f"{name} is {brief(repr(number), 60)} in the cell's record; expected a number of at least 0")
    return float(number)


def _frames(source: Source, cell: str, seed: int) -> dict[int, bytes]:
    """Return episode -> PNG of its first frame, as `bench eval --frames` drew it."""
    run = next((run for run in source.study.runs if run.cell.id == cell and run.seed == seed), None)
    if run is None:
        return {}
    clips, notes = episodes.folder_clips(source.study.directory / run.directory, QUESTIONS)
    source.notes.extend(notes)
    return {clip.episode: clip.content for clip in clips if (clip.log, clip.role) == ("questions", "waypoints")}


def _decoded(png: bytes) -> Array:
    """Return a frame of one or two square views, uint8 [s, s or 2 * s, 3]; UserError for anything else."""
    if pixels(png) > 2 * LARGEST**2:
        raise UserError(f"its frame has {pixels(png):,} pixels; at most {2 * LARGEST**2:,} are drawn")
    frame = reader_process.call("decoding a frame", reader_process.SECONDS, outside.picture, png)
    if frame.shape[1] not in (len(frame), 2 * len(frame)):
        raise UserError(f"its frame is {frame.shape[1]} × {len(frame)} pixels; expected one or two square views")
    return frame


def drawings(all_scenes: Sequence[Scenes], source: Source) -> list[Drawing]:
    """Draw the episodes of each row in a figure, with the dense reward as a field over their views."""
    return figures.numbered(
        drawing(
            f"{row_scenes.row.task_id}: {row_scenes.row.label}, seed {row_scenes.seed}",
            figures.file_name("fields", f"{row_scenes.row.task_id}-{row_scenes.row.label}"),
            row_scenes.scenes,
        )
        for row_scenes in all_scenes
    )


def drawing(label: str, name: str, scenes: Sequence[Scene]) -> Drawing:
    """Return a figure of episodes, a line each: the view from above and, where heights count, the view from the
    side."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    wide = any(scene.cameras is not None for scene in scenes)
    title = textwrap.fill(literal(label), figures.LABEL_CHARACTERS)
    with figures.canvas(1.15 + 0.13 * title.count("\n") + (1.95 if wide else 3.4) * len(scenes)) as figure:
        every = figure.subplots(len(scenes), 1 + wide, squeeze=False)
        for axes, scene in zip(every, scenes, strict=True):
            instruction = textwrap.fill(literal(f"“{brief(scene.instruction, 2 * LETTERS)}”"), LETTERS)
            head = f"episode {scene.episode}: mean reward along the path {np.mean(scene.rewards):.2f}"
            axes[0].set_title(f"{head}\n{instruction}", fontsize=7, loc="left")
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
        for scene in scenes
    )
    return Drawing(label, name, png, pdf, f"Dense reward over the views, {label}. {words}.")


def _draw(axes: Axes, scene: Scene, side: bool) -> None:
    """Draw a view of an episode: its frame, the field over it (more opaque at higher rewards), waypoints and path."""
    size = scene.size
    if side:
        assert scene.cameras is not None
        field = fields.beside(scene.waypoints, scene.cameras, scene.shape, size)
        way, path = (
            np.stack([columns_beside(scene.cameras[0], scene.cameras[1], points / size) * size, points[:, 2]], axis=1)
            for points in (scene.waypoints, scene.tips)
        )
    else:
        field, way, path = fields.above(scene.waypoints, scene.shape, size), scene.waypoints[:, :2], scene.tips[:, :2]
    extent = (0, size, size, 0)
    view = _view(scene.frame, side)
    if view is not None:
        axes.imshow(view, extent=extent, interpolation="bicubic")
    opacity = np.clip(OPACITY[0] + field, 0, OPACITY[1]) if view is not None else 1.0
    axes.imshow(field, cmap=FIELD, vmin=0, vmax=1, extent=extent, alpha=opacity, interpolation="nearest")
    axes.contour(np.arange(size) + 0.5, np.arange(size) + 0.5, field, [0.5], colors=WAY, linewidths=0.5)
    axes.plot([], color=WAY, linewidth=0.8, label="reward .5")
    axes.plot(*way.T, color=WAY, linewidth=0.8, linestyle=(0, (2, 1.5)), label="waypoints 1, 2, …")
    axes.plot(*path.T, color="black", linewidth=1.5)
    axes.plot(*path.T, color=TAKEN_WAY, linewidth=0.9, label="gripper")
    edge: Any = {"color": TAKEN_WAY, "markeredgecolor": "black", "markeredgewidth": 0.5, "linestyle": ""}
    axes.plot(*path[0], marker="o", markersize=4, **edge)
    axes.plot(*path[-1], marker="X", markersize=5, label="its end", **edge)
    for (column, row), names in _numbered(way).items():
        axes.text(
            column, row, names, fontsize=5, ha="center", va="center", clip_on=True,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": WAY, "edgecolor": "black", "linewidth": 0.4},
        )  # fmt: skip
    label_box = {"facecolor": "black", "alpha": 0.6, "edgecolor": "none", "pad": 1.5}
    axes.text(0.02, 0.98, "from the side" if side else "from above", color="white", fontsize=6, va="top",
              bbox=label_box, transform=axes.transAxes)  # fmt: skip
    axes.set(xlim=(0, size), ylim=(size, 0), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)


def _view(frame: Array | None, side: bool) -> Array | None:
    if frame is None or (side and frame.shape[1] == len(frame)):
        return None
    return frame[:, len(frame) :] if side else frame[:, : len(frame)]


def _numbered(way: Array) -> dict[tuple[float, float], str]:
    """Return place -> the numbers, from 1 and joined by commas, of the waypoints at it, for waypoints [m, 2] in
    pixels."""
    rounded = way.round(1).tolist()
    places = grouped(range(len(rounded)), lambda index: (rounded[index][0], rounded[index][1]))
    finite = {place: indices for place, indices in places.items() if np.isfinite(place).all()}
    return {place: ",".join(str(index + 1) for index in indices) for place, indices in finite.items()}


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
