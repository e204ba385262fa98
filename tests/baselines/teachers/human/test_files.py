"""Questions to a person as files: what is read back is what was written, or an error that says where it is not."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.teachers.human import files as questions
from guidebench.baselines.teachers.human.files import PendingQuestion
from guidebench.harness.errors import UserError
from tests.refusals import check_refused

SNAPSHOTS = np.arange(12, dtype=np.uint8).reshape(4, 3)


def posed(
    run: Path, ordinal: int = 0, content: str = '{"task": "näher"}', snapshots: Any = SNAPSHOTS
) -> PendingQuestion:
    return questions.pose(run, ordinal, 7, content, snapshots)


def test_a_question_is_read_as_it_was_posed(tmp_path: Path) -> None:
    for ordinal, snapshots in ((0, SNAPSHOTS), (10, None)):
        question = posed(tmp_path, ordinal, snapshots=snapshots)
        loaded = questions.read(tmp_path, ordinal)
        assert loaded == question and loaded.digest == question.digest
        assert (loaded.step, loaded.content) == (7, {"task": "näher"})
    np.testing.assert_array_equal(questions.read(tmp_path, 0).snapshots(), SNAPSHOTS)
    assert questions.read(tmp_path, 10).snapshots() is None


def test_its_digest_is_of_all_that_is_asked_and_not_of_how_it_is_written(tmp_path: Path) -> None:
    reference = posed(tmp_path, content='{"a": 1, "b": 0.1}')
    assert posed(tmp_path, content='{"b":0.1,  "a":1}').digest == reference.digest
    others = [
        posed(tmp_path, content='{"a": 1, "b": 0.2}'),
        posed(tmp_path, content='{"a": 1, "b": 0.1}', snapshots=None),
        posed(tmp_path, content='{"a": 1, "b": 0.1}', snapshots=SNAPSHOTS.reshape(2, 6)),
        questions.pose(tmp_path, 0, 8, '{"a": 1, "b": 0.1}', SNAPSHOTS),
    ]
    assert len({reference.digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("näher", "ferner"),
        lambda text: text.replace('"step": 7', '"step": 8'),
        lambda text: text.replace('"step": 7', '"step": "7"'),
        lambda text: text[:-3],
        lambda text: "[]",
        lambda text: "[" * 100_000,
    ],
)
def test_a_question_changed_by_hand_is_named_with_what_mends_it(tmp_path: Path, change: Any) -> None:
    file = posed(tmp_path).file
    file.write_text(change(file.read_text()))
    check_refused(r"questions/0\.json is not what the run wrote .* writes it anew", questions.read, tmp_path, 0)
    check_refused(r"questions/5\.json is not what the run wrote", questions.read, tmp_path, 5)


def test_snapshots_that_are_others_cut_short_or_objects_are_refused(tmp_path: Path) -> None:
    question = posed(tmp_path)
    file = question.file.with_suffix(".npy")
    stored_bytes = file.read_bytes()

    def refused() -> bool:
        check_refused(r"questions/0\.npy is not what the run wrote", question.snapshots)
        return True

    assert file.write_bytes(stored_bytes[:-2]) and refused()
    assert file.write_bytes(stored_bytes.replace(b"(4, 3)", b"(2, 6)")) and refused()
    assert file.write_bytes(stored_bytes[:-1] + b"\xff") and refused()
    np.save(file, np.array([{}], object), allow_pickle=True)
    assert refused()
    file.unlink()
    assert refused()


def test_answers_are_whole_lines_on_disk_in_the_order_given(tmp_path: Path) -> None:
    first, second = posed(tmp_path, 0), posed(tmp_path, 1)
    assert list(questions.answers(tmp_path)) == []
    for question, label in ((first, 0), (second, 0.5), (first, None)):
        questions.answer(question, label)
        assert (tmp_path / questions.ANSWERS).read_bytes().endswith(b"\n")
    rows = [(answer.line, answer.ordinal, answer.label) for answer in questions.answers(tmp_path)]
    assert rows == [(1, 0, 0), (2, 1, 0.5), (3, 0, None)]
    last = questions.latest(tmp_path)
    assert last[0, first.digest].label is None and last[1, second.digest].label == 0.5


def test_a_file_whose_last_line_an_editor_left_open_is_added_to(tmp_path: Path) -> None:
    question = posed(tmp_path)
    questions.answer(question, 1)
    path = tmp_path / questions.ANSWERS
    path.write_text(path.read_text().rstrip("\n"))
    questions.answer(question, 0)
    assert [answer.label for answer in questions.answers(tmp_path)] == [1, 0]


def test_an_answer_that_the_disk_does_not_take_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = posed(tmp_path)
    questions.answer(question, 1)
    before = (tmp_path / questions.ANSWERS).read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        questions.answer(question, 0)
    assert (tmp_path / questions.ANSWERS).read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "1",
        "{",
        '{"ordinal": 0, "digest": "x"}',
        '{"ordinal": 0, "digest": "x", "label": 3}',
        '{"ordinal": 0, "digest": "x", "label": NaN}',
        '{"ordinal": 0, "digest": "x", "label": true}',
        '{"ordinal": 0, "digest": "x", "label": "1"}',
        '{"ordinal": 0, "digest": "x", "label": [1]}',
        '{"ordinal": true, "digest": "x", "label": 1}',
        '{"ordinal": -1, "digest": "x", "label": 1}',
        '{"ordinal": 0.0, "digest": "x", "label": 1}',
        '{"ordinal": 0, "digest": 5, "label": 1}',
        '{"ordinal": 0, "digest": "x", "label": 1, "why": ""}',
        "[" * 100_000,
        "\xff\x1b[2J",
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str) -> None:
    good = json.dumps({"ordinal": 0, "digest": "x", "label": 1.0})
    (tmp_path / questions.ANSWERS).write_text(f"{good}\n\n{line}\n", encoding="latin-1")
    with pytest.raises(UserError, match=r"answers\.jsonl, line 3: expected .*mend the line, or remove it") as error:
        list(questions.answers(tmp_path))
    assert "\x1b" not in str(error.value) and len(str(error.value)) < 600
