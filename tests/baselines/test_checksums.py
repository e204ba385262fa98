"""Checksums of late values: they do not depend on the order of arrival, and damage is noticed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines import checksums
from guidebench.baselines.checksums import LateChecksums, crc
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import TransitionColumn
from guidebench.harness.loop import checkpoints
from tests.baselines.test_storage import build, fill
from tests.refusals import check_refused

COLUMN = (TransitionColumn("vector", "late", (2,), "float16", float("nan")),)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten segments to two slots."""
    monkeypatch.setattr(checksums, "LONGEST", 2)


def test_only_segments_that_changed_are_read_and_they_are_those_of_what_counts() -> None:
    sums, values, counts = LateChecksums(6), np.arange(6, dtype=np.float16), np.zeros(6, bool)
    counts[[0, 3]] = True
    sums.wrote(np.array([0, 3]))
    sums.renew(0, 4, counts, values)
    assert segments({"late": {"vector": sums.state()}}) == {0: crc(values[:1]), 1: crc(values[3:4])}
    values[0] = 9  # behind its back: segment 0 is not read again
    counts[2] = True
    sums.wrote(np.array([2]))
    sums.renew(0, 5, counts, values)
    assert segments({"late": {"vector": sums.state()}}) == {0: crc(np.array([0], np.float16)), 1: crc(values[2:4])}
    assert sums.altered(counts, values)
    values[0] = 0
    assert not sums.altered(counts, values)
    counts[:2] = False  # both may be drawn no more
    sums.renew(2, 5, counts, values)
    assert sums.state()["segments"].tolist() == [1] and not sums.altered(counts, values)


def segments(state: dict[str, Any]) -> dict[int, int]:
    """Return segment -> checksum."""
    late = state["late"]["vector"]
    return dict(zip(late["segments"].tolist(), late["checksums"].tolist(), strict=True))


def numbers(storage: Storage, late: int, value: float) -> None:
    storage.apply("vector", 1, np.array([late]), np.full((1, 2), value, np.float16))


def test_a_ring_that_goes_round_is_taken_up_at_each_checkpoint(tmp_path: Path) -> None:
    """Answers come three steps late, and every fourth never; what was written in the two steps before a kill does not
    count."""
    storage = Storage(build(tmp_path), COLUMN)
    for step in range(40):
        fill(storage, range(step, step + 1))
        if step >= 3 and step % 4:
            numbers(storage, step - 3, step)
        state = storage.state(1)
        saved = checkpoints.load(checkpoints.save(tmp_path / "saved", step, state)).state
        if step % 7 == 0:  # goes on from two steps before, with what was written since on disk
            other = storage.state(0)
            numbers(storage, step, -1.0)
            fill(storage, range(step + 1, step + 3))
            numbers(storage, step + 2, -2.0)
            storage = Storage(build(tmp_path), COLUMN)
            storage.load_state(0, other)
            storage.load_state(1, saved)
            assert np.isnan(storage.column("vector", np.array([[step % 8]] * 2))[1]).all()
            assert segments(storage.state(1)) == segments(state)


def test_late_values_that_are_not_what_was_written_are_noticed_and_others_are_not_looked_at(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), COLUMN)
    fill(storage, range(10))  # 4 to 9 may be drawn
    for number in (4, 6, 7):
        numbers(storage, number, number)
    saved = storage.state(1)
    assert sorted(segments(saved)) == [2, 3], "of slots 4 and 5, 6 and 7"
    path = tmp_path / "seed-1" / "replay" / "vector.bin"
    stored_bytes = bytearray(path.read_bytes())
    for slot, noticed in ((5, False), (0, False), (4, True), (6, True), (7, True)):
        changed = stored_bytes.copy()
        changed[4 * slot] ^= 1
        path.write_bytes(changed)
        again = Storage(build(tmp_path), COLUMN)
        if noticed:
            check_refused(r"replay/vector.bin does not hold what was written to it", again.load_state, 1, saved)
        else:
            again.load_state(1, saved)
