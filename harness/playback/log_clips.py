"""Clips drawn from a run's logs, for its page: frames of episodes of training, and questions to models.

A log that shows frames (`logs.shows_frames`) has the snapshot of each. The frames are written to RUN/logged:
LOG-00010-00017.png is the frame after the 17th step of episode 10, and LOG-00010.json describes the episode.

A log with the columns of `logs.shows_questions` holds a question's content and the snapshot that it is about. The frame
is drawn from the snapshot as the run's models saw frames, and the dialogue of the part that asked is begun again with a
model that gives no answer, so that its first call shows what a model was given: hand-written, privileged or real, on
record or not. They are written to RUN/questions: LOG-ROLE-00003-0.png is the first image of the question about episode
3, LOG-ROLE-00003-frame.png the frame it was drawn from, and LOG-ROLE-00003.json describes them.

Logs may come from strangers: they are read, and their snapshots drawn, in a separate process.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Dialogue
from guidebench.harness.logs import (
    EPISODE,
    FRAME,
    QUESTION,
    ROLE,
    SNAPSHOT,
    SUCCEEDED,
    Log,
    describes_episodes,
    shows_frames,
    shows_questions,
)
from guidebench.harness.models.calls import Answer, Call, image_digest
from guidebench.harness.plan import answering
from guidebench.harness.plan.config import Cell
from guidebench.harness.records import clips
from guidebench.harness.records.clips import Caption, Clip, Frame, ShownMessage, ShownPiece
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.study import LOGGED, QUESTIONS

FILE = 2**26
"""Most bytes of a log that is read."""
FRAMES, MOST = 32, 8
"""Most frames of an episode that are drawn, the first ones; most questions of a log, evenly chosen (choice: as many
episodes as a run's page shows)."""
PATIENCE = 300.0
"""Seconds for reading, playing and drawing."""

Element = TypeVar("Element")


class RunLog(NamedTuple):
    """A log of a run, with what the process that draws its clips needs."""

    run: Path
    name: str
    logs: Mapping[str, Log]
    """Declarations of all logs of the run."""
    suite: Any
    drawing: Any
    task: str
    askers: Mapping[str, Any] = {}
    """Role -> the part that asks it."""
    seed: int = 0
    """Seed of the run."""

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a log of the run, as `rows_of` does."""
        return rows_of(self.run, name, self.logs[name])

    def descriptions(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the logs that describe episodes."""
        return {name: self.rows(name) for name, declared in self.logs.items() if describes_episodes(declared)}


def write(run: Path, cell: Cell) -> str:
    """Draw the clips of each log that shows frames or questions, and return a message on what was written or refused,
    "" without such a log. Raise UserError if a file cannot be written."""
    suite, names = cell.section("suite"), cell.names
    askers = {
        role: cell.section(speaker) for role in cell.sections for speaker in answering.speakers(names.parts, role)[:1]
    }
    drawing = cell.section("drawing") or suite.drawing()
    messages = []
    for name, declared in cell.logs.items():
        log = RunLog(run, name, dict(cell.logs), suite, drawing, names.task, askers)
        messages += [write_clips(log, LOGGED, "frames", frame_clips)] if shows_frames(declared) else []
        messages += [write_clips(log, QUESTIONS, "questions", question_clips)] if shows_questions(declared) else []
    return "\n".join(messages)


def write_clips(log: RunLog, source: str, noun: str, draw: Callable[[RunLog], Sequence[Clip]]) -> str:
    """Write the clips that `draw`, called in a separate process, returns of a log to a folder of its run, and return a
    message on what was written or refused. `noun`: what the clips show. Raise UserError if a file cannot be written."""
    description = f"{log.run}: drawing the {noun} of its log {log.name!r}"
    try:
        drawn_clips = reader_process.call(description, PATIENCE, draw, log)
    except UserError as error:
        return f"log {log.name}: no {noun} drawn ({error})"
    if not drawn_clips:
        return f"log {log.name}: no {noun}"
    for clip in drawn_clips:
        clips.write(log.run / source, source, clip)
    numbers = ", ".join(str(clip.episode) for clip in drawn_clips)
    last = max(clip.step for clip in drawn_clips)
    episodes = f"episode{'s' * (len(drawn_clips) > 1)} {numbers}"
    return f"log {log.name}: {noun} of {episodes} up to step {last:,} in {log.run / source}"


def frame_clips(log: RunLog) -> list[Clip]:
    """Return the last episode of which a log has snapshots, and the last such that succeeded, drawn in this process.
    Raise UserError for a log that does not fit."""
    rows = [row for row in log.rows(log.name) if row.get(SNAPSHOT)]
    descriptions = log.descriptions()
    succeeded = {
        row[EPISODE]: row[SUCCEEDED] for log_rows in descriptions.values() for row in log_rows if SUCCEEDED in row
    }
    episodes = sorted({row[EPISODE] for row in rows})
    numbers = dict.fromkeys([*episodes[-1:], *[number for number in episodes if succeeded.get(number) is True][-1:]])
    drawn_clips: list[Clip] = []
    if not numbers:
        return drawn_clips
    draw, expected = log.drawing.spawn(log.task), size_of(log.suite, log.task)
    for number in numbers:
        mine = sorted((row for row in rows if row[EPISODE] == number), key=lambda row: row[FRAME])
        subject = f"the log {log.name!r}, episode {number}"
        _check_frames(subject, mine)
        frame_rows = mine[:FRAMES]
        snapshots = [unpacked(row[SNAPSHOT], expected, f"{subject}, frame {row[FRAME]}") for row in frame_rows]
        name = f"{log.name}-{number:05d}"
        pictures = frames_of(name, [row[FRAME] for row in frame_rows], draw(np.stack(snapshots)))
        frames = [
            frame._replace(numbers={column: value for column, value in row.items() if isinstance(value, float)})
            for row, frame in zip(frame_rows, pictures, strict=True)
        ]
        captions = [
            Caption(text, column, title)
            for title, column, text in _texts(descriptions, number)
            if isinstance(text, str) and text
        ]
        clip = Clip(
            name, log.name, episode=number, step=frame_rows[-1]["step"], success=succeeded.get(number),
            left_out=len(mine) - len(frames), frames=tuple(frames), captions=tuple(captions),
        )  # fmt: skip
        drawn_clips.append(clip)
    return drawn_clips


def question_clips(log: RunLog) -> list[Clip]:
    """Return the questions to show, read and drawn in this process. Raise UserError for a log that does not fit."""
    rows = sorted(log.rows(log.name), key=lambda row: (row[EPISODE], row[ROLE]))
    descriptions = log.descriptions()
    draw, expected = log.drawing.spawn(log.task), size_of(log.suite, log.task) if rows else 0
    by_name: dict[str, Clip] = {}
    for row in evenly(rows, MOST):
        role, episode = row[ROLE], row[EPISODE]
        subject = f"the log {log.name!r}, episode {episode}"
        if role not in log.askers:
            raise UserError(f"{subject}: nothing asks a model in the role {role[:60]!r}")
        frames = draw(unpacked(row[SNAPSHOT], expected, subject)[None])
        call = _first_call(log.askers[role].dialogue(log.suite, log.task, role), row[QUESTION], frames, subject)
        name = f"{log.name}-{role}-{episode:05d}"
        if name in by_name:
            raise UserError(f"{subject}: the question in the role {role!r} is there twice")
        answers = {
            column: _text(value) for _, column, value in _texts(descriptions, episode) if isinstance(value, (str, bool))
        }
        by_name[name] = Clip(
            name, log.name, role, episode=episode, step=row["step"], file=f"{name}-frame.png",
            content=encoded(frames[0]), messages=_messages(call, name),
            captions=tuple(Caption(text, column) for column, text in answers.items()),
        )  # fmt: skip
    return [*by_name.values()]


def evenly(elements: Sequence[Element], most: int) -> list[Element]:
    """Return at most `most` of the elements, evenly spaced, with the first and the last."""
    indices = np.unique(np.linspace(0, len(elements) - 1, min(most, len(elements))).round().astype(int))
    return [elements[index] for index in indices.tolist()]


def frames_of(name: str, steps: Sequence[int], pictures: Iterable[Array]) -> list[Frame]:
    """Return frames [height, width, 3] as pictures of a clip after so many steps of its episode."""
    return [
        Frame(f"{name}-{step:05d}.png", step, content=encoded(picture))
        for step, picture in zip(steps, pictures, strict=True)
    ]


def _texts(descriptions: Mapping[str, Sequence[Mapping[str, Any]]], episode: int) -> list[tuple[str, str, Any]]:
    """Return (log, column, value) of the last row about an episode in each log that describes episodes."""
    return [
        (log, column, value)
        for log, rows in descriptions.items()
        for row in [row for row in rows if row.get(EPISODE) == episode][-1:]
        for column, value in row.items()
    ]


def _first_call(dialogue: Dialogue, content: str, frames: Array, subject: str) -> Call:
    """Return the first call that a dialogue makes for a question. Raise a UserError that begins with `subject` if the
    question is invalid or leads to no call."""
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        return Answer(None, "malformed")

    try:
        asyncio.run(dialogue(json.loads(content), frames, ask))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise UserError(f"{subject}: its question cannot be put again ({error})") from None
    if not calls:
        raise UserError(f"{subject}: its question makes no call to a model")
    return calls[0]


def _messages(call: Call, name: str) -> tuple[ShownMessage, ...]:
    """Return the messages of a call, whose images get files that begin with `name`."""
    images = {
        image_digest(image): ShownPiece(file=f"{name}-{number}.png", content=encoded(image))
        for number, image in enumerate(call.images())
    }
    form = call.form(lambda image: {"image": image_digest(image)})
    messages = []
    for title, content in call.sections(form):
        parts = (ShownPiece(part) if isinstance(part, str) else images[part["image"]] for part in content)
        messages.append(ShownMessage(title, tuple(parts)))
    return tuple(messages)


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def unpacked(text: str, expected: int, subject: str) -> Array:
    """Return the snapshot, uint8 [expected], that a log holds as text (base64 of zlib). Raise a UserError that begins
    with `subject` for text that cannot be unpacked or has another length."""
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(packed, expected + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise UserError(f"{subject}: its snapshot cannot be unpacked ({error})") from None
    if len(content) != expected or not reader.eof or reader.unused_data:
        size = f"more than {expected:,}" if len(content) > expected else f"{len(content):,}"
        size_text = size if len(content) != expected else f"{expected:,} and further"
        raise UserError(f"{subject}: its snapshot has {size_text} bytes; a snapshot of this task has {expected:,}")
    return np.frombuffer(content, np.uint8)


def _check_frames(subject: str, rows: Iterable[Mapping[str, Any]]) -> None:
    frames: set[int] = set()
    for row in rows:
        if row[FRAME] in frames:
            raise UserError(f"{subject}: frame {row[FRAME]} is there twice")
        frames.add(row[FRAME])


def size_of(suite: Any, task: str) -> int:
    """Return the size in bytes of a snapshot of a task."""
    new_task = suite.make(task)
    new_task.reset(0)
    return int(new_task.snapshot().size)


def rows_of(run: Path, name: str, log: Log) -> list[dict[str, Any]]:
    """Return the rows of a run's log `name`; [] if there is no file. Raise UserError for a file that is too large, and
    for rows that do not fit the declaration `log`."""
    packed, lines = run / f"{name}.parquet", run / f"{name}.jsonl"
    file = packed if packed.is_file() else lines
    if not file.is_file():
        return []
    if file.stat().st_size > FILE:
        raise UserError(f"{file.name} has {file.stat().st_size:,} bytes; at most {FILE:,} are read")
    if file is packed:
        import pyarrow.parquet as pq

        outside.check_parquet(file)
        rows = pq.ParquetFile(file).read().to_pylist()
    else:
        rows = [json.loads(line) for line in read_regular(file).decode("utf-8").splitlines()]
    return [_fitting(row, name, log) for row in rows]


def _fitting(row: Any, name: str, log: Log) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UserError(f"the log {name!r} has a row that is no object")
    fitting = {title: row[title] for title in log.columns if row.get(title) is not None}
    for title, column in log.columns.items():
        if title in fitting and not column.holds(fitting[title]):
            text = str(fitting[title])[:80]
            raise UserError(f"the log {name!r}, column {title!r}: {text!r}; expected {column.expected}")
        if title not in fitting and not column.optional:
            raise UserError(f"the log {name!r} has a row without the column {title!r}")
    return fitting


def encoded(image: Array) -> bytes:
    """Return a frame, uint8 [height, width, 3], as PNG."""
    import imageio.v2 as imageio

    return bytes(imageio.imwrite("<bytes>", image, format="png"))
