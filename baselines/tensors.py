"""Conversion of observations and other arrays to PyTorch tensors: native dtype, contiguous, in their own memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from guidebench.harness.interfaces import Array

ObservationTensors = Tensor | Mapping[str, Tensor]
"""Observations as networks read them: a tensor, or for records one tensor per named part."""
DTYPES: Mapping[str, torch.dtype] = {
    "b1": torch.bool, "u1": torch.uint8, "i1": torch.int8, "i2": torch.int16, "i4": torch.int32, "i8": torch.int64,
    "u2": torch.int64, "u4": torch.int64, "u8": torch.int64, "f2": torch.float32, "f4": torch.float32,
    "f8": torch.float32,
}  # fmt: skip
"""Kind and byte count of a NumPy dtype -> the dtype in which networks compute."""


def tensors(array: Array, device: str | torch.device) -> ObservationTensors:
    """Return observations on a device: an array as a tensor, records [S, B] as a tensor [S, B, …] per part."""
    if array.dtype.names is None:
        return tensor(array, device)
    return {name: tensor(array[name], device) for name in array.dtype.names}


def tensor(array: Array, device: str | torch.device) -> Tensor:
    """Return an array on a device; floats of any width become float32, and a part of records may be strided."""
    # copied even on a CPU: NumPy's memory alignment varies, and the last bits of a product may depend on it
    copy = torch.empty(array.shape, dtype=DTYPES[array.dtype.str[1:]])
    np.copyto(copy.numpy(), array, casting="unsafe")
    return copy if device == "cpu" else copy.to(device)


def cloned(seen: ObservationTensors) -> ObservationTensors:
    """Return a copy in its own memory."""
    return seen.clone() if isinstance(seen, Tensor) else {name: each.clone() for name, each in seen.items()}


def overwrite(own: ObservationTensors, seen: ObservationTensors) -> None:
    """Copy `seen` into the memory of `own`."""
    if isinstance(own, Tensor):
        assert isinstance(seen, Tensor)
        own.copy_(seen)
        return
    assert not isinstance(seen, Tensor)
    for name, each in own.items():
        each.copy_(seen[name])
