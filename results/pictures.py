"""The sample frames of a perturbation matrix, as they lie in the study; untrusted like all its files."""

from __future__ import annotations

import struct
from typing import NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.records.study import frames_file
from guidebench.results.store import StudyRecord

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST, TOGETHER = 2**24, 2**26
"""Bytes of one, and of all of a study."""


HEAD = 24
"""Bytes at a PNG's beginning that tell its size."""


def size(head: bytes) -> tuple[int, int]:
    """Width and height that a PNG claims to have, from its first bytes; (0, 0) for what does not begin as one."""
    if len(head) < HEAD or not head.startswith(SIGNATURE) or head[12:16] != b"IHDR":
        return 0, 0
    width, height = struct.unpack(">II", head[16:HEAD])
    return int(width), int(height)


class Picture(NamedTuple):
    """Moments of one episode as a judge saw them."""

    where: str
    name: str
    """The perturbation."""
    png: bytes


def pictures(study: StudyRecord) -> list[Picture]:
    """Those that are there, in the order of the study's cells; UserError for a file that is no PNG of this study."""
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
        content = path.read_bytes()
        if not content.startswith(SIGNATURE):
            raise UserError(f"{path} is not a PNG; delete it, and the command that made the study draws it anew")
        found[where, name] = Picture(where, name, content)
    return list(found.values())
