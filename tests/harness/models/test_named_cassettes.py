"""A cassette that `models.cassette` names is checked once, and again when it has changed."""

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.identity import digests
from guidebench.harness.models import named_cassettes, study_models
from guidebench.harness.models.calls import Answer, ChatCall, Message, Ticket, Usage
from guidebench.harness.models.cassette import MERGED, Cassette, CassetteEntry, merge


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a study with one recorded answer; a file may be remembered however lately it has changed."""
    cassette = Cassette([], tmp_path / "study/models/shard-0.sqlite")
    call_request = ChatCall((Message("user", ("open?",)),)).request({"model": "tiny"}, None)
    cassette.record(CassetteEntry(call_request, Ticket("cell/0", 0, 0), "tiny", Answer("yes", ""), {}, Usage()))
    cassette.close()
    merge(tmp_path / "study/models")
    monkeypatch.setattr(digests, "FRESH", -1.0)
    return tmp_path / "study"


def checked_paths(named: Path) -> list[Path]:
    """Return which files are checked where a study names `named`."""
    paths: list[Path] = []
    call = reader_process.call

    def noted(description, seconds, function, *args):  # type: ignore[no-untyped-def]
        paths.extend(args[0])
        return call(description, seconds, function, *args)

    with patch.object(reader_process, "call", noted):
        assert named_cassettes.files(named) == [named / "models" / MERGED]
    return paths


def test_a_file_that_passed_is_checked_again_only_when_it_has_changed(study: Path) -> None:
    merged = study / "models" / MERGED
    assert checked_paths(study) == [merged] and checked_paths(study) == []
    os.utime(merged, ns=(0, 0))
    assert checked_paths(study) == [merged]
    pending = merged.with_name(f"{MERGED}-wal")
    pending.touch()
    assert checked_paths(study) == []
    pending.write_bytes(b"a process may be writing it")
    assert named_cassettes._state(merged) == ""


def test_calls_of_a_kind_that_is_not_installed_are_passed_over(study: Path) -> None:
    text = json.dumps({"kind": "elsewhere", "model": {}})
    with closing(sqlite3.connect(study / "models" / MERGED)) as db:
        db.execute("INSERT INTO requests VALUES (?, ?)", (hashlib.sha256(text.encode()).hexdigest(), text))
        db.commit()
    assert checked_paths(study) == [study / "models" / MERGED]


def test_a_row_that_is_not_ours_is_refused_with_what_to_do_each_time(study: Path) -> None:
    with closing(sqlite3.connect(study / "models" / MERGED)) as db:
        db.execute("UPDATE answers SET value = '2.0'")
        db.commit()
    for _ in range(2):
        with pytest.raises(UserError, match=r"row 1 of answers is not what .*; nothing of it is used: ask for another"):
            named_cassettes.files(study)


def test_several_are_named_with_commas_and_the_missing_one_is_said(study: Path, tmp_path: Path) -> None:
    merged = study / "models" / MERGED
    other, comma = tmp_path / "other.sqlite", tmp_path / "a,b.sqlite"
    for copied in (other, comma):
        copied.write_bytes(merged.read_bytes())
    assert study_models.named_sources(Models(cassette=f"{other},{study}, {other}")) == [other, merged]
    assert study_models.named_sources(Models(cassette=str(comma))) == [comma], "a path may hold a comma"
    with pytest.raises(UserError, match=r"models\.cassette=\S+/nowhere: no recorded calls there"):
        study_models.named_sources(Models(cassette=f"{other},{tmp_path}/nowhere"))
