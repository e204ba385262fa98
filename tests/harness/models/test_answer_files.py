"""Answers come back from their file exactly as they were given, and a stranger's file is checked before it is used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.harness.interfaces import Question
from guidebench.harness.models import answer_files, answer_records
from guidebench.harness.models.calls import (
    Call,
    ChatCall,
    ChoiceCall,
    EmbedCall,
    JudgeCall,
    Message,
    SegmentCall,
    VideoCall,
)
from guidebench.harness.models.calls.segment import mask_json
from guidebench.harness.records.answers import FILE, QUESTION, AnswerRecord, schema, write_records
from tests.refusals import check_refused

GENERATOR = np.random.default_rng(0)
FORM = {"type": "object", "properties": {"goals": {"type": "array"}}}
CHAT = ChatCall((Message("user", ("Which?",)),))
ANSWERS: dict[str, tuple[Call, Any]] = {
    "a judgement": (JudgeCall.small(), 0.1 + 0.2),
    "a label in words": (CHAT, "1: the second arm\u2028\U0001f600"),
    "goals": (ChatCall(CHAT.messages, FORM), {"goals": ["drink water", 3, None, 1e-300]}),
    "vectors of texts": (EmbedCall(("a", "b")), GENERATOR.normal(size=(2, 5)).astype(np.float32)),
    "the vector of a video": (VideoCall.small(), GENERATOR.normal(size=5).astype(np.float32)),
    "a choice": (
        ChoiceCall(CHAT.messages, "Colour:", (" red\u2028", " blue")),
        np.array([[-0.5, -0.25, 1], [-3, 0, 2]], np.float32),
    ),
    "masks": (SegmentCall.small(), [mask_json(np.eye(64, dtype=bool), 0.25, "thing")]),
}
WHOLE_ANSWERS: dict[str, Any] = {
    "waypoints": {"grasp": 1, "target": 2, "waypoints": [[0.1, 0.2, 0.3]], "blocks": [[[0, 1], None]], "retries": 0},
    "an action": {"action": "move forward", "faults": [], "said": ""},
    "successes": np.array([0, 1, 1], np.float32),
}


def about(content: str = "", snapshots: Any = None, to: str = "planner") -> Question:
    return Question(0, np.zeros(1, np.int64), snapshots, np.zeros((1, 0), bool), content, to)


def test_every_kind_of_answer_comes_back_exactly(tmp_path: Path) -> None:
    made = {
        **{name: answer_records.of_call("m", "0" * 64, call, answer) for name, (call, answer) in ANSWERS.items()},
        **{name: answer_records.of_question(about(name), answer) for name, answer in WHOLE_ANSWERS.items()},
    }
    write_records(tmp_path / FILE, made.values())
    answers = {name: answer for name, (_, answer) in ANSWERS.items()} | WHOLE_ANSWERS
    for record, (name, answer) in zip(answer_files.read(tmp_path / FILE), answers.items(), strict=True):
        restored = answer_files.value_of(record)
        assert record == made[name] and type(restored) is type(answer), name
        if isinstance(answer, np.ndarray):
            assert restored.dtype == answer.dtype and np.array_equal(restored, answer), name
        else:
            assert restored == answer, name


def test_a_question_has_one_digest_whoever_answers_it() -> None:
    """What an oracle is told, sampling settings and a judge's prompt are no part of it; pictures and words are."""
    snapshots = np.arange(6, dtype=np.uint8).reshape(2, 3)
    digest = answer_records.question_digest(about("{}", snapshots))
    shown_more = about("{}", snapshots)._replace(events=np.ones((1, 3), bool), measures=np.ones((1, 2)), to="critic")
    assert answer_records.question_digest(shown_more) == digest
    assert answer_records.question_digest(about("{}", snapshots.reshape(3, 2))) != digest
    assert answer_records.question_digest(about("[]", snapshots)) != digest
    other = ChatCall((Message("user", ("Why?",)),))
    assert answer_records.call_digest(CHAT) != answer_records.call_digest(other)
    assert answer_records.call_digest(ChatCall(CHAT.messages, aim="plan")) == answer_records.call_digest(CHAT)


def judgements(*answers: float, role: str = "judge", first: int = 0) -> list[AnswerRecord]:
    digests = [f"{number:064x}" for number in range(first, first + len(answers))]
    return [
        AnswerRecord(role, digest, digest, "judge", json.dumps(x)) for digest, x in zip(digests, answers, strict=True)
    ]


def test_a_digest_is_of_the_answers_and_not_of_the_files_that_hold_them(tmp_path: Path) -> None:
    study = tmp_path / "study"
    for seed, answers in enumerate((judgements(0.0, 1.0), judgements(0.5, first=2))):
        (run := study / "suite/task/method-0" / f"seed-{seed}").mkdir(parents=True)
        write_records(run / FILE, [*answers, *judgements(1.0, role="critic", first=9)])
    write_records(tmp_path / FILE, [*judgements(0.0, 1.0, 0.5)[::-1], *judgements(0.5, role="critic")])
    of_study, of_file = answer_files.summary(str(study)), answer_files.summary(str(tmp_path / FILE))
    assert of_study is not None and of_file is not None
    assert of_study["judge"] == of_file["judge"] and of_study["judge"].questions == 3
    assert of_study["critic"].digest != of_file["critic"].digest
    assert answer_files.summary(str(study.parent / "nothing")) is None
    write_records(tmp_path / FILE, judgements(0.0, 0.5, 1.0))
    changed = answer_files.summary(str(tmp_path / FILE))
    assert changed is not None and changed["judge"].digest != of_study["judge"].digest, "given to other questions"


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "no role": ("is no role", {"role": "../judge"}),
    "no digest": ("no SHA-256", {"call": "x"}),
    "no kind": ("no kind of call", {"kind": "telepathy"}),
    "nothing": ("a value is missing", {"answer": None}),
    "beyond its range": ("none to a call of kind 'judge'", {"answer": "1.5"}),
    "not finite": ("none to a call of kind 'judge'", {"answer": "NaN"}),
    "nested deep": ("none to a call of kind 'question'", {"kind": QUESTION, "answer": "[" * 100_000}),
    "bytes beside JSON": ("it has the bytes of an array", {"data": b"\0" * 4}),
    "an array without bytes": ("not kept", {"kind": "embed", "answer": '{"array":"float32","shape":[1,2]}'}),
    "a vast array": (
        "expected 17,592,186,044,416 bytes",
        {"kind": "embed", "answer": '{"array":"float32","shape":[2097152,2097152]}', "data": b"\0" * 8},
    ),
    "a row without a candidate": (
        "does not name each of its rows once",
        {"kind": "choice", "answer": '{"array":"float32","shape":[1,3],"options":[]}', "data": b"\0" * 12},
    ),
    "an array of objects": (
        "no array of floats", {"kind": QUESTION, "answer": '{"array":"object","shape":[1]}', "data": b"\0" * 8}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_with_an_answer_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    expected, changes = HOSTILE[name]
    rows = [record._asdict() for record in judgements(0.5, 0.25)]
    pq.write_table(pa.Table.from_pylist([rows[0], rows[1] | changes], schema=schema()), tmp_path / FILE)
    check_refused(expected, answer_files.read, tmp_path / FILE)


def test_a_file_of_other_columns_or_of_vast_texts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"step": [1]}), tmp_path / FILE)
    check_refused("it has the columns step", answer_files.read, tmp_path / FILE)
    monkeypatch.setattr(answer_files, "MOST_BYTES", 2**20)
    texts = [record._replace(answer='"' + "a" * 10_000 + '"') for record in judgements(*[0.0] * 200)]
    write_records(tmp_path / FILE, texts)
    assert (tmp_path / FILE).stat().st_size < 2**16, "one text, and 200 numbers of it"
    check_refused("its answers take", answer_files.read, tmp_path / FILE)
    monkeypatch.setattr(answer_files, "MOST_ROWS", 3)
    write_records(tmp_path / FILE, judgements(*[0.0] * 4))
    check_refused("has 4 answers; at most 3", answer_files.read, tmp_path / FILE)


def test_files_of_a_directory_that_is_no_study_are_not_searched_for(tmp_path: Path) -> None:
    (deep := tmp_path / "a/b/c/d/e").mkdir(parents=True)
    write_records(deep / FILE, judgements(0.5))
    located: Callable[[str], list[Path]] = answer_files.located
    assert located(str(tmp_path)) == [] and located(str(deep)) == [deep / FILE] == located(str(deep / FILE))
