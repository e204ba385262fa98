"""The manifest of a submission: the submitter, and size and checksum of each file."""

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
"""Most bytes of a manifest."""


@dataclass(frozen=True)
class Packed:
    """A file of a submission."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Submitter and files: `files` maps each path in the archive, with `/` as separator, to its size and checksum."""

    name: str
    """Name of the study."""
    by: str
    contact: str
    guidebench: str
    """Version of the program that packed the archive."""
    verifiable: bool
    """Whether every finished run was trained by this program and includes its final parameters."""
    files: Mapping[str, Packed]

    @cached_property
    def encoded(self) -> bytes:
        """The bytes of manifest.json, equal for equal content."""
        content = {"schema": schemas.MANIFEST_VERSION, **asdict(self)}
        return f"{json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)}\n".encode()

    @property
    def digest(self) -> str:
        """SHA-256 of manifest.json, which covers every file and identifies the submission."""
        return hashlib.sha256(self.encoded).hexdigest()

    @property
    def directory(self) -> str:
        """Name of the submission's directory."""
        name = re.sub(r"[^A-Za-z0-9_]+", "-", self.name).strip("-")[:60] or "study"
        return f"{name}-{self.digest[:8]}"


def read(content: bytes) -> Manifest:
    """Parse the bytes of a manifest.json; raise UserError if `pack` would not have written them."""
    document = parsed(content, MANIFEST, LARGEST_MANIFEST)
    fits(document, schemas.OF_MANIFEST, MANIFEST)
    for path, file_record in document["files"].items():
        kind = schemas.kind_of(path)
        if kind is None:
            raise UserError(f"{MANIFEST} lists {printable(path)!r}, which is no file of a submission")
        if file_record["bytes"] > schemas.CONTENTS[kind][1]:
            raise UserError(
                f"{MANIFEST}: {path} has {file_record['bytes']:,} bytes; at most {schemas.CONTENTS[kind][1]:,} fit"
            )
    files = {path: Packed(**file_record) for path, file_record in document["files"].items()}
    names = ("name", "by", "contact", "guidebench", "verifiable")
    manifest = Manifest(**{name: document[name] for name in names}, files=files)
    if manifest.encoded != content:
        raise UserError(f"{MANIFEST} is not written as `bench submit` writes it")
    return manifest
