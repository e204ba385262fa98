"""A study that is read while it is written: by hand, one file at a time."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import reader_process
from guidebench.harness.records import schema
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import RunDirectory
from guidebench.results import row_log
from guidebench.results.following import Following
from tests.reports.conftest import IDENTITY, Writer, edit, write_rows

Row = dict[str, Any]


def row(step: int, episode: int, success: bool = True, *, cell: str = "a", seed: int = 0, **more: Any) -> Row:
    outcome = {"return": 0.5 * success, "success": success, "length": 10, **more}
    named = {"study": "s", "cell": cell, **IDENTITY, "seed": seed, "step": step, "episode": episode, **outcome}
    return {name: named[name] for name in (*schema.EVALUATION, *(set(named) - set(schema.EVALUATION)))}


def append(log: Path, *rows: Row | str) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write("".join(row_ if isinstance(row_, str) else json.dumps(row_) + "\n" for row_ in rows))


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Following]:
    with Following(tmp_path / "study") as followed:
        yield followed


@pytest.fixture
def log(writer: Writer) -> Path:
    """Write the evaluation log of an unfinished run, with two episodes of one evaluation; return its path."""
    writer.cell("a", {0: {100: [0, 1]}}, status={0: "stopped"})
    return writer.finish() / "grid/8x8/uer-a/seed-0/evaluations.jsonl"


@pytest.fixture
def in_process() -> Iterator[None]:
    """Let this process do what the separate process does otherwise, so that a test can patch it."""
    reader_process._INSIDE.set()
    yield
    reader_process._INSIDE.clear()


@pytest.fixture
def reads(in_process: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the number of bytes of each read of a growing log is appended."""
    sizes: list[int] = []
    pread = os.pread

    def counting(*args: int) -> bytes:
        block = pread(*args)
        sizes.append(len(block))
        return block

    monkeypatch.setattr(row_log.os, "pread", counting)
    return sizes


def curve(following: Following, seed: int = 0) -> dict[int, float]:
    scores = following.curves["a"][seed]
    return dict(zip(scores.steps.tolist(), scores.scores.tolist(), strict=True))


def curve_after_look(following: Following) -> dict[int, float]:
    """Look at the study again; return the curve of the run."""
    following.look()
    return curve(following)


def test_a_study_that_does_not_exist_yet_is_there_once_it_is_written(following: Following, writer: Writer) -> None:
    assert following.look() == set() and following.study is None
    assert following.faults == [f"{writer.directory} does not exist yet"]
    writer.directory.mkdir()
    following.look()
    assert following.faults == [f"{writer.directory} has no study.json yet"]
    writer.cell("a", {0: {100: [1, 1]}}, planned=[0, 1])
    writer.finish()
    assert following.look() == {"a"} and following.study is not None
    assert [run.status for run in following.study.runs] == ["finished", "waiting"]
    assert curve(following) == {100: 1.0} and following.faults == []


def test_only_new_lines_are_read(following: Following, log: Path, reads: list[int]) -> None:
    following.look()
    before = log.stat().st_size
    assert curve(following) == {100: 0.5} and sum(reads) == before
    reads.clear()
    assert following.look() == set() and reads == []
    append(log, row(200, 0), row(200, 1))
    assert following.look() == {"a"} and curve(following) == {100: 0.5, 200: 1.0}
    assert sum(reads) <= log.stat().st_size - before + row_log.TAIL


def test_a_half_written_line_counts_when_it_is_whole_and_a_log_that_a_resumed_run_truncates_is_read_again(
    following: Following, log: Path, in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    following.look()
    line = json.dumps(row(200, 0, False)) + "\n"
    append(log, line[:40])
    assert curve_after_look(following) == {100: 0.5} and following.faults == []
    append(log, line[40:], row(200, 1, False))
    assert curve_after_look(following) == {100: 0.5, 200: 0.0}
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    append(log, row(200, 0, True), row(200, 1, True), row(300, 0, True))  # longer than what was read
    assert curve_after_look(following) == {100: 0.5, 200: 1.0, 300: 1.0}
    monkeypatch.setattr(row_log, "LONGEST", 100)
    append(log, "x" * 101)
    assert curve_after_look(following) == {100: 0.5, 200: 1.0, 300: 1.0}, (
        "a line without an end is not waited for forever"
    )
    assert "row 6: a line of more than 100 bytes" in following.faults[0]


def test_a_large_log_is_read_in_parts(
    following: Following, log: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_log, "CHUNK", 600)
    append(log, *(row(step, episode) for step in (200, 300, 400) for episode in (0, 1)))
    looks = 0
    while following.look():
        looks += 1
    assert looks > 2 and max(reads) <= 600 and curve(following) == {100: 0.5, 200: 1.0, 300: 1.0, 400: 1.0}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("\x00\x01\x02\n", "row 3: not JSON"),
        ("[1]\n", "row 3: '[1]'; expected a JSON object"),
        ("[" * 10_000 + "\n", "row 3: not JSON"),
        ({**row(200, 0), "success": 1}, "row 3, column 'success': 1; expected"),
        (row(-1, 0), "row 3, column 'step': -1"),
        (row(200, 0, extra=1), "row 3: unknown column 'extra'"),
        (row(200, 0, cell="b"), "row 3, column 'cell': 'b', but it lies in the directory of cell 'a'"),
        (row(100, 0), "row 3: episode 0 of step 100 is there twice"),
        ('{"return": NaN}\n', "row 3: lacks the column 'study'"),
    ],
)
def test_a_damaged_line_ends_the_reading_of_its_run_alone(
    following: Following, log: Path, writer: Writer, wrong: Row | str, says: str
) -> None:
    writer.cell("other", {0: {100: [1]}}, method="per")
    writer.finish()
    append(log, wrong, row(300, 0))
    assert curve_after_look(following) == {100: 0.5} and "other" in following.curves
    assert len(following.faults) == 1 and says in following.faults[0] and str(log) in following.faults[0]
    append(log, row(400, 0))
    assert following.look() == set() and curve(following) == {100: 0.5}
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    following.look()
    assert following.faults == [] and curve(following) == {100: 0.5}


def test_one_damaged_parquet_file_of_many_is_left_out(following: Following, writer: Writer) -> None:
    writer.cell("a", {seed: {100: [seed % 2]} for seed in range(5)})
    (writer.finish() / "grid/8x8/uer-a/seed-3/evaluations.parquet").write_bytes(b"PAR1 and no more PAR1")
    following.look()
    assert sorted(following.curves["a"]) == [0, 1, 2, 4] and "seed-3" in following.faults[0]
    write_rows(writer.directory / "grid/8x8/uer-a/seed-3", "evaluations", [{**row(100, 0, seed=3)}], parquet=True)
    (writer.directory / "grid/8x8/uer-a/seed-3/run.json").touch()
    assert following.look() == {"a"} and following.faults == [] and curve(following, 3) == {100: 1.0}


@pytest.mark.parametrize("file", ["study.json", "grid/8x8/uer-a/cell.json", "grid/8x8/uer-a/seed-0/run.json"])
def test_a_damaged_record_keeps_what_was_read_before(
    following: Following, log: Path, writer: Writer, file: str
) -> None:
    following.look()
    before, path = following.study, writer.directory / file
    record_bytes = path.read_bytes()
    path.write_bytes(record_bytes[: len(record_bytes) // 2])
    following.look()
    assert following.study is not None and before is not None and file in following.faults[0]
    assert [run.directory for run in following.study.runs] == [run.directory for run in before.runs]
    assert curve(following) == {100: 0.5}
    path.write_bytes(record_bytes)
    following.look()
    assert following.faults == []


def test_the_rows_of_a_run_that_ends_are_read_from_its_parquet_file(
    following: Following, log: Path, writer: Writer
) -> None:
    following.look()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    write_rows(log.parent, "evaluations", [*rows, row(200, 0), row(200, 1)], parquet=True)
    log.unlink()
    edit(log.parent / "run.json", status="finished")
    assert following.look() == {"a"} and curve(following) == {100: 0.5, 200: 1.0}


def test_a_separate_process_that_was_killed_is_replaced_and_reads_the_log_again(
    following: Following, log: Path
) -> None:
    assert curve_after_look(following) == {100: 0.5}
    os.kill(following._reader.pid, signal.SIGKILL)
    append(log, row(200, 0), row(200, 1))
    assert following.look() == {"a"} and curve(following) == {100: 0.5, 200: 1.0} and following.faults == []


def test_one_process_reads_and_a_look_at_what_has_not_changed_asks_nothing(following: Following, log: Path) -> None:
    following.look()
    process = following._reader.pid
    append(log, row(200, 0))
    following.look()
    assert following._reader.pid == process
    os.kill(process, signal.SIGSTOP)
    try:
        assert following.look() == set()
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_run_in_training_says_where_it_is_and_a_killed_one_is_stopped(following: Following, log: Path) -> None:
    edit(log.parent / "run.json", status="running")
    following.look()
    assert following.study is not None and following.study.runs[0].status == "stopped"
    lease = Lease(log.parent, "run")
    lease.acquire()
    RunDirectory(log.parent).show(step=150, rate=12.5, waited=0.0, phase="", score=0.5)
    following.look()
    assert following.study.runs[0].status == "running"
    (live,) = following.live.values()
    assert (live.step, live.rate, live.score) == (150, 12.5, 0.5)
    lease.release()
    following.look()
    assert following.study.runs[0].status == "stopped" and following.live == {}


def test_a_deleted_study_is_gone_and_a_new_one_in_its_place_is_read(
    following: Following, log: Path, writer: Writer
) -> None:
    following.look()
    (writer.directory / "study.json").unlink()
    following.look()
    assert following.study is None and following.curves == {}
    writer.finish("again")
    following.look()
    assert following.study is not None and following.study.name == "again" and curve(following) == {100: 0.5}
