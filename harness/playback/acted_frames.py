"""Frames of a run's own evaluation episodes, drawn by playing again the actions that a log holds.

A layout depends on (seed, step, episode) alone, so an episode needs no policy and no model to be played again. The
frames are written to RUN/acted, for the transcript on the run's page: LOG-00600-00002-00017.png is the frame after the
17th step of episode 2 of the evaluation at step 600, and LOG-00600-00002.json describes the episode. An episode that
ends otherwise than its record says is refused. Logs may come from strangers: they are read, and their episodes played
and drawn, in a separate process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.capabilities import NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Drawer, Task
from guidebench.harness.logs import Column, Log, count, shown_trials, tells_actions
from guidebench.harness.playback import log_clips
from guidebench.harness.playback.log_clips import RunLog, evenly, rows_of
from guidebench.harness.playback.reevaluation import load_run
from guidebench.harness.records.clips import Clip
from guidebench.harness.records.study import ACTED
from guidebench.harness.streams import Streams

FRAMES, SPREAD = 40, 12
"""Most frames of an episode, and how many are spread evenly over it if nothing else asks for as many."""
RESULTS = Log(
    "one evaluation episode",
    {
        "step": count("environment step"), "episode": count("episode"), "success": Column(bool, "whether it succeeded"),
        "return": Column(float, "its return"), "length": count("its steps"),
    },
)  # fmt: skip


def write(run: Path) -> str:
    """Draw episodes of the last evaluation of a finished run, failures first, for each log that tells actions; return a
    message on what was written or refused, "" without such a log. Raise UserError if a file cannot be written."""
    return "\n".join(log_clips.write_clips(log, ACTED, "frames", acted_clips) for log in logs_of_actions(run))


def logs_of_actions(run: Path) -> list[RunLog]:
    """Return the logs of a finished run that tell actions of evaluation episodes."""
    cell, _, seed, _ = load_run(run)
    suite = cell.section("suite").of_run(seed).in_evaluation()
    drawing = cell.section("drawing") or suite.drawing()
    return [
        RunLog(run, name, dict(cell.logs), suite, drawing, cell.names.task, seed=seed)
        for name, declared in cell.logs.items()
        if tells_actions(declared)
    ]


class Episode(NamedTuple):
    """An evaluation episode whose actions a log holds, ready to be played again."""

    log: str
    begun: Task
    """The task after its reset."""
    actions: Mapping[str, int]
    """Name of an action -> the action."""
    rows: Sequence[Mapping[str, Any]]
    """Its rows of the log, in order."""
    result: Mapping[str, Any]
    """Its evaluation record."""

    def __str__(self) -> str:
        return (
            f"the log {self.log!r}, episode {self.result['episode']} of the evaluation at step {self.result['step']:,}"
        )


def acted_clips(log: RunLog) -> list[Clip]:
    """Return the episodes to show, played and drawn in this process. Raise UserError for a log that does not fit, or
    whose actions do not lead to the recorded end."""
    draw = log.drawing.spawn(log.task)
    return [_drawn(episode, draw) for episode in recorded_episodes(log)]


def recorded_episodes(log: RunLog) -> list[Episode]:
    """Return the episodes of the last evaluation to show, failures first. Raise UserError for a log that does not
    fit."""
    suite, task = log.suite, log.task
    actions = suite.action_names(task) if isinstance(suite, NamesActions) else ()
    if not actions:
        raise UserError("the suite's actions have no names")
    evaluations = {(row["step"], row["episode"]): row for row in rows_of(log.run, "evaluations", RESULTS)}
    acted: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in log.rows(log.name):
        acted.setdefault((row["step"], row["trial"]), []).append(row)
    trials = [(*key, bool(evaluation["success"])) for key, evaluation in evaluations.items() if key in acted]
    names = {name: number for number, name in enumerate(actions)}
    episodes = []
    for step, episode in shown_trials(trials):
        fresh_task = suite.make(task)
        fresh_task.reset(Streams(log.seed).evaluation_seed(step, episode))
        rows = sorted(acted[step, episode], key=lambda row: row["first"])
        episodes.append(Episode(log.name, fresh_task, names, rows, evaluations[step, episode]))
    return episodes


def moments(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the steps after which an episode's frames are drawn, in order, at most `FRAMES`: its begin and end,
    changes of the sub-goal, then changes of the action as far as there is room; with fewer than `SPREAD` of these also
    evenly spaced steps. `rows`: the episode's rows of the log."""
    if not rows:
        return [0]
    end = rows[-1]["first"] + rows[-1]["steps"]
    changes = [
        row["first"] for before, row in itertools.pairwise(rows) if row.get("subgoal", "") != before.get("subgoal", "")
    ]
    first = evenly(sorted({0, end, *changes}), FRAMES)
    others = sorted({row["first"] for row in rows} - {*first})
    sampled = {*first, *evenly(others, FRAMES - len(first))}
    return sorted(sampled | {*(evenly(range(end + 1), SPREAD) if len(sampled) < SPREAD else ())})


def replay(episode: Episode) -> Iterator[tuple[int | None, Task]]:
    """Play an episode again; yield the last action, None at its begin, and the task at its begin and after each step.
    Raise UserError if the actions do not lead to the recorded end."""
    task, evaluation = episode.begun, episode.result
    steps, ret, ended, success = 0, 0.0, False, False
    yield None, task
    for row in episode.rows:
        if row["first"] != steps:
            raise UserError(f"{episode}: its rows go from step {steps} to {row['first']}")
        if row["action"] not in episode.actions:
            raise UserError(f"{episode}: {row['action'][:60]!r} is no action of the task")
        for _ in range(row["steps"]):
            if ended:
                raise UserError(f"{episode}: played again it ends after {steps} steps, and more are logged")
            action = episode.actions[row["action"]]
            step = task.step(action)
            steps, ret = steps + 1, ret + float(step.reward)
            ended, success = step.terminated or step.truncated, bool(step.success)
            yield action, task
    end = (steps, success, ret)
    if (ended and end != (evaluation["length"], evaluation["success"], evaluation["return"])) or (
        not ended and steps >= evaluation["length"]
    ):
        raise UserError(f"{episode}: played again it ends otherwise than its record says; were its files changed?")


def _drawn(episode: Episode, draw: Drawer) -> Clip:
    frame_steps, evaluation = moments(episode.rows), episode.result
    snapshots, steps = [], 0
    for steps, (_, task) in enumerate(replay(episode)):
        if steps in frame_steps:
            snapshots.append(task.snapshot().copy())
    name = f"{episode.log}-{evaluation['step']:05d}-{evaluation['episode']:05d}"
    return Clip(
        name, episode.log, step=evaluation["step"], episode=evaluation["episode"], moves=steps,
        frames=tuple(log_clips.frames_of(name, frame_steps, draw(np.stack(snapshots)))),
    )  # fmt: skip
