"""Arrays that are the answers of a cassette: bytes, little-endian, beside a text that tells their type and shape."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np

from guidebench.harness.texts import JSON
from guidebench.harness.types import Array


class Form(NamedTuple):
    """What the answers to a kind of call are, where they are arrays."""

    dtype: str
    """Boolean, integer or floating, by NumPy's name."""
    axes: int


def encode(value: Array, form: Form) -> tuple[str, bytes]:
    """The text and the bytes: {"array":"float32","shape":[2,3]}."""
    dtype = np.dtype(form.dtype)
    head = json.dumps({"array": dtype.name, "shape": np.shape(value)}, separators=(",", ":"))
    return head, np.ascontiguousarray(value, dtype.newbyteorder("<")).tobytes()


def shape_of(head: str, form: Form) -> tuple[int, ...]:
    """The shape that a text tells; ValueError for a text that `encode` never wrote for this form."""
    match JSON.decode(head):
        case {"array": str(name), "shape": list(shape), **rest} if not rest:
            whole = all(type(length) is int and 0 <= length < 2**31 for length in shape)
            if name == np.dtype(form.dtype).name and len(shape) == form.axes and whole:
                return tuple(shape)
    raise ValueError(f"{head[:80]!r} is no array of {form.dtype} with {form.axes} axes")


def decode(head: str, data: bytes, form: Form) -> Array:
    """The array that `encode` was given; ValueError for anything else, and for a number that is not finite."""
    shape, dtype = shape_of(head, form), np.dtype(form.dtype)
    if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"expected {math.prod(shape) * dtype.itemsize:,} bytes for {head[:80]}, got {_length(data)}")
    value = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    if dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError("the array holds a number that is not finite")
    return value


def _length(data: object) -> str:
    return f"{len(data):,}" if isinstance(data, bytes) else type(data).__name__
