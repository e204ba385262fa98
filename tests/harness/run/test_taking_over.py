"""A run is trained once, by one worker at a time, also when several launchers and machines share its study."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import Notice, Stopped, UserError
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.launchers import ending
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records import attempts, leases
from guidebench.harness.records.leases import Fenced, Lease, LeaseHeld
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.run import study as studies
from guidebench.harness.run.worker import work

WORDS = (
    "method=per", "training.steps=160", "seeds=[0,1]", "evaluation.every=50", "evaluation.episodes=2",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64",
)  # fmt: skip


def runs(study: Path) -> list[Path]:
    return sorted(study.glob("*/*/per-*/seed-*"))


def rows(study: Path) -> list[bytes]:
    return [(run / "evaluations.parquet").read_bytes() for run in runs(study)]


@pytest.fixture(scope="module")
def undisturbed(train_once: Callable[..., Path]) -> Path:
    """Return a study to which nothing happened; only to be read."""
    return train_once(*WORDS, packs=[(0, 1)])


@pytest.fixture(scope="module")
def stopped_study(train_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same study, stopped at step 120, with checkpoints at 100 and 120; only to be read."""
    study = tmp_path_factory.mktemp("stopped") / "study"
    stop = (call == 120 for call in range(1, 10_000)).__next__
    with pytest.raises(Stopped):
        train_once(*WORDS, packs=[(0, 1)], checkpoint_every=50, directory=study, stop=stop)
    return study


@pytest.fixture
def lost_study(stopped_study: Path, tmp_path: Path) -> Path:
    """Return the stopped study as a machine leaves it that vanished an hour ago."""
    study = Path(shutil.copytree(stopped_study, tmp_path / "lost"))
    for run in runs(study):
        (lease,) = (run / ".lease").iterdir()
        lease.write_bytes(lease.read_bytes().replace(b"over", b"held").replace(leases.machine().encode(), b"another"))
        os.utime(lease, (lease.stat().st_atime, lease.stat().st_mtime - 3600))
        (run / "run.json").write_text((run / "run.json").read_text().replace('"stopped"', '"running"'))
    return study


def test_a_run_that_a_vanished_machine_held_goes_on_beside_what_that_machine_may_still_write(
    train: Callable[..., Path], undisturbed: Path, lost_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 0.5)
    before = {run: {path.name: path.stat().st_mtime_ns for path in run.iterdir()} for run in runs(lost_study)}
    checks: list[bool] = []

    def look() -> bool:
        for run in runs(lost_study):
            times = {path.name: path.stat().st_mtime_ns for path in run.iterdir() if path.name != "attempt-2"}
            checks.append({**before[run], ".lease": 0} == {**times, ".lease": 0} and (run / "attempt-2").is_dir())
        return False

    train(*WORDS, packs=[(0, 1)], directory=lost_study, stop=look)
    assert all(checks) and len(checks) == 2 * 39  # called at each step after 120 except the last
    assert rows(lost_study) == rows(undisturbed)
    for run, twin in zip(runs(lost_study), runs(undisturbed), strict=True):
        assert {path.name for path in run.iterdir()} == {path.name for path in twin.iterdir()}
        assert json.loads((run / "run.json").read_text())["status"] == "finished"


def test_a_run_that_another_machine_holds_is_left_to_it_and_not_marked(
    lost_study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held_run, free = runs(lost_study)
    lease_file = free / ".lease" / "1"
    lease_file.write_bytes(lease_file.read_bytes().replace(b"held", b"over"))

    def alive() -> bool:
        os.utime(held_run / ".lease" / "1")
        return False

    alive()
    before = (held_run / "run.json").read_bytes()
    monkeypatch.setattr("guidebench.harness.run.worker.SILENCE", 0.0)
    cell = json.loads((held_run.parent / "cell.json").read_text())
    job = Job("lost", str(lost_study), cell, (0, 1))
    events: list[dict[str, object]] = []
    work(job, events.append, alive)
    assert (held_run / "run.json").read_bytes() == before and not (held_run / "attempt-2").exists()
    assert json.loads((free / "run.json").read_text())["status"] == "finished"
    (notice,) = (event for event in events if event["event"] == "notice")
    assert f"run {held_run} is being written by another process (pid " in str(notice["error"])
    assert {tuple(event["seeds"]) for event in events if event["event"] == "progress"} == {(1,)}  # type: ignore[arg-type]
    with pytest.raises(LeaseHeld):
        work(job, events.append, alive)
    assert ending.record(StudyDirectory(lost_study), job, "error", "held by another") == {}
    assert (held_run / "run.json").read_bytes() == before
    assert cli.main(["status", str(lost_study)]) == 0
    assert "1 of 2 runs finished, 1 running" in capsys.readouterr().out


def test_a_worker_that_comes_when_its_runs_are_finished_trains_nothing_also_after_a_kill_while_they_were_moved(
    train: Callable[..., Path], undisturbed: Path, tmp_path: Path
) -> None:
    study = Path(shutil.copytree(undisturbed, tmp_path / "again"))
    before = {run: (run / "run.json").read_bytes() for run in runs(study)}

    def stop() -> bool:
        raise AssertionError("it took a step")

    train(*WORDS, packs=[(0, 1)], directory=study, stop=stop)
    assert {run: (run / "run.json").read_bytes() for run in runs(study)} == before
    for run in runs(study):  # as if killed when its attempt had just been emptied
        Lease(run, "run").acquire()
        (run / "attempt-2").mkdir()
        (run / "attempt-2" / ".publishing").touch()
    train(*WORDS, packs=[(0, 1)], directory=study, stop=stop)
    assert {run: (run / "run.json").read_bytes() for run in runs(study)} == before
    assert not any((run / "attempt-2").exists() for run in runs(study))


def test_a_command_tidies_and_moves_a_finished_attempt_only_if_no_worker_holds_it(
    lost_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 0.5)
    run = runs(lost_study)[0]
    cell = recorded(json.loads((run.parent / "cell.json").read_text()))
    (attempts.begin(run, 2) / "run.json").write_text('{"status": "finished"}')
    (run / "attempt-2" / "evaluations.parquet").touch()
    worker = Lease(run, "run")
    worker.acquire()
    studies._complete(run, cell, keep_replay=False)
    assert (run / "attempt-2" / "replay").is_dir() and (run / "attempt-2" / "evaluations.jsonl").exists()
    worker.release()
    studies._complete(run, cell, keep_replay=False)
    assert not attempts.remain(run) and RunDirectory(run).status == "finished"
    assert not (run / "replay").exists() and not (run / "evaluations.jsonl").exists()


def test_the_end_of_a_lost_job_is_recorded_only_by_who_obtains_the_run(lost_study: Path) -> None:
    """Another machine may take the run over and finish it while this one writes its error."""
    study, (_, run) = StudyDirectory(lost_study), runs(lost_study)
    job = Job("lost", str(lost_study), json.loads((run.parent / "cell.json").read_text()), (1,))
    holder = Lease(run, "run")
    os.utime(run / ".lease" / "1")
    assert ending.record(study, job, "crashed", "out of memory") == {}
    assert RunDirectory(run).status == "running"
    os.utime(run / ".lease" / "1", (0, 0))
    assert ending.record(study, job, "crashed", "out of memory", abandoned=True) == {}
    state = RunDirectory(run).read()
    assert (state["status"], state["error"]) == ("failed", "out of memory") and not RunDirectory(run).held()
    holder.acquire()
    assert holder.attempt == 2  # it continues in a copy, since the lost worker may still be alive


def test_a_copy_for_which_the_disk_has_no_room_is_refused_before_it_is_begun(
    train: Callable[..., Path], lost_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 0.5)
    usage, run = shutil.disk_usage(lost_study), runs(lost_study)[0]
    needed = attempts.allocated(run)
    assert needed > 2**16
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed - 1))
    with pytest.raises(
        UserError, match=r"seed-0 was lost with a machine and goes on in a copy of its files, for which"
    ):
        train(*WORDS, packs=[(0, 1)], directory=lost_study)
    assert not (run / "attempt-2").exists() and not (run / ".attempt-2").exists()
    recorded_cell = recorded(json.loads((run.parent / "cell.json").read_text()))
    plan = matrix.plan([*WORDS, "suite=minigrid_doorkey", "profile=smoke", f"output={lost_study}"])
    (cell,) = (candidate for candidate in plan.trained if candidate.directory == recorded_cell.directory)
    jobs = [Job("lost", str(lost_study), record(cell), (0, 1))]
    ring = studies.ring_bytes(cell)
    missing = sum(max(0, ring - attempts.allocated(directory / "replay")) for directory in runs(lost_study))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=missing + needed))
    with pytest.raises(UserError, match="the stored transitions need up to"):
        studies._check_disk(plan, jobs, 1, lost_study, {cell.id: 0})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=missing + 3 * needed))
    studies._check_disk(plan, jobs, 1, lost_study, {cell.id: 0})


def test_a_command_waits_for_the_silence_of_a_machine_that_had_its_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(leases, "machine", lambda: "this one before its restart")
        earlier_lease = Lease(tmp_path, "study")
        earlier_lease.acquire()
        earlier_lease._epoch = 0  # killed: it gives no sign of life and releases nothing
    (tmp_path / "study.json").write_text('{"schema": 0, "cells": {}}')  # an error once the lease is held
    plan = matrix.plan([*WORDS, "suite=minigrid_doorkey", f"output={tmp_path}"])
    monkeypatch.setattr(studies, "name_of", lambda plan: "mine")
    with pytest.warns(Notice, match="last sign of life . s ago"), pytest.raises(UserError, match="has schema 0"):
        studies.carry_out(plan)


def test_a_worker_that_lost_its_run_writes_no_checkpoint_and_no_status(
    train: Callable[..., Path], stopped_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Path(shutil.copytree(stopped_study, tmp_path / "fenced"))
    calls = iter(range(1, 10_000))

    def stop() -> bool:
        if next(calls) == 20:  # while it slept another machine took the next epoch of seed 1
            (runs(study)[1] / ".lease" / "3").write_bytes(b"held{}")
            monkeypatch.setattr(leases, "LATE", 0.0)
        return False

    before = (runs(study)[1] / "run.json").read_text().replace('"stopped"', '"running"')
    with pytest.raises(Fenced, match=r"the run .*seed-1 was taken over by another process"):
        train(*WORDS, packs=[(0, 1)], directory=study, checkpoint_every=50, stop=stop)
    first, second = runs(study)
    assert [checkpoints.step_of(path) for path in checkpoints.existing(second)] == [100, 120]
    now = json.loads((second / "run.json").read_text())
    assert now["status"] == "running" and now["step"] == json.loads(before)["step"] == 120
    assert json.loads((first / "run.json").read_text())["status"] == "stopped"
