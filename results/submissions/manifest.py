"""What a submission says of itself: who hands it in, and size and checksum of each of its files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

from guidebench.harness.errors import UserError
from guidebench.results.submissions import schemas
from guidebench.results.submissions.strict import fits, parsed, printable

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 16 * schemas.MIB
"""Bytes of a manifest."""


@dataclass(frozen=True)
class Packed:
    """A file of a submission."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Who hands in what: `files` maps each path in the archive, `/` between its parts, to its size and checksum."""

    name: str
    """The study's own."""
    by: str
    contact: str
    guidebench: str
    """Version of the program that packed it."""
    verifiable: bool
    """Whether every finished run comes with its final parameters and was made by this program."""
    files: Mapping[str, Packed]

    @cached_property
    def encoded(self) -> bytes:
        """The bytes of manifest.json, the same for the same content."""
        content = {"schema": schemas.MANIFEST_VERSION, **asdict(self)}
        return f"{json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)}\n".encode()

    @property
    def digest(self) -> str:
        """SHA-256 of manifest.json. It covers every file, and names the submission."""
        return hashlib.sha256(self.encoded).hexdigest()

    @property
    def directory(self) -> str:
        """What the submission's directory is called."""
        name = re.sub(r"[^A-Za-z0-9_]+", "-", self.name).strip("-")[:60] or "study"
        return f"{name}-{self.digest[:8]}"


def read(content: bytes) -> Manifest:
    """The manifest in the bytes of a manifest.json; UserError if it is not what `pack` writes."""
    found = parsed(content, MANIFEST, LARGEST_MANIFEST)
    fits(found, schemas.OF_MANIFEST, MANIFEST)
    for path, entry in found["files"].items():
        kind = schemas.kind_of(path)
        if kind is None:
            raise UserError(f"{MANIFEST} lists {printable(path)!r}, which is no file of a submission")
        if entry["bytes"] > schemas.CONTENTS[kind][1]:
            raise UserError(
                f"{MANIFEST}: {path} has {entry['bytes']:,} bytes; at most {schemas.CONTENTS[kind][1]:,} fit"
            )
    files = {path: Packed(**entry) for path, entry in found["files"].items()}
    names = ("name", "by", "contact", "guidebench", "verifiable")
    manifest = Manifest(**{name: found[name] for name in names}, files=files)
    if manifest.encoded != content:
        raise UserError(f"{MANIFEST} is not written as `bench submit` writes it")
    return manifest
