"""Numbers of each run from its logs rather than its curves: teachers' labels, model costs, speed, and what the replay
drew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench import results
from guidebench.harness.statistics import Array
from guidebench.reports.sections import episodes, phases, preferences
from guidebench.reports.summary import judges, ledger
from guidebench.reports.summary.records import of_cell, value_of
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import StudyRecord

if TYPE_CHECKING:
    import pandas as pd


class MeasuredRun(NamedTuple):
    """What a run recorded in one log."""

    rows: pd.DataFrame
    row: ReportRow
    seed: int
    episodes: Callable[[], pd.DataFrame]
    """Function that returns the evaluation episodes of the run's cell."""

    @property
    def last(self) -> pd.DataFrame:
        """The records at the row's last evaluation; logs do not count the steps of pre-training stages."""
        return self.rows.loc[self.rows["step"] == self.row.last - self.row.cell.before]

    @property
    def clock(self) -> Mapping[str, float]:
        """The run's share of its worker's clock, from records `timings`."""
        return judges.clock(self.rows)


class Measure(NamedTuple):
    """How a number of a run is read from one of its logs; None or NaN if it has none."""

    log: str
    of_run: Callable[[MeasuredRun], float | None]


def _share_of_labels(name: str) -> Measure:
    return Measure("labels", lambda run: 100 * preferences.of_run(run.rows).get(name, np.nan))


def _spent(name: str) -> Measure:
    return Measure("ledger", lambda run: run.rows.sort_values("step")[name].iloc[-1])


def _most(name: str) -> Measure:
    return Measure("timings", lambda run: run.rows[name].max() if name in run.rows else None)


def _outcome(name: str) -> Measure:
    """Return the mean of a counted outcome over the episodes of the last evaluation, in percent."""
    return Measure("outcomes", lambda run: 100 * run.last["value"][run.last["outcome"] == name].mean())


def _on_unseen_pairs(run: MeasuredRun) -> float:
    looks = run.rows[run.rows["quantity"] == "label_accuracy"].sort_values("step")
    return 100 * float(looks["value"].iloc[-1]) if len(looks) else np.nan


def _frames_per_second(run: MeasuredRun) -> float | None:
    frames, seconds = value_of(run.row.cell.settings.get("replay.clip_length")), judges.seconds_per_clip(run.clock)
    return frames / seconds if isinstance(frames, int) and seconds else None


def _seconds_per_step(run: MeasuredRun) -> float | None:
    speed = judges.steps_per_second(run.clock)
    return 1 / speed if speed else None


def _seconds_of_test(run: MeasuredRun) -> float:
    return float(episodes.seconds_of_episode(run.rows, run.episodes()).get(run.seed, np.nan))


def _placed(run: MeasuredRun) -> float | None:
    """Return the mean share of items placed at the last evaluation, in percent; None for any other score."""
    place = run.row.seeds.index(run.seed)
    return 100 * float(run.row.scores[place, -1]) if run.row.score.name == "object success" else None


def _until_success(rows: pd.DataFrame, run: MeasuredRun) -> pd.DataFrame:
    """Return a run's records up to its first evaluation with a success; all of them if it never succeeded."""
    reached = np.flatnonzero(run.row.success[run.row.seeds.index(run.seed)] > 0)
    return rows.loc[rows["step"] <= run.row.steps[reached[0]]] if len(reached) else rows


def _before_success(name: str, of: Callable[[Array], Array] = np.asarray) -> Measure:
    """Return the mean of a metric, transformed by `of`, before the first success, in percent."""

    def of_run(run: MeasuredRun) -> float:
        recorded = _until_success(run.rows, run)[name].dropna().to_numpy(float) if name in run.rows else np.zeros(0)
        return 100 * float(of(recorded).mean()) if len(recorded) else np.nan

    return Measure("metrics", of_run)


def _phases(
    value: Callable[[pd.Series[float], pd.Series[float]], float],
    window: Callable[[pd.DataFrame, MeasuredRun], pd.DataFrame],
) -> Measure:
    """Return `value` of the mean shares of task phases, by event, among drawn and among stored transitions, over the
    records that `window` selects."""

    def of_run(run: MeasuredRun) -> float:
        events = [name.removeprefix(phases.DRAWN) for name in map(str, run.rows) if name.startswith(phases.DRAWN)]
        columns = [[kind + event for event in events] for kind in (phases.DRAWN, phases.STORED)]
        rows = window(run.rows.dropna(subset=[*columns[0], *columns[1]]), run) if events else run.rows.iloc[:0]
        drawn, stored = (rows[names].mean().set_axis(events) for names in columns)
        return value(drawn, stored) if len(rows) else np.nan

    return Measure("metrics", of_run)


def _draws_to_key(drawn: pd.Series[float], stored: pd.Series[float]) -> float:
    return 100 * float(drawn["key"] / stored["key"]) if "key" in drawn and stored["key"] else np.nan


EPISODES = "evaluations"
"""The records of evaluation episodes, which are no log."""
OFFLINE = "offline"
"""Prefix of metrics that a paper takes on data apart from training."""
WORKED = "worker_seconds_per_step"
"""Our own metric: seconds of a run's worker per environment step, evaluations and waiting included."""
MEASURES: Mapping[str, Measure] = {
    "label_accuracy_percent": _share_of_labels(preferences.ACCURACY),
    "discard_percent": _share_of_labels(f"outcome/{preferences.DISCARDED}"),
    "equal_percent": _share_of_labels(f"outcome/{preferences.EQUAL}"),
    "segment_reward": Measure("labels", lambda run: preferences.of_run(run.rows).get(f"reward/{preferences.IMAGINED}")),
    f"{OFFLINE}_label_accuracy_percent": Measure("probes", _on_unseen_pairs),
    "input_tokens": _spent("tokens_in"),
    "output_tokens": _spent("tokens_out"),
    "dollars": _spent("usd"),
    "survival_percent": _outcome("alive"),
    "completion_percent": _outcome("completion"),
    "object_success_percent": Measure(EPISODES, _placed),
    "evaluation_steps": Measure(EPISODES, lambda run: run.last["length"].mean()),
    "seconds": Measure("timings", _seconds_of_test),
    "steps_per_second": Measure("timings", lambda run: judges.steps_per_second(run.clock)),
    WORKED: Measure("timings", lambda run: run.rows["seconds"].iloc[-1] / run.rows["step"].iloc[-1]),
    "seconds_per_step": Measure("timings", _seconds_per_step),
    "seconds_per_clip": Measure("timings", lambda run: judges.seconds_per_clip(run.clock)),
    "frames_per_second": Measure("timings", _frames_per_second),
    "gibibytes_load": _most("judge_gibibytes_load"),
    "gibibytes_peak": _most("judge_gibibytes_peak"),
    "zero_feedback_percent": _before_success("replay/mean_return", lambda returns: returns == 0),
    "clipped_before_success_percent": _before_success("replay/clipped_share"),
    "draws_apart_before_success_percent": _phases(
        lambda drawn, stored: 50 * float((drawn - stored).abs().sum()), _until_success
    ),
    "draws_to_key_percent": _phases(_draws_to_key, lambda rows, _: rows.loc[rows["step"] >= rows["step"].max() / 2]),
}
"""Published metric -> its definition on our logs.

`seconds` are the wall seconds of an evaluation episode: of all evaluations of a worker, by their episodes, which are
stepped together. `survival_percent`, `completion_percent`, `object_success_percent` and `evaluation_steps` are means
over the episodes of the last evaluation.

Before the first successful evaluation, `zero_feedback_percent` is the share of records in which ERO's mean return is 0,
`clipped_before_success_percent` ReLo's share of clipped priorities, and `draws_apart_before_success_percent` the total
variation distance between the task phases of drawn and of stored transitions, 0 for a uniform replay. Over the second
half of training, `draws_to_key_percent` is how often transitions on the way to the key are drawn, in percent of how
often a uniform replay would draw them.
"""
OF_DRAWS = (
    "zero_feedback_percent",
    "clipped_before_success_percent",
    "draws_apart_before_success_percent",
    "draws_to_key_percent",
)
"""Metrics that describe how a replay works: a claim about them concerns a mechanism and names no task."""
OF_MACHINES = ("steps_per_second", "seconds_per_step", "seconds_per_clip", "frames_per_second", "gibibytes")
"""Prefixes of metrics that depend on the machine on which they were measured."""
SECONDS = "seconds"
"""A further metric that depends on the machine; it is compared in full, since other metrics begin with its name."""


class Measured:
    """Computes the measures of rows, reading each log once per study."""

    def __init__(self, study_of: Callable[[ReportRow], StudyRecord]) -> None:
        self._study_of = study_of
        self._logs: dict[tuple[int, str], pd.DataFrame] = {}
        self._numbers: dict[tuple[int, str], Array] = {}

    def __call__(self, row: ReportRow, metric: str) -> Array:
        """Return one number per seed of the row; NaN if its run has none, and for the cost of hand-written models."""
        key = (id(row), metric)
        if key not in self._numbers:
            measure, study = MEASURES[metric], self._study_of(row)
            free = measure.log == "ledger" and not ledger.is_billed(row.cell)
            runs = {} if free else dict([*self._records(study, measure.log, row).groupby("seed")])
            played = partial(self._records, study, EPISODES, row)
            numbers = [
                measure.of_run(MeasuredRun(runs[seed], row, seed, played)) if seed in runs else None
                for seed in row.seeds
            ]
            self._numbers[key] = np.array(numbers, float)
        return self._numbers[key]

    def _records(self, study: StudyRecord, log: str, row: ReportRow) -> pd.DataFrame:
        """Return the records of a row's cell in a log, or its evaluation episodes."""
        if (id(study), log) not in self._logs:
            self._logs[id(study), log] = results.load(study) if log == EPISODES else results.noted(study, log)
        rows = self._logs[id(study), log]
        return of_cell(rows, row.cell.id)
