"""Filmstrips of an episode of a trained run: one image per clip, with the score of the run's judge.

They are written to RUN/frames, for the run's page: NAME-00017.png is the clip whose first frame follows the 17th move,
and NAME.json describes the clips. Where a log of the run shows frames or questions to models, these are drawn too
(`logged_frames`, `asked_frames`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Question, Task
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.loop.probes import STRETCH
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import asked_frames, judging, logged_frames
from guidebench.harness.playback.reevaluation import load_run
from guidebench.harness.playback.sample_frames import strip
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import FRAMES

MOMENTS = 8
"""Frames per strip."""
CLIPS = 48
"""Maximum strips per episode; a longer episode is sampled evenly."""

Shown = TypeVar("Shown")


class Filmstrips:
    """Records the first episode of an evaluation, draws it as the run's judge sees it, and scores it with that judge.

    Clips have the run's clip length, or 32 moves without a judge.
    """

    def __init__(self, run: Path, seed: int, models: Models | None = None) -> None:
        """`seed`: seed of the evaluation; `models`: whether the run's judge, if it is a foundation model, is asked.
        Raise UserError if `run` is not a finished run."""
        self._cell = load_run(run).cell
        self._run, self._directory, self._seed = run, run / FRAMES, seed
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
        chosen = _evenly(list(judging.clips(0, self._snapshots, self._events, length)))
        scores, unjudged = judging.judged(self._run, suite, names, self._seed, chosen, self._models)
        clips: list[dict[str, Any]] = []
        for clip, score in zip(chosen, scores, strict=True):
            shown = np.unique(np.linspace(0, len(clip.snapshots) - 1, MOMENTS).round().astype(int))
            file = f"{name}-{clip.first:05d}.png"
            self._save(file, strip(draw(clip.snapshots[shown])))
            happened = [suite.events[event] for event in np.flatnonzero(clip.events.any(0))]
            last = clip.first + len(clip.snapshots) - 1
            clips.append({"file": file, "first": clip.first, "last": last, "events": happened})
            clips[-1] |= {} if score is None else {"score": score}
        result = results[0]
        about = {
            "schema": SCHEMA_VERSION,
            "suite": names.suite,
            "task": task,
            "seed": self._seed,
            "moves": len(self._snapshots) - 1,
            "length": result.length,
            "return": result.ret,
            "success": result.success,
            "judge": cell.names.part(cell.judge),
            "unjudged": unjudged,
            "clips": clips,
        }
        write_json(self._directory / f"{name}.json", about)
        judged = unjudged or (f"judged by {cell.names.part(cell.judge)}" if cell.judge else "the run has no judge")
        drawn = f"frames: {self._directory / name}.json, {len(clips)} clip{'s' * (len(clips) != 1)}, {judged}"
        more = [logged_frames.write(self._run, cell), asked_frames.write(self._run, cell)]
        self.message = "\n".join(filter(None, [drawn, *more]))

    def _save(self, name: str, image: Array) -> None:
        import imageio.v2 as imageio

        try:
            write_bytes(self._directory / name, imageio.imwrite("<bytes>", image, format="png"))
        except OSError as error:
            raise UserError(f"{self._directory / name} cannot be written ({error.strerror or error})") from None


def _evenly(clips: Sequence[Shown]) -> list[Shown]:
    """Return at most CLIPS of the clips, evenly spaced, with the first and the last."""
    chosen = np.unique(np.linspace(0, len(clips) - 1, min(CLIPS, len(clips))).round().astype(int))
    return [clips[index] for index in chosen.tolist()]
