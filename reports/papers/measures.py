"""Numbers of each run from its logs rather than its curves: teachers' labels, model costs, speed, and what the replay
drew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench import results
from guidebench.harness.statistics import Array
from guidebench.reports.sections import episodes, phases, preferences, rewards
from guidebench.reports.summary import judges, ledger
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import StudyRecord

if TYPE_CHECKING:
    import pandas as pd

OfRuns = Callable[["pd.DataFrame", ReportRow], Mapping[int, float]]
"""Function from the records of one cell and its row to the number of each seed that has it."""


OfEpisodes = Callable[["pd.DataFrame", ReportRow, "pd.DataFrame"], Mapping[int, float]]
"""The same, given also the cell's evaluation episodes."""


class Measure(NamedTuple):
    """How a number of each run is read from one of its logs and, for some, from its evaluation episodes."""

    log: str
    of_runs: OfRuns | OfEpisodes
    of_episodes: bool = False
    """Whether the function also receives the cell's evaluation episodes."""


def _of_labels(name: str, times: float = 1.0) -> OfRuns:
    def of_runs(rows: pd.DataFrame, _: ReportRow) -> dict[int, float]:
        runs: Iterable[tuple[Any, pd.DataFrame]] = rows.groupby("seed")
        numbers = {int(seed): preferences.of_run(run).get(name, np.nan) for seed, run in runs}
        return {seed: times * value for seed, value in numbers.items()}

    return of_runs


def _spent(name: str) -> OfRuns:
    def of_runs(rows: pd.DataFrame, _: ReportRow) -> dict[int, float]:
        last = rows.sort_values("step").groupby("seed").tail(1)
        return {int(seed): float(value) for seed, value in zip(last["seed"], last[name], strict=True)}

    return of_runs


def _on_unseen_pairs(rows: pd.DataFrame, _: ReportRow) -> dict[int, float]:
    return {seed: 100 * value for seed, value in rewards.accuracy_of_runs(rows).items()}


def _clocked(value: Callable[[Mapping[str, float]], float | None]) -> OfRuns:
    """Return a function from the records `timings` to seed -> `value` of the run's share of its worker's clock."""

    def of_runs(rows: pd.DataFrame, _: ReportRow) -> dict[int, float]:
        runs: Iterable[tuple[Any, pd.DataFrame]] = rows.groupby("seed")
        clocks = {int(seed): value(judges.clock(run)) for seed, run in runs}
        return {seed: number for seed, number in clocks.items() if number is not None}

    return of_runs


def _frames_per_second(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
    length = row.cell.settings.get("replay.clip_length")
    frames = length.get("value") if isinstance(length, Mapping) else None
    if not isinstance(frames, int):
        return {}
    return {seed: frames / seconds for seed, seconds in _clocked(judges.seconds_per_clip)(rows, row).items() if seconds}


def _most(name: str) -> OfRuns:
    """Return a function from records to seed -> the largest value of a column in the run."""

    def of_runs(rows: pd.DataFrame, _: ReportRow) -> dict[int, float]:
        if name not in rows:
            return {}
        runs: Iterable[tuple[Any, pd.DataFrame]] = rows.groupby("seed")
        return {int(seed): float(run[name].max()) for seed, run in runs}

    return of_runs


def _steps_of_a_second(clock: Mapping[str, float]) -> float | None:
    speed = judges.steps_per_second(clock)
    return 1 / speed if speed else None


def _until_success(rows: pd.DataFrame, row: ReportRow, seed: int) -> pd.DataFrame:
    """Return a seed's records up to its first evaluation with a success; all of them if it never succeeded."""
    reached = np.flatnonzero(row.success[row.seeds.index(seed)] > 0)
    until = row.steps[reached[0]] if len(reached) else np.inf
    return rows.loc[(rows["seed"] == seed) & (rows["step"] <= until)]


def _second_half(rows: pd.DataFrame, _: ReportRow, seed: int) -> pd.DataFrame:
    last = float(rows["step"][rows["seed"] == seed].max())
    return rows.loc[(rows["seed"] == seed) & (rows["step"] >= last / 2)]


def _before_success(name: str, of: Callable[[Array], Array] = np.asarray) -> OfRuns:
    """Return a function to seed -> mean of a metric, transformed by `of`, before the first success, in percent."""

    def of_runs(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
        if name not in rows:
            return {}
        recorded = {seed: _until_success(rows, row, seed)[name].dropna().to_numpy(float) for seed in row.seeds}
        return {seed: 100 * float(of(values).mean()) for seed, values in recorded.items() if len(values)}

    return of_runs


def _phases(
    value: Callable[[pd.Series[float], pd.Series[float]], float],
    window: Callable[[pd.DataFrame, ReportRow, int], pd.DataFrame],
) -> OfRuns:
    """Return a function to seed -> `value` of the mean shares of task phases, by event, among drawn and among stored
    transitions, over the records that `window` selects."""

    def of_runs(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
        events = [name.removeprefix(phases.DRAWN) for name in map(str, rows) if name.startswith(phases.DRAWN)]
        columns = [kind + event for kind in (phases.DRAWN, phases.STORED) for event in events]
        complete = rows.dropna(subset=columns) if columns else rows.iloc[:0]
        numbers = {}
        for seed in row.seeds:
            mine = window(complete, row, seed)
            if len(mine):
                means = mine[columns].mean()
                drawn, stored = (
                    means[[kind + event for event in events]].set_axis(events) for kind in (phases.DRAWN, phases.STORED)
                )
                numbers[seed] = value(drawn, stored)
        return numbers

    return of_runs


def _last(rows: pd.DataFrame, row: ReportRow) -> pd.DataFrame:
    """Return the records at the row's last evaluation; logs do not count the steps of pre-training stages."""
    return rows[rows["step"] == row.last - row.cell.before]


def _outcome(name: str) -> OfRuns:
    """Return a function to seed -> mean of a counted outcome over the episodes of the last evaluation, in percent."""

    def of_runs(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
        last = _last(rows, row)
        means = last[last["outcome"] == name].groupby("seed")["value"].mean()
        return {int(str(seed)): 100 * float(value) for seed, value in means.items()}

    return of_runs


def _steps_of_test(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
    """Return seed -> mean length of the episodes of the last evaluation, failed ones included."""
    return {int(str(seed)): float(steps) for seed, steps in _last(rows, row).groupby("seed")["length"].mean().items()}


def _seconds_of_test(rows: pd.DataFrame, _: ReportRow, played: pd.DataFrame) -> dict[int, float]:
    by_seed = episodes.seconds_of_episode(rows, played)
    return {int(str(seed)): float(seconds) for seed, seconds in by_seed.items()}


def _placed(rows: pd.DataFrame, row: ReportRow) -> dict[int, float]:
    """Return seed -> mean share of items placed at the last evaluation, in percent; empty for any other score."""
    if row.score.name != "object success":
        return {}
    return {seed: 100 * float(share) for seed, share in zip(row.seeds, row.scores[:, -1], strict=True)}


def _apart(drawn: pd.Series[float], stored: pd.Series[float]) -> float:
    return 50 * float((drawn - stored).abs().sum())


def _draws_to_key(drawn: pd.Series[float], stored: pd.Series[float]) -> float:
    return 100 * float(drawn["key"] / stored["key"]) if "key" in drawn and stored["key"] else np.nan


EPISODES = "evaluations"
"""The records of evaluation episodes, which are no log."""
OFFLINE = "offline"
"""Prefix of metrics that a paper takes on data apart from training."""
MEASURES: Mapping[str, Measure] = {
    "label_accuracy_percent": Measure("labels", _of_labels(preferences.ACCURACY, 100)),
    "discard_percent": Measure("labels", _of_labels(f"outcome/{preferences.DISCARDED}", 100)),
    "equal_percent": Measure("labels", _of_labels(f"outcome/{preferences.EQUAL}", 100)),
    "segment_reward": Measure("labels", _of_labels(f"reward/{preferences.IMAGINED}")),
    f"{OFFLINE}_label_accuracy_percent": Measure("probes", _on_unseen_pairs),
    "input_tokens": Measure("ledger", _spent("tokens_in")),
    "output_tokens": Measure("ledger", _spent("tokens_out")),
    "dollars": Measure("ledger", _spent("usd")),
    "survival_percent": Measure("outcomes", _outcome("alive")),
    "completion_percent": Measure("outcomes", _outcome("completion")),
    "object_success_percent": Measure(EPISODES, _placed),
    "evaluation_steps": Measure(EPISODES, _steps_of_test),
    "seconds": Measure("timings", _seconds_of_test, of_episodes=True),
    "steps_per_second": Measure("timings", _clocked(judges.steps_per_second)),
    "seconds_per_step": Measure("timings", _clocked(_steps_of_a_second)),
    "seconds_per_clip": Measure("timings", _clocked(judges.seconds_per_clip)),
    "frames_per_second": Measure("timings", _frames_per_second),
    "gibibytes_load": Measure("timings", _most("judge_gibibytes_load")),
    "gibibytes_peak": Measure("timings", _most("judge_gibibytes_peak")),
    "zero_feedback_percent": Measure("metrics", _before_success("replay/mean_return", lambda returns: returns == 0)),
    "clipped_before_success_percent": Measure("metrics", _before_success("replay/clipped_share")),
    "draws_apart_before_success_percent": Measure("metrics", _phases(_apart, _until_success)),
    "draws_to_key_percent": Measure("metrics", _phases(_draws_to_key, _second_half)),
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
"""Metric that does so too, whose name is a prefix of others."""


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
            mine = self._records(study, measure.log, row)
            free = measure.log == "ledger" and not ledger.is_billed(row.cell)
            more = (self._records(study, EPISODES, row),) if measure.of_episodes else ()
            numbers = measure.of_runs(mine, row, *more) if len(mine) and not free else {}
            self._numbers[key] = np.array([numbers.get(seed, np.nan) for seed in row.seeds], float)
        return self._numbers[key]

    def _records(self, study: StudyRecord, log: str, row: ReportRow) -> pd.DataFrame:
        """Return the records of a row's cell in a log, or its evaluation episodes."""
        if (id(study), log) not in self._logs:
            self._logs[id(study), log] = results.load(study) if log == EPISODES else results.noted(study, log)
        rows = self._logs[id(study), log]
        return rows[rows["cell"] == row.cell.id]
