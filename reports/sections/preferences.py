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
    """A number over training: `values` [n] at environment steps [n]."""

    steps: Array
    values: Interval


class Teaching(NamedTuple):
    """One label on one task; intervals are over its runs."""

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
    """Return one entry per cell of which a run asked a teacher, from the records `labels`; `labels`: cell id -> row
    label."""
    found = []
    for cell in cells:
        mine = rows[rows["cell"] == cell.id]
        if mine.empty:
            continue
        label = labels.get(cell.id, cell.label)
        runs = [of_run(run) for _, run in mine.groupby("seed")]
        spreads = {
            name: grids.over_runs(np.array([_told(run, name) for run in runs]), reps, label)
            for name in dict.fromkeys(name for run in runs for name in run)
        }

        def below(prefix: str, spreads: Mapping[str, Interval] = spreads) -> dict[str, Interval]:
            return {name.removeprefix(prefix): each for name, each in spreads.items() if name.startswith(prefix)}

        rewards = below("reward/")
        found.append(
            Teaching(
                label=label,
                task_id=f"{cell.suite}/{cell.task}",
                teacher=_teacher(cell),
                queries=len(mine),
                runs=len(runs),
                accuracy=spreads[ACCURACY],
                learned=spreads[LEARNED],
                outcomes=below("outcome/"),
                imagined=below("imagined/"),
                rewards={name: rewards[name] for name in BARS if name in rewards},
                over_training=_over_training(mine, reps, label),
            )
        )
    return found


def of_run(rows: pd.DataFrame) -> dict[str, float]:
    """Return numbers of one run's queries: accuracies (NaN if unknown), `outcome/NAME` and `imagined/NAME` shares, and
    `reward/NAME`, mean rewards of segments, if imagined ones have any."""
    found = {ACCURACY: _label_accuracy(rows), LEARNED: _learned_accuracy(rows)}
    found |= {f"outcome/{name}": 0.0 for name in (LABELLED, DISCARDED, EQUAL)}
    found |= {f"outcome/{name}": float(share) for name, share in rows["outcome"].value_counts(normalize=True).items()}
    found |= {f"imagined/{name}": float(share) for name, share in rows["imagined"].value_counts(normalize=True).items()}
    known = rows[rows["reward_imagined"].notna() & rows["reward_chosen"].notna()]
    if len(known):
        means = (known["reward_imagined"], known["reward_chosen"], known[["reward_chosen", "reward_other"]].max(axis=1))
        found |= {f"reward/{name}": float(values.mean()) for name, values in zip(BARS, means, strict=True)}
    return found


def _told(run: Mapping[str, float], name: str) -> float:
    """Return a number of a run. If it is missing, return 0 for a share of a kind that the run records, else NaN."""
    kind, slash, _ = name.partition("/")
    told = kind != "reward" and any(other.startswith(kind + slash) for other in run)
    return run.get(name, 0.0 if told else float("nan"))


def _label_accuracy(rows: pd.DataFrame) -> float:
    known = rows[rows["preference"].isin([0, 1]) & rows["truth"].isin([0, 1])]
    return float((known["preference"] == known["truth"]).mean()) if len(known) else float("nan")


def _learned_accuracy(rows: pd.DataFrame) -> float:
    """Return the accuracy of a learned reward, for which a tie counts one half."""
    known = rows[rows["truth"].isin([0, 1])]
    says = (1 + np.sign(known["learned_1"] - known["learned_0"])) / 2
    return float((1 - (says - known["truth"]).abs()).mean()) if len(known) else float("nan")


_MEASURED: Mapping[str, Callable[[pd.DataFrame], float]] = {ACCURACY: _label_accuracy, LEARNED: _learned_accuracy}


def _over_training(rows: pd.DataFrame, reps: int, label: str) -> dict[str, Course]:
    """Return the curve over stretches of the sessions that all runs have had, without stretches for which a run has no
    value."""
    runs = [run for _, run in rows.groupby("seed")]
    sessions = sorted(set.intersection(*(set(run["session"]) for run in runs)))
    found = {}
    for name, measure in _MEASURED.items():
        steps, scores = [], []
        for stretch in np.array_split(sessions, min(STRETCHES, len(sessions))) if sessions else []:
            parts = [run[run["session"].isin(stretch)] for run in runs]
            values = [measure(part) for part in parts]
            if np.isfinite(values).all():
                steps.append(float(np.mean([part["asked"].mean() for part in parts])))
                scores.append(values)
        if scores:
            curve = np.array(scores).T[:, None]  # [runs, 1, stretches]
            few = min(reps, statistics.CURVE_REPS)
            means = statistics.intervals(curve, ["mean"], few, statistics.name_seed(label, 0))["mean"]
            found[name] = Course(np.array(steps), means)
    return found


def _teacher(cell: CellRecord) -> str:
    """Name the labeller, and the model that it asks."""
    name = next((part.name for part in cell.parts.values() if part.kind == "teacher"), "")
    return f"{name} ({cell.model})" if name and cell.model not in ("", name) else name or cell.model


def tables(found: Sequence[Teaching]) -> list[Grid]:
    """Return tables by task: labels and, if any were requested, imagined segments and their rewards."""
    made = []
    for where, members in _by_task(found).items():
        others = [name for each in members for name in each.outcomes if name not in (LABELLED, DISCARDED, EQUAL)]
        shares = (DISCARDED, EQUAL, *dict.fromkeys(others))
        counts = "; ".join(f"{each.label}: {each.queries:,} queries, runs: {each.runs}" for each in members)
        made.append(
            Grid(
                f"{where}: labels beside a scripted teacher",
                (ACCURACY, LEARNED, "discarded", *shares[1:]),
                {
                    each.label: (each.accuracy, each.learned, *(each.outcomes.get(name, _zero()) for name in shares))
                    for each in members
                },
                f"{NOTE} {counts}.",
            )
        )
        imagining = [each for each in members if each.imagined]
        if imagining:
            words = [name for each in imagining for name in each.imagined if name != ACCEPTED]
            states = (ACCEPTED, *dict.fromkeys(words))
            counted = {each.label: tuple(each.imagined.get(name, _zero()) for name in states) for each in imagining}
            made.append(Grid(f"{where}: imagined segments", states, counted, IMAGINED_NOTE))
        weighed = {each.label: tuple(each.rewards.get(name, NONE) for name in BARS) for each in members if each.rewards}
        if weighed:
            made.append(Grid(f"{where}: the task's own reward of segments", BARS, weighed, REWARD_NOTE))
    return made


def drawings(found: Sequence[Teaching], rows: Sequence[ReportRow], places: Mapping[str, int]) -> list[Drawing]:
    """Draw by task accuracies and return over training (RL-SaLLM-F, figure 1b and c), and bars of the rewards of
    imagined segments (figure 6); `places` as from `figures.styles`."""
    drawn: list[Drawing] = []
    for where, members in _by_task(found).items():
        own = {row.label: row for row in rows if row.task_id == where}
        known = {each.label: each for each in members if each.over_training and each.label in places}
        if known:
            name = figures.file_name("labels", where, [drawing.name for drawing in drawn])
            drawn.append(over_training(where, name, known, own, places))
        bars = {each.label: each.rewards for each in members if each.rewards}
        if bars:
            name = figures.file_name("imagined", where, [drawing.name for drawing in drawn])
            drawn.append(rewards(where, name, bars))
    return drawn


def over_training(
    where: str, name: str, members: Mapping[str, Teaching], rows: Mapping[str, ReportRow], places: Mapping[str, int]
) -> Drawing:
    """Draw accuracy of the labels, accuracy of the learned reward, and return, each against environment steps;
    `members` and `rows` are keyed by their names in the legend."""
    charts = []
    for what in (ACCURACY, LEARNED):
        known = {label: each.over_training[what] for label, each in members.items() if what in each.over_training}
        charts.append(Chart("", "", what, [Curve(label, *course) for label, course in known.items()]))
    curves = [Curve(label, row.steps, row.return_curve) for label, row in rows.items() if label in members]
    charts.append(Chart("", "", RETURN, curves, unit_interval=False))
    charts = [chart for chart in charts if chart.curves]
    last = max(float(curve.x[-1]) for chart in charts for curve in chart.curves)
    names = {label: textwrap.fill(literal(label), figures.LABEL_CHARACTERS) for label in members}
    below = sum(text.count("\n") + 1 for text in names.values())
    with figures.canvas(1.15 * len(charts) + 0.5 + 0.15 * below) as canvas:
        every = np.atleast_1d(canvas.subplots(len(charts), 1, sharex=True))
        handles: dict[str, Any] = {}
        for axes, chart in zip(every, charts, strict=True):
            drawn = figures.plot(axes, chart, places)
            handles |= {curve.label: line for curve, line in zip(chart.curves, drawn, strict=True)}
            axes.set(ylabel=chart.ylabel.replace("'s ", "'s\n"))
            if chart.unit_interval:
                axes.axhline(0.5, color="#555555", linewidth=0.7, linestyle=(0, (1, 2)))
        every[0].set(xlim=(0, last))
        every[0].set_title(literal(where))
        every[-1].set_xlabel("environment steps per seed")
        shown = [names[label] for label in handles]
        canvas.legend(list(handles.values()), shown, loc="outside lower center", frameon=False, handlelength=3.2)
        png, pdf = figures.saved(canvas)
    ends = [
        f"{label}: {what} {float(course.values.estimate[-1]):.2f} at the end"
        for label, each in members.items()
        for what, course in each.over_training.items()
    ]
    return Drawing(where, name, png, pdf, f"Labels over training on {where}. {'; '.join(ends)}.")


def rewards(where: str, name: str, bars: Mapping[str, Mapping[str, Interval]]) -> Drawing:
    """Draw the task's own reward of imagined segments beside that of preferred ones, a group of bars per label."""
    with figures.canvas(1.2 + 0.52 * len(bars)) as canvas:
        axes = canvas.add_subplot()
        grouped(axes, bars, BARS)
        axes.set_xlabel("task's own reward of a segment")
        axes.set_title(textwrap.fill(literal(where), figures.LABEL_CHARACTERS))
        canvas.legend(loc="outside lower center", ncols=1, frameon=False)
        png, pdf = figures.saved(canvas)
    words = "; ".join(
        f"{label}: " + ", ".join(f"{bar} {float(each.estimate):.2f}" for bar, each in group.items())
        for label, group in bars.items()
    )
    return Drawing(where, name, png, pdf, f"Mean reward of segments on {where}, by the task's own reward. {words}.")


def grouped(axes: Axes, groups: Mapping[str, Mapping[str, Interval]], names: Sequence[str]) -> None:
    """Draw bars with whiskers, one below the other within each group, named for a legend."""
    thick = 0.8 / len(names)
    for index, name in enumerate(names):
        shown = {place: group[name] for place, group in enumerate(groups.values()) if name in group}
        centres = np.array([float(each.estimate) for each in shown.values()])
        ends = np.array([[float(each.low), float(each.high)] for each in shown.values()]).reshape(-1, 2).T
        axes.barh(
            np.array(list(shown)) + (index - (len(names) - 1) / 2) * thick,
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


def _by_task(found: Sequence[Teaching]) -> dict[str, list[Teaching]]:
    tasks: dict[str, list[Teaching]] = {}
    for each in found:
        tasks.setdefault(each.task_id, []).append(each)
    return tasks


def _zero() -> Interval:
    """Return the interval of a share of which no run has any."""
    return Interval(*(np.asarray(0.0) for _ in Interval._fields))


def plain(found: Sequence[Teaching]) -> list[dict[str, Any]]:
    """Return the labels' statistics per row and task, with accuracies over training, as JSON data."""
    return [
        {
            "label": each.label,
            "task": each.task_id,
            "teacher": each.teacher,
            "queries": each.queries,
            "runs": each.runs,
            "label_accuracy": export.spread(each.accuracy),
            "learned_reward_accuracy": export.spread(each.learned),
            "outcomes": {name: export.spread(share) for name, share in each.outcomes.items()},
            "imagined": {name: export.spread(share) for name, share in each.imagined.items()},
            "segment_rewards": {name: export.spread(reward) for name, reward in each.rewards.items()},
            "over_training": {
                name: export.curve("step", course.steps, course.values) for name, course in each.over_training.items()
            },
        }
        for each in found
    ]
