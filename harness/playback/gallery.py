"""Animated episodes of a trained run, failures first, with what its models said as captions: RUN/gallery.

Each episode is one animated WebP of at most `LARGEST` bytes beside a JSON file that describes it; a long episode has
fewer and smaller frames. Where a log tells the actions of evaluation episodes, those of the run's own last evaluation
are played again, with the words of the log; otherwise episodes of a new evaluation are shown. Drawing happens in a
separate process. Where no frame can be drawn, RUN/gallery holds the reason instead.
"""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import apart
from guidebench.harness.errors import UserError, count
from guidebench.harness.interfaces import Array, Task
from guidebench.harness.logs import tells_actions
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import acted_frames
from guidebench.harness.playback.reevaluation import load_run
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import GALLERY
from guidebench.harness.texts import one_line

EPISODES = 6
"""Most episodes of a gallery; the last place is a success's if there is one."""
LARGEST = 2**18
"""Most bytes of an episode: 256 KiB."""
SIZES = ((60, 192), (40, 160), (24, 128), (12, 96))
"""Frames and their width in pixels, the first of these with which an episode is small enough."""
RATE, LAST = 8, 1_000
"""Frames per second, and milliseconds of the last frame."""
LINES, LETTER = 2, 6
"""Lines of a caption, and the width in pixels of a letter."""
QUALITY = 60
"""Of WebP, from 0 to 100 (choice)."""
PATIENCE = 300.0
"""Seconds for drawing an episode."""
REASON = "reason.json"
"""File of a gallery that says why episodes are not drawn."""
WORDS = ("said", "subgoal", "action")
"""Columns of a log of actions that a caption shows."""


class Moment(NamedTuple):
    """What is drawn after so many steps of an episode."""

    step: int
    snapshot: Array
    words: str


Film = tuple[Mapping[str, Any], Sequence[Moment]]
"""What is known of an episode, and its moments."""


class Reel:
    """Moments of an episode, at most twice as many as are drawn: of a longer one every second, fourth, … step."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._every, self._last = 1, Moment(0, np.zeros(0, np.uint8), "")

    def add(self, step: int, snapshot: Array, words: str = "") -> None:
        """Add the next step of the episode."""
        self._last = Moment(step, snapshot.copy(), words)
        if step % self._every == 0:
            self.moments.append(self._last)
        if len(self.moments) > 2 * SIZES[0][0]:
            self.moments, self._every = self.moments[::2], 2 * self._every

    @property
    def shown(self) -> list[Moment]:
        """The moments, with the last one."""
        return [*self.moments, *([self._last] if self.moments and self._last.step > self.moments[-1].step else [])]


class Gallery:
    """Records the episodes of an evaluation and writes the gallery of a run."""

    def __init__(self, run: Path, seed: int) -> None:
        """`seed`: seed of the evaluation. Raise UserError if `run` is not a finished run."""
        self._cell, _ = load_run(run)
        self._run, self._seed, self.told = run, seed, ""
        self._reels: dict[int, Reel] = {}
        self._steps: dict[int, int] = {}

    def __call__(self, number: int, task: Task) -> None:
        step = self._steps[number] = self._steps.get(number, -1) + 1
        self._reels.setdefault(number, Reel()).add(step, task.snapshot())

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw and write the episodes to show; `told` says which, or why there are none."""
        drawing = (self._cell.section("drawing") if names.suite == self._cell.names.suite else None) or suite.drawing()
        films: list[Film] = []
        for result in shown(results):
            about = {
                "step": 0, "episode": result.episode, "success": result.success, "return": result.ret,
                "length": result.length, "of": f"new layouts of {names.suite}/{names.task}, seed {self._seed}",
            }  # fmt: skip
            films.append((about, self._reels[result.episode].shown))
        self.told = _write(self._run / GALLERY, drawing, names.task, lambda: films)


def write_spoken(run: Path) -> str:
    """Write the gallery of a finished run from episodes of its own last evaluation, if a log tells their actions;
    return a message on what was written, or "" without such a log."""
    cell, directory = load_run(run)
    told = {log: declared for log, declared in cell.logs.items() if tells_actions(declared)}
    if not told:
        return ""
    seed, task = int(directory.read()["seed"]), cell.names.task
    suite = cell.section("suite").of_run(seed).in_evaluation()

    def films() -> list[Film]:
        found: list[Film] = []
        for log, declared in told.items():
            what = f"{run}: playing the episodes of its log {log!r}"
            for result, moments in apart.call(what, PATIENCE, replayed, run, log, declared, suite, task, seed):
                about = {key: result[key] for key in ("step", "episode", "success", "return", "length")}
                found.append(({**about, "of": "the run's last evaluation"}, moments))
        return found

    return _write(run / GALLERY, cell.section("drawing") or suite.drawing(), task, films)


def _write(home: Path, drawing: Any, task: str, films: Callable[[], Sequence[Film]]) -> str:
    """Write the episodes into a new gallery, or why they cannot be drawn; return a message."""
    shutil.rmtree(home, ignore_errors=True)
    try:
        found = films()
        for order, (about, moments) in enumerate(found):
            what = f"drawing episode {about['episode']}"
            content, frames = apart.call(what, PATIENCE, film, drawing, task, moments)
            file = home / f"{order:02d}.webp"
            words = [{"frame": moment.step, "text": moment.words} for moment in _changes(moments)]
            described = {"schema": SCHEMA_VERSION, **about, "file": file.name, "frames": frames, "words": words}
            _save(file, content)
            _save(file.with_suffix(".json"), described)
    except UserError as error:
        reason = " ".join(str(error).split())
        _save(home / REASON, {"schema": SCHEMA_VERSION, "reason": reason})
        return f"gallery: not all episodes are drawn: {reason}"
    return f"gallery: {count(len(found), 'episode')} in {home}, failures first"


def shown(results: Sequence[Result]) -> list[Result]:
    """Return the episodes to show: failures, then successes, at most `EPISODES`, with a success if there is one."""
    failures, successes = ([each for each in results if each.success is wanted] for wanted in (False, True))
    kept = failures[: EPISODES - bool(successes)]
    return [*kept, *successes[: EPISODES - len(kept)]]


def replayed(
    run: Path, log: str, declared: Any, suite: Any, task: str, seed: int
) -> list[tuple[dict[str, Any], list[Moment]]]:
    """Return the records and moments of a run's own evaluation episodes, whose actions a log tells."""
    found = []
    for episode in acted_frames.recorded(run, log, declared, suite, task, seed):
        reel, words = Reel(), _spoken_at(episode.rows)
        for step, begun in acted_frames.played(episode):
            reel.add(step, begun.snapshot(), words.get(step, ""))
        found.append((dict(episode.result), reel.shown))
    return found


def _spoken_at(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return steps -> the words of the row whose action led there, or of the first row at the begin."""
    told = {}
    for row in rows:
        text = ": ".join(dict.fromkeys(one_line(row[name]) for name in reversed(WORDS) if row.get(name)))
        for step in range(row["first"] + bool(row["first"]), row["first"] + row["steps"] + 1):
            told[step] = text
    return told


def _changes(moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments at which other words begin."""
    return [
        moment
        for before, moment in zip([None, *moments[:-1]], moments, strict=True)
        if moment.words and (before is None or moment.words != before.words)
    ]


def film(drawing: Any, task: str, moments: Sequence[Moment]) -> tuple[bytes, int]:
    """Return an animated WebP of at most `LARGEST` bytes, and its number of frames. Raise UserError if none is small
    enough."""
    draw = drawing.spawn(task)
    for most, width in SIZES:
        chosen = np.unique(np.linspace(0, len(moments) - 1, min(most, len(moments))).round().astype(int))
        kept = [moments[index] for index in chosen.tolist()]
        frames = draw(np.stack([moment.snapshot for moment in kept]))
        content = _animated([_captioned(frame, moment, width) for frame, moment in zip(frames, kept, strict=True)])
        if len(content) <= LARGEST:
            return content, len(kept)
    raise UserError(f"an episode of {SIZES[-1][0]} frames {SIZES[-1][1]} pixels wide has more than {LARGEST:,} bytes")


def _captioned(frame: Array, moment: Moment, width: int) -> Any:
    """Return a frame, uint8 [height, width, 3], with the step and the words below it."""
    from PIL import Image, ImageDraw

    picture = Image.fromarray(frame)
    picture = picture.resize((width, max(1, round(picture.height * width / picture.width))))
    lines = textwrap.wrap(f"{moment.step}  {moment.words}".strip(), width // LETTER, max_lines=LINES, placeholder=" …")
    whole = Image.new("RGB", (width, picture.height + 12 * LINES + 2), "white")
    whole.paste(picture)
    ImageDraw.Draw(whole).multiline_text((2, picture.height), "\n".join(lines), "black", spacing=1, font_size=10)
    return whole


def _animated(pictures: Sequence[Any]) -> bytes:
    held = io.BytesIO()
    times = [1_000 // RATE] * (len(pictures) - 1) + [LAST]
    pictures[0].save(
        held, "WEBP", save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=QUALITY, method=4
    )
    return held.getvalue()


def _save(path: Path, content: bytes | Mapping[str, Any]) -> None:
    try:
        if isinstance(content, bytes):
            write_bytes(path, content)
        else:
            write_json(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error})") from None
