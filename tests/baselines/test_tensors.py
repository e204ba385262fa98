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
    found = tensor(array, "cpu")
    assert found.tolist() == array.tolist() and found.dtype == (
        torch.float32 if array.dtype.kind == "f" else found.dtype
    )
    array[0, 0] = 1
    assert found[0, 0] == 0, "the tensor has memory of its own"


def test_a_part_that_torch_cannot_stride_over_is_copied() -> None:
    records = np.zeros((2, 3), np.dtype([("code", "u1", (2,)), ("place", "f4", (2,)), ("one", "f4")]))
    records["place"] = np.arange(12).reshape(2, 3, 2)
    found = tensors(records, "cpu")
    assert isinstance(found, dict) and found["place"].tolist() == np.arange(12).reshape(2, 3, 2).tolist()
    assert found["code"].shape == (2, 3, 2) and found["one"].shape == (2, 3)


def test_copies_of_records_are_their_own() -> None:
    seen = {"a": torch.zeros(2), "b": torch.ones(1)}
    own = cloned(seen)
    seen["a"] += 5
    assert own["a"].tolist() == [0, 0]
    overwrite(own, seen)
    assert own["a"].tolist() == [5, 5] and own["a"] is not seen["a"]
