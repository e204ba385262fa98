"""Answers that earlier re-evaluations of a run have recorded are checked before they are read."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.models.cassette import MERGED
from guidebench.harness.models.cassette_file import create
from guidebench.harness.playback import eval_answers


def test_own_answers_beyond_a_limit_are_named_as_that_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "eval/models" / MERGED
    create(file)
    assert eval_answers.check(tmp_path, Models(mode="replay"))
    with closing(sqlite3.connect(file)) as db:
        db.execute("INSERT INTO images VALUES ('0', zeroblob(70000000))")
        db.commit()
    with pytest.raises(UserError) as refused:
        eval_answers.check(tmp_path, Models(mode="replay"))
    assert str(refused.value) == (
        f"{file} holds a value of more than 64.0 MiB among its images, the most that is read of a recorded call; it "
        f"holds the answers that `bench eval` has recorded for this run: delete it, and models.mode=record asks for "
        f"them again"
    )
