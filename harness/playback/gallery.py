"""Animated episodes of a trained run, failures first, with what its models said as captions: RUN/gallery.

Each episode is one animated WebP of at most `LARGEST` bytes; a long episode has fewer and smaller frames. gallery.json
says which evaluation they are from, how they were chosen and of how many episodes, and for each that is not drawn, why;
and, so that `bench verify` can play them again, the digest of each episode's actions and the OpenGL backend.
Where a log tells the actions of evaluation episodes, those of the run's own last evaluation are played again, with the
words of the log; otherwise episodes of a new evaluation are shown, with what the agent's models answered while they
were played and what the run's judge says of their clips. Drawing happens in a separate process.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, count
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Question, Task
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import acted_frames, judging
from guidebench.harness.playback.log_clips import RunLog, evenly, rows_of
from guidebench.harness.playback.reevaluation import evaluate_run, load_run
from guidebench.harness.records.clips import Caption, Clip, Gallery, Undrawn, plain_gallery
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.galleries import (
    CAPTION,
    CAPTIONS,
    CONTENTS,
    EPISODES,
    LARGEST,
    SIZES,
    animated,
    undrawn,
)
from guidebench.harness.records.study import GALLERY
from guidebench.harness.texts import one_line

LINES, LETTER = 2, 6
"""Lines of a caption below a frame, and the width in pixels of a letter."""
PATIENCE = 300.0
"""Seconds for drawing an episode."""
WORDS = ("said", "subgoal", "action")
"""Columns of a log of actions that a caption shows."""
PLAIN = (str, bool, int, float)
"""Types of answers of models that are words or numbers."""
CRASHED = (
    "; the library that draws crashed, or needed too much memory: `bench doctor` names what draws here, and where "
    "OpenGL does, MUJOCO_GL=osmesa draws in software (Debian, Ubuntu: apt-get install libosmesa6)"
)


class Moment(NamedTuple):
    """The state after so many steps of an episode."""

    step: int
    snapshot: Array


class Film(NamedTuple):
    """An episode to draw."""

    clip: Clip
    moments: Sequence[Moment]


class Cast(NamedTuple):
    """The episodes to draw, and the gallery without them."""

    gallery: Gallery
    films: Sequence[Film]


class GalleryOutcome(NamedTuple):
    """A gallery that was written: a message on it, and whether no episode could be drawn."""

    message: str
    empty: bool


class Reel:
    """An episode as far as it is played: its moments, at most twice as many as are drawn (of a longer one every second,
    fourth, … step), and its actions."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.steps = -1
        """Steps of the last moment; -1 before the first."""
        self._every, self._last, self._actions = 1, Moment(0, np.zeros(0, np.uint8)), hashlib.sha256()

    def add(self, snapshot: Array, action: Any = None) -> None:
        """Add the next step of the episode: its action, None at the begin, and the state after it."""
        self.steps += 1
        self._actions.update(action_bytes(action))
        self._last = Moment(self.steps, snapshot.copy())
        if self.steps % self._every == 0:
            self.moments.append(self._last)
        if len(self.moments) > 2 * SIZES[0][0]:
            self.moments, self._every = self.moments[::2], 2 * self._every

    @property
    def actions(self) -> str:
        """Return the SHA-256 of the actions in hexadecimal digits."""
        return self._actions.hexdigest()

    @property
    def all_moments(self) -> list[Moment]:
        """Return the kept moments and the last one of the episode."""
        return [*self.moments, *([self._last] if self.moments and self._last.step > self.moments[-1].step else [])]


class GalleryRecording:
    """Records the episodes of an evaluation and writes the gallery of a run."""

    def __init__(self, run: Path, seed: int, models: Models | None = None) -> None:
        """`seed`: seed of the evaluation; `models`: whether the run's judge, if it is a foundation model, is asked.
        Raise UserError if `run` is not a finished run."""
        self._cell = load_run(run).cell
        self._run, self._seed, self._models = run, seed, models or Models(mode="replay")
        self._reels: dict[int, Reel] = {}
        self._captions: dict[int, dict[int, list[str]]] = {}
        self._clip = judging.length_of(self._cell)
        self._moves: dict[int, list[tuple[Array, Array]]] = {}
        self.message, self.empty = "", False

    def __call__(self, number: int, task: Task, action: Any) -> None:
        snapshot = task.snapshot()
        self._reels.setdefault(number, Reel()).add(snapshot, action)
        if self._clip:
            self._moves.setdefault(number, []).append((snapshot.copy(), task.events().copy()))

    def heard(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Record the models' answers to the agent as captions from the present step of each episode on."""
        for question, answer in zip(questions, answers, strict=True):
            if words := in_words(answer):
                step = self._reels[question.episode].steps if question.episode in self._reels else 0
                captions_by_step = self._captions.setdefault(question.episode, {})
                captions_by_step.setdefault(step, []).append(f"{question.to}: {words}")

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw and write the episodes to show; `message` says which, or why there are none."""
        drawing = (self._cell.section("drawing") if names.suite == self._cell.names.suite else None) or suite.drawing()
        score = suite.score(names.task)
        episodes = chosen_results(results, score.name, score.sign)
        scores, unjudged = self._judged(suite, names, [result.episode for result in episodes])
        films = []
        for result in episodes:
            clip = Clip(
                episode=result.episode, success=result.success, ret=result.ret, length=result.length,
                score=result.score, actions=self._reels[result.episode].actions,
                captions=together(self._captions.get(result.episode, {}), scores.get(result.episode, {})),
            )  # fmt: skip
            films.append(Film(clip, self._reels[result.episode].all_moments))
        gallery = Gallery(
            names.suite, names.task, self._seed, played=len(results),
            successes=sum(result.success for result in results), measure=measure(results, score.name),
            unjudged=unjudged, opengl=_opengl(drawing, names.task),
        )  # fmt: skip
        self.message, self.empty = _write(self._run / GALLERY, drawing, names.task, lambda: Cast(gallery, films))

    def _judged(self, suite: Any, names: Names, episodes: Sequence[int]) -> tuple[dict[int, dict[int, list[str]]], str]:
        """Return episode -> first move of a clip -> captions with the judge's score of it; and why some clips have no
        score, or ""."""
        clips: list[judging.JudgedClip] = []
        for episode in episodes if self._clip else ():
            snapshots, events = zip(*self._moves[episode], strict=True)
            clips += judging.clips(episode, snapshots, events, self._clip)
        scores, reason = judging.judge_clips(self._run, suite, names, self._seed, clips, self._models)
        captions: dict[int, dict[int, list[str]]] = {}
        for clip, score in zip(clips, scores, strict=True):
            words = "no answer" if score is None else f"P(yes) {score:.2f}"
            last = clip.first + len(clip.snapshots) - 1
            if any(score is not None for score in scores):
                captions.setdefault(clip.episode, {})[clip.first] = [
                    f"{self._cell.judge}: {words} of steps {clip.first} to {last}"
                ]
        return captions, reason


def draw(run: Path, episodes: int = 32, seed: int = 0, models: Models | None = None) -> GalleryOutcome:
    """Write the gallery of a finished run. Raise UserError if it cannot be evaluated."""
    if spoken := write_spoken(run):
        return spoken
    recording = GalleryRecording(run, seed, models)
    evaluate_run(run, None, None, episodes=episodes, seed=seed, recordings=[recording], models=models)
    return GalleryOutcome(recording.message, recording.empty)


def write_spoken(run: Path) -> GalleryOutcome | None:
    """Write the gallery of a finished run from episodes of its own last evaluation, if a log tells their actions;
    return None without such a log."""
    logs = acted_frames.logs_of_actions(run)
    if not logs:
        return None
    suite, drawing, task, seed = load_run(run).cell.names.suite, logs[0].drawing, logs[0].task, logs[0].seed

    def cast() -> Cast:
        films: list[Film] = []
        evaluations = reader_process.call(f"{run}: reading its evaluations", PATIENCE, last_results, run)
        for log in logs:
            films += reader_process.call(
                f"{run}: playing the episodes of its log {log.name!r}", PATIENCE, replayed, log
            )
        last = max((row["step"] for row in evaluations), default=0)
        successes = sum(row["success"] for row in evaluations)
        opengl = _opengl(drawing, task)
        return Cast(Gallery(suite, task, seed, True, last, len(evaluations), successes, opengl=opengl), films)

    return _write(run / GALLERY, drawing, task, cast)


def _write(home: Path, drawing: Any, task: str, cast: Callable[[], Cast]) -> GalleryOutcome:
    """Draw the episodes and replace the gallery; an episode that cannot be drawn is named in it with the reason."""
    try:
        gallery, films = cast()
    except UserError as error:
        reason = " ".join(str(error).split())
        _save(home, Gallery(reason=reason))
        return GalleryOutcome(f"gallery: no episode is drawn: {reason}", True)
    clips: list[Clip] = []
    failures: list[Undrawn] = []
    for order, (clip, moments) in enumerate(films):
        reasons = [failure.reason for failure in failures[-2:]]
        if len(reasons) < 2 or reasons[0] != reasons[1]:  # a third attempt would only take longer
            try:
                content, frames = _drawn(drawing, task, clip, moments)
            except UserError as error:
                reasons.append(" ".join(str(error).split()))
            else:
                captions, left_out = clip.captions[:CAPTIONS], len(clip.captions[CAPTIONS:])
                clip = clip._replace(captions=captions, left_out=left_out, moves=moments[-1].step, drawn=frames)
                clips.append(clip._replace(file=f"{order:02d}.webp", content=content))
                continue
        failures.append(Undrawn(clip.episode, reasons[-1]))
    _save(home, gallery._replace(episodes=tuple(clips), undrawn=tuple(failures)))
    leading = "failures" if gallery.measure == "success" else "the worst"
    messages = [f"{count(len(clips), 'episode')} in {home}, {leading} first"] if clips or not films else []
    messages += [*undrawn(failures), *([gallery.unjudged] if gallery.unjudged else [])]
    return GalleryOutcome("\n".join(f"gallery: {message}" for message in messages), not clips)


def _opengl(drawing: Any, task: str) -> str:
    """Return the OpenGL backend that draws, "" if none does; drawing then says for each episode what is missing."""
    try:
        return str(drawing.opengl(task))
    except UserError:
        return ""


def _drawn(drawing: Any, task: str, clip: Clip, moments: Sequence[Moment]) -> tuple[bytes, int]:
    """Return the result of `film`, called in a separate process. Raise UserError, with what to do, if that dies."""
    try:
        description = f"drawing episode {clip.episode}"
        return reader_process.call(description, PATIENCE, film, drawing, task, moments, clip.captions)
    except reader_process.Broken as error:
        raise UserError(f"{error}{CRASHED}") from None


def chosen_results(results: Sequence[Result], score: str = "success", sign: int = 1) -> list[Result]:
    """Return the episodes to show, at most `EPISODES`: failures, then successes, with a success if there is one. Where
    an episode cannot succeed, those with the worst scores come first, and the best is the last. `score`: name of the
    score; `sign`: -1 if lower is better."""
    if measure(results, score) != "success":
        order = sorted(results, key=lambda result: sign * result.score)
        return order if len(order) <= EPISODES else [*order[: EPISODES - 1], order[-1]]
    failures, successes = ([result for result in results if result.success is outcome] for outcome in (False, True))
    shown_failures = failures[: EPISODES - bool(successes)]
    return [*shown_failures, *successes[: EPISODES - len(shown_failures)]]


def measure(results: Sequence[Result], score: str) -> str:
    """Return the name of the score by which episodes are chosen: `success` if any has succeeded, else `score`."""
    return "success" if score == "success" or any(result.success for result in results) else score


def last_results(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run's last evaluation."""
    rows = rows_of(run, "evaluations", acted_frames.RESULTS)
    last = max((row["step"] for row in rows), default=0)
    return [row for row in rows if row["step"] == last]


def replayed(log: RunLog) -> list[Film]:
    """Return a run's own evaluation episodes, whose actions a log tells, with the digests of their actions and with the
    words of the log."""
    films = []
    for episode in acted_frames.recorded_episodes(log):
        reel, evaluation = Reel(), episode.result
        for action, begun in acted_frames.replay(episode):
            reel.add(begun.snapshot(), action)
        success = bool(evaluation["success"])
        clip = Clip(
            episode=evaluation["episode"], success=success, ret=evaluation["return"], length=evaluation["length"],
            score=float(success), actions=reel.actions, captions=_spoken_at(episode.rows),
        )  # fmt: skip
        films.append(Film(clip, reel.all_moments))
    return films


def action_bytes(action: Any) -> bytes:
    """Return an action as the bytes that an episode's digest hashes: 64-bit integers or 32-bit floats; b"" for None, as
    before the first step."""
    if action is None:
        return b""
    array = np.asarray(action)
    return array.astype("<i8" if array.dtype.kind in "iub" else "<f4").tobytes()


def _spoken_at(rows: Sequence[Mapping[str, Any]]) -> tuple[Caption, ...]:
    """Return the captions of the logged rows, each at the step that its action leads to (the first row's at step 0),
    only for steps at which the caption changes."""
    captions: list[Caption] = []
    for row in rows:
        text = caption(": ".join(dict.fromkeys(str(row[name]) for name in reversed(WORDS) if row.get(name))))
        if not captions or text != captions[-1].text:
            captions.append(Caption(text, step=row["first"] + bool(row["first"])))
    return tuple(captions)


def in_words(answer: Any) -> str:
    """Return a model's answer as a caption; "" for an array or other data that are no words.

    >>> in_words({"goal": "find a tree", "sure": True, "boxes": [[1, 2]]})
    'goal find a tree, sure true'
    """
    if answer is None:
        return "no answer"
    if isinstance(answer, Mapping):
        parts = ((key, in_words(value)) for key, value in answer.items() if value is not None)
        return caption(", ".join(f"{key} {words}" for key, words in parts if words))
    if isinstance(answer, list):
        words = [in_words(value) for value in answer if isinstance(value, str)]
        return caption(", ".join(words)) if len(words) == len(answer) else ""
    return caption(answer if isinstance(answer, str) else json.dumps(answer)) if type(answer) in PLAIN else ""


def caption(text: str) -> str:
    """Return an untrusted text on one line of at most `CAPTION` characters."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= CAPTION else f"{line[: CAPTION - 2]} …"


def together(*sources: Mapping[int, Sequence[str]]) -> tuple[Caption, ...]:
    """Return the captions of all sources joined by step; a source's caption holds until its next one.

    >>> [tuple(caption) for caption in together({0: ["planner: find a tree"]}, {1: ["judge: P(yes) 0.20"]})]
    [('planner: find a tree', '', '', 0), ('planner: find a tree · judge: P(yes) 0.20', '', '', 1)]
    """
    captions, standing = {}, [""] * len(sources)
    for step in sorted(itertools.chain.from_iterable(sources)):
        for number, source in enumerate(sources):
            standing[number] = " · ".join(source[step]) if step in source else standing[number]
        captions[step] = Caption(caption(" · ".join(filter(None, standing))), step=step)
    return tuple(captions.values())


def film(drawing: Any, task: str, moments: Sequence[Moment], captions: Sequence[Caption]) -> tuple[bytes, int]:
    """Return an animated WebP of at most `LARGEST` bytes, and its number of frames. Raise UserError if none is small
    enough."""
    draw = drawing.spawn(task)
    for most, width in SIZES:
        drawn_moments = evenly(moments, most)
        frames = draw(np.stack([moment.snapshot for moment in drawn_moments]))
        texts = [f"{moment.step}  {said_at(captions, moment.step)}".strip() for moment in drawn_moments]
        content = animated([_captioned(frame, text, width) for frame, text in zip(frames, texts, strict=True)])
        if len(content) <= LARGEST:
            return content, len(drawn_moments)
    raise UserError(
        f"an episode of {SIZES[-1][0]} frames {SIZES[-1][1]} pixels wide has more than {LARGEST:,} bytes; `bench eval "
        f"RUN --video FILE` draws episodes of any size"
    )


def said_at(captions: Sequence[Caption], step: int) -> str:
    """Return the caption that holds at a step: the last one up to it, or ""."""
    return max((caption for caption in captions if caption.step <= step), key=_step, default=Caption("")).text


def _step(caption: Caption) -> int:
    return caption.step


def _captioned(frame: Array, text: str, width: int) -> Any:
    """Return a frame, uint8 [height, width, 3], with a text below it."""
    from PIL import Image, ImageDraw

    picture = Image.fromarray(frame)
    picture = picture.resize((width, max(1, round(picture.height * width / picture.width))))
    lines = textwrap.wrap(text, width // LETTER, max_lines=LINES, placeholder=" …")
    canvas = Image.new("RGB", (width, picture.height + 12 * LINES + 2), "white")
    canvas.paste(picture)
    ImageDraw.Draw(canvas).multiline_text((2, picture.height), "\n".join(lines), "black", spacing=1, font_size=10)
    return canvas


def _save(home: Path, gallery: Gallery) -> None:
    """Replace a gallery; its description is written last."""
    shutil.rmtree(home, ignore_errors=True)
    try:
        for clip in gallery.episodes:
            write_bytes(home / clip.file, clip.content)
        write_json(home / CONTENTS, plain_gallery(gallery))
    except OSError as error:
        raise UserError(f"{home} cannot be written ({error.strerror or error})") from None
