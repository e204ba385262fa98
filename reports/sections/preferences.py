"""Teachers' labels of segment pairs, and the accuracy of the learned reward, from the records `labels` of runs.

Every label is compared with a scripted teacher that prefers the segment with more of the task's own reward: privileged
information, for diagnosis only. Pairs that it finds equal are excluded from accuracies (RL-SaLLM-F, §6.5).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import RETURN, Chart, Curve, Drawing, literal
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.records import by_cell, by_task
from guidebench.reports.summary.rows import NONE, ReportRow
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COLUMNS = (
    "asked", "session", "outcome", "truth", "preference", "imagined", "learned_0", "learned_1",
    "reward_imagined", "reward_chosen", "reward_other",
)  # fmt: skip
"""Columns of the log `labels` that are read."""
STRETCHES = 20
"""Most points of a curve over training; consecutive sessions are merged to stay below it."""
DISCARDED, EQUAL, LABELLED = "inconsistent", "equal", "labelled"
ACCEPTED = "kept"
ACCURACY, LEARNED = "label accuracy", "learned reward's accuracy"
IMAGINED, CHOSEN, SCRIPTED = "imagined", "preferred by the teacher", "preferred by a scripted teacher"
BARS: tuple[str, ...] = (IMAGINED, CHOSEN, SCRIPTED)
REMARK = (
    "Accuracies beside a scripted teacher that knows the task's own reward: of the teacher's labels, and of the "
    "learned reward on the same pairs before it has learnt from them; dotted: chance. Bars: the task's own reward, as "
    "it follows from states, of imagined segments, of the segments that the teacher preferred of the same pairs, and "
    "of those that a scripted teacher would have. Means over seeds with 95 % intervals."
)
NOTE = (
    "Accuracy: of labels 0 or 1 beside a scripted teacher's, pairs that it finds equal left out; the learned reward's "
    "is on the same queries before it has learnt from them. Shares are of all queries; discarded: the answers in "
    "either order contradict each other."
)
IMAGINED_NOTE = "Shares of the imagined segments asked for: kept, or why not."
REWARD_NOTE = (
    "Sums over a segment, of the queries whose imagined segment has one, of all segments as it follows from their "
    "states; the scripted teacher here is one that prefers by these sums."
)


class Course(NamedTuple):
    """A curve over training: `values` [n] at environment steps [n]."""

    steps: Array
    values: Interval


class Teaching(NamedTuple):
    """Statistics of a teacher's labels for one row on one task; intervals are over its runs."""

    label: str
    task_id: str
    teacher: str
    queries: int
    runs: int
    accuracy: Interval
    learned: Interval
    """Accuracy of the learned reward's own preferences on the queries."""
    outcomes: Mapping[str, Interval]
    """Outcome -> share of all queries."""
    imagined: Mapping[str, Interval]
    """Outcome -> share of the requested imagined segments; empty if none was requested."""
    rewards: Mapping[str, Interval]
    """`BARS` -> the task's own reward of a segment; empty if unknown."""
    over_training: Mapping[str, Course]
    """Accuracy, as curves over training, of the labels and of the learned reward."""


def teaching(
    cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str], reps: int = statistics.REPS
) -> list[Teaching]:
    """Return the statistics of labels for each cell of which a run asked a teacher. `rows`: records of `labels`;
    `labels`: cell id -> row label."""
    teachings = []
    for log in by_cell(cells, rows, labels):
        runs = [of_run(run) for run in log.runs]
        spreads = {
            name: grids.over_runs(np.array([_number(run, name) for run in runs]), reps, log.label)
            for name in dict.fromkeys(name for run in runs for name in run)
        }

        def below(prefix: str, spreads: Mapping[str, Interval] = spreads) -> dict[str, Interval]:
            return {name.removeprefix(prefix): spread for name, spread in spreads.items() if name.startswith(prefix)}

        rewards = below("reward/")
        teachings.append(
            Teaching(
                label=log.label,
                task_id=log.task_id,
                teacher=_teacher(log.cell),
                queries=len(log.records),
                runs=len(runs),
                accuracy=spreads[ACCURACY],
                learned=spreads[LEARNED],
                outcomes=below("outcome/"),
                imagined=below("imagined/"),
                rewards={name: rewards[name] for name in BARS if name in rewards},
                over_training=_over_training(log.runs, reps, log.label),
            )
        )
    return teachings


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return name -> number for one run's queries: accuracies (NaN if unknown), the shares `outcome/NAME` and
    `imagined/NAME`, and `reward/NAME`, mean rewards of segments, if imagined ones have any."""
    numbers = {ACCURACY: _label_accuracy(rows), LEARNED: _learned_accuracy(rows)}
    numbers |= {f"outcome/{name}": 0.0 for name in (LABELLED, DISCARDED, EQUAL)}
    numbers |= {f"outcome/{name}": float(share) for name, share in rows["outcome"].value_counts(normalize=True).items()}
    numbers |= {
        f"imagined/{name}": float(share) for name, share in rows["imagined"].value_counts(normalize=True).items()
    }
    rewarded = rows[rows["reward_imagined"].notna() & rows["reward_chosen"].notna()]
    if len(rewarded):
        means = (
            rewarded["reward_imagined"],
            rewarded["reward_chosen"],
            rewarded[["reward_chosen", "reward_other"]].max(axis=1),
        )
        numbers |= {f"reward/{name}": float(values.mean()) for name, values in zip(BARS, means, strict=True)}
    return numbers


def _number(run: Mapping[str, float], name: str) -> float:
    """Return a run's number of this name. If it is missing, return 0 for a share of a kind that the run records, else
    NaN."""
    kind, slash, _ = name.partition("/")
    is_recorded = kind != "reward" and any(other.startswith(kind + slash) for other in run)
    return run.get(name, 0.0 if is_recorded else float("nan"))


def _label_accuracy(rows: pd.DataFrame) -> float:
    comparable = rows[rows["preference"].isin([0, 1]) & rows["truth"].isin([0, 1])]
    return float((comparable["preference"] == comparable["truth"]).mean()) if len(comparable) else float("nan")


def _learned_accuracy(rows: pd.DataFrame) -> float:
    """Return the share of queries on which a learned reward prefers as the scripted teacher does; a tie counts one
    half."""
    comparable = rows[rows["truth"].isin([0, 1])]
    says = (1 + np.sign(comparable["learned_1"] - comparable["learned_0"])) / 2
    return float((1 - (says - comparable["truth"]).abs()).mean()) if len(comparable) else float("nan")


_MEASURED: Mapping[str, Callable[[pd.DataFrame], float]] = {ACCURACY: _label_accuracy, LEARNED: _learned_accuracy}


def _over_training(runs: Sequence[pd.DataFrame], reps: int, label: str) -> dict[str, Course]:
    """Return name -> curve of an accuracy over training, a point per stretch of the sessions that all runs have;
    stretches for which a run has no value are left out."""
    sessions = sorted(set.intersection(*(set(run["session"]) for run in runs)))
    courses = {}
    for name, measure in _MEASURED.items():
        steps, scores = [], []
        for stretch in np.array_split(sessions, min(STRETCHES, len(sessions))) if sessions else []:
            parts = [run[run["session"].isin(stretch)] for run in runs]
            values = [measure(part) for part in parts]
            if np.isfinite(values).all():
                steps.append(float(np.mean([part["asked"].mean() for part in parts])))
                scores.append(values)
        if scores:
            courses[name] = Course(np.array(steps), grids.curve_over_runs(np.array(scores).T, reps, label))
    return courses


def _teacher(cell: CellRecord) -> str:
    """Return the name of a cell's teacher, with the model that it asks."""
    name = next((part.name for part in cell.parts.values() if part.kind == "teacher"), "")
    return f"{name} ({cell.model})" if name and cell.model not in ("", name) else name or cell.model


def tables(teachings: Sequence[Teaching]) -> list[Grid]:
    """Return tables by task: statistics of labels and, if any segments were imagined, their outcomes and rewards."""
    grids = []
    for task_id, members in by_task(teachings).items():
        further = [
            name for teaching in members for name in teaching.outcomes if name not in (LABELLED, DISCARDED, EQUAL)
        ]
        shares = (DISCARDED, EQUAL, *dict.fromkeys(further))
        counts = "; ".join(
            f"{teaching.label}: {teaching.queries:,} queries, runs: {teaching.runs}" for teaching in members
        )
        grids.append(
            Grid(
                f"{task_id}: labels beside a scripted teacher",
                (ACCURACY, LEARNED, "discarded", *shares[1:]),
                {
                    teaching.label: (
                        teaching.accuracy,
                        teaching.learned,
                        *(teaching.outcomes.get(name, _zero()) for name in shares),
                    )
                    for teaching in members
                },
                f"{NOTE} {counts}.",
            )
        )
        imagining = [teaching for teaching in members if teaching.imagined]
        if imagining:
            words = [name for teaching in imagining for name in teaching.imagined if name != ACCEPTED]
            states = (ACCEPTED, *dict.fromkeys(words))
            shares_of = {
                teaching.label: tuple(teaching.imagined.get(name, _zero()) for name in states) for teaching in imagining
            }
            grids.append(Grid(f"{task_id}: imagined segments", states, shares_of, IMAGINED_NOTE))
        weighed = {
            teaching.label: tuple(teaching.rewards.get(name, NONE) for name in BARS)
            for teaching in members
            if teaching.rewards
        }
        if weighed:
            grids.append(Grid(f"{task_id}: the task's own reward of segments", BARS, weighed, REWARD_NOTE))
    return grids


def drawings(teachings: Sequence[Teaching], rows: Sequence[ReportRow], places: Mapping[str, int]) -> list[Drawing]:
    """Draw by task accuracies and return over training (RL-SaLLM-F, figure 1b and c), and bars of the rewards of
    imagined segments (figure 6); `places` as from `figures.styles`."""
    drawings = []
    for task_id, members in by_task(teachings).items():
        task_rows = {row.label: row for row in rows if row.task_id == task_id}
        plotted = {
            teaching.label: teaching for teaching in members if teaching.over_training and teaching.label in places
        }
        if plotted:
            drawings.append(over_training(task_id, figures.file_name("labels", task_id), plotted, task_rows, places))
        bars = {teaching.label: teaching.rewards for teaching in members if teaching.rewards}
        if bars:
            drawings.append(rewards(task_id, figures.file_name("imagined", task_id), bars))
    return figures.numbered(drawings)


def over_training(
    task_id: str, name: str, members: Mapping[str, Teaching], rows: Mapping[str, ReportRow], places: Mapping[str, int]
) -> Drawing:
    """Draw accuracy of the labels, accuracy of the learned reward, and return, each against environment steps;
    `members` and `rows` are keyed by their names in the legend."""
    charts = []
    for metric in (ACCURACY, LEARNED):
        courses = {
            label: teaching.over_training[metric]
            for label, teaching in members.items()
            if metric in teaching.over_training
        }
        charts.append(Chart("", "", metric, [Curve(label, *course) for label, course in courses.items()]))
    curves = [Curve(label, row.steps, row.return_curve) for label, row in rows.items() if label in members]
    charts.append(Chart("", "", RETURN, curves, unit_interval=False))
    charts = [chart for chart in charts if chart.curves]
    last = max(float(curve.x[-1]) for chart in charts for curve in chart.curves)
    names = {label: textwrap.fill(literal(label), figures.LABEL_CHARACTERS) for label in members}
    below = sum(text.count("\n") + 1 for text in names.values())
    with figures.canvas(1.15 * len(charts) + 0.5 + 0.15 * below) as canvas:
        panels = np.atleast_1d(canvas.subplots(len(charts), 1, sharex=True))
        handles: dict[str, Any] = {}
        for axes, chart in zip(panels, charts, strict=True):
            plotted_lines = figures.plot(axes, chart, places)
            handles |= {curve.label: line for curve, line in zip(chart.curves, plotted_lines, strict=True)}
            axes.set(ylabel=chart.ylabel.replace("'s ", "'s\n"))
            if chart.unit_interval:
                axes.axhline(0.5, color="#555555", linewidth=0.7, linestyle=(0, (1, 2)))
        panels[0].set(xlim=(0, last))
        panels[0].set_title(literal(task_id))
        panels[-1].set_xlabel("environment steps per seed")
        texts = [names[label] for label in handles]
        canvas.legend(list(handles.values()), texts, loc="outside lower center", frameon=False, handlelength=3.2)
        png, pdf = figures.saved(canvas)
    ends = [
        f"{label}: {metric} {float(course.values.estimate[-1]):.2f} at the end"
        for label, teaching in members.items()
        for metric, course in teaching.over_training.items()
    ]
    return Drawing(task_id, name, png, pdf, f"Labels over training on {task_id}. {'; '.join(ends)}.")


def rewards(task_id: str, name: str, bars: Mapping[str, Mapping[str, Interval]]) -> Drawing:
    """Draw the task's own reward of imagined segments beside that of preferred ones, a group of bars per label."""
    with figures.canvas(1.2 + 0.52 * len(bars)) as canvas:
        axes = canvas.add_subplot()
        grouped(axes, bars, BARS)
        axes.set_xlabel("task's own reward of a segment")
        axes.set_title(textwrap.fill(literal(task_id), figures.LABEL_CHARACTERS))
        canvas.legend(loc="outside lower center", ncols=1, frameon=False)
        png, pdf = figures.saved(canvas)
    words = "; ".join(
        f"{label}: " + ", ".join(f"{bar} {float(interval.estimate):.2f}" for bar, interval in group.items())
        for label, group in bars.items()
    )
    return Drawing(task_id, name, png, pdf, f"Mean reward of segments on {task_id}, by the task's own reward. {words}.")


def grouped(axes: Axes, groups: Mapping[str, Mapping[str, Interval]], names: Sequence[str]) -> None:
    """Draw horizontal bars with whiskers, a group per key of `groups`, in each a bar per name; names are labels for a
    legend."""
    thick = 0.8 / len(names)
    for index, name in enumerate(names):
        bars = {place: group[name] for place, group in enumerate(groups.values()) if name in group}
        centres = np.array([float(bar.estimate) for bar in bars.values()])
        ends = np.array([[float(bar.low), float(bar.high)] for bar in bars.values()]).reshape(-1, 2).T
        axes.barh(
            np.array(list(bars)) + (index - (len(names) - 1) / 2) * thick,
            centres,
            thick * 0.92,
            xerr=np.nan_to_num(np.abs(ends - centres)),
            color=figures.PALETTE[index % len(figures.PALETTE)],
            hatch="////" if index >= len(figures.PALETTE) else None,
            error_kw={"linewidth": 0.8},
            label=name,
        )
    axes.set_yticks(range(len(groups)), [textwrap.fill(literal(name), figures.ROW_CHARACTERS) for name in groups])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    axes.grid(axis="x", linewidth=0.4, color="#BBBBBB")


def _zero() -> Interval:
    """Return the interval from 0 to 0, of a share that no run has any of."""
    return Interval(*(np.asarray(0.0) for _ in Interval._fields))


def plain(teachings: Sequence[Teaching]) -> list[dict[str, Any]]:
    """Return the labels' statistics per row and task, with accuracies over training, as JSON data."""
    return [
        {
            "label": teaching.label,
            "task": teaching.task_id,
            "teacher": teaching.teacher,
            "queries": teaching.queries,
            "runs": teaching.runs,
            "label_accuracy": export.spread(teaching.accuracy),
            "learned_reward_accuracy": export.spread(teaching.learned),
            "outcomes": {name: export.spread(share) for name, share in teaching.outcomes.items()},
            "imagined": {name: export.spread(share) for name, share in teaching.imagined.items()},
            "segment_rewards": {name: export.spread(reward) for name, reward in teaching.rewards.items()},
            "over_training": {
                name: export.curve("step", course.steps, course.values)
                for name, course in teaching.over_training.items()
            },
        }
        for teaching in teachings
    ]
