"""Checks of a model's files before a library loads them: headers of weights, every JSON document, and the size of the
network that a configuration describes.

The libraries' own readers load the files in the process of the model. Damaged or hostile files could harm them there,
so the files are checked first, in the separate process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import network_size


def check(place: Path | None) -> None:
    """Raise UserError, naming the file, if a header of weights or a JSON document cannot be read or is too large, if
    weights declare more than their file may, or if a configuration describes a network that is much larger than its
    weights (`network_size.check`). `place`: a file of weights, or a directory; None, for a model that is not here yet,
    does nothing."""
    if place is None:
        return
    documents = [file for file in _files(place) if file.suffix == ".json"]
    try:
        reader_process.read(f"{place}: looking at it", documents, _check, place)
    except UserError as error:
        if place.is_dir():
            raise UserError(f"the model in {place} cannot be loaded: {error}") from None
        raise


def _check(place: Path) -> None:
    headers: dict[Path, list[outside.Header]] = {}
    weight_bytes = Counter[Path]()
    for file in _files(place):
        if file.suffix == ".json":
            outside.document(file)
        else:
            headers.setdefault(file.parent, []).append(outside.header(file))
            weight_bytes[file.parent] += file.stat().st_size
    for folder, in_folder in headers.items():
        if place.is_dir() and (folder / "config.json").is_file():
            network_size.check(folder, in_folder, weight_bytes[folder])


def _files(place: Path) -> Iterator[Path]:
    """Yield the weights and JSON documents of a model, also in its folders."""
    patterns = [f"{folder}*.{suffix}" for folder in ("", "*/") for suffix in ("safetensors", "json")]
    paths = [place] if place.is_file() else [file for pattern in patterns for file in place.glob(pattern)]
    yield from (file for file in sorted(paths) if file.is_file())
