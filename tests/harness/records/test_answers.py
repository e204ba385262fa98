"""A run keeps the first answers of each kind in each role, and writes the same rows after a kill."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from guidebench.harness.records import answers
from guidebench.harness.records.answers import FILE, LINES, AnswerLog, AnswerRecord


def record(number: int, role: str = "judge", kind: str = "judge", answer: str = "0.5") -> AnswerRecord:
    return AnswerRecord(role, f"{number:064x}", f"{number:064x}", kind, answer)


def kept_rows(directory: Path) -> list[tuple[str, str, str]]:
    answers.write(directory)
    return [(row["role"], row["kind"], row["call"][-1]) for row in pq.read_table(directory / FILE).to_pylist()]


def test_the_first_distinct_questions_of_each_kind_and_role_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST", 2)
    log = AnswerLog(tmp_path, 0)
    log.add([record(1), record(1, answer="0.25"), record(2), record(3)])
    log.add([record(1, kind="chat"), record(1, role="critic"), record(4)])
    log.flush()
    assert kept_rows(tmp_path) == [
        ("judge", "judge", "1"), ("judge", "judge", "2"), ("judge", "chat", "1"), ("critic", "judge", "1")
    ]  # fmt: skip


def test_long_answers_have_room_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 25)
    vector = AnswerRecord("embedder", "0" * 64, "0" * 64, "embed", "{}", np.zeros(2, "<f4").tobytes())
    log = AnswerLog(tmp_path, 0)
    log.add(vector._replace(call=f"{number:064x}") for number in range(4))
    log.flush()
    assert len(kept_rows(tmp_path)) == 2, "10 bytes each"


def test_a_resume_truncates_the_rows_and_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST", 3)
    log = AnswerLog(tmp_path, 0)
    log.add([record(1), record(2)])
    checkpoint = log.flush()
    log.add([record(7)])
    log.close()
    resumed = AnswerLog(tmp_path, checkpoint)
    resumed.add([record(2), record(3), record(4)])
    resumed.close()
    assert [call for *_, call in kept_rows(tmp_path)] == ["1", "2", "3"]
    assert (tmp_path / f"{LINES}.jsonl").stat().st_size > checkpoint
