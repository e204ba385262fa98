"""Scores by a run's judge for clips of evaluation episodes.

A hand-written judge or an oracle is asked at once. A foundation model's answers come from the calls recorded in
RUN/eval; others are made only with models.mode=record or live, within `models.budget_*`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.errors import BudgetReached, MissingCall, UserError, count
from guidebench.harness.execution import Models
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Array, Question
from guidebench.harness.loop.backends import queues
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.job import Job
from guidebench.harness.models import study_models
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.parts import clip_length
from guidebench.harness.plan.config import Cell, cell_view
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import eval_answers
from guidebench.harness.playback.eval_answers import EVAL_FOLDER
from guidebench.harness.playback.reevaluation import load_run

RECORDING = "`bench eval` with models.mode=record asks it"


class JudgedClip(NamedTuple):
    """L consecutive moves of an episode."""

    episode: int
    first: int
    """Number of the first move, from 1."""
    snapshots: Array
    """uint8 [L, n], of the states after the moves."""
    events: Array
    """bool [L, E], the events of the moves."""


class ClipScores(NamedTuple):
    """The scores of clips, P(yes) in [0, 1], None for a clip without an answer; and why some have none, or ""."""

    scores: tuple[float | None, ...]
    reason: str = ""


def clips(episode: int, snapshots: Sequence[Array], events: Sequence[Array], length: int) -> Iterable[JudgedClip]:
    """Yield an episode cut into clips of `length` moves; the last one may be shorter. `snapshots` and `events`: of the
    reset and of each move."""
    for first in range(1, len(snapshots), length):
        moves = slice(first, first + length)
        yield JudgedClip(episode, first, np.stack(snapshots[moves]), np.stack(events[moves]))


def length_of(cell: Cell) -> int:
    """Return the moves per clip that the judge of a cell is shown, or 0 without a judge of clips."""
    return clip_length(cell.sections) if cell.judge else 0


def judge_clips(
    run: Path, suite: Any, names: Names, seed: int, chosen_clips: Sequence[JudgedClip], models: Models
) -> ClipScores:
    """Return the scores that the judge of a finished run gives to clips of evaluation episodes on the task of `names`
    in `suite`. `seed`: seed of the evaluation. Raise UserError if `run` is not a finished run."""
    cell, _, run_seed, _ = load_run(run)
    role, unscored = cell.judge, (None,) * len(chosen_clips)
    judge: Any = cell.section(role) if role else None
    if judge is None or not chosen_clips:
        return ClipScores(unscored)
    judge_title = f"{role} {cell.names.part(role)}"
    if reason := judge.fits(cell_view(cell, suite, names.task)):
        return ClipScores(unscored, f"{judge_title} cannot answer there: {reason}")
    if names.suite != cell.names.suite:
        return ClipScores(unscored, f"{judge_title} judges frames of suite {cell.names.suite}")
    try:
        is_on_record = study_models.is_recorded(judge) and eval_answers.check(run, models)
    except UserError as error:
        return ClipScores(unscored, f"{judge_title} cannot be asked: {error}")
    if study_models.is_recorded(judge) and models.mode == "replay" and not is_on_record:
        return ClipScores(
            unscored, f"{judge_title} is a foundation model, and none of its answers is on record; {RECORDING}"
        )
    at_task = replace(cell, names=cell.names._replace(task=names.task))
    job = Job("eval", str(run / EVAL_FOLDER), record(at_task), (run_seed,), "cpu", models=asdict(models))
    with tempfile.TemporaryDirectory() as scratch:
        build = make_build(at_task, list(job.seeds), "cpu", [Path(scratch)])
        try:
            with queues([role], job, at_task, build) as by_role:
                return _scores_of(by_role[role], judge_title, seed, chosen_clips)
        except UserError as error:
            return ClipScores(unscored, f"{judge_title} cannot be asked: {error}")
        finally:
            eval_answers.settle(run)


def _scores_of(queue: QuestionQueue, judge_title: str, seed: int, chosen_clips: Sequence[JudgedClip]) -> ClipScores:
    """Return the judge's scores of the clips; all questions are sent before the first wait. `judge_title`: the
    judge in messages."""
    questions = [
        (
            Question(0, np.zeros(0, np.int64), clip.snapshots, clip.events, to=queue.role, episode=clip.episode),
            f"clips/{seed}/{clip.episode}",
        )
        for clip in chosen_clips
    ]
    scores: list[float | None] = []
    reasons: list[str] = []
    for question in queue.send(questions, 0):
        value = None
        try:
            (value,) = queue.values([question], lambda: False)
            reasons += [] if value is not None else ["it gave no usable answer, or none at all"]
        except MissingCall:
            reasons.append(f"the answer is not on record; {RECORDING}")
        except BudgetReached as reached:
            reasons.append(str(reached))
        scores.append(None if value is None else float(value))
    reason_text = "; ".join(f"{count(reasons.count(reason), 'clip')}: {reason}" for reason in dict.fromkeys(reasons))
    scored = f"{judge_title} scored {len(chosen_clips) - len(reasons)} of {count(len(chosen_clips), 'clip')}"
    return ClipScores(tuple(scores), f"{scored}; {reason_text}" if reason_text else "")
