"""Frames of a run's own evaluation episodes whose actions a log tells, drawn by taking the same actions again.

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

from guidebench.harness import reader_process
from guidebench.harness.capabilities import NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Drawer, Task
from guidebench.harness.logs import Column, Log, count, shown_trials, tells_actions
from guidebench.harness.playback.logged_frames import encoded, rows_of
from guidebench.harness.playback.reevaluation import load_run
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import ACTED
from guidebench.harness.streams import Streams

FRAMES, SPREAD = 40, 12
"""Most frames of an episode, and how many are spread evenly over it if nothing else asks for as many."""
PATIENCE = 300.0
"""Seconds for playing and drawing."""
RESULTS = Log(
    "one evaluation episode",
    {
        "step": count("environment step"), "episode": count("episode"), "success": Column(bool, "whether it succeeded"),
        "return": Column(float, "its return"), "length": count("its steps"),
    },
)  # fmt: skip


class Acted(NamedTuple):
    """An episode of an evaluation, played again."""

    about: dict[str, Any]
    """Content of its JSON file."""
    pictures: tuple[bytes, ...]
    """PNG of each frame."""


def write(run: Path) -> str:
    """Draw episodes of the last evaluation of a finished run, failures first, for each log that tells actions; return a
    message on what was written or refused, "" without such a log. Raise UserError if a file cannot be written."""
    cell, _, seed = load_run(run)
    task = cell.names.task
    suite = cell.section("suite").of_run(seed).in_evaluation()
    drawing = cell.section("drawing") or suite.drawing()
    told = []
    for log, declared in cell.logs.items():
        if not tells_actions(declared):
            continue
        what = f"{run}: drawing the episodes of its log {log!r}"
        try:
            episodes = reader_process.call(what, PATIENCE, drawn, run, log, declared, suite, drawing, task, seed)
        except UserError as error:
            told.append(f"log {log}: no episodes drawn ({error})")
            continue
        for episode in episodes:
            _save(run / ACTED, episode)
        numbers = ", ".join(str(episode.about["episode"]) for episode in episodes)
        step = f"{episodes[0].about['step']:,}" if episodes else ""
        told.append(
            f"log {log}: episodes {numbers} of the evaluation at step {step}, in {run / ACTED}"
            if episodes
            else f"log {log}: no episodes"
        )
    return "\n".join(told)


class Episode(NamedTuple):
    """An episode of an evaluation whose actions a log tells, before it is played again."""

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


def drawn(run: Path, log: str, declared: Log, suite: Any, drawing: Any, task: str, seed: int) -> list[Acted]:
    """Return the episodes to show, played and drawn in this process. Raise UserError for a log that does not fit, or
    whose actions do not lead to the recorded end."""
    draw = drawing.spawn(task)
    return [_drawn(episode, draw) for episode in recorded(run, log, declared, suite, task, seed)]


def recorded(run: Path, log: str, declared: Log, suite: Any, task: str, seed: int) -> list[Episode]:
    """Return the episodes of the last evaluation to show, failures first. Raise UserError for a log that does not
    fit."""
    actions = suite.action_names(task) if isinstance(suite, NamesActions) else ()
    if not actions:
        raise UserError("the suite's actions have no names")
    results = {(row["step"], row["episode"]): row for row in rows_of(run, "evaluations", RESULTS)}
    acted: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows_of(run, log, declared):
        acted.setdefault((row["step"], row["trial"]), []).append(row)
    known = [(*key, bool(result["success"])) for key, result in results.items() if key in acted]
    names = {name: number for number, name in enumerate(actions)}
    found = []
    for step, episode in shown_trials(known):
        begun = suite.make(task)
        begun.reset(Streams(seed).evaluation_seed(step, episode))
        rows = sorted(acted[step, episode], key=lambda row: row["first"])
        found.append(Episode(log, begun, names, rows, results[step, episode]))
    return found


def moments(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the steps after which an episode's frames are drawn, in order, at most `FRAMES`: its begin and its end,
    where another sub-goal became the present one, and as far as there is room where another action was taken; in an
    episode of few such changes others between them."""
    if not rows:
        return [0]
    end = rows[-1]["first"] + rows[-1]["steps"]
    changes = [
        row["first"] for before, row in itertools.pairwise(rows) if row.get("subgoal", "") != before.get("subgoal", "")
    ]
    first = _thinned(sorted({0, end, *changes}), FRAMES)
    others = sorted({row["first"] for row in rows} - {*first})
    found = {*first, *_thinned(others, FRAMES - len(first))}
    return sorted(found | {*(_thinned(range(end + 1), SPREAD) if len(found) < SPREAD else ())})


def _thinned(steps: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the steps, evenly chosen, with the first and the last."""
    chosen = np.unique(np.linspace(0, len(steps) - 1, max(0, min(most, len(steps)))).round().astype(int))
    return [steps[index] for index in chosen.tolist()]


def played(episode: Episode) -> Iterator[tuple[int, Task]]:
    """Play an episode again; yield the number of steps and the task at its begin and after each step. Raise UserError
    if the actions do not lead to the recorded end."""
    task, result = episode.begun, episode.result
    steps, ret, ended, success = 0, 0.0, False, False
    yield steps, task
    for row in episode.rows:
        if row["first"] != steps:
            raise UserError(f"{episode}: its rows go from step {steps} to {row['first']}")
        if row["action"] not in episode.actions:
            raise UserError(f"{episode}: {row['action'][:60]!r} is no action of the task")
        for _ in range(row["steps"]):
            if ended:
                raise UserError(f"{episode}: played again it ends after {steps} steps, and more are logged")
            taken = task.step(episode.actions[row["action"]])
            steps, ret = steps + 1, ret + float(taken.reward)
            ended, success = taken.terminated or taken.truncated, bool(taken.success)
            yield steps, task
    end = (steps, success, ret)
    if (ended and end != (result["length"], result["success"], result["return"])) or (
        not ended and steps >= result["length"]
    ):
        raise UserError(f"{episode}: played again it ends otherwise than its record says; were its files changed?")


def _drawn(episode: Episode, draw: Drawer) -> Acted:
    wanted, result = {*moments(episode.rows)}, episode.result
    snapshots, steps = [], 0
    for steps, task in played(episode):
        if steps in wanted:
            snapshots.append(task.snapshot().copy())
    name = f"{episode.log}-{result['step']:05d}-{result['episode']:05d}"
    frames = [{"file": f"{name}-{step:05d}.png", "frame": step} for step in sorted(wanted)]
    about = {
        "schema": SCHEMA_VERSION, "name": name, "log": episode.log, "step": result["step"],
        "episode": result["episode"], "played": steps, "frames": frames,
    }  # fmt: skip
    return Acted(about, tuple(encoded(frame) for frame in draw(np.stack(snapshots))))


def _save(directory: Path, episode: Acted) -> None:
    about = {name: value for name, value in episode.about.items() if name != "name"}
    try:
        for frame, png in zip(about["frames"], episode.pictures, strict=True):
            write_bytes(directory / frame["file"], png)
        write_json(directory / f"{episode.about['name']}.json", about)
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error.strerror or error})") from None
