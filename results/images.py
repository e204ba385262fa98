"""The sample frames of a perturbation matrix in a study; untrusted like all its files."""

from __future__ import annotations

import struct
from typing import NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.study import frames_file
from guidebench.results.store import StudyRecord

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST, TOGETHER = 2**24, 2**26
"""Most bytes of one image, and of all images of a study."""


HEAD = 24
"""Leading bytes of a PNG that contain its size."""


def size(head: bytes) -> tuple[int, int]:
    """Return width and height from the first bytes of a PNG; (0, 0) if they are not a PNG header."""
    if len(head) < HEAD or not head.startswith(SIGNATURE) or head[12:16] != b"IHDR":
        return 0, 0
    width, height = struct.unpack(">II", head[16:HEAD])
    return int(width), int(height)


class Picture(NamedTuple):
    """Frames of one episode as a judge sees them."""

    task: str
    name: str
    """Name of the perturbation."""
    png: bytes


def pictures(study: StudyRecord) -> list[Picture]:
    """Return the existing sample frames in the order of the study's cells; raise UserError for a file that is not a
    valid PNG inside the study."""
    found: dict[tuple[str, str], Picture] = {}
    root = study.directory.resolve()
    for cell in study.cells:
        if cell.matrix is None or cell.matrix.kind != "perturbation":
            continue
        where, name = f"{cell.suite}/{cell.task}", cell.matrix.name
        path = root / frames_file(cell.suite, cell.task, name)
        if (where, name) in found or not path.is_file():
            continue
        if not path.resolve().is_relative_to(root):
            raise UserError(f"{path} lies outside the study; restore study.json")
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are read")
        if sum(len(each.png) for each in found.values()) + path.stat().st_size > TOGETHER:
            raise UserError(f"{study.directory}: its sample frames have more than {TOGETHER:,} bytes; leave some out")
        content = read_regular(path)
        if not content.startswith(SIGNATURE):
            raise UserError(f"{path} is not a PNG; delete it, and the command that made the study draws it anew")
        found[where, name] = Picture(where, name, content)
    return list(found.values())
