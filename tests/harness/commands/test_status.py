"""`bench status` says in a line what a run does, also while an evaluation waits for answers of a model."""

from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.identity.cells import write_cell
from guidebench.harness.plan import matrix
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study as execution


def study(directory: Path, *words: str) -> StudyDirectory:
    """A study of smoke runs, none of which has begun."""
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", *words])
    home = StudyDirectory(directory)
    seeds = {"seeds": [*plan.seeds], "label_variant": ""}
    home.write("mine", [], {cell.id: {"directory": cell.directory, **seeds} for cell in plan.cells})
    for cell in plan.cells:
        write_cell(home, cell)
    return home


def test_an_evaluation_that_asks_models_shows_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = study(tmp_path, "seeds=1")
    ((_, run),) = home.runs()
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

    (lost, _) = tmp_path.rglob("evaluations.parquet")
    lost.unlink()
    assert cli.main(["status", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 runs finished, 1 failed" in out and "its evaluations.parquet was deleted: restore it, or type" in out
    for found in (execution.look(plan), results.study(tmp_path)):
        (failed,) = [run for run in found.runs if run.status == "failed"]
        assert "evaluations.parquet was deleted" in str(failed.error) and repr(found).count("deleted") == 1
    assert [cell.id for cell in execution._unfinished(plan, home)] == [plan.cells[0].id]
