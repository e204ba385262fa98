"""`bench status` prints one line for each run and names damaged files of a study."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.identity.cells import write_cell
from guidebench.harness.launchers import job_files
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import LIVE, StudyDirectory
from guidebench.harness.run import study as execution

CELL = "suite/task/method-c0ffee"
RUN = f"{CELL}/seed-0"


@pytest.fixture
def held_study(tmp_path: Path) -> Iterator[Path]:
    """Return the directory of a study with one run, whose lease this process holds."""
    root = tmp_path / "study"
    study = StudyDirectory(root)
    study.write("mine", [], {"c0ffee": {"directory": CELL, "seeds": [0], "label_variant": ""}})
    run = study.run(CELL, 0)
    run.path.mkdir(parents=True)
    (root / CELL / "cell.json").write_text(json.dumps({"steps": 10}))
    (run.path / "ledger.jsonl").write_text("{}\n")
    run.update(status="running", step=5, steps=10)
    lease = Lease(run.home, "run")
    lease.acquire()
    run.show(rate=3.0)
    job_files.put(root, Job("mine", str(root), {"suite": "s", "task": "t", "method": "m", "cell": "c0ffee"}, (0,)))
    yield root
    lease.release()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("study.json", "study.json cannot be read as JSON"),
        (f"{RUN}/run.json", "run.json cannot be read as JSON"),
        (f"{CELL}/cell.json", "5 of 10"),
        (f"{RUN}/ledger.jsonl", "5 of 10"),
        (f"{RUN}/{LIVE}", "5 of 10"),
    ],
)
def test_a_fifo_in_place_of_a_record_is_told_and_not_waited_for(
    held_study: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    path = held_study / name
    assert path.is_file(), "it is a record of this study"
    path.unlink()
    os.mkfifo(path)
    signal.alarm(60)
    try:
        cli.main(["status", str(held_study)])
    finally:
        signal.alarm(0)
    captured = capsys.readouterr()
    assert says in captured.out + captured.err


def study(directory: Path, *words: str) -> StudyDirectory:
    """Return a study of smoke runs that have not begun."""
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", *words])
    home = StudyDirectory(directory)
    seeds = {"seeds": [*plan.seeds], "label_variant": ""}
    home.write("mine", [], {cell.id: {"directory": cell.directory, **seeds} for cell in plan.cells})
    for cell in plan.cells:
        write_cell(home, cell)
    return home


def test_an_evaluation_that_asks_models_shows_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((_, run),) = study(tmp_path, "seeds=1").runs()
    lease = Lease(run.home, "run")
    lease.acquire()
    try:
        run.update(status="running", step=0, steps=600)
        run.show(step=300, rate=None, phase="evaluation", score=None, answers={"questions": 1_240, "failures": 3})
        assert cli.main(["status", str(tmp_path)]) == 0
    finally:
        lease.release()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  seed 0")]
    assert "300 of 600  evaluation  1,237 answers" in line and "silent" not in line and len(line) <= 80


def test_a_study_whose_rows_were_deleted_is_not_finished_and_the_same_command_trains_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = study(tmp_path, "seeds=2")
    for _, run in home.runs():
        run.update(status="finished", step=600, steps=600, seed=int(run.home.name[-1]))
        (run.path / "evaluations.parquet").touch()
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "seeds=2", f"output={tmp_path}"])
    assert execution.look(plan).finished and results.study(tmp_path).runs[0].status == "finished"

    (rows_file, _) = tmp_path.rglob("evaluations.parquet")
    rows_file.unlink()
    assert cli.main(["status", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 runs finished, 1 failed" in out and "its evaluations.parquet was deleted: restore it, or type" in out
    for view in (execution.look(plan), results.study(tmp_path)):
        (failed,) = [run for run in view.runs if run.status == "failed"]
        assert "evaluations.parquet was deleted" in str(failed.error) and repr(view).count("deleted") == 1
    assert [cell.id for cell in execution._unfinished(plan, home)] == [plan.cells[0].id]
