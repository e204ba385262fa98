"""The gallery of a run (`bench eval RUN --gallery`), untrusted like all its files: gallery.json, and animations.

`check` and `remade` decode an animation completely with Pillow, so call them in a separate process
(`guidebench.harness.reader_process`).
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.records.files import open_regular
from guidebench.harness.records.galleries import (
    CAPTION,
    CAPTIONS,
    CONTENTS,
    EPISODES,
    LARGEST,
    QUALITY,
    SIZES,
    animated,
)
from guidebench.harness.records.study import GALLERY
from guidebench.results.fields import field, number

DOCUMENT = 2**20
"""Most bytes of gallery.json."""
WIDEST, HIGHEST = SIZES[0][1], 512
"""Most pixels of an animation's width and height."""
FRAMES = SIZES[0][0]
"""Most frames of an animation."""
_CHUNKS = {b"VP8X", b"ANIM", b"ANMF", b"VP8 ", b"VP8L", b"ALPH"}
"""Parts of an animation that hold pictures; others, such as EXIF and XMP, hold data that nobody sees."""


class Episode(NamedTuple):
    """An episode of a gallery."""

    episode: int
    success: bool
    ret: float
    length: int
    score: float
    """Its score, as the gallery's `measure` names it."""
    moves: int
    """Steps that were played; fewer than its length if the policy repeated a position and was stopped."""
    frames: int
    """Frames that are drawn of its moves + 1."""
    file: str
    words: tuple[tuple[int, str], ...]
    """Steps of the episode, and what is said from there on."""
    left_out: int
    """Captions left out for lack of room."""
    actions: str = ""
    """SHA-256 of its actions in hexadecimal digits; "" if the gallery does not say it."""


class Gallery(NamedTuple):
    """What gallery.json says."""

    suite: str
    task: str
    seed: int
    """Seed of the run, or that of the new layouts."""
    from_run: bool
    """Whether the episodes are from the run's own last evaluation; else they were played for the gallery."""
    step: int
    """Environment step of the run's own evaluation."""
    played: int
    """Episodes of the evaluation that these are chosen from, and how many of them succeeded."""
    successes: int
    measure: str
    """The score by which they are chosen: failures first under `success`, else the worst first."""
    unjudged: str
    """Why clips have no score of the run's judge; "" if all have one, or there is none."""
    episodes: tuple[Episode, ...]
    undrawn: tuple[tuple[int, str], ...]
    """Episodes that could not be drawn, and why."""
    reason: str
    """Why there is no episode at all, or ""."""
    opengl: str | None = None
    """OpenGL backend that drew it, "" for none; None if the gallery does not say it."""


def directory(run: Path) -> Path:
    """Return the directory of a run's gallery."""
    return run / GALLERY


def read(run: Path) -> Gallery | None:
    """Return what a run's gallery says, read in the separate process, or None without one. Raise UserError for a file
    that does not fit."""
    if not (directory(run) / CONTENTS).is_file():
        return None
    return reader_process.call(f"{CONTENTS}: reading it", reader_process.SECONDS, _read, run)


def _read(run: Path) -> Gallery:
    file = directory(run) / CONTENTS
    if not file.resolve().is_relative_to(run.resolve()):
        raise UserError(f"{CONTENTS} lies outside the run")
    with open_regular(file) as stream:
        content = stream.read(DOCUMENT + 1)
    if len(content) > DOCUMENT:
        raise UserError(f"{CONTENTS} has more than {DOCUMENT:,} bytes")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{CONTENTS} cannot be read as JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{CONTENTS} holds {type(found).__name__}; expected a JSON object")
    return parsed(found)


def parsed(found: Mapping[str, Any]) -> Gallery:
    """Return the gallery that a JSON object describes; raise UserError for entries of another kind."""
    if reason := field(found, "reason", str):
        return Gallery("", "", 0, False, 0, 0, 0, "success", "", (), (), reason[:1_000])
    episodes = field(found, "episodes", list)
    undrawn = [(_count(each, "episode"), field(each, "reason", str)[:1_000]) for each in _objects(found, "undrawn")]
    if len(episodes) > EPISODES or len(undrawn) > EPISODES:
        raise UserError(f"it names {max(len(episodes), len(undrawn)):,} episodes; at most {EPISODES} fit")
    return Gallery(
        suite=field(found, "suite", str)[:200], task=field(found, "task", str)[:200], seed=_count(found, "seed"),
        from_run=field(found, "own", bool), step=_count(found, "step"), played=_count(found, "played"),
        successes=_count(found, "successes"), measure=field(found, "measure", str)[:60],
        unjudged=field(found, "unjudged", str)[:1_000], undrawn=tuple(undrawn), reason="",
        episodes=tuple(_episode(each) for each in _objects(found, "episodes")),
        opengl=field(found, "opengl", str)[:60] if "opengl" in found else None,
    )  # fmt: skip


def animation(run: Path, file: str) -> bytes:
    """Return the bytes of an animation of a run's gallery. Raise UserError unless it is a file of the gallery of at
    most `LARGEST` bytes."""
    path = directory(run) / file
    if Path(file).name != file or not path.is_file() or not path.resolve().is_relative_to(run.resolve()):
        raise UserError(f"there is no file {file[:60]!r} in the gallery")
    with open_regular(path) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise UserError(f"{file[:60]!r} has more than {LARGEST:,} bytes")
    return content


def check(webp: bytes, frames: int) -> None:
    """Raise UserError unless these bytes are an animation that can be decoded completely, of at most `frames` frames,
    with nothing besides."""
    for _ in _decoded(webp, frames):
        pass


def remade(webp: bytes, frames: int) -> bytes:
    """Return an animation encoded anew from its decoded frames, so that no byte of it is a stranger's; raise UserError
    as `check` does, or if the new one is too large."""
    made = animated([*_decoded(webp, frames)], effort=2)
    if len(made) > 2 * LARGEST:
        raise UserError(f"its frames take {len(made):,} bytes at quality {QUALITY}")
    return made


def pixels(webp: bytes, frames: int) -> Array:
    """Return the decoded frames of an animation, uint8 [n, height, width, 3]; raise UserError as `check` does."""
    return np.stack([np.asarray(picture) for picture in _decoded(webp, frames)])


def _decoded(webp: bytes, frames: int) -> Iterator[Any]:
    """Yield the frames, decoded as pictures of Pillow's."""
    from PIL import Image, UnidentifiedImageError

    _check_parts(webp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(webp), formats=["WEBP"]) as opened:
                width, height = opened.size
                if not (0 < width <= WIDEST and 0 < height <= HIGHEST):
                    raise UserError(f"it has {width:,} x {height:,} pixels; at most {WIDEST} x {HIGHEST} fit")
                there = int(getattr(opened, "n_frames", 1))
                if there > min(frames, FRAMES):  # fewer where neighbours are equal
                    raise UserError(f"it has {there:,} frames; it says {frames:,}, and at most {FRAMES} fit")
                for number in range(there):
                    opened.seek(number)
                    yield opened.convert("RGB")
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
            raise UserError(f"it cannot be decoded as WebP ({type(error).__name__}: {str(error)[:100]})") from None


def _check_parts(webp: bytes) -> None:
    """Raise UserError unless a file is one RIFF of WebP parts with pictures, and ends where it says. The parts are
    counted before a decoder sees them."""
    if webp[:4] != b"RIFF" or webp[8:12] != b"WEBP":
        raise UserError("it is no WebP")
    if len(webp) > LARGEST or int.from_bytes(webp[4:8], "little") + 8 != len(webp):
        raise UserError(f"it has {len(webp):,} bytes, which are not those that it says")
    at, found = 12, 0
    while at < len(webp):
        kind, size = webp[at : at + 4], int.from_bytes(webp[at + 4 : at + 8], "little")
        if kind not in _CHUNKS:
            raise UserError(f"it has a part {kind!r}, which is no picture")
        found += kind in (b"ANMF", b"VP8 ", b"VP8L")
        if found > FRAMES:
            raise UserError(f"it has more than {FRAMES} frames")
        at += 8 + size + size % 2
    if at != len(webp):
        raise UserError("it is cut short")


def _episode(entry: Mapping[str, Any]) -> Episode:
    words = tuple((_count(each, "step"), field(each, "text", str)[: 2 * CAPTION]) for each in _objects(entry, "words"))
    return Episode(
        _count(entry, "episode"), field(entry, "success", bool), number(entry, "return"), _count(entry, "length"),
        number(entry, "score"), _count(entry, "moves"), _count(entry, "frames"), field(entry, "file", str),
        words[:CAPTIONS], _count(entry, "words_left_out") + len(words[CAPTIONS:]),
        field(entry, "actions", str)[:64] if "actions" in entry else "",
    )  # fmt: skip


def _objects(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = field(content, name, list)
    for each in found:
        if not isinstance(each, dict):
            raise UserError(f"{name} has an entry {str(each)[:80]!r}; expected a JSON object")
    return list(found)


def _count(content: Mapping[str, Any], name: str) -> int:
    value = field(content, name, int)
    if not 0 <= value <= 2**53:
        raise UserError(f"{name} is {str(value)[:80]}; expected a count")
    return int(value)
