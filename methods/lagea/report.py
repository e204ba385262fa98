"""Sections of the report: what the model wrote, and how frames, feedback and reward came together (LaGEA)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Chart, Drawing, literal
from guidebench.reports.sections import Section, Source, training
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FEEDBACK_COLUMNS = ("episode", "succeeded", "outcome", "code", "retries", "empty")
"""Columns of the log `feedback` that are read."""
SHAPING_COLUMNS = ("episode", "frame", "success", "goal", "feedback", "fused")
"""Columns of the log `shaping` that are read."""
ACCURACY, FAILURE = "accuracy of the outcome", "always failure"
EMPTY, RETRIES = "empty", "retries"
NUMBERS = (ACCURACY, FAILURE, EMPTY, RETRIES)
THIRDS = ("first third", "second third", "last third")
CODES, CODE = 16, 60
"""Most codes of a row that are listed, and most characters of one."""
PARTS: Mapping[str, str] = {"goal": "goal reward", "feedback": "feedback reward", "fused": "dense reward"}
"""Column of the log `shaping` -> its name in a figure."""
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


class Feedback(NamedTuple):
    """The feedback that a row's runs received on one task; intervals are over runs."""

    label: str
    task: str
    episodes: int
    runs: int
    numbers: Mapping[str, Interval]
    """`NUMBERS` -> the estimate; NaN if no run has it."""
    codes: Mapping[str, tuple[float, ...]]
    """Code -> its share in each of `THIRDS`, most frequent first."""
    counts: tuple[int, ...]
    """Episodes with a code in each of `THIRDS`."""


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


def feedback(source: Source) -> list[Feedback]:
    """Return one row per cell that has records in the log `feedback`."""
    rows = source.rows("feedback", *FEEDBACK_COLUMNS)
    feedback_rows = []
    for cell in source.study.cells:
        cell_rows = _of(rows, cell.id)
        if cell_rows.empty:
            continue
        label = source.labels.get(cell.id, cell.label)
        runs = [of_run(run) for _, run in cell_rows.groupby("seed")]
        numbers = {
            name: grids.over_runs(np.array([run[name] for run in runs]), source.resamples, label) for name in NUMBERS
        }
        shares, counts = codes(cell_rows, cell.steps)
        feedback_rows.append(
            Feedback(label, f"{cell.suite}/{cell.task}", len(cell_rows), len(runs), numbers, shares, counts)
        )
    return feedback_rows


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `NUMBERS` of one run, given its records of the log `feedback`; NaN if no outcome was
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


def tables(feedback_rows: Sequence[Feedback]) -> list[Grid]:
    """Return a table for each task of the quantities `NUMBERS` by row."""
    grids_of_tasks = []
    for task in dict.fromkeys(row.task for row in feedback_rows):
        members = [row for row in feedback_rows if row.task == task]
        counts = "; ".join(f"{row.label}: {row.episodes:,} episodes, runs: {row.runs}" for row in members)
        lines = {row.label: tuple(row.numbers[name] for name in NUMBERS) for row in members}
        grids_of_tasks.append(Grid(f"{task}: feedback on episodes", NUMBERS, lines, f"{NOTE} {counts}."))
    return grids_of_tasks


def listings(feedback_rows: Sequence[Feedback]) -> list[Listing]:
    """Return a table by task of each row's codes over training."""
    tables_of_tasks = []
    for task in dict.fromkeys(row.task for row in feedback_rows if row.codes):
        lines: list[tuple[str, ...]] = []
        for row in (row for row in feedback_rows if row.task == task and row.codes):
            for code, shares in list(row.codes.items())[:CODES]:
                percentages = ("—" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares)
                lines.append((row.label, _short(code), *percentages))
            if (omitted := len(row.codes) - CODES) > 0:
                lines.append((row.label, f"{omitted} rarer codes, left out", "", "", ""))
            lines.append((row.label, "episodes with a code", *(f"{count:,}" for count in row.counts)))
        heading = f"{task}: codes of feedback over training"
        tables_of_tasks.append(Listing(heading, ("code", *THIRDS), lines, words=1, note=CODE_NOTE))
    return tables_of_tasks


def _short(code: str) -> str:
    return code if len(code) <= CODE else f"{code[: CODE - 1]}…"


def plain(feedback_rows: Sequence[Feedback]) -> list[dict[str, Any]]:
    """Return the feedback's statistics per row and task as JSON data."""
    return [
        {
            "label": row.label,
            "task": row.task,
            "episodes": row.episodes,
            "runs": row.runs,
            **{name.replace(" ", "_"): export.spread(interval) for name, interval in row.numbers.items()},
            "codes": {
                code: [None if np.isnan(share) else share for share in shares] for code, shares in row.codes.items()
            },
        }
        for row in feedback_rows
    ]


def drawings(_: None, source: Source) -> list[Drawing]:
    """Draw for each row the rewards along episodes and the alignment, and for each task the weights of all rows."""
    logs = {name: source.rows(name) for name in ("metrics", "keyframes")}
    logs["shaping"] = source.rows("shaping", *SHAPING_COLUMNS)
    row_figures: list[Drawing] = []
    drawn_cells = set(logs["shaping"]["cell"]) | set(logs["keyframes"]["cell"])
    rows = [row for row in source.summary.rows if row.cell.id in drawn_cells and row.label in source.places]
    for row in rows:
        cell_logs = {name: _of(log, row.cell.id) for name, log in logs.items()}
        file = figures.file_name("episode", f"{row.task_id}-{row.label}", [figure.name for figure in row_figures])
        row_figures += along(f"{row.task_id}: {row.label}", file, traced(cell_logs["shaping"]))
        title = f"Alignment of frames and feedback\n{row.task_id}\n{row.label}"
        charts = alignment(cell_logs["metrics"], source.resamples)
        charts.insert(2, training.chart(figures.SUCCESS, [training.success(row, "")], share=True))
        if len(charts) > 1:
            places = figures.styles(curve.label for chart in charts for curve in chart.curves)
            file = figures.file_name("alignment", f"{row.task_id}-{row.label}", [figure.name for figure in row_figures])
            chart_figure = training.drawing(f"{row.task_id}: {row.label}", file, title, charts, places)
            row_figures += [chart_figure] if chart_figure else []
    for task in dict.fromkeys(row.task_id for row in rows):
        members = {row.label: row for row in rows if row.task_id == task}
        charts = []
        for axis, name in (("weight ρ", "rho"), ("share α of feedback", "alpha"), ("progress P", "progress")):
            curves = [
                training.metric(_of(logs["metrics"], row.cell.id), f"guide/{name}", label, source.resamples)
                for label, row in members.items()
            ]
            charts.append(training.chart(axis, curves))
        curves = [
            training.binned(_of(logs["keyframes"], row.cell.id), "weight", row.cell.steps, label, source.resamples)
            for label, row in members.items()
        ]
        charts.append(training.chart("weight of key frames", curves))
        file = figures.file_name("weights", task, [figure.name for figure in row_figures])
        chart_figure = training.drawing(task, file, f"Weights of the reward\n{task}", charts, source.places)
        row_figures += [chart_figure] if chart_figure else []
    return row_figures


def _of(rows: pd.DataFrame, cell: str) -> pd.DataFrame:
    return rows[rows["cell"] == cell]


def alignment(metrics: pd.DataFrame, resamples: int) -> list[Chart]:
    """Return the panels of one cell's alignment over training (LaGEA, figure 6): mean ψ, its gap, and losses."""

    def curves(names: Mapping[str, str]) -> list[Any]:
        return [training.metric(metrics, f"guide/{name}", label, resamples) for name, label in names.items()]

    both = {"guide/success_cosine", "guide/failure_cosine"} <= set(metrics)
    gap = metrics.assign(gap=metrics["guide/success_cosine"] - metrics["guide/failure_cosine"]) if both else metrics
    return [
        training.chart("mean ψ", curves({"success_cosine": "successes", "failure_cosine": "failures"})),
        training.chart("gap of ψ", [training.metric(gap, "gap", "", resamples)]),
        training.chart("loss", curves({"bce": "calibration", "nce": "discrimination", "contrast": "refinement"})),
    ]


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
        style: Any = {"color": figures.PALETTE[index], "linestyle": figures.LINES[index], "linewidth": 1.0}
        axes.plot(episode.frames, rewards, label=PARTS[part], **style)
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
        tables=tables,
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
