"""How a command stands is read from what it printed, and a study is looked at while its files change."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.chaos import carrying_out


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("started\n/tmp/study: 2 stopped\n\nevery one of 2 questions had a usable answer\n", "/tmp/study: 2 stopped"),
        ("started\n/tmp/study: 2 stopped\n/tmp/study: 2 finished\n", "/tmp/study: 2 finished"),
        ("bench: the disk is full\n\n", "bench: the disk is full"),
        ("", ""),
    ],
)
def test_a_remark_is_how_the_study_stands_or_else_the_last_line(output: str, says: str) -> None:
    assert carrying_out.remark(output, Path("/tmp/study")) == says


def test_a_directory_that_goes_while_it_is_looked_at_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "seed-0" / "checkpoint-8"
    checkpoint.mkdir(parents=True)
    (tmp_path / "seed-0" / "run.json").write_text("0123")
    scandir = os.scandir

    def going(path: Any) -> Iterator[Any]:
        if Path(path) == checkpoint:
            checkpoint.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", going)
    size, _ = carrying_out._state(tmp_path)
    assert size == 4 and not checkpoint.exists()
