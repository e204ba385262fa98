"""Filmstrips of an episode of a trained run: one image per clip, with the score of the run's judge.

They are written to RUN/frames, for the run's page: NAME-00017.png is the clip whose first frame follows the 17th move,
and NAME.json describes the clips. Where a log of the run shows frames or questions to models, these are drawn too
(`log_clips`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.errors import count
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Question, Task
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.loop.probes import STRETCH
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import judging, log_clips
from guidebench.harness.playback.log_clips import evenly, frames_of
from guidebench.harness.playback.reevaluation import load_run
from guidebench.harness.playback.sample_frames import strip
from guidebench.harness.records import clips
from guidebench.harness.records.clips import Clip
from guidebench.harness.records.study import FRAMES

MOMENTS = 8
"""Frames per strip."""
CLIPS = 48
"""Maximum strips per episode; a longer episode is sampled evenly."""


class Filmstrips:
    """Records the first episode of an evaluation, draws it as the run's judge sees it, and scores it with that judge.

    Clips have the run's clip length, or 32 moves without a judge.
    """

    def __init__(self, run: Path, seed: int, models: Models | None = None) -> None:
        """`seed`: seed of the evaluation; `models`: whether the run's judge, if it is a foundation model, is asked.
        Raise UserError if `run` is not a finished run."""
        self._cell = load_run(run).cell
        self._run, self._seed = run, seed
        self._models = models or Models(mode="replay")
        self.message = ""
        self._snapshots: list[Array] = []
        self._events: list[Array] = []

    def __call__(self, number: int, task: Task, action: Any) -> None:
        if number == 0:
            self._snapshots.append(task.snapshot())
            self._events.append(task.events().copy())

    def heard(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Do nothing, because strips show what the judge says."""

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw, score and write the recorded episode."""
        cell, task = self._cell, names.task
        drawing = cell.section("drawing") if names.suite == cell.names.suite else None
        draw = (drawing or suite.drawing()).spawn(task)
        length = judging.length_of(cell) or STRETCH
        name = f"{names.suite}-{task}-seed{self._seed}"
        sampled_clips = evenly(list(judging.clips(0, self._snapshots, self._events, length)), CLIPS)
        scores, unjudged = judging.judge_clips(self._run, suite, names, self._seed, sampled_clips, self._models)
        frames = []
        for clip, score in zip(sampled_clips, scores, strict=True):
            snapshots = np.stack(evenly(list(clip.snapshots), MOMENTS))
            (frame,) = frames_of(name, [clip.first], [strip(draw(snapshots))])
            events = tuple(suite.events[event] for event in np.flatnonzero(clip.events.any(0)))
            frames.append(frame._replace(last=clip.first + len(clip.snapshots) - 1, events=events, score=score))
        result, judge = results[0], cell.names.part(cell.judge)
        episode = Clip(
            name, suite=names.suite, task=task, seed=self._seed, moves=len(self._snapshots) - 1, length=result.length,
            ret=result.ret, success=result.success, judge=judge, unjudged=unjudged, frames=tuple(frames),
        )  # fmt: skip
        clips.write(self._run / FRAMES, FRAMES, episode)
        judge_note = unjudged or (f"judged by {judge}" if cell.judge else "the run has no judge")
        frames_note = f"frames: {self._run / FRAMES / name}.json, {count(len(frames), 'clip')}, {judge_note}"
        self.message = "\n".join(filter(None, [frames_note, log_clips.write(self._run, cell)]))
