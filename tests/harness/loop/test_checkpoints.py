"""A checkpoint restores what was saved, and a damaged one is always reported."""

from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.loop import checkpoints
from guidebench.harness.records.leases import Fenced

STATE = {
    "rng": np.random.default_rng(3).bit_generator.state,
    "weights": {"a": np.arange(6, dtype=np.float32).reshape(2, 3).T, "flag": np.array([True, False])},
    "list": [1, None, "x", {"k": np.zeros((0, 4), np.uint8)}],
}


def test_arrays_numbers_and_random_states_come_back_exactly(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 12, STATE)
    loaded = checkpoints.newest(tmp_path)
    assert loaded is not None and loaded.step == 12 and loaded.state["rng"] == STATE["rng"]
    np.testing.assert_array_equal(loaded.state["weights"]["a"], STATE["weights"]["a"])
    assert loaded.state["weights"]["a"].dtype == np.float32
    assert loaded.state["weights"]["flag"].tolist() == [True, False]
    assert loaded.state["list"][:3] == [1, None, "x"] and loaded.state["list"][3]["k"].shape == (0, 4)


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        checkpoints.save(tmp_path, step, {"step": step})
    assert [path.name for path in checkpoints.existing(tmp_path)] == ["checkpoint-0000000020", "checkpoint-0000000030"]


def test_whoever_lost_the_run_writes_no_checkpoint(tmp_path: Path) -> None:
    def fence() -> None:
        raise Fenced("taken over")

    with pytest.raises(Fenced):
        checkpoints.save(tmp_path, 10, STATE, fence)
    assert checkpoints.existing(tmp_path) == []


@pytest.mark.parametrize("name", ["state.json", "arrays.safetensors", "digest.json"])
@pytest.mark.parametrize("damage", ["truncated", "changed", "missing"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(tmp_path: Path, name: str, damage: str) -> None:
    checkpoints.save(tmp_path, 10, STATE)
    file = checkpoints.save(tmp_path, 20, STATE) / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        middle = len(content) // 2
        file.write_bytes(content[:middle] if damage == "truncated" else content[:middle] + b"?" + content[middle + 1 :])
    with pytest.warns(UserWarning, match="checkpoint-0000000020 is damaged"):
        loaded = checkpoints.newest(tmp_path)
    assert loaded is not None and loaded.step == 10


def test_an_unfinished_checkpoint_is_not_seen(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 10, STATE)
    (tmp_path / ".checkpoint-0000000020").mkdir()
    loaded = checkpoints.newest(tmp_path)
    assert loaded is not None and loaded.step == 10


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be kept: agent\.plans\.1 is of type set; a checkpoint"):
        checkpoints.save(tmp_path, 1, {"agent": {"plans": [0, {1, 2}]}})
