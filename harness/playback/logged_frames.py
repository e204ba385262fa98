"""Frames of training episodes, drawn from the snapshots in a run's logs: one image per frame, with what logs say of it.

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
    told = []
    for log in (name for name, declared in cell.logs.items() if shows_frames(declared)):
        what = f"{run}: drawing the frames of its log {log!r}"
        try:
            episodes = reader_process.call(what, PATIENCE, drawn, run, log, dict(cell.logs), suite, drawing, task)
        except UserError as error:
            told.append(f"log {log}: no frames drawn ({error})")
            continue
        for episode in episodes:
            _save(run / LOGGED, episode)
        numbers = " and ".join(str(episode.about[EPISODE]) for episode in episodes)
        told.append(f"log {log}: frames of episode {numbers} in {run / LOGGED}" if numbers else f"log {log}: no frames")
    return "\n".join(told)


def drawn(run: Path, log: str, declared: Mapping[str, Log], suite: Any, drawing: Any, task: str) -> list[LoggedEpisode]:
    """Return the episodes to show, read and drawn in this process. Raise UserError for a log that does not fit."""
    rows = [row for row in rows_of(run, log, declared[log]) if row.get(SNAPSHOT)]
    said = {name: rows_of(run, name, each) for name, each in declared.items() if describes_episodes(each)}
    succeeded = {row[EPISODE]: row[SUCCEEDED] for each in said.values() for row in each if SUCCEEDED in row}
    known = sorted({row[EPISODE] for row in rows})
    chosen = dict.fromkeys([*known[-1:], *[number for number in known if succeeded.get(number) is True][-1:]])
    found: list[LoggedEpisode] = []
    if not chosen:
        return found
    draw, expected = drawing.spawn(task), size_of(suite, task)
    for number in chosen:
        mine = sorted((row for row in rows if row[EPISODE] == number), key=lambda row: row[FRAME])
        _check_frames(log, mine)
        shown = mine[:FRAMES]
        where = f"the log {log!r}, episode {number}"
        snapshots = [unpacked(row[SNAPSHOT], expected, f"{where}, frame {row[FRAME]}") for row in shown]
        pictures = tuple(encoded(frame) for frame in draw(np.stack(snapshots)))
        told = [
            {"log": name, "name": column, "text": text}
            for name, each in said.items()
            for row in [row for row in each if row[EPISODE] == number][-1:]
            for column, text in row.items()
            if isinstance(text, str) and text
        ]
        about = {
            "schema": SCHEMA_VERSION,
            "log": log,
            "episode": number,
            "step": shown[-1]["step"],
            "success": succeeded.get(number),
            "left_out": len(mine) - len(shown),
            "frames": [
                {
                    "file": f"{log}-{number:05d}-{row[FRAME]:05d}.png",
                    "frame": row[FRAME],
                    "numbers": {name: value for name, value in row.items() if isinstance(value, float)},
                }
                for row in shown
            ],
            "told": told,
        }
        found.append(LoggedEpisode(log, about, pictures))
    return found


def unpacked(text: str, expected: int, where: str) -> Array:
    """Return the snapshot, uint8 [expected], of its text in a log. Raise a UserError that begins with `where` for
    another length, for what is no base64 or zlib, and for what would not fit in memory."""
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(packed, expected + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise UserError(f"{where}: its snapshot cannot be unpacked ({error})") from None
    if len(content) != expected or not reader.eof or reader.unused_data:
        size = f"more than {expected:,}" if len(content) > expected else f"{len(content):,}"
        whole = size if len(content) != expected else f"{expected:,} and further"
        raise UserError(f"{where}: its snapshot has {whole} bytes; a snapshot of this task has {expected:,}")
    return np.frombuffer(content, np.uint8)


def _check_frames(log: str, rows: Iterable[Mapping[str, Any]]) -> None:
    seen: set[int] = set()
    for row in rows:
        if row[FRAME] in seen:
            raise UserError(f"the log {log!r}, episode {row[EPISODE]}: frame {row[FRAME]} is there twice")
        seen.add(row[FRAME])


def size_of(suite: Any, task: str) -> int:
    """Return the bytes of a snapshot of a task."""
    made = suite.make(task)
    made.reset(0)
    return int(made.snapshot().size)


def rows_of(run: Path, name: str, log: Log) -> list[dict[str, Any]]:
    """Return the records of a log; [] without one. Raise UserError for a file that is too large or does not fit."""
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
    found = {title: row[title] for title in log.columns if row.get(title) is not None}
    for title, column in log.columns.items():
        if title in found and not column.holds(found[title]):
            shown = str(found[title])[:80]
            raise UserError(f"the log {name!r}, column {title!r}: {shown!r}; expected {column.expected}")
        if title not in found and not column.optional:
            raise UserError(f"the log {name!r} has a row without the column {title!r}")
    return found


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
