"""Open an untrusted submission: every part of the archive is checked before use.

An archive is a plain ZIP of uncompressed, consecutive entries, beginning with the manifest. So no entry can expand when
unpacked or hide behind another, and the content is no larger than the file.

Checking runs in a separate process (`guidebench.harness.reader_process`) with limits on time and memory; any error in
it, including a crash of a library, rejects the archive. The calling process owns the directory for unpacking and
always removes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tempfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, of_system
from guidebench.results import store
from guidebench.results.store import StudyRecord
from guidebench.results.submissions import consistency, schemas
from guidebench.results.submissions.manifest import LARGEST_MANIFEST, MANIFEST, Manifest, Packed, read
from guidebench.results.submissions.strict import printable

SUBMISSIONS = "submissions"
"""Folder for submissions in a leaderboard's directory."""
ADVICE = "ask for the archive as `bench submit` made it"
_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE, _ZIP64_SIGNATURE = b"PK\5\6", b"PK\6\7"
_ZIP64_LOCATOR = 20
_LARGEST_INDEX = 16 * schemas.MIB
_LOCAL_HEADER = 30
PLAIN_FILE = 0o100644 << 16
"""External attributes of a ZIP entry that is a regular file."""
SECONDS, SPEED = 120.0, 2 * schemas.MIB
"""Time limit of checking an archive: a constant in seconds, and bytes per additional second."""
_BLOCK = schemas.MIB
_SCRATCH = ".unpacked-"
_DAY = 86_400.0


@dataclass(frozen=True)
class Submission:
    """An unpacked submission whose files are those of its manifest."""

    directory: Path
    digest: str
    """SHA-256 of manifest.json."""
    manifest: Manifest
    study: StudyRecord


def add(file: Path, directory: Path) -> Path:
    """Check an archive and unpack it atomically to `directory`/submissions/NAME-DIGEST8; return that path.

    An archive that was added before is left unchanged with a UserWarning; remarks on what cannot be checked in this
    installation are UserWarnings too. Raises UserError saying why an archive is rejected.
    """
    home = directory / SUBMISSIONS
    created = [path for path in (home, *home.parents) if not path.exists()]
    try:
        home.mkdir(parents=True, exist_ok=True)
        _clear(home)
        with unpacked(file, home) as submission:
            target = home / submission.directory.name
            if target.exists():
                if opened(target).digest != submission.digest:
                    raise UserError(f"{file} is refused: {target} is another submission of the same name and digits")
                warnings.warn(f"{file} was added before: it is {target}", stacklevel=2)
            else:
                os.rename(submission.directory, target)
    except BaseException:
        for path in created:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise
    return target


def _clear(home: Path) -> None:
    """Remove directories that a killed `add` has left, once they are a day old."""
    for path in home.glob(f"{_SCRATCH}*"):
        with suppress(FileNotFoundError):  # another `add` removed it first
            if time.time() - path.lstat().st_mtime > _DAY:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def unpacked(file: Path, beside: Path | None = None) -> Iterator[Submission]:
    """Yield a checked archive, unpacked in a temporary directory (in `beside`, or the system's); raise and warn as
    `add` does."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=beside, ignore_cleanup_errors=True) as scratch:
        try:
            with open(file, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
        except OSError as error:
            raise UserError(f"{file} cannot be read ({error.strerror}); name an archive of `bench submit`") from None
        try:
            submission, remarks = reader_process.call(
                f"{file} is refused: looking at it", SECONDS + size / SPEED, _unpack_checked, file, Path(scratch)
            )
        except UserError as error:
            raise UserError(f"{error}; {ADVICE}") from None
        for remark in remarks:
            warnings.warn(f"{file}: {remark}", stacklevel=3)
        yield submission


def _unpack_checked(file: Path, scratch: Path) -> tuple[Submission, list[str]]:
    """Check an archive, unpack it below `scratch`, and return the submission with remarks on what cannot be checked.
    Raise UserError, naming the archive, for any error in its files, and OSError for a full disk or an unwritable
    directory."""
    directory = scratch = Path(tempfile.mkdtemp(dir=scratch))  # a second attempt must not find files of the first
    try:
        with open(file, "rb") as stream:
            directory, manifest = _unpack(stream, scratch)
        with warnings.catch_warnings(action="ignore"):  # warnings would name the temporary directory
            consistency.documents(directory, manifest)
            submission = opened(directory)
            return submission, consistency.check(submission.study, manifest)
    except UserError as error:
        message = printable(str(error), 2_000).replace(f"{directory}/", "").removeprefix(f"{directory}: ")
    except Exception as error:
        if isinstance(error, OSError) and of_system(error):
            raise
        cause = "it is no sound archive" if directory == scratch else "a file of it is damaged, or was forged"
        message = f"{cause} ({type(error).__name__}: {printable(str(error))})"
    raise UserError(f"{file} is refused: {message}")


def opened(directory: Path) -> Submission:
    """Return the submission in a directory, read in the separate process; raise UserError if its name or a file
    contradicts its manifest."""
    size = reader_process.total_bytes(path for path in directory.rglob("*") if path.is_file())
    return reader_process.call(f"{directory}: reading it", SECONDS + size / SPEED, _opened, directory)


def _opened(directory: Path) -> Submission:
    name, advice = str(directory), "delete the directory and add its archive anew"
    path = directory / MANIFEST
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_MANIFEST:
        raise UserError(f"{name} is no submission: it has no {MANIFEST}; {advice}")
    try:
        manifest = read(path.read_bytes())
    except UserError as error:
        raise UserError(f"{name}: {error}; {advice}") from None
    if directory.name != manifest.directory:
        raise UserError(f"{name} was renamed, or its {MANIFEST} changed: it is {manifest.directory}; {advice}")
    present = set(_files(directory, advice)) - {MANIFEST}
    for kind, paths in (("lacks", set(manifest.files) - present), ("has besides", present - set(manifest.files))):
        if paths:
            raise UserError(f"{name} {kind} {printable(min(paths))}, unlike its manifest; {advice}")
    for path_in, packed in manifest.files.items():
        if (directory / path_in).stat().st_size != packed.bytes or _digest(directory / path_in) != packed.sha256:
            raise UserError(f"{name}: {path_in} was changed since it was packed (its checksum differs); {advice}")
    return Submission(directory, manifest.digest, manifest, store.study(directory))


def _files(root: Path, advice: str) -> Iterator[str]:
    """Yield the paths of the files below a directory; raise UserError for a link or a device."""
    waiting, count = [root], 0
    while waiting:
        with os.scandir(waiting.pop()) as dir_entries:
            for dir_entry in dir_entries:
                path, count = Path(dir_entry.path), count + 1
                if dir_entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif dir_entry.is_file(follow_symlinks=False):
                    yield path.relative_to(root).as_posix()
                else:
                    raise UserError(
                        f"{printable(dir_entry.path)} is a link or a device, which no submission has; {advice}"
                    )
                if count > 4 * schemas.MOST_FILES:
                    raise UserError(f"{root} holds more files than any submission; {advice}")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(stream: IO[bytes], scratch: Path) -> tuple[Path, Manifest]:
    """Unpack an archive into a new directory below `scratch`, checking each entry against the manifest."""
    _check_end(stream)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        _check_entries(members, archive.start_dir)
        manifest = read(archive.read(members[0]))
        _check_listed(members[1:], manifest)
        directory = scratch / manifest.directory
        directory.mkdir()
        (directory / MANIFEST).write_bytes(manifest.encoded)
        for member in members[1:]:
            target = directory / member.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as packed, open(target, "xb") as out:
                _copy(packed, out, manifest.files[member.filename], member.filename)
    return directory, manifest


def _check_end(stream: IO[bytes]) -> None:
    """Raise UserError unless a file ends like a plain ZIP within the limits on size and entries; call it before reading
    the index."""
    size = stream.seek(0, os.SEEK_END)
    tail = _END.size + _ZIP64_LOCATOR
    if size > schemas.LARGEST:
        raise UserError(f"it has {size:,} bytes; a submission has at most {schemas.LARGEST:,}")
    stream.seek(max(0, size - tail))
    ending = stream.read(tail)
    if size < tail or not ending.startswith(_END_SIGNATURE, _ZIP64_LOCATOR):
        raise UserError("it is no ZIP archive, or it is cut short")
    _, disk, first, count_here, count, length, start, comment = _END.unpack(ending[_ZIP64_LOCATOR:])
    if count > schemas.MOST_FILES + 1 or length > _LARGEST_INDEX:
        raise UserError(f"it has {count:,} entries; a submission has at most {schemas.MOST_FILES:,} files")
    plain = (disk, first, comment, count_here) == (0, 0, 0, count) and start + length == size - _END.size and count > 0
    if not plain or ending.startswith(_ZIP64_SIGNATURE):
        raise UserError("it is no plain ZIP archive (its end does not fit its size)")


def _check_entries(members: list[zipfile.ZipInfo], end: int) -> None:
    """Raise UserError naming the first entry that `bench submit` would not have written."""
    spelled: dict[str, str] = {}
    names = {member.orig_filename for member in members}
    earlier: set[str] = set()
    at = 0
    for number, member in enumerate(members):
        name = member.orig_filename
        subject = f"entry {printable(name)!r}"
        kind = schemas.kind_of(name)
        if (name == MANIFEST) != (number == 0):
            raise UserError(f"it does not begin with one {MANIFEST}")
        if number and kind is None:
            raise UserError(f"{subject} is no file of a submission, or lies outside it")
        if member.flag_bits & 1:
            raise UserError(f"{subject} is encrypted")
        if member.external_attr != PLAIN_FILE or member.create_system != 3:
            raise UserError(f"{subject} is no plain file (a link, a device, a directory)")
        if name in earlier:
            raise UserError(f"{subject} is there twice")
        earlier.add(name)
        most = schemas.CONTENTS[kind][1] if kind else LARGEST_MANIFEST
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise UserError(f"{subject} is compressed; a submission's are stored as they are")
        if member.file_size > most:
            raise UserError(f"{subject} has {member.file_size:,} bytes; at most {most:,} fit")
        pieces = name.split("/")
        for length in range(1, len(pieces) + 1):
            part = "/".join(pieces[:length])
            if spelled.setdefault(part.casefold(), part) != part or (part in names and length < len(pieces)):
                raise UserError(f"{subject} clashes with {spelled[part.casefold()]!r}")
        if member.header_offset != at or member.flag_bits or member.extra or member.comment:
            raise UserError(f"{subject} overlaps another or hides something between them")
        at += _LOCAL_HEADER + len(name) + member.file_size
    if at != end:
        raise UserError("it hides something behind its last entry")


def _check_listed(members: list[zipfile.ZipInfo], manifest: Manifest) -> None:
    """Raise UserError unless an archive contains exactly the files of its manifest, in order and with the stated
    sizes."""
    archived_sizes = [(member.filename, member.file_size) for member in members]
    listed = sorted((path, packed.bytes) for path, packed in manifest.files.items())
    if archived_sizes != listed:
        differs = min({*archived_sizes} ^ {*listed}, default=("", 0))[0]
        raise UserError(f"{printable(differs) or 'the order of its entries'} is not as its manifest lists it")


def _copy(source: IO[bytes], target: IO[bytes], packed: Packed, name: str) -> None:
    digest, remaining = hashlib.sha256(), packed.bytes
    while block := source.read(min(_BLOCK, remaining + 1)):
        remaining -= len(block)
        digest.update(block)
        target.write(block)
        if remaining < 0:
            break
    if remaining or digest.hexdigest() != packed.sha256:
        raise UserError(f"{name} was changed since it was packed (its checksum differs)")
