"""Structured records are packed into bytes and restored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.loop import checkpoints
from guidebench.harness.packing import packed, unpacked

KIND = np.dtype([("code", "u1", (2,)), ("place", "f4", (3,)), ("one", "i8")])


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 4)])
def test_records_come_back_as_they_were(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    records = np.zeros(shape, KIND)
    records["place"], records["one"] = rng.standard_normal((*shape, 3)), rng.integers(9, size=shape)
    raw, fields = packed(records)
    assert raw.dtype == np.uint8 and raw.shape == (*shape, 22)
    assert fields == [["code", "|u1", [2]], ["place", "<f4", [3]], ["one", "<i8", []]]
    restored = unpacked(raw, fields)
    assert restored.dtype == KIND and restored.shape == shape and restored.tobytes() == records.tobytes()


def test_other_arrays_are_left_alone() -> None:
    array = np.arange(3)
    raw, fields = packed(array)
    assert raw is array and fields is None


@pytest.mark.parametrize("kind", [np.dtype([("a", "O")]), np.dtype([("a", "u1"), ("b", "f4")], align=True)])
def test_records_of_objects_or_with_gaps_are_refused(kind: np.dtype[Any]) -> None:
    with pytest.raises(TypeError, match=r"no numbers|make their dtype of"):
        packed(np.zeros(1, kind))


@pytest.mark.parametrize(
    "fields",
    [
        [["code", "|u1", [2]]],
        [["a", "|O8", []]],
        [["a", "<f4", [2]], ["a", "<f4", []]],
        [["a", "<f4", [-3]]],
        [["a", "no such dtype", []]],
        [["a", "<f4", [True]]],
        [["", "<f4", [3]]],
        [["a", "<f4"]],
        [],
        None,
        "f4",
        {"a": "f4"},
    ],
)
def test_fields_that_do_not_describe_the_bytes_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        unpacked(np.zeros((2, 12), np.uint8), fields)


def test_a_checkpoint_holds_records_and_single_ones(tmp_path: Path) -> None:
    records = np.zeros(3, KIND)
    records["one"] = (4, 5, 6)
    path = checkpoints.save(tmp_path, 7, {"all": records, "of a row": records[1], "plain": np.arange(2)})
    state = checkpoints.load(path).state
    assert state["all"].dtype == KIND and state["all"]["one"].tolist() == [4, 5, 6]
    assert state["of a row"].shape == () and state["of a row"]["one"] == 5 and state["plain"].tolist() == [0, 1]
