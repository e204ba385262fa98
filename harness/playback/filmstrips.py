"""Filmstrips of an episode of a trained run: one image per clip, with the score of the run's judge.

They are written to RUN/frames, for the run's page: NAME-00017.png is the clip whose first frame follows the 17th move,
and NAME.json describes the clips. Where a log of the run shows frames or questions to models, these are drawn too
(`logged_frames`, `asked_frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question, Task
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.loop.probes import ORDINALS, STRETCH
from guidebench.harness.parts import clip_length
from guidebench.harness.plan.config import there
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import asked_frames, logged_frames
from guidebench.harness.playback.reevaluation import SHIFT, load_run
from guidebench.harness.playback.sample_frames import strip
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import FRAMES
from guidebench.harness.streams import Streams

MOMENTS = 8
"""Frames per strip."""
CLIPS = 48
"""Maximum strips per episode; a longer episode is sampled evenly."""

Scorer = Callable[[int, Array, Array], float]
"""Number, frames uint8 [L, height, width, 3] and events bool [L, E] of a clip -> P(yes)."""


class Filmstrips:
    """Records the first episode of an evaluation, draws it as the run's judge sees it, and scores it with that judge.

    Clips have the run's clip length, or 32 moves without a judge. Foundation models are not called.
    """

    def __init__(self, run: Path, seed: int) -> None:
        """`seed`: seed of the evaluation. Raise UserError if `run` is not a finished run."""
        self._cell, _ = load_run(run)
        self._run, self._directory, self._seed = run, run / FRAMES, seed
        self.told = ""
        self._snapshots: list[Array] = []
        self._events: list[Array] = []

    def __call__(self, number: int, task: Task) -> None:
        if number == 0:
            self._snapshots.append(task.snapshot())
            self._events.append(task.events().copy())

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw, score and write the recorded episode."""
        cell, task = self._cell, names.task
        drawing = cell.section("drawing") if names.suite == cell.names.suite else None
        draw = (drawing or suite.drawing()).spawn(task)
        scorer, unjudged = self._scorer(suite, task)
        length = clip_length(cell.sections) or STRETCH
        name = f"{names.suite}-{task}-seed{self._seed}"
        clips: list[dict[str, Any]] = []
        for number, first in enumerate(_evenly(range(1, len(self._snapshots), length))):
            moves = slice(first, first + length)
            frames, events = draw(np.stack(self._snapshots[moves])), np.stack(self._events[moves])
            shown = np.unique(np.linspace(0, len(frames) - 1, MOMENTS).round().astype(int))
            file = f"{name}-{first:05d}.png"
            self._save(file, strip(frames[shown]))
            happened = [suite.events[event] for event in np.flatnonzero(events.any(0))]
            clips.append({"file": file, "first": first, "last": first + len(frames) - 1, "events": happened})
            if scorer:
                clips[-1]["score"] = scorer(number, frames, events)
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
        judged = f"judged by {cell.names.part(cell.judge)}" if scorer else unjudged or "the run has no judge"
        drawn = f"frames: {self._directory / name}.json, {len(clips)} clip{'s' * (len(clips) != 1)}, {judged}"
        more = [logged_frames.write(self._run, cell), asked_frames.write(self._run, cell)]
        self.told = "\n".join(filter(None, [drawn, *more]))

    def _scorer(self, suite: Any, task: str) -> tuple[Scorer | None, str]:
        """Return the function that scores a clip and "", or None and the reason why clips cannot be scored."""
        role = self._cell.judge
        judge: Any = self._cell.section(role)
        if judge is None:
            return None, ""
        if reason := judge.fits(there(self._cell, suite, task)):
            return None, f"{role} {self._cell.names.part(role)} cannot answer there: {reason}"
        if judge.backend == "oracle":
            oracle, streams = judge.spawn(suite, task), Streams(self._seed + SHIFT)

            def told(number: int, frames: Array, events: Array) -> float:
                question = Question(0, np.zeros(0, np.int64), None, events, to=role)
                return float(oracle(question, streams.of_question(ORDINALS + number, role)))

            return told, ""
        if judge.backend != "scripted":
            return None, f"{role} {self._cell.names.part(role)} is a foundation model, which is not asked for this"
        from guidebench.harness.models.serving import padded

        length, scripted = clip_length(self._cell.sections), judge.spawn(suite, task)
        return lambda number, frames, events: float(scripted([padded(frames, length)])[0]), ""

    def _save(self, name: str, image: Array) -> None:
        import imageio.v2 as imageio

        try:
            write_bytes(self._directory / name, imageio.imwrite("<bytes>", image, format="png"))
        except OSError as error:
            raise UserError(f"{self._directory / name} cannot be written ({error.strerror or error})") from None


def _evenly(firsts: Sequence[int]) -> list[int]:
    """Return at most CLIPS of the clips, evenly spaced, with the first and the last."""
    chosen = np.unique(np.linspace(0, len(firsts) - 1, min(CLIPS, len(firsts))).round().astype(int))
    return [firsts[index] for index in chosen.tolist()]
