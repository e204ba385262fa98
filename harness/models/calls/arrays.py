"""Encoding of array answers in a cassette: little-endian bytes, and a JSON header with their type and shape."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np

from guidebench.harness.texts import JSON
from guidebench.harness.types import Array


class Form(NamedTuple):
    """Type and number of axes of the arrays that answer a kind of call."""

    dtype: str
    """NumPy's name of a boolean, integer or floating type."""
    axes: int


def encode(value: Array, form: Form) -> tuple[str, bytes]:
    """Return the JSON header, such as {"array":"float32","shape":[2,3]}, and the bytes of an array."""
    dtype = np.dtype(form.dtype)
    head = json.dumps({"array": dtype.name, "shape": np.shape(value)}, separators=(",", ":"))
    return head, np.ascontiguousarray(value, dtype.newbyteorder("<")).tobytes()


def shape_of(head: str, form: Form) -> tuple[int, ...]:
    """Return the shape in a header; raise ValueError for a text that `encode` never writes for this form."""
    match JSON.decode(head):
        case {"array": str(name), "shape": list(shape), **rest} if not rest:
            are_lengths = all(type(length) is int and 0 <= length < 2**31 for length in shape)
            if name == np.dtype(form.dtype).name and len(shape) == form.axes and are_lengths:
                return tuple(shape)
    raise ValueError(f"{head[:80]!r} is no array of {form.dtype} with {form.axes} axes")


def decode(head: str, data: bytes, form: Form) -> Array:
    """Return the array that `encode` was given; raise ValueError for anything else or a number that is not finite."""
    shape, dtype = shape_of(head, form), np.dtype(form.dtype)
    if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"expected {math.prod(shape) * dtype.itemsize:,} bytes for {head[:80]}, got {_length(data)}")
    value = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    if dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError("the array holds a number that is not finite")
    return value


def _length(data: object) -> str:
    return f"{len(data):,}" if isinstance(data, bytes) else type(data).__name__
