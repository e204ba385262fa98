"""What goes wrong around a run is reported on one screen, loses no finished run, and changes no byte of the rows."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import Notice, Stopped, UserError
from guidebench.harness.loop import checkpoints
from guidebench.harness.records.leases import Lease

SMOKE = ("suite=minigrid_doorkey", "profile=smoke", "report=false")
TINY = (
    "evaluation.every=50", "evaluation.episodes=2", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=64",
)  # fmt: skip
FAULTY = """
    import os, signal
    from dataclasses import dataclass
    from pathlib import Path
    from typing import ClassVar

    from guidebench.baselines.replay.uer import UerSampler
    from guidebench.harness.recipes import Method
    from guidebench.harness.parts import ReplayPart
    from guidebench.harness.registry import register

    @register.replay("faulty")
    @dataclass(frozen=True)
    class Faulty(ReplayPart):
        '''Uniform until step `at`; then it raises for seed 1, or kills its process once.'''
        version: ClassVar[int] = 1
        at: int = 140
        kills: bool = False

        def spawn(self, build):
            return Sampler(self, build.seeds)

    class Sampler(UerSampler):
        def __init__(self, config, seeds):
            self.config, self.seeds = config, seeds

        def draw(self, count, moment):
            if moment.step >= self.config.at:
                marker = Path(os.environ.get("FAULTY_MARKER", "/nowhere"))
                if self.config.kills and not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                if not self.config.kills and 1 in self.seeds:
                    raise ValueError("no batch today")
            return super().draw(count, moment)

    register.method("faulty")(Method(summary="fails", replay="faulty"))
"""


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function: `bench(*overrides)` runs `bench run` with real workers and returns (exit code, stdout,
    stderr)."""

    def run(*overrides: str) -> tuple[int, str, str]:
        return (cli.main(["run", *SMOKE, *overrides]), *capsys.readouterr())

    return run


def rows(study: Path) -> dict[str, bytes]:
    return {str(path.relative_to(study)): path.read_bytes() for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


def only(study: Path, pattern: str) -> Path:
    (match,) = study.glob(pattern)
    return match


def test_a_worker_that_crashes_is_retried_once_told_with_its_traceback_and_the_others_finish(
    plugin, bench, tmp_path: Path
) -> None:
    plugin("faulty", FAULTY, {"replay": "faulty", "method": "faulty"})
    study = tmp_path / "study"
    code, out, err = bench("method=faulty", "seeds=2", "training.steps=160", *TINY, f"output={study}")
    assert code == 1 and err == ""
    assert "study: 1 failed, 1 finished" in out
    crashes = [line for line in out.splitlines() if "crashed" in line]
    assert len(crashes) == 2 and all(line.endswith("no batch today") or "retried once" in line for line in crashes)
    log = only(study, "logs/faulty-*-1.log")
    assert f"whole error in {log}" in crashes[0]
    summary = out.split("study: 1 failed")[1]
    assert "seed 1 failed" in summary and "ValueError: no batch today" in summary and "in draw" in summary
    assert len(summary.splitlines()) <= 24
    assert log.read_text().count("ValueError: no batch today") == 2
    run = json.loads(only(study, "*/*/faulty-*/seed-1/run.json").read_text())
    assert run["status"] == "failed" and run["error"].endswith("ValueError: no batch today")
    assert len(rows(study)) == 1
    # The same command given again reports the failure again and trains no finished run.
    code, out, _ = bench("method=faulty", "seeds=2", "training.steps=160", *TINY, f"output={study}")
    assert code == 1 and out.count(": started") == 2 and out.count("seed 1: started") == 2


def test_a_worker_that_is_killed_once_continues_from_its_checkpoint_and_changes_no_byte(
    plugin, bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("faulty", FAULTY, {"replay": "faulty", "method": "faulty"})
    monkeypatch.setenv("FAULTY_MARKER", str(tmp_path / "marker"))
    command = ("method=faulty", "replay.kills=true", "seeds=1", "training.steps=160", "checkpoint_every=60", *TINY)
    code, out, _ = bench(*command, f"output={tmp_path / 'killed'}")
    assert code == 0 and "1 finished" in out
    (crash,) = (line for line in out.splitlines() if "crashed" in line)
    assert "retried once: the worker was killed (SIGKILL), by the system if memory ran out" in crash
    assert "resumed at step 120" in out
    code, out, _ = bench(*command, f"output={tmp_path / 'whole'}")
    assert code == 0 and "crashed" not in out
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole") != {}


def test_errors_of_many_runs_fit_on_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from guidebench.harness.commands import run_
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import study

    plan = matrix.plan([*SMOKE, "method=uer,per", "seeds=20", f"output={tmp_path}"])
    runs = [
        study.Run(cell, seed, tmp_path, "failed", f"Traceback\n{'frame' * 5}\n" * 30 + f"ValueError: of {kind}")
        for cell, kind in zip(plan.cells, ("one kind", "another"), strict=True)
        for seed in plan.seeds
    ]
    run_._summarise(study.Study("mine", tmp_path, tuple(runs)))
    output = capsys.readouterr().out
    assert "40 failed" in output and output.count("(and 19 more like it)") == 2
    assert "ValueError: of one kind" in output and "ValueError: of another" in output
    assert len(output.splitlines()) <= 40


def test_a_second_process_on_the_same_output_is_refused_with_the_pid_of_the_first(bench, tmp_path: Path) -> None:
    study = tmp_path / "study"
    lease = Lease(study, "study")
    lease.acquire()
    code, _, err = bench(f"output={study}")
    assert code == 2 and err.count("\n") == 1 and not (study / "study.json").exists()
    assert f"study {study} is being written by another process (pid {os.getpid()})" in err and "output=…" in err
    lease.release()


STEPS = ("method=per", "training.steps=160", *TINY)


@pytest.fixture(scope="module")
def undisturbed(train_once: Callable[..., Path]) -> Path:
    """Return a study of seeds 0 and 1 that nothing happened to; only to be read."""
    return train_once(*STEPS, "seeds=[0,1]", packs=[(0, 1)])


@pytest.fixture(scope="module")
def stopped_study(train_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same study, whose worker was stopped at step 120, with checkpoints at 100 and 120."""
    study = tmp_path_factory.mktemp("stopped") / "study"
    stop = (call == 120 for call in range(1, 10_000)).__next__
    with pytest.raises(Stopped):
        train_once(*STEPS, "seeds=[0,1]", packs=[(0, 1)], checkpoint_every=50, directory=study, stop=stop)
    return study


@pytest.fixture
def damaged_study(stopped_study: Path, tmp_path: Path) -> Path:
    """Return a copy of the stopped study that a test may damage."""
    study = Path(shutil.copytree(stopped_study, tmp_path / "broken"))
    for run in study.glob("*/*/*/seed-*"):
        assert [checkpoints.step_of(path) for path in checkpoints.existing(run)] == [100, 120]
    return study


def test_a_corrupted_checkpoint_is_told_and_the_one_before_it_continues_without_changing_a_byte(
    undisturbed, damaged_study: Path, bench
) -> None:
    arrays = only(damaged_study, "*/*/*/seed-1/checkpoint-0000000120/arrays.safetensors")
    damaged = bytearray(arrays.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    arrays.write_bytes(damaged)
    code, out, _ = bench(*STEPS, "seeds=[0,1]", "pack=2", "checkpoint_every=50", f"output={damaged_study}")
    assert code == 0 and "resumed at step 100" in out
    (notice,) = (line for line in out.splitlines() if "notice" in line)
    assert f"{arrays.parent} is damaged (ValueError: arrays.safetensors does not match its checksum)" in notice
    assert str(arrays.parent) in only(damaged_study, "logs/*.log").read_text()
    assert rows(damaged_study) == rows(undisturbed)


def test_without_any_intact_checkpoint_a_run_begins_anew(train, undisturbed, damaged_study: Path) -> None:
    for state in damaged_study.glob("*/*/*/seed-0/checkpoint-*/state.json"):
        state.unlink()
    with pytest.warns(Notice) as notices:
        train(*STEPS, "seeds=[0,1]", packs=[(0, 1)], directory=damaged_study)
    *damaged, last = [str(notice.message) for notice in notices]
    for step, message in zip((120, 100), damaged, strict=True):
        assert f"seed-0/checkpoint-{step:010d} is damaged (No such file or directory: state.json)" in message
    assert last == "not every seed has a usable checkpoint; all seeds restart"
    assert rows(damaged_study) == rows(undisturbed)


def cut(path: Path, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(size)


def offsets(study: Path, step: int) -> dict[str, int]:
    return checkpoints.load(only(study, f"*/*/*/seed-0/checkpoint-{step:010d}")).state["offsets"]


def test_half_a_line_after_the_checkpoint_is_dropped(train, undisturbed, damaged_study: Path, recwarn) -> None:
    for name in ("evaluations", "metrics"):
        with open(only(damaged_study, f"*/*/*/seed-0/{name}.jsonl"), "ab") as log:
            log.write(b'{"study": "min')
    train(*STEPS, "seeds=[0,1]", packs=[(0, 1)], directory=damaged_study)
    assert rows(damaged_study) == rows(undisturbed)
    assert not [warning for warning in recwarn if warning.category is Notice]


def test_rows_lost_before_the_checkpoint_are_told_and_made_again_from_the_one_before(
    train, undisturbed, damaged_study: Path
) -> None:
    log = only(damaged_study, "*/*/*/seed-0/timings.jsonl")
    before, after = (offsets(damaged_study, step)["timings"] for step in (100, 120))
    assert before < after - 5
    cut(log, after - 5)
    with pytest.warns(Notice) as notices:
        train(*STEPS, "seeds=[0,1]", packs=[(0, 1)], directory=damaged_study)
    (message,) = {str(notice.message) for notice in notices}
    shortfall = f"timings.jsonl has {after - 5} of the {after} bytes that the checkpoint counts"
    assert f"checkpoint-0000000120 is damaged ({shortfall})" in message
    assert rows(damaged_study) == rows(undisturbed)


def test_rows_lost_before_every_checkpoint_are_told_and_the_run_begins_anew(
    train, undisturbed, damaged_study: Path
) -> None:
    only(damaged_study, "*/*/*/seed-0/evaluations.jsonl").unlink()
    with pytest.warns(Notice) as notices:
        train(*STEPS, "seeds=[0,1]", packs=[(0, 1)], directory=damaged_study)
    *losses, last = [str(notice.message) for notice in notices]
    assert len(losses) == 2 and all(re.search(r"evaluations.jsonl has 0 of the \d+ bytes", text) for text in losses)
    assert "all seeds restart" in last
    assert rows(damaged_study) == rows(undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function: `small_disk("300k")` mounts a file system of that size in memory, or resizes the mounted
    one."""
    place = tmp_path / "disk"

    def mount(size: str, *options: str) -> Path:
        place.mkdir(exist_ok=True)
        mount_options = ",".join([f"size={size}", *options, *(["remount"] if os.path.ismount(place) else [])])
        try:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", mount_options, "tmpfs", str(place)], capture_output=True
            )
        except OSError as error:
            pytest.skip(f"mount cannot be run: {error}")
        if done.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here (not root?): {done.stderr.decode().strip()}")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("fault", "size", "settings"),
    [
        # The replay takes 1,000 × 83 bytes, which fit; half-filled pages, logs and last observations do not.
        ("stored transitions", "88k", ("checkpoint_every=100000", *TINY[2:])),
        # Parameters, target and Adam's moments take 500 KiB, twice.
        ("checkpoint", "1m", ("checkpoint_every=500", "learner.channels=4", "learner.hidden=[256]", *TINY[5:])),
    ],
)
def test_on_a_full_disk_a_run_stops_with_advice_and_finishes_once_there_is_room(
    train, bench, small_disk, fault: str, size: str, settings: tuple[str, ...]
) -> None:
    run = ("method=uer", "training.steps=1000", "evaluation.every=500", "evaluation.episodes=1")
    run += ("learner.train_every=50", "seeds=1")
    study = small_disk(size) / "study"
    code, out, err = bench(*run, *settings, f"output={study}")
    assert code == 1, out + err
    assert "the disk is full" in out and "free some room and run the same command again" in out
    assert ("the stored transitions could not be written" in out) is (fault == "stored transitions")
    assert "1 failed" in out and "Traceback" not in out + err
    small_disk("64m")
    code, out, err = bench(*run, *settings, f"output={study}")
    assert code == 0, out + err
    run_settings = tuple(text for text in settings if not text.startswith("checkpoint"))
    assert rows(study) == rows(train(*run, *run_settings, packs=[(0,)]))
    assert not list(study.glob("**/.checkpoint-*")) and not list(study.glob("**/.*.json.*"))


def test_what_cannot_be_stored_is_refused_with_sizes_before_it_starts(bench, small_disk) -> None:
    study = small_disk("4m") / "study"
    steps = ("training.steps=100000", "workers=2")
    code, _, err = bench(*steps, "seeds=2", f"output={study}")
    # 100,000 × (75 + 2 + 6) bytes for each of two workers
    assert code == 2 and "need up to 16.0 MiB" in err and f"{study} has 4.0 MiB free" in err
    assert "output=…" in err and "training.capacity" in err
    assert not (study / "study.json").exists()
    code, _, err = bench(*steps, "seeds=1", f"output={study}")
    assert code == 2 and "need up to 8.0 MiB" in err


def test_what_a_resumed_run_has_stored_already_is_not_counted_again(small_disk) -> None:
    from guidebench.harness.launchers.base import Slot
    from guidebench.harness.plan import matrix
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run import study

    place = small_disk("4m")
    plan = matrix.plan([*SMOKE, "training.steps=40000", "seeds=1", f"output={place}"])
    jobs = study._jobs(plan, plan.name, StudyDirectory(place), [Slot("cpu")])
    study._check_disk(plan, jobs, 1, place, {plan.cells[0].id: 0})
    replay = StudyDirectory(place).run(plan.cells[0].directory, 0).path / "replay"
    replay.mkdir(parents=True)
    observation_file = replay / "observation.bin"
    observation_file.write_bytes(b"0" * 3_000_000)
    study._check_disk(plan, jobs, 1, place, {plan.cells[0].id: 0})
    observation_file.rename(place / "another.bin")  # uses as much of the disk, but not for this run's replay
    with pytest.raises(UserError, match=r"the stored transitions need up to .* MiB free"):
        study._check_disk(plan, jobs, 1, place, {plan.cells[0].id: 0})


def test_an_output_that_is_no_study_is_refused_and_left_alone(bench, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    for output, says in [
        (file, f"output={file} is a file; name a directory"),
        (file / "below", "cannot be made (Not a directory)"),
        (foreign, f"output={foreign} holds files but is not a study; name an empty or a new directory"),
    ]:
        code, _, err = bench(f"output={output}")
        assert code == 2 and says in err and err.count("\n") == 1
    assert file.read_text() == "mine" and [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_a_directory_that_cannot_be_written_is_refused(bench, tmp_path: Path, request) -> None:
    if os.geteuid() == 0:  # whom permissions do not bind, but a file system without writing does
        place = request.getfixturevalue("small_disk")("1m", "ro")
    else:
        place = tmp_path / "closed"
        place.mkdir(mode=0o555)
    code, _, err = bench(f"output={place}")
    assert code == 2 and f"output={place} cannot be written to; change its permissions" in err
    code, _, err = bench(f"output={place / 'below'}")
    assert code == 2 and f"output={place / 'below'} cannot be made" in err


def test_a_gpu_that_is_not_there_is_named_and_not_tried_twice(bench, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    code, out, err = bench("device=cuda", "seeds=1", f"output={tmp_path / 'study'}")
    assert code == 2 and "finds no GPU here; use device=cpu" in err and "retried" not in out
    assert not (tmp_path / "study").exists()
