from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.models import cassette, study_models
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.calls import ChatCall, JudgeCall, Message
from guidebench.reports.runs import calls
from tests.reports.runs.conftest import CALLS, CLIP, judge_call, record


@pytest.fixture
def study(tmp_path: Path) -> Path:
    record(tmp_path, "cell/0", CALLS)
    return tmp_path


def test_prompt_images_and_answer_of_each_kind_are_told_failures_first(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = calls.recorded(study, "cell/0")
    assert (recorded.answered, recorded.failed, recorded.left_out, recorded.notes) == (4, 1, 0, ())
    failed, clip, chat, plan, embedded = recorded.sample
    assert (failed.ordinal, failed.failure, failed.answer) == (4, "timeout", "")
    assert clip.answer == "P(yes) 0.250" and [message.role for message in clip.messages] == ["frames", "prompt"]
    assert len([part for part in clip.messages[0].parts if part.content]) == len(CLIP)
    assert "␛[31m" in clip.messages[1].parts[0].text and "\x1b" not in chat.answer
    assert [message.role for message in chat.messages] == ["system", "user"]
    assert chat.messages[1].parts[0].text == "why?" and chat.messages[1].parts[1].content
    assert '"door"' in plan.answer and embedded.answer == "2 vectors of 3 numbers"
    assert clip.took.tokens_in == 70 and clip.took.usd == 0.5 and clip.step == 0
    for directory, run in ((study, "cell/1"), (study / "absent", "cell/0")):
        assert calls.recorded(directory, run) == calls.Calls(), "calls of other runs are not shown"
    monkeypatch.setattr(calls, "PICTURES", len(png(CLIP[0])) + 10)
    clip, chat = calls.recorded(study, "cell/0").sample[1:3]
    left_out = [clip.messages[0].parts[-1].text, chat.messages[1].parts[-1].text]
    assert left_out == [f"({count} images: not kept, or no room)" for count in ("3 of 4", "1 of 1")]


def test_of_many_calls_the_first_and_the_last_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    judgements = [judge_call(number) for number in range(200)]
    failing = [(ChatCall((Message("user", (f"{number}?",)),)), None, "server") for number in range(70)]
    record(tmp_path, "cell/0", [*judgements, *failing])
    recorded = calls.recorded(tmp_path, "cell/0")
    assert [call.ordinal for call in recorded.sample] == [*range(200, 250), *range(50), *range(150, 200)]
    assert (recorded.answered, recorded.failed, recorded.left_out) == (200, 70, 120)


def test_of_a_long_clip_some_images_are_shown_and_of_a_long_text_its_beginning(tmp_path: Path) -> None:
    clip = np.repeat(CLIP, 8, axis=0) + np.arange(32, dtype=np.uint8)[:, None, None, None]
    record(tmp_path, "cell/0", [(JudgeCall(clip, "long " * 10_000), 0.5, "")])
    (call,) = calls.recorded(tmp_path, "cell/0").sample
    assert len(call.messages[0].parts) == calls.FRAMES
    assert call.messages[1].parts[0].text.endswith("(46,000 characters left out)")


LAYOUT = "is no cassette, or one of another version"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE requests SET text = replace(text, 'done', 'won')",
            "a row of answers is not what this program records",
        ),
        ("UPDATE images SET png = x'00'", "a row of answers"),
        ("UPDATE answers SET value = '7'", "'7' is no recorded answer"),
        ("UPDATE answers SET value = '{\"object\": 1e999}'", "1e999 is too large"),
        ("UPDATE answers SET seconds = 'long'", "could not convert"),
        ("UPDATE failures SET ordinal = 'last'", "a row of failures"),
        ("DELETE FROM requests", "a row of answers"),
        ("UPDATE answers SET value = zeroblob(10000000)", "too big"),
        ("CREATE TRIGGER evil AFTER INSERT ON answers BEGIN DELETE FROM answers; END", LAYOUT),
        ("CREATE VIEW evil AS SELECT 1", LAYOUT),
        ("DROP TABLE failures", LAYOUT),
    ],
)
def test_a_row_that_was_changed_is_named_and_the_rest_shown_unless_the_layout_is_another(
    study: Path, statement: str, says: str
) -> None:
    with closing(sqlite3.connect(study_models.folder(study) / cassette.MERGED)) as db, db:
        db.execute(statement)
    recorded = calls.recorded(study, "cell/0")
    assert len(recorded.sample) < 5 and any(says in note for note in recorded.notes), recorded.notes
    assert says != LAYOUT or recorded.sample == ()


def test_no_database_and_a_link_out_of_the_study_are_not_read(study: Path, tmp_path_factory) -> None:
    file = study_models.folder(study) / cassette.MERGED
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "mine.sqlite"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert calls.recorded(study, "cell/0") == calls.Calls()
    file.unlink()
    file.write_bytes(b"SQLite format 3\0 or not")
    assert "cassette" in calls.recorded(study, "cell/0").notes[0]


def test_reading_leaves_the_study_as_it_was_and_is_given_up_or_left_for_later(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = study_models.folder(study) / cassette.MERGED
    before = {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()}
    calls.recorded(study, "cell/0")
    assert {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()} == before
    record(study, "cell/0", [(ChatCall((Message("user", (f"{n}?",)),)), "yes", "") for n in range(2_000)], "2")
    monkeypatch.setattr(calls, "PATIENCE", -1.0)
    assert calls.recorded(study, "cell/0").notes == (f"{cassette.MERGED}: it could not be read within -1 s",)
    file.with_name(f"{file.name}-wal").write_bytes(b"")
    (note,) = calls.recorded(study, "cell/0").notes
    assert note == f"{file.name}: a process is writing it; its calls are shown once it has ended"
