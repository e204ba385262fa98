"""Checks of a model's files before a library loads them: headers of weights, every JSON document, and the size of the
network that a configuration describes.

The libraries' own readers load the files in the process of the model. Damaged or hostile files could harm them there,
so the files are checked first, in the separate process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import network_size
from guidebench.harness.texts import one_line

MODEL = MappingProxyType({"": network_size.AUTO})
"""Loaders of a model whose network lies in the directory itself, and whose class follows from its configuration."""
INDEX, SCHEDULER = ".safetensors.index.json", "scheduler_config.json"
LEVELS = 100_000
"""Most levels of noise of a diffusion model; published ones have 1,000."""


def check(place: Path | None, loaders: Mapping[str, str] = MODEL) -> None:
    """Raise UserError, naming the file, if a header of weights or a JSON document cannot be read or is too large, if
    weights declare more than their file may, if an index names weights in other folders, or if a configuration
    describes a network that is much larger than its weights (`network_size.check`), or noise of more than `LEVELS`
    levels. `place`: a file of weights, or a directory; None, for a model that is not here yet, does nothing. `loaders`:
    folder in the directory -> class that loads its network."""
    if place is None:
        return
    documents = [file for file in _files(place) if file.suffix == ".json"]
    try:
        reader_process.read(f"{place}: looking at it", documents, _check, place, dict(loaders))
    except UserError as error:
        if place.is_dir():
            raise UserError(f"the model in {place} cannot be loaded: {error}") from None
        raise


def _check(place: Path, loaders: Mapping[str, str]) -> None:
    headers: dict[Path, list[outside.Header]] = {}
    weight_bytes = Counter[Path]()
    for file in _files(place):
        if file.suffix != ".json":
            headers.setdefault(file.parent, []).append(outside.header(file))
            weight_bytes[file.parent] += file.stat().st_size
            continue
        content = outside.document(file)
        if file.name.endswith(INDEX):
            _check_index(file, content)
        if file.name == SCHEDULER:
            _check_levels(file, content)
    for folder, loader in loaders.items():
        directory = place / folder
        if directory in headers and (directory / "config.json").is_file():  # else the loader finds no weights
            network_size.check(directory, loader, headers[directory], weight_bytes[directory])


def _check_index(file: Path, content: Any) -> None:
    """Raise UserError if an index of weights names files that do not lie beside it."""
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    names = weight_map.values() if isinstance(weight_map, dict) else ()
    for name in names:
        if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
            raise UserError(f"{file} names the weights {one_line(repr(name)[:80])}, which are no file beside it")


def _check_levels(file: Path, content: Any) -> None:
    """Raise UserError if the configuration of a scheduler of noise describes more than `LEVELS` levels."""
    levels = content.get("num_train_timesteps", 0) if isinstance(content, dict) else 0
    if not isinstance(levels, int | float) or not 0 <= levels <= LEVELS:
        raise UserError(
            f"{file} has num_train_timesteps={one_line(repr(levels)[:80])}; at most {LEVELS:,} levels of noise are "
            f"loaded"
        )


def _files(place: Path) -> Iterator[Path]:
    """Yield the weights and JSON documents of a model, also in its folders."""
    patterns = [f"{folder}*.{suffix}" for folder in ("", "*/") for suffix in ("safetensors", "json")]
    paths = [place] if place.is_file() else [file for pattern in patterns for file in place.glob(pattern)]
    yield from (file for file in sorted(paths) if file.is_file())
