"""The requirements for a row to be ranked, and the reasons why one is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.recipes import Training
from guidebench.harness.records.schema import ENOUGH_ANSWERED
from guidebench.harness.settings import Cited
from guidebench.harness.statistics import separable_pairs
from guidebench.reports.leaderboard import costs
from guidebench.reports.leaderboard.rows import Measured, RankedRow
from guidebench.reports.summary import registered
from guidebench.results import CellRecord

SEEDS = 3
EPISODES = 10
WORDS = (
    f"Ranked is a row with at least {SEEDS} seeds on every task that the suite has for the profile, at least "
    f"{EPISODES} episodes in the final evaluation of each run (one where every episode of a run is the same), every "
    f"run finished with as many training steps as the profile asks for, {ENOUGH_ANSWERED:.0%} of its questions to "
    "foundation models answered, in all and in each role, where its runs counted them (a reply that could not be used, "
    "so that a fallback stood for it, is no answer), under the suite's present version. A row of one "
    "task alone is ranked among those of that task. Where a suite is not installed here, tasks, steps and version are "
    "those of most of its rows. Other rows are listed apart, with the reason."
)


def separable() -> str:
    """Return, in words, how many pairs of rows of one task the test can separate with three to six seeds."""
    counts = {runs: separable_pairs(runs) for runs in (3, 4, 5, 6)}
    return ", ".join(f"{pairs or 'no'} pair{'' if pairs == 1 else 's'} with {runs}" for runs, pairs in counts.items())


FEW = (
    "Few seeds tell little: two methods that are equal are ranked apart in at most 5 % of cases, but among ten equal "
    "methods of five seeds some row stands below another on two boards of three. The intervals of the places hold "
    f"for all pairs of rows together. On one task they separate at most {separable()} seeds. Report five seeds or "
    "more, ten where you can."
)
"""Error rates from a simulation of equal methods with normally distributed scores (`python -m
benchmarks.error_rates`)."""


@dataclass(frozen=True)
class Protocol:
    """The tasks, training steps and version that a suite prescribes for a profile."""

    tasks: tuple[str, ...]
    steps: Mapping[str, int]
    """Environment steps of a run on each task."""
    version: int | None


def declared(suite: str, profile: str) -> Protocol | None:
    """Return the protocol that a registered suite declares; None if it is not installed or has no such profile."""
    home = registered.get("suite", suite)
    layers = home and home.profiles.get(profile)
    if layers is None:
        return None
    tasks = tuple(layers.get("tasks", home.tasks))
    return Protocol(tasks, {task: _steps(home, layers, task) for task in home.tasks}, int(home.version))


def _steps(home: Any, profile: Mapping[str, Any], task: str) -> int:
    """Return the training steps of a task from the layers of the suite `home` and of a profile; the profile's win over
    the suite's, and a task's own over those for all tasks."""
    of_task = [layers.get("by_task", {}).get(task, {}) for layers in (profile, home.defaults)]
    layers = (of_task[0], profile, of_task[1], home.defaults)
    steps = next((layer["training.steps"] for layer in layers if "training.steps" in layer), Training.steps)
    return int(steps.value if isinstance(steps, Cited) else steps)


def usual(rows: Sequence[RankedRow]) -> Protocol:
    """Return the protocol that most of these rows follow; of equally frequent values the larger."""
    tasks = _most(tuple(sorted(row.tasks)) for row in rows)
    cells = [measured.cell for row in rows for measured in row.tasks.values()]
    versions = [row.version for row in rows if row.version is not None]
    steps = {task: _most(cell.total for cell in cells if cell.task == task) for task in tasks}
    return Protocol(tasks, steps, _most(versions) if versions else None)


def _most(values: Iterable[Any]) -> Any:
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))


def board(row: RankedRow, protocol: Protocol) -> str:
    """Return the only task that a row is ranked on; empty if it has all tasks of the protocol, or several but not
    all."""
    return "" if set(protocol.tasks) <= set(row.tasks) or len(row.tasks) > 1 else next(iter(row.tasks))


def scored(row: RankedRow, protocol: Protocol) -> RankedRow:
    """Restrict a row to the tasks that count for its score: those of the protocol if it has them all, else all of its
    own."""
    return row.of(protocol.tasks) if set(protocol.tasks) <= set(row.tasks) else row


def lacking(row: RankedRow, protocol: Protocol) -> list[str]:
    """Return the reasons why a row is not ranked; empty for a row that is."""
    if row.tab is None:
        return [f"its profile is {row.first.profile!r}; paper, quick and quick_all are ranked"]
    missing = [task for task in protocol.tasks if task not in row.tasks] if len(row.tasks) > 1 else []
    reasons = [f"no evaluations on {_listed(missing)}"] if missing else []
    if row.version is not None and protocol.version is not None and row.version != protocol.version:
        reasons.append(f"made under version {row.version} of the suite, which is at {protocol.version}")
    for task, measured in row.tasks.items():
        if reason := row.source.unchecked.get(measured.cell.id):
            reasons.append(
                f"{task}: its configuration cannot be checked here, so that settings may hide in it: {reason}"
            )
    seeds = len(row.seeds)
    if seeds < SEEDS:
        scope = " that every task has" if len(row.tasks) > 1 else ""
        reasons.append(f"{seeds} {'seed' if seeds == 1 else 'seeds'}{scope}; {SEEDS} are needed")
    for task, measured in row.tasks.items():
        reasons += [f"{task}: {reason}" for reason in _short(measured, protocol.steps.get(task))]
        answers = costs.answered(row.source.study, measured.runs)
        if not answers.enough:
            reasons.append(f"{task}: {answers}; {ENOUGH_ANSWERED:.0%} need one")
    return reasons


def _short(measured: Measured, steps: int | None) -> Iterable[str]:
    cell = measured.cell
    unfinished = [f"seed {run.seed} {_state(run.status)}" for run in measured.runs if run.status != "finished"]
    if unfinished:
        yield _listed(unfinished)
    if steps is not None and cell.total != steps:
        pretraining = f" ({cell.before:,} of them in pre-training)" if cell.before else ""
        yield f"{cell.total:,} training steps{pretraining} where {steps:,} are asked for"
    if measured.last < cell.steps:
        yield f"last evaluated at step {measured.last:,} of {cell.steps:,}"
    if any(run.steps < cell.steps or run.step < cell.steps for run in measured.runs if run.status == "finished"):
        yield f"a run ended before its {cell.steps:,} steps"
    if measured.episodes < (needed := 1 if _alike(cell) else EPISODES):
        yield f"{measured.episodes} episodes in the final evaluation; {needed} are needed"


def _alike(cell: CellRecord) -> bool:
    """Return whether every evaluation episode of a run of the cell is the same, by its installed suite with the
    recorded settings. False if the suite is not installed or the settings do not fit it."""
    home = registered.get("suite", cell.suite)
    suite_settings = {
        key.removeprefix("suite."): setting for key, setting in cell.settings.items() if key.startswith("suite.")
    }
    try:
        return home is not None and home(
            **{name: setting["value"] for name, setting in suite_settings.items()}
        ).repeats(cell.task)
    except (UserError, TypeError, KeyError, ValueError):
        return False


def _state(status: str) -> str:
    return {"waiting": "has not begun", "running": "is running"}.get(status, status)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
