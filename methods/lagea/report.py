"""Sections of the report: what the model wrote, and how frames, feedback and reward came together (LaGEA)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.sections import Section, Source, quantities, training
from guidebench.reports.sections.quantities import Quantities
from guidebench.reports.sections.training import SUCCESS_PANEL, Panel
from guidebench.reports.summary.listings import Listing
from guidebench.reports.summary.records import by_task, of_cell

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FEEDBACK_COLUMNS = ("episode", "succeeded", "outcome", "code", "retries", "empty")
"""Columns of the log `feedback` that are read."""
SHAPING_COLUMNS = ("episode", "frame", "success", "goal", "feedback", "fused")
"""Columns of the log `shaping` that are read."""
ACCURACY, FAILURE = "accuracy of the outcome", "always failure"
EMPTY, RETRIES = "empty", "retries"
THIRDS = ("first third", "second third", "last third")
CODES, CODE = 16, 60
"""Most codes of a row that are listed, and most characters of one."""
PARTS: Mapping[str, str] = {"goal": "goal reward", "feedback": "feedback reward", "fused": "dense reward"}
"""Column of the log `shaping` -> its name in a figure."""
SUCCESSES, FAILURES = "guide/success_cosine", "guide/failure_cosine"
ALIGNMENT = (
    Panel("mean ψ", {SUCCESSES: "successes", FAILURES: "failures"}),
    Panel("gap of ψ", {"gap": ""}),
    SUCCESS_PANEL,
    Panel("loss", {"guide/bce": "calibration", "guide/nce": "discrimination", "guide/contrast": "refinement"}),
)
"""The alignment of one cell over training (LaGEA, figure 6)."""
WEIGHTS = (
    Panel("weight ρ", {"guide/rho": ""}),
    Panel("share α of feedback", {"guide/alpha": ""}),
    Panel("progress P", {"guide/progress": ""}),
    Panel("weight of key frames", {"weight": ""}, "keyframes", bins=True),
)
NOTE = (
    "Means over runs of each run's episodes. Accuracy: how often the outcome that the model states is whether the "
    "episode succeeded, of the episodes with a stated outcome; always failure: how often that answer would have been "
    "right on the same episodes. Empty: the share of episodes without a valid reply. Retries: invalid replies per "
    "episode."
)
CODE_NOTE = "Shares of the episodes with a code, by thirds of the steps of training, over all runs."
WORDS = (
    "Along an episode: the rewards for a rise of the goal potential and of the feedback potential, and the dense "
    "reward that mixes them, before its weight ρ; of the first run, its first and its last traced episode, with "
    "successful steps in grey. Alignment: the mean cosine ψ of frames and their feedback, for steps that succeeded and "
    "that failed (LaGEA's figure 6 shows logits, which are these cosines divided by the temperature τ of the loss), "
    "their gap, and the losses. Weights: those of the dense reward and of its part from feedback, the progress that "
    "lowers ρ, and the weight of key frames, where that of all frames has the mean 1. "
    f"{training.REMARK}"
)


class Traced(NamedTuple):
    """The dense reward along one episode of a run."""

    episode: int
    step: int
    """Environment step at which it was logged."""
    frames: np.ndarray[Any, Any]
    """Steps of the episode, [n]."""
    parts: Mapping[str, np.ndarray[Any, Any]]
    """Column of `PARTS` -> values, [n]."""
    success: np.ndarray[Any, Any]
    """Whether each step was a success, [n]."""


def feedback(source: Source) -> list[Quantities]:
    """Return one row per cell that has records in the log `feedback`."""
    return quantities.of_runs(source, source.rows("feedback", *FEEDBACK_COLUMNS), of_run)


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities of one run, given its records of the log `feedback`; NaN if no outcome was
    stated."""
    stated = rows[rows["outcome"].isin(["success", "failure"]) & ~rows["empty"].astype(bool)]
    succeeded = stated["succeeded"].astype(bool)
    right = (stated["outcome"] == "success") == succeeded
    return {
        ACCURACY: float(right.mean()) if len(stated) else float("nan"),
        FAILURE: float((~succeeded).mean()) if len(stated) else float("nan"),
        EMPTY: float(rows["empty"].astype(bool).mean()),
        RETRIES: float(rows["retries"].mean()),
    }


def codes(rows: pd.DataFrame, steps: int) -> tuple[dict[str, tuple[float, ...]], tuple[int, ...]]:
    """Return code -> its share of the episodes with a code in each of `THIRDS`, most frequent first, NaN for a third
    without codes; and the number of episodes with a code in each. `rows`: records of the log `feedback` of one cell;
    `steps`: length of its training."""
    with_code = rows[rows["code"] != ""]
    third = np.minimum(3 * with_code["step"].to_numpy() // max(steps, 1), 2)
    counts = [int((third == part).sum()) for part in range(3)]
    shares_by_third = {}
    for code in with_code["code"].value_counts().index:
        has_code = (with_code["code"] == code).to_numpy()
        shares_by_third[str(code)] = tuple(
            float((has_code & (third == part)).sum() / counts[part]) if counts[part] else float("nan")
            for part in range(3)
        )
    return shares_by_third, tuple(counts)


def listings(feedback_rows: Sequence[Quantities]) -> list[Listing]:
    """Return a table by task of each row's codes over training."""
    tables_of_tasks = []
    for task, rows in by_task(feedback_rows).items():
        lines: list[tuple[str, ...]] = []
        for row in rows:
            shares, counts = codes(row.log.records, row.log.cell.steps)
            ranked = [
                (_short(code), *("—" if np.isnan(share) else f"{100 * share:.0f} %" for share in thirds))
                for code, thirds in shares.items()
            ]
            if ranked:
                lines += quantities.leading(row.label, ranked, CODES, "rarer codes")
                lines.append((row.label, "episodes with a code", *(f"{count:,}" for count in counts)))
        if lines:
            heading = f"{task}: codes of feedback over training"
            tables_of_tasks.append(Listing(heading, ("code", *THIRDS), lines, words=1, note=CODE_NOTE))
    return tables_of_tasks


def _short(code: str) -> str:
    return code if len(code) <= CODE else f"{code[: CODE - 1]}…"


def plain(feedback_rows: Sequence[Quantities]) -> list[dict[str, Any]]:
    """Return the feedback's statistics per row and task as JSON data."""
    return [
        {
            "label": row.label,
            "task": row.task_id,
            "episodes": len(row.log.records),
            **quantities.plain(row),
            "codes": {
                code: [None if np.isnan(share) else share for share in shares]
                for code, shares in codes(row.log.records, row.log.cell.steps)[0].items()
            },
        }
        for row in feedback_rows
    ]


def drawings(_: None, source: Source) -> list[Drawing]:
    """Draw for each row the rewards along episodes and the alignment, and for each task the weights of all rows."""
    logs = {name: source.rows(name) for name in ("metrics", "keyframes")}
    logs["shaping"] = source.rows("shaping", *SHAPING_COLUMNS)
    if {SUCCESSES, FAILURES} <= set(logs["metrics"]):
        logs["metrics"] = logs["metrics"].assign(gap=logs["metrics"][SUCCESSES] - logs["metrics"][FAILURES])
    drawn_cells = set(logs["shaping"]["cell"]) | set(logs["keyframes"]["cell"])
    row_figures: list[Drawing | None] = []
    for row in source.summary.rows:
        if row.cell.id in drawn_cells and row.label in source.places:
            file = figures.file_name("episode", f"{row.task_id}-{row.label}")
            row_figures += along(f"{row.task_id}: {row.label}", file, traced(of_cell(logs["shaping"], row.cell.id)))
            title = "Alignment of frames and feedback"
            row_figures.append(training.of_row(row, ALIGNMENT, logs, "alignment", title, source.resamples))
    weights = training.beside(source, WEIGHTS, logs, drawn_cells, "weights", "Weights of the reward")
    return figures.numbered([*row_figures, *weights])


def traced(rows: pd.DataFrame) -> list[Traced]:
    """Return the first and the last traced episode of the first run of one cell, from its records `shaping`."""
    if rows.empty:
        return []
    run = rows[rows["seed"] == rows["seed"].min()]
    episodes = []
    for episode in sorted({int(run["episode"].min()), int(run["episode"].max())}):
        records = run[run["episode"] == episode].sort_values("frame")
        parts = {name: records[name].to_numpy(float) for name in PARTS}
        success = records["success"].to_numpy(bool)
        episodes.append(Traced(episode, int(records["step"].max()), records["frame"].to_numpy(), parts, success))
    return episodes


def along(label: str, name: str, episodes: Sequence[Traced]) -> list[Drawing]:
    """Draw the rewards along episodes, one panel each, on one scale."""
    if not episodes:
        return []
    title = textwrap.fill(literal(label), figures.LABEL_CHARACTERS)
    with figures.canvas(1.3 * len(episodes) + 0.7 + 0.13 * title.count("\n")) as canvas:
        every = np.atleast_1d(canvas.subplots(len(episodes), 1, sharex=True, sharey=True))
        for axes, episode in zip(every, episodes, strict=True):
            _along(axes, episode)
        canvas.suptitle(title, fontsize=8)
        every[-1].set_xlabel("step of the episode")
        canvas.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False,
                      handlelength=1.5)  # fmt: skip
        png, pdf = figures.saved(canvas)
    words = "; ".join(
        f"episode {episode.episode}: "
        + ", ".join(f"mean {PARTS[part]} {rewards.mean():.2g}" for part, rewards in episode.parts.items())
        + f", {int(episode.success.sum())} of {len(episode.success)} logged steps successful"
        for episode in episodes
    )
    return [Drawing(label, name, png, pdf, f"Rewards along episodes, {label}. {words}.")]


def _along(axes: Axes, episode: Traced) -> None:
    axes.axhline(0, color="#BBBBBB", linewidth=0.5)
    for index, (part, rewards) in enumerate(episode.parts.items()):
        axes.plot(episode.frames, rewards, label=PARTS[part], linewidth=1.0, **figures.style(index))
    axes.fill_between(episode.frames, 0, 1, where=episode.success, transform=axes.get_xaxis_transform(),
                      color="#DDDDDD", step="mid", linewidth=0, zorder=0)  # fmt: skip
    axes.set_ylabel("reward")
    axes.set_title(f"episode {episode.episode}, logged at step {episode.step:,}", fontsize=7, loc="left")


SECTIONS = (
    Section(
        name="feedback",
        title="Feedback on episodes",
        order=820,
        needs=("feedback",),
        load=feedback,
        tables=partial(
            quantities.grids,
            subject="feedback on episodes",
            note=NOTE,
            counts=lambda row: f"{len(row.log.records):,} episodes, runs: {row.runs}",
        ),
        listings=listings,
        plain=plain,
    ),
    Section(
        name="shaping",
        title="Rewards from feedback",
        order=830,
        needs=("metrics", "keyframes", "shaping"),
        words=WORDS,
        load=lambda source: None,
        drawings=drawings,
    ),
)
