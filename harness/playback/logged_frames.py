"""Frames of training episodes, drawn from the snapshots in a run's logs: one image per frame, with the logged texts.

They are written to RUN/logged, for the run's page: LOG-00010-00017.png is the frame after the 17th step of episode 10,
and LOG-00010.json describes the episode. Logs may come from strangers: they are read, and their snapshots drawn, in a
separate process.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.logs import EPISODE, FRAME, SNAPSHOT, SUCCEEDED, Log, describes_episodes, shows_frames
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import read_regular, write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import LOGGED

FILE = 2**26
"""Most bytes of a log that is read."""
FRAMES = 32
"""Most frames of an episode that are drawn, the first ones."""
PATIENCE = 120.0
"""Seconds for reading and drawing."""


class LoggedEpisode(NamedTuple):
    """An episode of training of which a log shows frames."""

    log: str
    about: dict[str, Any]
    """Content of its JSON file, of which `frames` describes the pictures."""
    pictures: tuple[bytes, ...]
    """PNG of each frame."""


def write(run: Path, cell: Cell) -> str:
    """Draw the frames of each log that shows some, of the last episode with snapshots and of the last such that
    succeeded, and return a message on what was written or refused, "" without such a log. Raise UserError if a file
    cannot be written."""
    suite, task = cell.section("suite"), cell.names.task
    drawing = cell.section("drawing") or suite.drawing()
    messages = []
    for log in (name for name, declared in cell.logs.items() if shows_frames(declared)):
        description = f"{run}: drawing the frames of its log {log!r}"
        try:
            episodes = reader_process.call(
                description, PATIENCE, logged_episodes, run, log, dict(cell.logs), suite, drawing, task
            )
        except UserError as error:
            messages.append(f"log {log}: no frames drawn ({error})")
            continue
        for episode in episodes:
            _save(run / LOGGED, episode)
        numbers = " and ".join(str(episode.about[EPISODE]) for episode in episodes)
        messages.append(
            f"log {log}: frames of episode {numbers} in {run / LOGGED}" if numbers else f"log {log}: no frames"
        )
    return "\n".join(messages)


def logged_episodes(
    run: Path, log: str, declared: Mapping[str, Log], suite: Any, drawing: Any, task: str
) -> list[LoggedEpisode]:
    """Return the episodes to show, read and drawn in this process. Raise UserError for a log that does not fit."""
    rows = [row for row in rows_of(run, log, declared[log]) if row.get(SNAPSHOT)]
    rows_by_log = {
        name: rows_of(run, name, declaration)
        for name, declaration in declared.items()
        if describes_episodes(declaration)
    }
    succeeded = {
        row[EPISODE]: row[SUCCEEDED] for log_rows in rows_by_log.values() for row in log_rows if SUCCEEDED in row
    }
    episodes = sorted({row[EPISODE] for row in rows})
    numbers = dict.fromkeys([*episodes[-1:], *[number for number in episodes if succeeded.get(number) is True][-1:]])
    drawn_episodes: list[LoggedEpisode] = []
    if not numbers:
        return drawn_episodes
    draw, expected = drawing.spawn(task), size_of(suite, task)
    for number in numbers:
        mine = sorted((row for row in rows if row[EPISODE] == number), key=lambda row: row[FRAME])
        _check_frames(log, mine)
        frame_rows = mine[:FRAMES]
        subject = f"the log {log!r}, episode {number}"
        snapshots = [unpacked(row[SNAPSHOT], expected, f"{subject}, frame {row[FRAME]}") for row in frame_rows]
        pictures = tuple(encoded(frame) for frame in draw(np.stack(snapshots)))
        texts = [
            {"log": name, "name": column, "text": text}
            for name, log_rows in rows_by_log.items()
            for row in [row for row in log_rows if row[EPISODE] == number][-1:]
            for column, text in row.items()
            if isinstance(text, str) and text
        ]
        about = {
            "schema": SCHEMA_VERSION,
            "log": log,
            "episode": number,
            "step": frame_rows[-1]["step"],
            "success": succeeded.get(number),
            "left_out": len(mine) - len(frame_rows),
            "frames": [
                {
                    "file": f"{log}-{number:05d}-{row[FRAME]:05d}.png",
                    "frame": row[FRAME],
                    "numbers": {name: value for name, value in row.items() if isinstance(value, float)},
                }
                for row in frame_rows
            ],
            "told": texts,
        }
        drawn_episodes.append(LoggedEpisode(log, about, pictures))
    return drawn_episodes


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


def _check_frames(log: str, rows: Iterable[Mapping[str, Any]]) -> None:
    frames: set[int] = set()
    for row in rows:
        if row[FRAME] in frames:
            raise UserError(f"the log {log!r}, episode {row[EPISODE]}: frame {row[FRAME]} is there twice")
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


def _save(directory: Path, episode: LoggedEpisode) -> None:
    try:
        for frame, png in zip(episode.about["frames"], episode.pictures, strict=True):
            write_bytes(directory / frame["file"], png)
        write_json(directory / f"{episode.log}-{episode.about[EPISODE]:05d}.json", episode.about)
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error.strerror or error})") from None
