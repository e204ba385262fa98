"""Arrays in the answers of a cassette: base64 of their bytes, little-endian, under the name of their type."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from guidebench.harness.foundation.calls.base import Json
from guidebench.harness.interfaces import Array


def encode(value: Any, dtype: DTypeLike) -> Json:
    """As JSON can hold it: {"float32": "…", "shape": [2, 3]}. `dtype`: a boolean, integer or floating type."""
    kind = np.dtype(dtype)
    data = np.ascontiguousarray(value, kind.newbyteorder("<"))
    return {kind.name: base64.b64encode(data.data).decode(), "shape": list(np.shape(value))}


def decode(stored: Json, dtype: DTypeLike, axes: int) -> Array:
    """The array of this type and so many axes that `encode` was given; ValueError for anything else."""
    kind = np.dtype(dtype)
    match stored:
        case {"shape": list(shape), **rest} if [*rest] == [kind.name] and len(shape) == axes:
            data = base64.b64decode(str(rest[kind.name]), validate=True)
            if all(type(n) is int and n >= 0 for n in shape) and len(data) == math.prod(shape) * kind.itemsize:
                return np.frombuffer(data, kind.newbyteorder("<")).astype(kind).reshape(shape)
    raise ValueError(f"no array of {kind.name} with {axes} axes")
