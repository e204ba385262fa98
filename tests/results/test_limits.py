from __future__ import annotations

import os
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


@pytest.mark.parametrize("target", ["/", "study.json", "nowhere"])
def test_a_link_is_refused_wherever_it_leads(study: Path, target: str) -> None:
    (study / "grid" / "link").symlink_to(target)
    with pytest.raises(UserError, match=r"link is a link"):
        limits.check(study)


def test_a_pipe_in_a_files_place_is_refused_and_not_waited_for(study: Path) -> None:
    os.mkfifo(study / "grid" / "run.json")
    with pytest.raises(UserError, match=r"run\.json is no regular file"):
        limits.check(study)


@pytest.mark.parametrize("name", limits.BOUNDS)
def test_each_file_is_bounded(study: Path, name: str) -> None:
    with open(study / "grid" / name, "wb") as file:
        file.truncate(limits.BOUNDS[name].each + 1)
    with pytest.raises(UserError, match=rf"{name} has .* bytes; at most {limits.BOUNDS[name].each:,} are read"):
        limits.check(study)


def test_so_are_all_files_of_a_name_together(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(limits.BOUNDS, "run.json", limits.Bound(10_000, 400))
    with pytest.raises(UserError, match=r"its files run\.json together have"):
        limits.check(study)


def test_so_are_how_many_files_there_are_and_how_deep_they_lie(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (study / "/".join("d" * 20)).mkdir(parents=True)
    with pytest.raises(UserError, match="deep"):
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
