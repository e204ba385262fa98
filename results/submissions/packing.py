"""Pack a study into one archive; packing the same study again gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from guidebench.harness import outside
from guidebench.harness.errors import UserError
from guidebench.harness.records.study import FRAMES, frames_file
from guidebench.results import store
from guidebench.results.store import RunRecord, StudyRecord
from guidebench.results.submissions import consistency, galleries, private, schemas
from guidebench.results.submissions.manifest import LARGEST_MANIFEST, MANIFEST, Manifest, Packed
from guidebench.results.submissions.opening import ADVICE, PLAIN_FILE, unpacked

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every entry: the earliest that ZIP supports."""
NAMED_RUNS = 5
"""Most omitted runs that remarks name."""
Contents = Mapping[str, Path | bytes]


@dataclass(frozen=True)
class Archive:
    """A written archive, and remarks for the submitter."""

    file: Path
    bytes: int
    study: StudyRecord
    manifest: Manifest
    remarks: tuple[str, ...]
    """Remarks on what was omitted, what was hidden, and what prevents verification."""


def pack(
    directory: Path,
    file: Path | None = None,
    *,
    by: str = "",
    contact: str = "",
    checkpoints: bool = True,
    cassette: bool = False,
    gallery: bool = True,
) -> Archive:
    """Write the archive of a study to `file` or NAME.zip; raise UserError if no run is finished or `add` would reject
    it."""
    study = store.study(directory)
    finished = [run for run in study.runs if run.status == "finished"]
    if not finished:
        raise UserError(f"{directory}: none of {len(study.runs)} runs is finished, so there is nothing to hand in yet")
    file = file or Path(f"{study.directory.resolve().name}.zip")
    _check_target(file)
    remarks = list(_left_out(study, finished, checkpoints))
    with tempfile.TemporaryDirectory(prefix=".packing-", dir=file.parent) as scratch:
        contents = _contents(study, checkpoints, remarks)
        if gallery:
            contents |= galleries.packed(study, remarks)
        if cassette:
            from guidebench.harness.models import exchange

            exchange.export(study.directory, Path(scratch) / "cassette.sqlite")
            contents["models/cassette.sqlite"] = Path(scratch) / "cassette.sqlite"
            remarks.append("the cassette holds prompts, images and answers as they are: read it before you publish it")
        contents = {path: contents[path] for path in sorted(contents)}
        _check_names(directory, contents)
        files = {path: Packed(*measure(content)) for path, content in contents.items()}
        manifest = Manifest(study.name, by, contact, _version(), consistency.verifiable(study, files), files)
        _check_size(manifest)
        written = Path(scratch) / "archive.zip"
        write(written, manifest, contents)
        remarks += _reread(directory, written)
        os.replace(written, file)
    return Archive(file, file.stat().st_size, study, manifest, tuple(remarks))


def _check_target(file: Path) -> None:
    """Raise UserError if the target exists and is not a submission, or its directory does not exist."""
    if file.is_dir() or not file.parent.is_dir():
        raise UserError(f"--output {file}: name a file in a directory that exists")
    if file.exists():
        with open(file, "rb") as present:
            if MANIFEST.encode() not in present.read(64):
                raise UserError(f"--output {file} is there already and is no submission; name another file")


def _left_out(study: StudyRecord, finished: list[RunRecord], checkpoints: bool) -> Iterator[str]:
    waiting = [run for run in study.runs if run.status != "finished"]
    for run in waiting[:NAMED_RUNS]:
        yield (
            f"left out: the rows of {run.directory}, which is {run.status} at step {run.step:,} of {run.steps:,}; its "
            f"configuration is not ranked until all its runs are finished"
        )
    if len(waiting) > NAMED_RUNS:
        yield f"left out: the rows of {len(waiting) - NAMED_RUNS} more runs"
    own = [run for run in finished if run.cell.backend != consistency.EXTERNAL]
    bare = [run for run in own if not (study.directory / run.directory / "policy.safetensors").is_file()]
    if not checkpoints:
        yield "without checkpoints (--no-checkpoints) it is smaller and can never be verified"
    elif bare:
        yield (
            f"not verifiable: {len(bare)} of {len(finished)} finished runs have no policy.safetensors any more, "
            f"{bare[0].directory} the first"
        )
    if elsewhere := len(finished) - len(own):
        yield f"not verifiable: {elsewhere} of {len(finished)} finished runs were made elsewhere (bench import)"


def _contents(study: StudyRecord, checkpoints: bool, remarks: list[str]) -> dict[str, Path | bytes]:
    """Return path in the archive -> file or bytes, without the cassette; append remarks on what was hidden."""
    root, hidden = study.directory, set()
    listing = outside.read_document(root / "study.json")
    command = [private.word(word) for word in study.command]
    if command != listing.get("command", command):
        hidden.add("the command")
    found: dict[str, Path | bytes] = {"study.json": _json({**listing, "study": study.name, "command": command})}
    for cell in study.cells:
        path = f"{cell.directory}/cell.json"
        if (root / path).is_file():
            content = outside.read_document(root / path)
            told = private.without_servers(content)
            hidden |= {"base_url"} if told != content else set()
            remarks += [
                f"{path}: {name} names {place[:80]}, a path or an address: it belongs to the configuration's id and "
                f"stays"
                for name, place in private.places_in(told)
            ]
            found[path] = _json(told)
        if cell.matrix is not None and cell.matrix.kind == "perturbation":
            frames = frames_file(cell.suite, cell.task, cell.matrix.name)
            if (root / frames).is_file():
                found[frames.as_posix()] = root / frames
    for run in study.runs:
        where = root / run.directory
        if (where / "run.json").is_file():
            content = outside.read_document(where / "run.json")
            content = {name: content[name] for name in schemas.OF_RUN["properties"] if name in content}
            error = None if run.error is None else private.last_line(run.error)
            hidden |= {"errors"} if error != run.error else set()
            found[f"{run.directory}/run.json"] = _json({**content, **({"error": error} if "error" in content else {})})
        if run.status == "finished":
            wanted = ["evaluations.parquet", "ledger.jsonl", *(["policy.safetensors"] if checkpoints else [])]
            wanted += [f"{FRAMES}/{file.name}" for end in ("json", "png") for file in (where / FRAMES).glob(f"*.{end}")]
            found |= {f"{run.directory}/{name}": where / name for name in wanted if (where / name).is_file()}
    if hidden:
        remarks.append(f"hidden: paths and servers of this machine, in {', '.join(sorted(hidden))}")
    return found


def _json(content: Any) -> bytes:
    return f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode()


def _check_names(directory: Path, contents: Contents) -> None:
    for path in contents:
        if schemas.kind_of(path) is None:
            raise UserError(
                f"{directory}: {path} cannot be handed in: names of suites, tasks and methods have at most 120 of the "
                f"characters A-Z a-z 0-9 _ . + = @ , ( ) - and space; run or import it under another name"
            )


def _check_size(manifest: Manifest) -> None:
    size = sum(packed.bytes for packed in manifest.files.values())
    if size + LARGEST_MANIFEST > schemas.LARGEST or len(manifest.files) > schemas.MOST_FILES:
        raise UserError(
            f"{len(manifest.files):,} files of {size / 2**30:.1f} GiB are more than an archive takes ("
            f"{schemas.MOST_FILES:,}, 4 GiB): leave out the cassette or, with --no-checkpoints, the parameters, or "
            f"hand in a study per suite"
        )


def measure(content: Path | bytes) -> tuple[int, str]:
    """Return the number of bytes and the SHA-256 of a content."""
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    with open(content, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def write(target: Path, manifest: Manifest, contents: Contents) -> None:
    """Write the archive with uncompressed entries: most files are compressed already, and unpacking cannot exceed its
    size."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path, content in [(MANIFEST, manifest.encoded), *contents.items()]:
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr, entry.create_system = PLAIN_FILE, 3
            if isinstance(content, bytes):
                archive.writestr(entry, content)
            else:
                entry.file_size = content.stat().st_size
                with open(content, "rb") as source, archive.open(entry, "w") as out:
                    shutil.copyfileobj(source, out, schemas.MIB)


def _reread(directory: Path, written: Path) -> list[str]:
    """Open the written archive and return its remarks; raise UserError, naming the study, if it would be rejected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with unpacked(written, written.parent):
                pass
        except UserError as error:
            told = str(error).removeprefix(f"{written} is refused: ").removesuffix(f"; {ADVICE}")
            raise UserError(f"{directory} cannot be handed in: {told}") from None
    return [str(remark.message).removeprefix(f"{written}: ") for remark in caught if remark.category is UserWarning]


def _version() -> str:
    try:
        return metadata.version("guidebench")
    except metadata.PackageNotFoundError:
        return ""
