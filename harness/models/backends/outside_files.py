"""A look at the files of a model before a library loads them: headers of weights, and every JSON document.

Loading takes the libraries' own readers, in the process of the model. So what damaged or hostile files could do to them
is looked for first, in the separate process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError


def check(place: Path | None) -> None:
    """Raise UserError, naming the file, if a header of weights or a JSON document cannot be read or is too large, or if
    weights declare more than their file may. `place`: a file of weights, or a directory; None, for a model that is not
    here yet, does nothing."""
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
    for file in _files(place):
        (outside.document if file.suffix == ".json" else outside.header)(file)


def _files(place: Path) -> Iterator[Path]:
    """Yield the weights and JSON documents of a model, also in its folders."""
    patterns = [f"{folder}*.{suffix}" for folder in ("", "*/") for suffix in ("safetensors", "json")]
    paths = [place] if place.is_file() else [file for pattern in patterns for file in place.glob(pattern)]
    yield from (file for file in sorted(paths) if file.is_file())
