"""Conversion of structured arrays to bytes and a description of their fields: safetensors has no structured dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.types import Array

NUMBERS = "biuf"
"""NumPy dtype kinds allowed for a field."""
Fields = list[list[Any]]
"""[name, dtype, shape] of each field, as JSON values."""


def packed(array: Array) -> tuple[Array, Fields | None]:
    """Return records [...] as uint8 [..., itemsize] and their fields; any other array unchanged, and None. Raise
    TypeError for records with padding between fields or with fields that are not numeric."""
    if array.dtype.names is None:
        return array, None
    fields: Fields = []
    for name in array.dtype.names:
        base, shape = array.dtype[name].base, array.dtype[name].shape
        fields.append([name, base.str, list(shape)])
    if _dtype(fields) != array.dtype:
        raise TypeError(f"records of {array.dtype} cannot be written; make their dtype of [(name, dtype, shape), …]")
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return raw.reshape(*array.shape, array.dtype.itemsize), fields


def unpacked(array: Array, fields: Any) -> Array:
    """Invert `packed`. Raise ValueError for fields that do not describe these bytes."""
    try:
        dtype = _dtype(fields)
    except TypeError as error:
        raise ValueError(f"records of unknown fields: {error}") from None
    if array.dtype != np.uint8 or not array.ndim or array.shape[-1] != dtype.itemsize:
        raise ValueError(f"{array.dtype} of shape {array.shape} holds no records of {dtype}")
    return np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(array.shape[:-1])


def _dtype(fields: Any) -> np.dtype[Any]:
    """Return the structured dtype of these fields. Raise TypeError unless they describe numeric fields."""
    described: list[tuple[str, str, tuple[int, ...]]] = []
    for field in fields if isinstance(fields, list) else [None]:
        match field:
            case [str(name), str(dtype), list(shape)] if name and all(type(n) is int and n >= 0 for n in shape):
                described.append((name, dtype, tuple(shape)))
            case _:
                raise TypeError(f"{field!r} is no [name, dtype, shape]")
    try:
        record_dtype = np.dtype(described)
    except (ValueError, SyntaxError) as error:
        raise TypeError(str(error)) from None
    if not described or any(record_dtype[name].base.kind not in NUMBERS for name, *_ in described):
        raise TypeError("a field holds no numbers")
    return record_dtype
