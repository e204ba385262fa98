"""`bench submit` as a person meets it."""

import re
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.results import submissions
from tests.results.submissions.conftest import manifest_of, study, trained

__all__ = ["study", "trained"]


def test_the_command_describes_the_archive_and_the_next_steps(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["submit", str(trained), "--by", "A. Reader", "--contact", "reader@example.org"]) == 0
    output = capsys.readouterr().out
    assert re.match(r"cartpole\.zip: [\d.]+ KiB, 10 files\n", output)
    assert "2 of 2 finished, of 1 cell" in output and "verifiable  yes" in output
    assert "bench leaderboard --add cartpole.zip" in output and "bench verify cartpole.zip" in output
    assert manifest_of(tmp_path / "cartpole.zip").contact == "reader@example.org"
    assert submissions.add(tmp_path / "cartpole.zip", tmp_path / "board").is_dir()


def test_the_command_names_what_is_left_out_and_what_cannot_be_verified(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(study.glob("*/*/*/seed-1/run.json"))
    run.write_text(run.read_text().replace('"finished"', '"failed"'))
    assert cli.main(["submit", str(study), "--output", str(tmp_path / "a.zip"), "--no-checkpoints"]) == 0
    output = capsys.readouterr().out
    assert "1 of 2 finished" in output and "verifiable  no" in output
    assert "left out: the rows of" in output and "can never be verified" in output


def test_mistakes_are_told_before_work_starts(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        ([str(tmp_path / "nothing")], "no study at"),
        ([str(trained), "--push", "board"], "is no dataset repository"),
        ([str(trained), "--by", "x" * 300], "by does not fit the schema"),
        ([str(trained), "--by", "a\x1bb"], "control characters"),
    ):
        assert cli.main(["submit", *words, "--output", str(tmp_path / "a.zip")]) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "a.zip").exists()
