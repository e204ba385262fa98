"""A small file always has its old or its new content, and only the holder of the lease replaces it."""

import os
import signal
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.records import files
from guidebench.harness.records.leases import Fenced


def test_whoever_lost_the_lease_leaves_a_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    def fence() -> None:
        raise Fenced("taken over")

    files.write_json(tmp_path / "run.json", {"step": 1})
    with pytest.raises(Fenced):
        files.write_json(tmp_path / "run.json", {"step": 2}, fence)
    assert files.read_json(tmp_path / "run.json") == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_only_regular_files_are_read_and_nothing_waits_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    (tmp_path / "cell.json").symlink_to("/dev/zero")
    (tmp_path / "study.json").mkdir()
    signal.alarm(60)
    try:
        for name, says in (("run.json", "a FIFO"), ("cell.json", "a device"), ("study.json", "Is a directory")):
            with pytest.raises(UserError, match=rf"{name} cannot be read as JSON .*{says}"):
                files.read_json(tmp_path / name)
    finally:
        signal.alarm(0)
