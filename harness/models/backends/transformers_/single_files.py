"""Models in one safetensors file of `bench models convert`, whose header names the architecture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import outside_files

if TYPE_CHECKING:
    from torch import Tensor


class ConvertedFile(NamedTuple):
    """Content of such a file."""

    open_clip: str
    """open_clip's name of the architecture, or "" if it is another library's."""
    network: str
    """Our name of the architecture, such as `s3d`, or ""."""
    tensors: Mapping[str, Tensor]


def read(file: str) -> ConvertedFile:
    """Return the content of a converted file; raise UserError if it is none."""
    from safetensors import SafetensorError, safe_open

    if not Path(file).is_file():
        raise UserError(f"model {file!r} is no file")
    outside_files.check(Path(file))
    try:
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, not a mapping
    except SafetensorError as error:
        raise UserError(f"{file} is no safetensors file ({error})") from None
    converted_file = ConvertedFile(metadata.get("open_clip", ""), metadata.get("network", ""), tensors)
    if not (converted_file.open_clip or converted_file.network):
        raise UserError(
            f"{file} does not say what it is; a single file has to be one of `bench models convert`, and other models "
            f"are named by the directory of their config.json"
        )
    return converted_file
