"""A packed study has what its continuation needs, in parts, and is unpacked with the lengths that its files had."""

import io
import lzma
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import archive
from guidebench.harness.errors import UserError


def study(home: Path) -> Path:
    """Write a study: two seeds with checkpoints at 10 and 20, one of them at 30, a sparse ring of a mebibyte, a lease
    and a log."""
    cell = home / "suite" / "task" / "method"
    for seed, steps in ((0, (10, 20, 30)), (1, (10, 20))):
        run = cell / f"seed-{seed}"
        for step in steps:
            (run / f"checkpoint-{step:010d}").mkdir(parents=True)
            (run / f"checkpoint-{step:010d}" / "state.json").write_text(f"{seed} {step}")
        (run / "replay").mkdir()
        ring = run / "replay" / "reward.bin"
        ring.write_bytes(np.random.default_rng(seed).bytes(20_000))
        os.truncate(ring, 2**20)
        (run / ".lease").mkdir()
        (run / ".lease" / "1").write_text("held")
    (home / "logs").mkdir()
    (home / "logs" / "a.log").write_text("said")
    (home / "study.json").write_text("{}")
    return home


def test_a_study_comes_back_without_leases_logs_and_older_checkpoints(tmp_path: Path) -> None:
    original = study(tmp_path / "study")
    parts = archive.pack(original, tmp_path)
    assert parts == archive.existing(tmp_path) and sum(part.stat().st_size for part in parts) < 60_000
    archive.unpack(tmp_path, tmp_path / "again")
    names = {str(path.relative_to(tmp_path / "again")) for path in (tmp_path / "again").rglob("*") if path.is_file()}
    run = "suite/task/method/seed-{}/{}"
    packed_files = ("checkpoint-0000000020/state.json", "replay/reward.bin")
    assert names == {"study.json", *(run.format(seed, name) for seed in (0, 1) for name in packed_files)}
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (original / name).read_bytes()


def test_parts_are_no_larger_than_they_may_be_and_replace_older_ones(tmp_path: Path) -> None:
    original = study(tmp_path / "study")
    (tmp_path / f"{archive.NAME}.09").write_bytes(b"of an earlier call")
    parts = archive.pack(original, tmp_path, 10_000)
    assert len(parts) > 3 and all(part.stat().st_size <= 10_000 for part in parts)
    assert archive.existing(tmp_path) == parts
    archive.unpack(tmp_path, tmp_path / "again")
    assert (tmp_path / "again" / "study.json").read_text() == "{}"


def test_a_damaged_archive_is_refused_and_leaves_no_study(tmp_path: Path) -> None:
    (part,) = archive.pack(study(tmp_path / "study"), tmp_path)
    part.write_bytes(part.read_bytes()[:-5_000])
    with pytest.raises(UserError, match="cannot be unpacked"):
        archive.unpack(tmp_path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("name", "headers"), [("../outside", {}), ("inside", {archive.LENGTH: "1"}), ("inside", {archive.LENGTH: "9" * 15})]
)
def test_names_and_lengths_of_a_stranger_are_refused(name: str, headers: dict[str, str], tmp_path: Path) -> None:
    with lzma.open(tmp_path / f"{archive.NAME}.00", "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.pax_headers = 4, headers
        tar.addfile(member, io.BytesIO(b"evil"))
    with pytest.raises(UserError, match="cannot be unpacked"):
        archive.unpack(tmp_path, tmp_path / "in" / "again")
    assert not (tmp_path / "in" / "again").exists() and not (tmp_path / "in" / "outside").exists()
