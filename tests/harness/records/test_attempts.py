"""A run that another machine took over continues in a new attempt beside its files, and replaces them at its end."""

import os
import shutil
from pathlib import Path

import pytest

from guidebench.harness.loop import checkpoints
from guidebench.harness.records import attempts
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.study import RunDirectory

FINISHED = '{"status": "finished"}'


def files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with a checkpoint, a replay file and a log, as a lost worker left it."""
    home = tmp_path / "seed-0"
    for name in ("checkpoint-0000000100/state.json", "replay/observation.bin", ".lease/1", "metrics.jsonl", "run.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"old {name}")
    (home / ".live.json").write_text("old")
    return home


def test_an_attempt_begins_with_a_copy_and_writes_of_a_late_worker_do_not_reach_it(run: Path) -> None:
    assert attempts.begin(run, 0) == run and attempts.newest(run) == 0
    attempt = attempts.begin(run, 2)
    assert attempt == run / "attempt-2" and attempts.newest(run) == 2
    copied = {name: text for name, text in files(run).items() if not name.startswith((".", "attempt"))}
    assert files(attempt) == copied and len(copied) == 4
    (run / "metrics.jsonl").write_text("too late")
    assert (attempt / "metrics.jsonl").read_text() == "old metrics.jsonl"
    (attempt / "metrics.jsonl").write_text("new")
    assert attempts.begin(run, 2) == attempt and (attempt / "metrics.jsonl").read_text() == "new"
    assert files(attempts.begin(run, 5)) == files(attempt)


def test_a_copy_that_was_interrupted_is_no_attempt(run: Path) -> None:
    (run / ".attempt-2").mkdir()
    (run / ".attempt-2" / "half").write_text("")
    assert attempts.newest(run) == 0 and "half" not in files(attempts.begin(run, 2))


@pytest.mark.parametrize("killed_after", [0, 1, 2, 3])
def test_a_finished_attempt_is_moved_also_after_a_kill(
    run: Path, killed_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts.begin(run, 2)
    attempt = attempts.begin(run, 4)
    for name in ("checkpoint-0000000100/state.json", "replay/observation.bin", "metrics.jsonl"):
        (attempt / name).unlink()
    (attempt / "checkpoint-0000000100").rmdir()
    (attempt / "replay").rmdir()
    (attempt / "metrics.parquet").write_text("new")
    (attempt / "policy.safetensors").write_text("new")
    (attempt / "run.json").write_text(FINISHED)
    replace, calls = os.replace, iter(range(100))

    def killed(source: Path, target: Path) -> None:
        if next(calls) == killed_after:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(attempts.os, "replace", killed)
        if killed_after < 3:
            with pytest.raises(KeyboardInterrupt):
                attempts.publish(run, 4)
            assert (run / "run.json").read_text() == "old run.json"
            assert (attempts.path_of(run, attempts.newest(run)) / "run.json").read_text() == FINISHED
    assert attempts.publish(run, 4)
    assert {name: text for name, text in files(run).items() if not name.startswith(".")} == {
        "metrics.parquet": "new", "policy.safetensors": "new", "run.json": FINISHED,
    }  # fmt: skip
    assert attempts.publish(run, 0) and attempts.newest(run) == 0 and (run / ".lease" / "1").exists()


@pytest.mark.parametrize("status", ['{"status": "running"}', "[]", "{", ""])
def test_an_attempt_that_is_not_finished_or_not_the_newest_is_not_moved(run: Path, status: str) -> None:
    older, newer = attempts.begin(run, 2), attempts.begin(run, 4)
    (older / "run.json").write_text(FINISHED)
    (newer / "run.json").write_text(status)
    before = files(run)
    for number in (0, 2, 3, 4):
        assert not attempts.publish(run, number)
    assert files(run) == before
    (newer / "run.json").write_text(FINISHED)
    for number in (0, 2, 3):
        assert not attempts.publish(run, number)
    assert attempts.publish(run, 4) and files(run)["run.json"] == FINISHED


@pytest.mark.parametrize("killed_in", ["rename", "rmtree"])
def test_a_run_stays_finished_if_it_is_killed_while_an_emptied_attempt_is_deleted(
    run: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    (attempts.begin(run, 2) / "run.json").write_text(FINISHED)
    delete = shutil.rmtree

    def killed(path: Path, *arguments: object) -> None:
        if killed_in == "rename" or path.name == ".attempt-2":
            if killed_in == "rmtree":
                (path / ".publishing").unlink()  # the deletion was half done
            raise KeyboardInterrupt
        delete(path)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(*((Path, "rename", killed) if killed_in == "rename" else (shutil, "rmtree", killed)))
        attempts.publish(run, 2)
    assert (run / "run.json").read_text() == FINISHED and attempts.remain(run)
    (run / "evaluations.parquet").touch()
    assert attempts.newest(run) == 0 and RunDirectory(run).status == "finished"
    assert attempts.publish(run, 0) and not attempts.remain(run)


def test_a_run_is_moved_by_the_holder_of_its_lease_alone(run: Path) -> None:
    (attempts.begin(run, 2) / "run.json").write_text(FINISHED)
    shutil.rmtree(run / ".lease")
    lease = Lease(run, "run")
    lease.acquire()
    directory, before = RunDirectory(run), files(run)
    (run / ".lease" / "2").write_text("held{}")  # another machine took over
    with pytest.raises(Fenced):
        directory.publish(lease)
    (run / ".lease" / "2").unlink()
    assert files(run) == before
    shutil.rmtree(run / ".lease")
    last = Lease(run, "run")
    last.acquire()
    (attempts.begin(run, 3) / "run.json").write_text('{"status": "running"}')
    before = files(run)
    with pytest.raises(Fenced, match="goes on elsewhere"):
        directory.publish(last)
    assert files(run) == before
    (attempts.path_of(run, 3) / "run.json").write_text(FINISHED)
    RunDirectory(run).publish(last)
    assert not attempts.remain(run) and files(run)["run.json"] == FINISHED


def test_a_copy_keeps_the_holes_of_a_sparse_file(tmp_path: Path) -> None:
    source, target = tmp_path / "ring.bin", tmp_path / "copy.bin"
    with open(source, "wb") as file:
        file.truncate(64 * 2**20)
        file.seek(20 * 2**20)
        file.write(b"some" * 1024)
    attempts.copied(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 <= source.stat().st_blocks * 512 + 2**20
    empty = tmp_path / "empty"
    empty.touch()
    assert Path(attempts.copied(str(empty), str(tmp_path / "other"))).read_bytes() == b""


@pytest.mark.parametrize("action", ["status", "checkpoint"])
def test_a_worker_that_slept_between_its_fence_and_its_rename_changes_nothing_of_a_run_finished_meanwhile(
    run: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """The worker wakes up after another has published the run, and its temporary files are gone."""
    shutil.rmtree(run / ".lease")
    sleeper, other = Lease(run, "run"), Lease(run, "run")
    sleeper.acquire()
    directory = RunDirectory(run, sleeper)
    directory.begin(sleeper)
    (run / "run.json").write_text('{"status": "running"}')
    replace = os.replace

    def late(source: Path, target: Path) -> None:
        if Path(target).name not in ("run.json", "checkpoint-0000000200") or Path(source).parent != run:
            return replace(source, target)
        sleeper._epoch = 0  # it sleeps, so the other sees no sign of life
        (run / ".lease" / "1").write_bytes(b"over")
        monkeypatch.setattr(os, "replace", replace)
        other.acquire()
        other._attempt = 2
        (attempts.begin(run, 2) / "run.json").write_text(FINISHED)
        (run / "attempt-2" / "policy.safetensors").write_text("new")
        RunDirectory(run).publish(other)
        sleeper._epoch = 1
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises((Fenced, FileNotFoundError)):
        if action == "status":
            directory.update(step=7)
        else:
            checkpoints.save(run, 200, {"step": 200}, sleeper.fence)
    assert files(run)["run.json"] == FINISHED and not (run / "checkpoint-0000000200").exists()


def test_files_that_both_an_attempt_and_its_run_have_are_replaced_and_never_deleted(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that pauses while it deletes could delete what another has published meanwhile."""
    (attempts.begin(run, 2) / "run.json").write_text(FINISHED)
    (run / "attempt-2" / "policy.safetensors").write_text("new")
    (run / "policy.safetensors").write_text("old")
    deleted, unlink = [], Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, missing_ok=False: (deleted.append(path.name), unlink(path, missing_ok))[1]
    )
    assert attempts.publish(run, 2)
    assert "policy.safetensors" not in deleted and (run / "policy.safetensors").read_text() == "new"


def test_an_attempt_that_is_newer_than_the_published_one_is_not_deleted(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process looked for attempts when there was none yet, and then paused."""
    (run / "run.json").write_text(FINISHED)
    attempts.begin(run, 5)
    monkeypatch.setattr(attempts, "newest", lambda run: 0)
    assert attempts.publish(run, 0) and (run / "attempt-5" / "metrics.jsonl").exists()
