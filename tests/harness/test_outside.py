"""How much a file from outside may declare, given its own size."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from guidebench.harness import outside
from tests.refusals import check_refused

GIB = 2**30


def sparse_file(path: Path, bytes_: int) -> Path:
    with path.open("wb") as file:
        file.truncate(bytes_)  # sparse: uses no disk space
    return path


@pytest.mark.parametrize(
    ("bytes_", "most"),
    [
        (1_000, 1_000_000),  # a thousand times
        (10_000_000, 2 * GIB),
        (GIB, 4 * GIB),  # a large file may hold uncompressed numbers
    ],
)
def test_what_a_compressed_file_may_declare(tmp_path: Path, bytes_: int, most: int) -> None:
    file = sparse_file(tmp_path / "file", bytes_)
    outside.check_packed(file, most)
    check_refused(f"its arrays declare {most + 1:,}; at most {most:,} are read", outside.check_packed, file, most + 1)


def test_what_an_uncompressed_file_may_declare(tmp_path: Path) -> None:
    file = sparse_file(tmp_path / "file", 1_000)
    outside.check_plain(file, 4_000)
    check_refused(
        "has 1,000 bytes and its arrays declare 4,001; at most 4 times the file", outside.check_plain, file, 4_001
    )


def test_rows_of_equal_values_are_read_up_to_64_mib(tmp_path: Path) -> None:
    file = sparse_file(tmp_path / "file", 100)
    outside.check_rows(file, 2**22, 2)
    check_refused("its 4,194,305 rows of 2 columns declare", outside.check_rows, file, 2**22 + 1, 2)


def test_the_header_of_weights_is_that_which_the_library_wrote(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(3, np.int8)}
    save_file(arrays, tmp_path / "file", {"format": "np"})
    header = outside.header(tmp_path / "file")
    assert header.metadata == {"format": "np"}
    assert header.shapes == {"a": (2, 3), "b": (3,)} and header.dtypes == {"a": "F64", "b": "I8"}
    loaded = outside.arrays(tmp_path / "file")
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())


def test_an_array_is_that_which_numpy_wrote(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", np.array(["a", "key"]))
    assert outside.npy(tmp_path / "file.npy").tolist() == ["a", "key"]


def test_a_document_larger_than_what_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text("[1, 2]")
    assert outside.document(tmp_path / "file.json", 6) == [1, 2]
    check_refused("a JSON document of at most", outside.document, tmp_path / "file.json", 5)
