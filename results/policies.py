"""A strict reader of policy.safetensors, a run's final parameters from an untrusted source.

The format is a JSON table (name, dtype, shape and byte range of each array), followed by the arrays' bytes. The library
is not used, because it accepts more than this program writes (eight-bit floats, for example).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.records.files import open_regular

LARGEST = 2**30
"""Most bytes of a file."""
LARGEST_HEAD = 2**22
"""Most bytes of the JSON table."""
MOST = 100_000
"""Most arrays in a file."""
DTYPES: Mapping[str, str] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
    "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
"""Supported dtypes: name in the format -> NumPy's name."""
_BLOCK = 2**24


class ArrayPlace(NamedTuple):
    """Dtype, shape and byte range of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


def table(path: Path) -> dict[str, ArrayPlace]:
    """Return name -> place of each array; raise ValueError unless the arrays fill the file without gaps."""
    size = os.stat(path, follow_symlinks=False).st_size
    with open_regular(path) as file:
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else size
        if size > LARGEST or length > min(LARGEST_HEAD, size - 8):
            raise ValueError(f"{size:,} bytes, of which its table should have {length:,}")
        try:
            head = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_once)
        except RecursionError:
            raise ValueError("its table is nested too deep") from None
    if not isinstance(head, dict) or len(head) > MOST:
        raise ValueError(f"its table is no JSON object of at most {MOST:,} arrays")
    head.pop("__metadata__", None)
    places = {name: _place_of(name, description, 8 + length) for name, description in head.items()}
    at = 8 + length
    for name, place in sorted(places.items(), key=lambda pair: pair[1].start):
        if place.start != at:
            raise ValueError(f"array {name[:100]!r} does not begin where the one before it ends")
        at = place.end
    if at != size:
        raise ValueError(f"{size - at:,} bytes belong to no array")
    return places


def blocks(path: Path, place: ArrayPlace) -> Iterator[Array]:
    """Yield an array's numbers in order as flat blocks of at most 16 MiB."""
    with open_regular(path) as file:
        file.seek(place.start)
        remaining = place.end - place.start
        while remaining:
            content = file.read(min(_BLOCK, remaining))
            if not content:
                raise ValueError("the file ends within an array")
            remaining -= len(content)
            yield np.frombuffer(content, place.dtype)


def digests(path: Path) -> dict[str, str]:
    """Return name -> SHA-256 of each array's dtype, shape and numbers; raise ValueError for numbers that are not finite
    or an invalid file. Metadata and the order of arrays do not affect the digests."""
    by_name = {}
    for name, place in table(path).items():
        digest = hashlib.sha256(f"{place.dtype.str}{place.shape}".encode())
        for block in blocks(path, place):
            if not np.isfinite(block).all():
                raise ValueError(f"{name[:100]} holds numbers that are not finite")
            digest.update(block.data)
        by_name[name] = digest.hexdigest()
    return by_name


def _place_of(name: str, description: Any, begin: int) -> ArrayPlace:
    """Return the place in a table entry; raise ValueError if the entry is inconsistent."""
    match description:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [start, end], **rest} if not rest:
            numbers = [*shape, start, end]
            if dtype not in DTYPES:
                raise ValueError(f"array {name[:100]!r} is of dtype {dtype[:20]!r}; expected {', '.join(DTYPES)}")
            if not name.isprintable() or not all(type(n) is int and 0 <= n <= LARGEST for n in numbers):
                raise ValueError(f"array {name[:100]!r} has no name, shape and place of whole numbers")
            kind = np.dtype(DTYPES[dtype])
            if len(shape) > 32 or end - start != math.prod(shape) * kind.itemsize:
                raise ValueError(f"array {name[:100]!r} has other bytes than its shape and dtype ask for")
            return ArrayPlace(kind, tuple(shape), begin + start, begin + end)
    raise ValueError(f"array {name[:100]!r} is not described by dtype, shape and data_offsets")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name is there twice in its table")
    return mapping
