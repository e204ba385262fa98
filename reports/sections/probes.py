"""The judge's scores and the critic's values along a task's reference episode (VLM-RB, figure 3).

The data are the records `probes` of runs, as means over seeds; no task, judge or network is run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal, short
from guidebench.reports.summary.records import by_cell
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

CHARACTERS = 14
"""Most characters of an event's name beside the timeline."""
ROSE = "#CC79A7"
REMARK = (
    "What the judge sees and what the critic learns, means over seeds. Above, the moves that brought about an event, "
    "and the stretches of random moves. The judge's score is that of the clip in whose middle the move stands. Below, "
    "the change of the critic's value over as many moves, ΔQ, faint to strong over training; the scale is the same "
    "throughout a task. Where a run's seed decides its layout, each seed has an episode of its own: the events of all "
    "are marked, and the stretches are those of the first."
)
LIGHTEST = 0.25
"""Grey level of the first probe of the critic, from white (0) to black (1)."""


class Probed(NamedTuple):
    """The judge's scores and the critic's values along a reference episode, for one row on one task. Series are indexed
    by the move t; `events` are (t, name)."""

    label: str
    task_id: str
    window: int
    """L, in moves: the length of a judged clip."""
    expert: pd.Series[bool]
    """Whether the expert made the move, else it was random."""
    events: tuple[tuple[int, str], ...]
    score: pd.Series[float]
    """The judge's scores; t is the middle of the clip. Empty without a judge."""
    change: Mapping[int, pd.Series[float]]
    """ΔQ(t; L) by training step."""
    seeds: int


def probed(cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str]) -> list[Probed]:
    """Return an entry for each cell whose runs have probed their critic. `rows`: records of `probes`; `labels`: cell id
    -> row label.

    Only steps at which every seed has a probe are used, so that all curves are means over the same seeds.
    """
    all_probed = []
    for log in by_cell(cells, rows, labels):
        by_name = {str(name): records for name, records in log.records.groupby("quantity")}
        if not {"window", "expert", "critic"} <= by_name.keys():
            continue
        critic, seeds = by_name["critic"], by_name["critic"]["seed"].nunique()
        seed_counts = critic.groupby("step")["seed"].nunique()
        window = int(by_name["window"]["value"].iloc[0])
        change = {
            step: difference(critic[critic["step"] == step].groupby("t")["value"].mean(), window)
            for step in map(int, seed_counts.index[seed_counts == seeds])
        }
        events = {
            (int(t), name.removeprefix("event/"))
            for name, records in by_name.items()
            if name.startswith("event/")
            for t in records["t"]
        }
        score = by_name["judge"].groupby("t")["value"].mean() if "judge" in by_name else critic["value"].iloc[:0]
        expert = by_name["expert"].groupby("t")["value"].first() > 0
        all_probed.append(Probed(log.label, log.task_id, window, expert, tuple(sorted(events)), score, change, seeds))
    return all_probed


def difference(value: pd.Series[float], window: int) -> pd.Series[float]:
    """Return ΔQ(t; L) = Q(t + L/2) − Q(t − L/2) wherever both are known; `value` is indexed by t (VLM-RB, figure 3)."""
    half = max(1, window // 2)
    ahead, behind = (value.set_axis(value.index + shift) for shift in (-half, half))
    return (ahead - behind).dropna()


def drawings(probed: Sequence[Probed]) -> list[Drawing]:
    """Draw one figure per label and task; those of a task share the scale of ΔQ."""
    drawings = []
    for probe in probed:
        beside = [other for other in probed if other.task_id == probe.task_id]
        values = np.concatenate([[0.0, 1e-6], *(series for other in beside for series in other.change.values())])
        name = figures.file_name("probes", f"{probe.task_id}-{probe.label}")
        png, pdf = _draw(probe, (values.min(), values.max()))
        drawings.append(Drawing(f"{probe.task_id}: {probe.label}", name, png, pdf, _words(probe)))
    return figures.numbered(drawings)


def _draw(probe: Probed, scale: tuple[float, float]) -> tuple[bytes, bytes]:
    names = list(dict.fromkeys(name for _, name in probe.events))
    has_judge = len(probe.score) > 0
    heights = [0.14 * (len(names) + 1), *([0.5] if has_judge else []), 1.2]
    with figures.canvas(sum(heights) + 1.1) as figure:
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        for panel in axes[1:]:
            for t, _ in probe.events:
                panel.axvline(t, color="#BBBBBB", linewidth=0.5, linestyle=(0, (1, 1)))
        _timeline(axes[0], probe, names)
        if has_judge:
            axes[1].plot(probe.score.index, probe.score, color=ROSE, linewidth=1.2)
            axes[1].set(ylim=(-0.05, 1.05), yticks=(0, 1), ylabel="judge")
        handles = _changes(axes[-1], probe, scale)
        axes[-1].set(xlim=(0, len(probe.expert)), xlabel="move of the reference episode")
        title = (textwrap.fill(literal(line), figures.LABEL_CHARACTERS) for line in (probe.task_id, probe.label))
        axes[0].set_title("\n".join(title))
        chosen = sorted({0, (len(handles) - 1) // 2, len(handles) - 1}) if handles else []
        figure.legend(
            [handles[index] for index in chosen],
            [f"{short(list(probe.change)[index])} steps" for index in chosen],
            loc="outside lower center",
            ncols=3,
            frameon=False,
            handlelength=1.5,
        )
        return figures.saved(figure)


def _timeline(axes: Axes, probe: Probed, names: Sequence[str]) -> None:
    """Draw a line per event, and one for the stretches of random moves."""
    moves = probe.expert.index.to_numpy()
    for row, name in enumerate(names):
        times = [t for t, other in probe.events if other == name]
        axes.plot(times, [row] * len(times), "o", color=figures.PALETTE[0], markersize=3, clip_on=False)
    random = moves[~probe.expert.to_numpy()]
    stretches = np.split(random, np.flatnonzero(np.diff(random) > 1) + 1) if len(random) else []
    axes.broken_barh([(stretch[0], len(stretch)) for stretch in stretches], (len(names) - 0.35, 0.7), color="#BBBBBB")
    labels = [name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…" for name in names]
    axes.set_yticks(range(len(names) + 1), [*map(literal, labels), "random"])
    axes.set_ylim(len(names) + 0.6, -0.6)
    axes.tick_params(bottom=False, left=False)
    axes.spines[["left", "bottom"]].set_visible(False)


def _changes(axes: Axes, probe: Probed, scale: tuple[float, float]) -> list[Line2D]:
    """Draw ΔQ for each probe of the critic, from faint to strong."""
    handles: list[Line2D] = []
    last = max(1, len(probe.change) - 1)
    axes.axhline(0, color="#BBBBBB", linewidth=0.5)
    for number, series in enumerate(probe.change.values()):
        grey = 1 - (LIGHTEST + (1 - LIGHTEST) * (number / last if len(probe.change) > 1 else 1))
        handles += axes.plot(series.index, series, color=(grey,) * 3, linewidth=1.0)
    low, high = scale
    margin = 0.05 * (high - low)
    axes.set(ylim=(low - margin, high + margin), ylabel=rf"$\Delta Q(t;\ {probe.window})$")
    return handles


def _words(probe: Probed) -> str:
    """Return a description of the picture: moves, events, mean judge's score and largest ΔQ."""
    expert, score = probe.expert, probe.score
    events = ", ".join(f"{name} at {t}" for t, name in probe.events) or "none"
    parts = [
        f"Reference episode of {probe.task_id}, {len(expert)} moves, {int((~expert).sum())} of them random",
        f"Events: {events}",
    ]
    if len(score):
        parts.append(f"The judge's mean score over {len(score)} clips of {probe.window} is {score.mean():.2f}")
    if probe.change:
        step, series = list(probe.change.items())[-1]
        if len(series):
            parts.append(
                f"{probe.label}: after {step:,} steps (seeds: {probe.seeds}) "
                f"ΔQ is largest, {series.max():.2g}, at move {series.idxmax()}"
            )
    return ". ".join(parts) + "."
