"""Counts the parameters of a model by the headers of its files; no weights are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.models.access import GGUF

ADAPTER = "adapter_model"
"""Beginning of the names of an adapter's weights, which are no model by themselves."""


def of_model(place: Path) -> int | None:
    """Return the parameters of the model in a directory or a file; None if its weights are missing, incomplete or
    damaged, or if the model beneath an adapter is not beside it."""
    try:
        files = digests.model_files(place)
        if place.suffix == GGUF:
            from guidebench.harness.models.backends import gguf_files

            return gguf_files.header(place).parameters
        weights = [
            file.path
            for file in files or ()
            if file.name.endswith(".safetensors") and not file.name.startswith(ADAPTER)
        ]
        return of_files(weights) if weights else None
    except (UserError, OSError):
        return None


def of_files(files: Sequence[Path]) -> int:
    """Return the parameters in safetensors files, read in the separate process. Raise UserError, naming the file, for
    any other file."""
    return sum(
        reader_process.read(f"{file}: reading its header", [], _numbers, file)  # a header, however long the file is
        for file in files
    )


def _numbers(file: Path) -> int:
    return sum(map(math.prod, outside.header(file).shapes.values()))
