"""The animations of a run's gallery (`bench eval RUN --gallery`), untrusted like all its files.

`check` and `remade` decode an animation completely with Pillow, so call them in a separate process
(`guidebench.harness.reader_process`).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.records.files import content_of, is_within
from guidebench.harness.records.galleries import LARGEST, QUALITY, SIZES, animated
from guidebench.harness.records.study import GALLERY

WIDEST, HIGHEST = SIZES[0][1], 512
"""Most pixels of an animation's width and height."""
FRAMES = SIZES[0][0]
"""Most frames of an animation."""
_CHUNKS = {b"VP8X", b"ANIM", b"ANMF", b"VP8 ", b"VP8L", b"ALPH"}
"""Parts of an animation that hold pictures; others, such as EXIF and XMP, hold data that nobody sees."""


def animation(run: Path, file: str) -> bytes:
    """Return the bytes of an animation of a run's gallery. Raise UserError unless it is a file of the gallery of at
    most `LARGEST` bytes."""
    path = run / GALLERY / file
    if Path(file).name != file or not is_within(run, path):
        raise UserError(f"there is no file {file[:60]!r} in the gallery")
    return content_of(path, LARGEST)


def check(webp: bytes, frames: int) -> None:
    """Raise UserError unless these bytes are an animation that can be decoded completely, of at most `frames` frames
    and without other data."""
    for _ in _decoded(webp, frames):
        pass


def remade(webp: bytes, frames: int) -> bytes:
    """Return an animation encoded anew from its decoded frames, so that no byte of the untrusted file remains; raise
    UserError as `check` does, or if the new animation is too large."""
    encoded = animated([*_decoded(webp, frames)], effort=2)
    if len(encoded) > 2 * LARGEST:
        raise UserError(f"its frames take {len(encoded):,} bytes at quality {QUALITY}")
    return encoded


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
                frame_count = int(getattr(opened, "n_frames", 1))
                if frame_count > min(frames, FRAMES):  # fewer where neighbours are equal
                    raise UserError(f"it has {frame_count:,} frames; it says {frames:,}, and at most {FRAMES} fit")
                for number in range(frame_count):
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
    at, picture_count = 12, 0
    while at < len(webp):
        kind, size = webp[at : at + 4], int.from_bytes(webp[at + 4 : at + 8], "little")
        if kind not in _CHUNKS:
            raise UserError(f"it has a part {kind!r}, which is no picture")
        picture_count += kind in (b"ANMF", b"VP8 ", b"VP8L")
        if picture_count > FRAMES:
            raise UserError(f"it has more than {FRAMES} frames")
        at += 8 + size + size % 2
    if at != len(webp):
        raise UserError("it is cut short")
