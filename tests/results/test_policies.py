"""Parameters are read as the table of a safetensors file and the bytes behind it, and in no other way."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from guidebench.results import policies

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones(3, np.float16),
    "count": np.array(7, np.int64),
    "mask": np.array([True, False]),
    "none": np.zeros((0, 4), np.float64),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.safetensors"


def test_what_this_program_writes_is_read(path: Path) -> None:
    save_file(ARRAYS, path)
    table = policies.table(path)
    assert {name: (array_entry.shape, array_entry.dtype) for name, array_entry in table.items()} == {
        name: (array.shape, array.dtype) for name, array in ARRAYS.items()
    }
    for name, array_entry in table.items():
        read = np.concatenate([*policies.blocks(path, array_entry), np.zeros(0, array_entry.dtype)]).reshape(
            array_entry.shape
        )
        np.testing.assert_array_equal(read, ARRAYS[name])


def test_arrays_are_told_apart_by_bytes_dtype_and_shape_and_by_nothing_else(path: Path, tmp_path: Path) -> None:
    save_file(ARRAYS, path)
    save_file(dict(reversed(ARRAYS.items())), tmp_path / "other", metadata={"by": "me"})
    assert path.read_bytes() != (tmp_path / "other").read_bytes()
    assert policies.digests(path) == policies.digests(tmp_path / "other")
    w = ARRAYS["w"]
    for changed in (w.reshape(3, 2), w.view(np.int32), np.where(w == 5, np.nextafter(w, 9, dtype=w.dtype), w)):
        save_file({**ARRAYS, "w": changed}, tmp_path / "other")
        assert {n for n, d in policies.digests(tmp_path / "other").items() if d != policies.digests(path)[n]} == {"w"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite(path: Path, value: float) -> None:
    save_file({**ARRAYS, "w": np.full(3, value, np.float32)}, path)
    with pytest.raises(ValueError, match="w holds numbers that are not finite"):
        policies.digests(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04cos\nsystem\n",
        struct.pack("<Q", 2**62),
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        struct.pack("<Q", 17) + json.dumps({"a": {"b": 1}}).encode(),
        struct.pack("<Q", 34) + b'{"a": 1, "a": 2, "__metadata__": 1}'[:34],
        struct.pack("<Q", 2) + b"{}more",
    ],
)
def test_what_is_no_policy_is_refused_by_its_table(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError):
        policies.table(path)


def test_a_policy_that_is_too_large_is_not_read(path: Path) -> None:
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
        file.truncate(policies.LARGEST + 1)
    with pytest.raises(ValueError, match="1,073,741,825 bytes"):
        policies.table(path)
