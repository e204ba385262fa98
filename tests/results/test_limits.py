from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.harness.errors import UserError
from guidebench.results import limits
from tests.reports.conftest import Writer

SOLVED = {seed: {300: [1] * 10} for seed in range(2)}


@pytest.fixture
def study(writer: Writer) -> Path:
    writer.cell("a", SOLVED)
    return writer.finish()


def test_a_study_of_the_harness_fits(study: Path) -> None:
    limits.check(study)
    assert limits.footer(study / "grid/8x8/uer-a/seed-0/evaluations.parquet").num_rows == 10


def linked(target: str) -> Callable[[Path], object]:
    return lambda study: (study / "grid" / "link").symlink_to(target)


def large(name: str) -> Callable[[Path], object]:
    return lambda study: (
        (study / "grid" / name).touch(), os.truncate(study / "grid" / name, limits.BOUNDS[name].per_file + 1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        *((linked(target), "link is a link") for target in ("/", "study.json", "nowhere")),
        (lambda study: os.mkfifo(study / "grid" / "run.json"), r"run\.json is no regular file"),
        *(
            (large(name), rf"{name} has .* bytes; at most {limits.BOUNDS[name].per_file:,} are read")
            for name in limits.BOUNDS
        ),
        (lambda study: (study / "/".join("d" * 20)).mkdir(parents=True), "deep"),
    ],
)
def test_what_no_study_holds_is_refused_and_not_waited_for(
    study: Path, spoil: Callable[[Path], object], says: str
) -> None:
    spoil(study)
    with pytest.raises(UserError, match=says):
        limits.check(study)


def test_all_files_of_a_name_together_are_bounded_and_how_many_there_are(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(limits.BOUNDS, "run.json", limits.Bound(10_000, 400))
    with pytest.raises(UserError, match=r"its files run\.json together have"):
        limits.check(study)
    monkeypatch.setattr(limits, "ENTRIES", 5)
    with pytest.raises(UserError, match="more than 5 files"):
        limits.check(study)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ({"x": pa.repeat(1, 250_001)}, {}, "250,001 rows; at most 250,000"),
        (dict.fromkeys(map(str, range(41)), pa.array(np.arange(250_000))), {}, "when unpacked"),
        ({"x": pa.array(["y" * 2**18] * 9)}, {}, "column 'x' has 262,"),
        ({"x": pa.array(["y" * 2**18] * 9)}, {"use_dictionary": False}, "column 'x' has 2,359,"),
        (
            {"x": pa.array([f"{'y' * 1000}{i}" for i in range(9)])},
            {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
            "its encoding DELTA_BYTE_ARRAY is not read",
        ),
    ],
)
def test_what_would_unpack_to_more_than_its_bytes_is_refused(
    tmp_path: Path, table: dict[str, pa.Array], options: dict[str, object], words: str
) -> None:
    pq.write_table(pa.table(table), tmp_path / "rows.parquet", **options)
    with pytest.raises(UserError, match=words):
        limits.footer(tmp_path / "rows.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1", b"\x80\x04\x95pickle"])
def test_what_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"rows\.parquet cannot be read as Parquet"):
        limits.footer(tmp_path / "rows.parquet")
