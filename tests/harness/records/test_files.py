"""A small file has its old or its new content, and only whoever holds the lease replaces it."""

from pathlib import Path

import pytest

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
