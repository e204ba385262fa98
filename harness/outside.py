"""Bounds on what outside files may declare, checked before their arrays are copied.

A file of a few bytes can declare arrays of terabytes: by a stride of 0, by links that share, by compression. So the
declared bytes of all arrays are summed and compared with the file's own. Every function here parses a stranger's bytes:
call them in the separate process (`guidebench.harness.reader_process.read`), as `read_document` does.
"""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, size
from guidebench.harness.texts import one_line
from guidebench.harness.types import Array

PLAIN = 4
"""Declared bytes for each byte of a file in an uncompressed format (torch.save, `.npy`, safetensors)."""
PACKED, UNPACKED = 1_000, 2 * 2**30
"""Declared bytes for each byte of a file in a compressed format (HDF5, Parquet, pictures), and in all; a file that is
larger may declare `PLAIN` times its bytes."""
FEW = 2**26
"""Declared bytes of rows that are read of any file: 64 MiB."""
DOCUMENT = 2**26
"""Most bytes of a JSON document: 64 MiB. The largest tokenizers have 35 MB."""
HEADER = 10**8
"""Most bytes of a safetensors header, as in the format's own reader."""
ITEM_BITS: Mapping[str, int] = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32,
    "U16": 16, "U8": 8, "BOOL": 8, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6,
    "F4": 4,
}  # fmt: skip
"""Bits of a number by the name of its dtype in safetensors."""


def check_plain(file: Path, declared: int) -> None:
    """Raise UserError if the arrays of a file in an uncompressed format declare more than `PLAIN` times its bytes."""
    if declared > PLAIN * (file_bytes := file.stat().st_size):
        raise UserError(
            f"{file} has {file_bytes:,} bytes and its arrays declare {declared:,}; at most {PLAIN} times the file is "
            f"read: ask for a file that holds its numbers themselves"
        )


def check_packed(file: Path, declared: int, claim: str = "its arrays declare") -> None:
    """Raise UserError if the arrays of a file in a compressed format declare more than `PACKED` times its bytes, or
    more than `UNPACKED` and `PLAIN` times its bytes."""
    file_bytes = file.stat().st_size
    most = min(PACKED * file_bytes, max(UNPACKED, PLAIN * file_bytes))
    if declared > most:
        raise UserError(
            f"{file} has {file_bytes:,} bytes and {claim} {declared:,}; at most {most:,} are read: ask for a file that "
            f"is written plainly, or in several parts"
        )


def check_rows(file: Path, rows: int, columns: int) -> None:
    """Raise UserError if a Parquet file declares more rows than `check_packed` allows, at eight bytes a value; `FEW`
    bytes are always read, since a column of equal values takes next to none."""
    if (declared := 8 * rows * columns) > FEW:
        check_packed(file, declared, f"its {rows:,} rows of {columns:,} columns declare")


def check_parquet(file: Path) -> None:
    """Raise UserError if a Parquet file declares more rows than `check_rows` allows."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        check_rows(file, opened.metadata.num_rows, opened.metadata.num_columns)


class Header(NamedTuple):
    """The header of a safetensors file."""

    metadata: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of each array by its name."""
    dtypes: Mapping[str, str]
    """Dtype of each array, as the format names it."""


def header(file: Path) -> Header:
    """Return the header of a safetensors file. Raise UserError for any other file, and as `check_plain` does."""
    file_bytes = file.stat().st_size
    with file.open("rb") as stream:
        first = stream.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > min(HEADER, file_bytes - 8):
            raise UserError(
                f"{file} is no safetensors file (it has {file_bytes:,} bytes, its header should have {length:,})"
            )
        content = _parsed(file, stream.read(length))
    if not isinstance(content, dict):
        raise UserError(f"{file} is no safetensors file (its header is no JSON object)")
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise UserError(f"{file} is no safetensors file (its metadata are not texts)")
    shapes, dtypes, declared = {}, {}, 0
    for name, entry in content.items():
        match entry:
            case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(), int()]} if (
                dtype in ITEM_BITS and len(shape) <= 64 and all(type(extent) is int and extent >= 0 for extent in shape)
            ):
                declared += math.prod(shape) * ITEM_BITS[dtype] // 8
                shapes[name], dtypes[name] = tuple(shape), dtype
            case _:
                raise UserError(
                    f"{file}: array {one_line(name[:80])} has no dtype, shape and place that safetensors knows"
                )
    check_plain(file, declared)
    return Header(metadata, shapes, dtypes)


def arrays(file: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name; raise UserError as `header` does, or if they cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    header(file)
    try:
        loaded: dict[str, Array] = load_file(file)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{file} is no safetensors file of plain numbers ({one_line(str(error)[:200])})") from None
    return loaded


def npy(file: Path) -> Array:
    """Return the array of a `.npy` file, which is never unpickled. Raise UserError for any other file, and as
    `check_plain` does."""
    import numpy as np

    try:
        with file.open("rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"version {version} of the format is not known")
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
            if dtype.hasobject:
                raise ValueError("it holds pickled objects")
        check_plain(file, math.prod(shape) * dtype.itemsize)
        values: Array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError) as error:
        raise UserError(f"{file} is no array as numpy.save writes it ({one_line(str(error)[:200])})") from None
    return values


def picture(png: bytes) -> Array:
    """Return the pixels of a PNG, uint8 [height, width, 3]. Raise UserError if the bytes are no PNG, or if the pixels
    take more than `PACKED` times as many bytes."""
    import numpy as np
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(png), formats=("PNG",)) as opened:
            declared = 3 * opened.width * opened.height
            if declared > min(PACKED * len(png), UNPACKED):
                raise UserError(
                    f"a picture of {len(png):,} bytes declares {declared:,}; at most {PACKED} times are read"
                )
            return np.asarray(opened.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"a picture cannot be decoded as PNG ({one_line(str(error)[:200])})") from None


def document(file: Path, most: int = DOCUMENT) -> Any:
    """Return the value of a JSON file; raise UserError if it has more than `most` bytes or cannot be read as JSON."""
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}); restore it") from None
    if len(content) > most:
        raise UserError(f"{file} has {size(file.stat().st_size)}; a JSON document of at most {size(most)} is read")
    return _parsed(file, content)


def read_document(file: Path, most: int = DOCUMENT) -> Any:
    """Return the value of a JSON file, parsed in the separate process; raise UserError as `document` does."""
    return reader_process.read(f"{file}: reading it", file, document, file, most)


def _parsed(file: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} cannot be read as JSON ({one_line(str(error)[:200])}); restore it") from None
