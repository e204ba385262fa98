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
from guidebench.harness.logs import tells_actions
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.plan import config
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import acted_frames, judging
from guidebench.harness.playback.logged_frames import rows_of
from guidebench.harness.playback.reevaluation import evaluate_run, load_run
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
from guidebench.harness.records.schema import SCHEMA_VERSION
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

    about: Mapping[str, Any]
    """Its number, success, return, length and score, and the digest of its actions."""
    moments: Sequence[Moment]
    words: Mapping[int, str]
    """Step -> what is said from there on, in order."""


class Cast(NamedTuple):
    """The episodes to draw, and the evaluation that they were chosen from."""

    about: Mapping[str, Any]
    """Entries of gallery.json: suite, task, seed, own, step, played, successes, measure, unjudged, opengl."""
    films: Sequence[Film]


class GalleryOutcome(NamedTuple):
    """A gallery that was written: a message on it, and whether no episode could be drawn."""

    message: str
    empty: bool


class Reel:
    """Moments of an episode, at most twice as many as are drawn: of a longer one every second, fourth, … step."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._every, self._last = 1, Moment(0, np.zeros(0, np.uint8))

    def add(self, step: int, snapshot: Array) -> None:
        """Add the next step of the episode."""
        self._last = Moment(step, snapshot.copy())
        if step % self._every == 0:
            self.moments.append(self._last)
        if len(self.moments) > 2 * SIZES[0][0]:
            self.moments, self._every = self.moments[::2], 2 * self._every

    @property
    def all_moments(self) -> list[Moment]:
        """Return the kept moments and the last one of the episode."""
        return [*self.moments, *([self._last] if self.moments and self._last.step > self.moments[-1].step else [])]


class Gallery:
    """Records the episodes of an evaluation and writes the gallery of a run."""

    def __init__(self, run: Path, seed: int, models: Models | None = None) -> None:
        """`seed`: seed of the evaluation; `models`: whether the run's judge, if it is a foundation model, is asked.
        Raise UserError if `run` is not a finished run."""
        self._cell = load_run(run).cell
        self._run, self._seed, self._models = run, seed, models or Models(mode="replay")
        self._reels: dict[int, Reel] = {}
        self._steps: dict[int, int] = {}
        self._captions: dict[int, dict[int, list[str]]] = {}
        self._clip = judging.length_of(self._cell)
        self._moves: dict[int, list[tuple[Array, Array]]] = {}
        self._actions: dict[int, Any] = {}
        """Episode -> SHA-256 of its actions so far."""
        self.message, self.empty = "", False

    def __call__(self, number: int, task: Task, action: Any) -> None:
        self._actions.setdefault(number, hashlib.sha256()).update(action_bytes(action))
        step = self._steps[number] = self._steps.get(number, -1) + 1
        snapshot = task.snapshot()
        self._reels.setdefault(number, Reel()).add(step, snapshot)
        if self._clip:
            self._moves.setdefault(number, []).append((snapshot.copy(), task.events().copy()))

    def heard(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Record the models' answers to the agent as captions from the present step of each episode on."""
        for question, answer in zip(questions, answers, strict=True):
            if words := in_words(answer):
                captions_by_step = self._captions.setdefault(question.episode, {})
                captions_by_step.setdefault(self._steps.get(question.episode, 0), []).append(f"{question.to}: {words}")

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw and write the episodes to show; `message` says which, or why there are none."""
        drawing = (self._cell.section("drawing") if names.suite == self._cell.names.suite else None) or suite.drawing()
        score = config.score_of(names.suite, names.task)
        episodes = chosen_results(results, score.name, score.sign)
        scores, unjudged = self._judged(suite, names, [result.episode for result in episodes])
        films = []
        about: dict[str, Any]
        for result in episodes:
            about = {
                "episode": result.episode, "success": result.success, "return": result.ret, "length": result.length,
                "score": result.score, "actions": self._actions[result.episode].hexdigest(),
            }  # fmt: skip
            captions = together(self._captions.get(result.episode, {}), scores.get(result.episode, {}))
            films.append(Film(about, self._reels[result.episode].all_moments, captions))
        about = {
            "suite": names.suite, "task": names.task, "seed": self._seed, "own": False, "step": 0,
            "played": len(results), "successes": sum(result.success for result in results),
            "measure": measure(results, score.name), "unjudged": unjudged, "opengl": _opengl(drawing, names.task),
        }  # fmt: skip
        self.message, self.empty = _write(self._run / GALLERY, drawing, names.task, lambda: Cast(about, films))

    def _judged(self, suite: Any, names: Names, episodes: Sequence[int]) -> tuple[dict[int, dict[int, list[str]]], str]:
        """Return episode -> first move of a clip -> captions with the judge's score of it; and why some clips have no
        score, or ""."""
        clips: list[judging.Clip] = []
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
    recording = Gallery(run, seed, models)
    evaluate_run(run, None, None, episodes=episodes, seed=seed, recordings=[recording], models=models)
    return GalleryOutcome(recording.message, recording.empty)


def write_spoken(run: Path) -> GalleryOutcome | None:
    """Write the gallery of a finished run from episodes of its own last evaluation, if a log tells their actions;
    return None without such a log."""
    cell, _, seed = load_run(run)
    acted_logs = {log: declared for log, declared in cell.logs.items() if tells_actions(declared)}
    if not acted_logs:
        return None
    task = cell.names.task
    suite = cell.section("suite").of_run(seed).in_evaluation()
    drawing = cell.section("drawing") or suite.drawing()

    def cast() -> Cast:
        films: list[Film] = []
        evaluations = reader_process.call(f"{run}: reading its evaluations", PATIENCE, last_results, run)
        for log, declared in acted_logs.items():
            description = f"{run}: playing the episodes of its log {log!r}"
            for evaluation, moments, words in reader_process.call(
                description, PATIENCE, replayed, run, log, declared, suite, task, seed
            ):
                about = {key: evaluation[key] for key in ("episode", "success", "return", "length", "actions")}
                films.append(Film({**about, "score": float(evaluation["success"])}, moments, words))
        about = {
            "suite": cell.names.suite, "task": task, "seed": seed, "own": True,
            "step": max((row["step"] for row in evaluations), default=0), "played": len(evaluations),
            "successes": sum(row["success"] for row in evaluations), "measure": "success", "unjudged": "",
            "opengl": _opengl(drawing, task),
        }  # fmt: skip
        return Cast(about, films)

    return _write(run / GALLERY, drawing, task, cast)


def _write(home: Path, drawing: Any, task: str, cast: Callable[[], Cast]) -> GalleryOutcome:
    """Draw the episodes and replace the gallery; an episode that cannot be drawn is named in it with the reason."""
    contents: dict[str, Any] = {"schema": SCHEMA_VERSION, "episodes": [], "undrawn": [], "reason": ""}
    animations: dict[str, bytes] = {}
    try:
        about, films = cast()
    except UserError as error:
        reason = " ".join(str(error).split())
        _save(home, {**contents, "reason": reason}, {})
        return GalleryOutcome(f"gallery: no episode is drawn: {reason}", True)
    reasons: list[str] = []
    for order, episode in enumerate(films):
        if len(reasons) >= 2 and reasons[-1] == reasons[-2]:  # a third attempt would only take longer
            reasons.append(reasons[-1])
        else:
            try:
                content, frames = _drawn(drawing, task, episode)
            except UserError as error:
                reasons.append(" ".join(str(error).split()))
            else:
                name = f"{order:02d}.webp"
                animations[name] = content
                drawn_of = {"moves": episode.moments[-1].step, "frames": frames}
                contents["episodes"].append({**episode.about, "file": name, **drawn_of, **_captions(episode.words)})
                continue
        contents["undrawn"].append({"episode": episode.about["episode"], "reason": reasons[-1]})
    _save(home, {**contents, **about}, animations)
    animation_count = len(animations)
    leading = "failures" if about.get("measure", "success") == "success" else "the worst"
    messages = (
        [f"gallery: {count(animation_count, 'episode')} in {home}, {leading} first"]
        if animation_count or not films
        else []
    )
    failed = [(missing["episode"], missing["reason"]) for missing in contents["undrawn"]]
    messages += [f"gallery: {words}" for words in undrawn(failed)]
    messages += [f"gallery: {about['unjudged']}"] if about["unjudged"] else []
    return GalleryOutcome("\n".join(messages), not animation_count)


def _opengl(drawing: Any, task: str) -> str:
    """Return the OpenGL backend that draws, "" if none does; drawing then says for each episode what is missing."""
    try:
        return str(drawing.opengl(task))
    except UserError:
        return ""


def _drawn(drawing: Any, task: str, episode: Film) -> tuple[bytes, int]:
    """Return the result of `film`, called in a separate process. Raise UserError, with what to do, if that dies."""
    try:
        return reader_process.call(
            f"drawing episode {episode.about['episode']}", PATIENCE, film, drawing, task, episode.moments, episode.words
        )
    except reader_process.Broken as error:
        raise UserError(f"{error}{CRASHED}") from None


def _captions(words: Mapping[int, str]) -> dict[str, Any]:
    listed = [{"step": step, "text": text} for step, text in words.items()]
    return {"words": listed[:CAPTIONS], "words_left_out": len(listed[CAPTIONS:])}


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


def replayed(
    run: Path, log: str, declared: Any, suite: Any, task: str, seed: int
) -> list[tuple[dict[str, Any], list[Moment], dict[int, str]]]:
    """Return the records, with the digests of actions, moments and words of a run's own evaluation episodes, whose
    actions a log tells."""
    episodes = []
    for episode in acted_frames.recorded_episodes(run, log, declared, suite, task, seed):
        reel, digest = Reel(), hashlib.sha256()
        for step, begun in acted_frames.replay(episode):
            reel.add(step, begun.snapshot())
        for row in episode.rows:
            digest.update(action_bytes(episode.actions[row["action"]]) * row["steps"])
        episodes.append(({**episode.result, "actions": digest.hexdigest()}, reel.all_moments, _spoken_at(episode.rows)))
    return episodes


def action_bytes(action: Any) -> bytes:
    """Return an action as the bytes that an episode's digest hashes: 64-bit integers or 32-bit floats; b"" for None, as
    before the first step."""
    if action is None:
        return b""
    array = np.asarray(action)
    return array.astype("<i8" if array.dtype.kind in "iub" else "<f4").tobytes()


def _spoken_at(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return step -> caption of the logged row whose action leads to that step (the first row's at step 0), only for
    steps at which the caption changes."""
    captions: dict[int, str] = {}
    for row in rows:
        text = caption(": ".join(dict.fromkeys(str(row[name]) for name in reversed(WORDS) if row.get(name))))
        if not captions or text != next(reversed(captions.values())):
            captions[row["first"] + bool(row["first"])] = text
    return captions


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


def together(*sources: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Return step -> the captions of all sources joined; a source's caption holds until its next one.

    >>> together({0: ["planner: find a tree"]}, {1: ["judge: P(yes) 0.20"]})
    {0: 'planner: find a tree', 1: 'planner: find a tree · judge: P(yes) 0.20'}
    """
    merged, standing = {}, [""] * len(sources)
    for step in sorted(itertools.chain.from_iterable(sources)):
        for number, source in enumerate(sources):
            standing[number] = " · ".join(source[step]) if step in source else standing[number]
        merged[step] = caption(" · ".join(filter(None, standing)))
    return merged


def film(drawing: Any, task: str, moments: Sequence[Moment], words: Mapping[int, str]) -> tuple[bytes, int]:
    """Return an animated WebP of at most `LARGEST` bytes, and its number of frames. Raise UserError if none is small
    enough."""
    draw = drawing.spawn(task)
    for most, width in SIZES:
        indices = np.unique(np.linspace(0, len(moments) - 1, min(most, len(moments))).round().astype(int))
        drawn_moments = [moments[index] for index in indices.tolist()]
        frames = draw(np.stack([moment.snapshot for moment in drawn_moments]))
        texts = [f"{moment.step}  {said_at(words, moment.step)}".strip() for moment in drawn_moments]
        content = animated([_captioned(frame, text, width) for frame, text in zip(frames, texts, strict=True)])
        if len(content) <= LARGEST:
            return content, len(drawn_moments)
    raise UserError(
        f"an episode of {SIZES[-1][0]} frames {SIZES[-1][1]} pixels wide has more than {LARGEST:,} bytes; `bench eval "
        f"RUN --video FILE` draws episodes of any size"
    )


def said_at(words: Mapping[int, str], step: int) -> str:
    """Return the caption that holds at a step: the last one up to it, or ""."""
    return words.get(max((at for at in words if at <= step), default=-1), "")


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


def _save(home: Path, contents: Mapping[str, Any], animations: Mapping[str, bytes]) -> None:
    """Replace a gallery; its description is written last."""
    shutil.rmtree(home, ignore_errors=True)
    try:
        for name, content in animations.items():
            write_bytes(home / name, content)
        write_json(home / CONTENTS, contents)
    except OSError as error:
        raise UserError(f"{home} cannot be written ({error.strerror or error})") from None
