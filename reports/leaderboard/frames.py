"""Samples of drawn frames, small enough for a page with many rows: frames that judges saw, and strips of episodes."""

from __future__ import annotations

import base64
import io
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from guidebench import results
from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.clips import Clip, Frame
from guidebench.harness.records.study import FRAMES
from guidebench.reports.leaderboard.board import Frames
from guidebench.reports.leaderboard.rows import Member, RankedRow
from guidebench.reports.leaderboard.sources import Source, clean
from guidebench.reports.runs.episodes import folder_clips
from guidebench.results import Picture
from guidebench.results.images import size

BUDGET = 1_500_000
"""Most bytes of all samples on a board."""
LARGEST = 60_000
"""Most bytes of one sample; a larger one is scaled down."""
WIDTH = 1_280
PIXELS, ALL_PIXELS = 2**24, 2**28
"""Most pixels of a picture to scale down, and of all such pictures together; others are left out."""
SECONDS = 60.0
"""Seconds for scaling one of them down."""
CLIPS = 6
"""Most strips of a row's episodes."""


class Samples:
    """Collects sample frames for rows until the board has no more room for them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._room, self._pixels = BUDGET, ALL_PIXELS
        self._of: dict[str, list[Picture]] = {}

    def of(self, row: RankedRow, members: Iterable[Member]) -> tuple[Frames, ...]:
        """Return the sample frames of a row and of its perturbations `members`, without repeated captions; nothing once
        there is no room."""
        frames: dict[str, Frames] = {}
        for name, caption, png in itertools.chain(self._judge_frames(row, members), self._episode_frames(row)):
            caption = clean(caption, 200)
            if caption in frames:
                continue
            content = self._smaller(png)
            room = 4 * -(-len(content) // 3)
            if not content:
                self.notes.append(f"{name}: sample frames {caption} are left out: no picture, or too large a one")
            elif room > self._room or self._pixels < 0:
                self.notes.append(f"{name}: sample frames {caption} and further ones are left out: there is no room")
                self._room = 0
                break
            else:
                self._room -= room
                frames[caption] = Frames(caption, base64.b64encode(content).decode("ascii"))
        return tuple(frames.values())

    def _judge_frames(self, row: RankedRow, members: Iterable[Member]) -> Iterator[tuple[str, str, bytes]]:
        """Yield (source, caption, PNG) of the frames that judges saw in the row's ablations and perturbations."""
        references = {measured.cell.id for measured in row.tasks.values()}
        for source in {member.source.name: member.source for member in members}.values() if self._room else ():
            places = [(cell, cell.matrix) for cell in source.study.cells if cell.matrix]
            names = {
                (cell.task_id, place.name): f"{cell.task}: {place.name}"
                for cell, place in places
                if place.reference in references
            }
            for picture in self._pictures(source):
                if caption := names.get((picture.task, picture.name), ""):
                    yield source.name, caption, picture.png

    def _episode_frames(self, row: RankedRow) -> Iterator[tuple[str, str, bytes]]:
        """Yield (source, caption, PNG) of clips of one episode per task: the first recorded one of the first run that
        has any."""
        clips_per_task = max(1, CLIPS // len(row.tasks))
        for measured in list(row.tasks.values())[:CLIPS] if self._room else ():
            by_run = (
                (run, folder_clips(row.source.study.directory / run.directory, FRAMES, 1)) for run in measured.runs
            )
            run, (episodes, notes) = next(((run, pair) for run, pair in by_run if any(pair)), (None, ((), ())))
            self.notes += [clean(f"{row.source.name}: {note}", 600) for note in notes]
            if run and episodes:
                for frame in _evenly(episodes[0].frames, clips_per_task):
                    words = _described(episodes[0], frame)
                    yield row.source.name, f"{measured.cell.task}, seed {run.seed}: {words}", frame.content

    def _pictures(self, source: Source) -> list[Picture]:
        if source.name not in self._of:
            try:
                self._of[source.name] = results.pictures(source.study)
            except UserError as error:
                self.notes.append(clean(f"{source.name}: no sample frames are shown: {error}", 600))
                self._of[source.name] = []
        return self._of[source.name]

    def _smaller(self, png: bytes) -> bytes:
        """Return a PNG no larger than `LARGEST`; empty if that is impossible or no more pictures are scaled down."""
        width, height = size(png)
        if not 0 < width * height <= PIXELS:
            return b""
        if len(png) <= LARGEST and width <= WIDTH:
            return png
        self._pixels -= width * height
        if self._pixels < 0:
            return png
        try:
            return reader_process.call("making a picture smaller", SECONDS, _shrunk, png)
        except (UserError, OSError):
            return b""


def _shrunk(png: bytes) -> bytes:
    """Return a picture as a PNG of at most `LARGEST` bytes; empty if that is impossible. Raises any exception for bytes
    that are no picture."""
    from PIL import Image

    with warnings.catch_warnings(), Image.open(io.BytesIO(png), formats=["PNG"]) as opened:
        warnings.simplefilter("ignore")
        image = opened.convert("RGB")
    for width in (WIDTH, WIDTH // 2, WIDTH // 4):
        image.thumbnail((width, width))
        buffer = io.BytesIO()
        image.quantize(64).save(buffer, "PNG", optimize=True)
        if buffer.tell() <= LARGEST:
            return buffer.getvalue()
    return b""


def _evenly(frames: Sequence[Frame], most: int) -> list[Frame]:
    """Return at most `most` of the frames, evenly spaced, including the first and the last."""
    indices = np.linspace(0, len(frames) - 1, min(most, len(frames))).round().astype(int)
    return [frames[index] for index in indices]


def _described(episode: Clip, frame: Frame) -> str:
    """Return a caption of a strip: its moves, how the episode ended, the judge's score and the events."""
    score_text = "" if frame.score is None else f", {episode.judge}: {frame.score:.2f}"
    event_text = f", {', '.join(frame.events)}" if frame.events else ""
    ending = "success" if episode.success else "no success"
    return f"moves {frame.first}–{frame.last} of {episode.moves} ({ending}){score_text}{event_text}"
