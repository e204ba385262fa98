"""Samples of what judges were shown, small enough for a page of many rows."""

from __future__ import annotations

import base64
import io
import struct
import warnings
from collections.abc import Iterable

import results
from harness.errors import UserError
from reports.leaderboard.board import Frames
from reports.leaderboard.rows import Member, Row
from reports.leaderboard.sources import Source, clean
from results import Picture

BUDGET = 1_500_000
"""Bytes of all samples of a board."""
LARGEST = 100_000
"""Bytes of one sample; a larger one is made smaller."""
WIDTH = 640
PIXELS = 2**24
"""A picture with more is left out."""
_SIZE = struct.Struct(">16xII")


class Samples:
    """The sample frames of the sources, until the board has no more room for them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._left = BUDGET
        self._of: dict[str, list[Picture]] = {}

    def of(self, row: Row, members: Iterable[Member]) -> tuple[Frames, ...]:
        """Those of a row and its perturbations."""
        references = {measured.cell.id for measured in row.tasks.values()}
        found: dict[str, Frames] = {}
        for source in {member.source.name: member.source for member in members}.values():
            roles = [(cell, cell.role) for cell in source.study.cells if cell.role]
            names = {
                (f"{cell.suite}/{cell.task}", role.name): f"{cell.task}: {role.name}"
                for cell, role in roles
                if role.reference in references
            }
            for picture in self._pictures(source):
                caption = clean(names.get((picture.where, picture.name), ""), 200)
                if caption and caption not in found:
                    content = _smaller(picture.png)
                    size = 4 * -(-len(content) // 3)
                    if not content or size > self._left:
                        self.notes.append(
                            f"{source.name}: sample frames {caption} are left out: no room, or no picture"
                        )
                        continue
                    self._left -= size
                    found[caption] = Frames(caption, base64.b64encode(content).decode("ascii"))
        return tuple(found.values())

    def _pictures(self, source: Source) -> list[Picture]:
        if source.name not in self._of:
            try:
                self._of[source.name] = results.pictures(source.study)
            except UserError as error:
                self.notes.append(clean(f"{source.name}: no sample frames are shown: {error}", 600))
                self._of[source.name] = []
        return self._of[source.name]


def _smaller(png: bytes) -> bytes:
    """A PNG no larger than `LARGEST`; empty where it cannot be."""
    if len(png) < _SIZE.size:
        return b""
    width, height = _SIZE.unpack_from(png)
    if width * height > PIXELS:
        return b""
    if len(png) <= LARGEST and width <= 2 * WIDTH:
        return png
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(png), formats=["PNG"]) as opened:
            warnings.simplefilter("ignore")
            image = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, MemoryError):
        return b""
    for width in (WIDTH, WIDTH // 2, WIDTH // 4):
        image.thumbnail((width, width))
        held = io.BytesIO()
        image.quantize(64).save(held, "PNG", optimize=True)
        if held.tell() <= LARGEST:
            return held.getvalue()
    return b""
