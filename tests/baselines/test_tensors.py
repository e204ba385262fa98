"""Arrays and records as tensors."""

import numpy as np
import pytest
import torch

from guidebench.baselines.tensors import cloned, overwrite, tensor, tensors


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float16", ">f4", "f8"]
)
def test_numbers_keep_their_values_and_floats_become_single(dtype: str) -> None:
    array = np.array([[0, 1], [1, 100]]).astype(dtype)
    converted = tensor(array, "cpu")
    assert converted.tolist() == array.tolist() and converted.dtype == (
        torch.float32 if array.dtype.kind == "f" else converted.dtype
    )
    array[0, 0] = 1
    assert converted[0, 0] == 0, "the tensor has memory of its own"


def test_a_part_that_torch_cannot_stride_over_is_copied() -> None:
    records = np.zeros((2, 3), np.dtype([("code", "u1", (2,)), ("place", "f4", (2,)), ("one", "f4")]))
    records["place"] = np.arange(12).reshape(2, 3, 2)
    parts = tensors(records, "cpu")
    assert isinstance(parts, dict) and parts["place"].tolist() == np.arange(12).reshape(2, 3, 2).tolist()
    assert parts["code"].shape == (2, 3, 2) and parts["one"].shape == (2, 3)


def test_copies_of_records_are_their_own() -> None:
    records = {"a": torch.zeros(2), "b": torch.ones(1)}
    copies = cloned(records)
    records["a"] += 5
    assert copies["a"].tolist() == [0, 0]
    overwrite(copies, records)
    assert copies["a"].tolist() == [5, 5] and copies["a"] is not records["a"]
