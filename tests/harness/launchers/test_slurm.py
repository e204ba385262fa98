"""launcher=slurm on a real SLURM of two nodes: submitted, preempted, warned, cancelled, and refused by name."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness.commands import run_
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.launchers import ending, job_files, slurm
from guidebench.harness.launchers.slurm import Slurm
from guidebench.harness.loop.job import Job
from guidebench.harness.records import leases
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study as studies
from guidebench.harness.run.study import Study
from tests.harness.launchers import scheduled
from tests.harness.launchers.scheduled import LIMIT, STUDY, Done, events, is_whole, judging, statuses, until
from tests.harness.launchers.slurm_cluster import Cluster, cluster, missing, parent

SMOKE = ("suite=minigrid_doorkey", "method=uer", "profile=smoke", "report=false", "evaluation.episodes=2")


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    if absent := missing():
        message = f"SLURM is missing here; install {', '.join(absent)}"
        if os.environ.get("CI_REQUIRES_SYSTEM"):
            pytest.fail(message)
        pytest.skip(message)
    with cluster() as found:
        yield found


@pytest.fixture
def bench(running: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`bench("run", …)` as a process, whose programs reach the cluster."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)

    return scheduled.bench


def node_of(worker: int) -> str:
    """The node of a worker."""
    told = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    return next(each for each in told if each.startswith(b"SLURMD_NODENAME=")).partition(b"=")[2].decode()


def workers_of(study: Path, runs: str) -> set[int]:
    """The workers that hold runs now."""
    return {holder.pid for run in study.glob(runs) if (holder := leases.holder(run)) is not None}


def workers_on(node: str, study: Path) -> set[int]:
    return {worker for worker in workers_of(study, "*/*/*/seed-*") if node_of(worker) == node}


def finished_again(running: Cluster) -> bool:
    """Whether no task is left after a node was lost; those that were queued again begin at once, not in minutes."""
    for line in queue(running):
        if "PENDING" in line:
            with contextlib.suppress(AssertionError):
                running.call("scontrol", "update", f"JobId={line.split()[0]}", "StartTime=now")
    running.mend()
    return not queue(running)


def queue(running: Cluster) -> list[str]:
    return running.call("squeue", "-h", "-r", "-o", "%i %T").split("\n")[:-1]


@pytest.mark.slow
def test_a_study_is_submitted_once_finishes_without_its_command_and_equals_that_of_local(
    running: Cluster, bench: Callable[..., Done], train: Callable[..., Path], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    words = ("run", *SMOKE, "seeds=2", "launcher=slurm", "launcher.minutes=5", f"output={study}")
    running.call("scontrol", "update", "PartitionName=low", "State=DOWN")  # or it might end before the second command
    try:
        done = bench(*words)
        assert done.code == 0 and "2 jobs in the queue" in done.out and f"bench cancel {study}" in done.out
        assert "2 jobs in the queue" in bench(*words).out  # a second command submits none of them again
        assert len(queue(running)) == 2
        (path,) = (study / "jobs").glob("*-0.json")
        assert job_files.read(path).code, "a node is checked against the sources and packages here"
    finally:
        running.call("scontrol", "update", "PartitionName=low", "State=UP")
    until(lambda: not queue(running))
    assert statuses(study) == ["finished", "finished"] and events(study) == [["started", "finished"]] * 2
    local = train("method=uer", "evaluation.episodes=2", packs=[(0,), (1,)])
    rows = [
        [path.read_bytes() for path in sorted(each.glob("*/*/*/seed-*/evaluations.parquet"))] for each in (study, local)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 2
    assert "2 of 2 runs finished" in bench("status", str(study)).out
    again = bench(*words)
    assert again.code == 0 and "2 finished" in again.out and "0 jobs in the queue" in again.out
    assert bench("cancel", str(study)).out == f"{study}: no job of it is in a queue\n"


@pytest.mark.slow
def test_a_task_that_is_warned_of_its_limit_is_queued_again_and_continues(
    running: Cluster, bench: Callable[..., Done], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    words = ("run", *SMOKE, "seeds=1", "training.steps=200000", "evaluation.every=200000", "launcher=slurm")
    assert bench(*words, "launcher.minutes=5", f"output={study}").code == 0
    until(lambda: statuses(study) == ["running"])
    (number, _) = queue(running)[0].split()
    running.call("scancel", "--batch", "--signal=USR1", number)  # as SLURM does some time before the limit
    until(lambda: events(study) == [["started", "stopped"]])
    until(lambda: any("PENDING" in line for line in queue(running)))
    step = json.loads(next(study.glob("*/*/*/seed-0/run.json")).read_text())["step"]
    assert step > 0
    running.call("scontrol", "update", f"JobId={number}", "StartTime=now")
    until(lambda: events(study) == [["started", "stopped", "started"]])
    told = next((study / "jobs").glob("*.events.jsonl")).read_text().splitlines()
    assert [json.loads(line)["step"] for line in told if '"started"' in line] == [0, step]
    assert bench("cancel", str(study)).code == 0
    until(lambda: not queue(running))


@pytest.mark.slow
def test_a_node_that_does_not_see_the_study_is_named_and_its_task_waits(
    running: Cluster, bench: Callable[..., Done], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    words = ("run", *SMOKE, "seeds=1", "launcher=slurm", "launcher.minutes=5", f"output={study}")
    running.call("scontrol", "update", "PartitionName=low", "State=DOWN")
    try:
        assert bench(*words).code == 0
        study.rename(tmp_path / "elsewhere")  # what a directory looks like to a node that has not mounted it
    finally:
        running.call("scontrol", "update", "PartitionName=low", "State=UP")
    try:
        until(lambda: "does not see" in running.call("squeue", "-h", "-o", "%k"))
    finally:
        (tmp_path / "elsewhere").rename(study)
    shown = bench("status", str(study)).out
    assert f"does not see {study}" in shown and "seed 0    waiting" in shown
    assert bench("cancel", str(study)).code == 0
    until(lambda: not queue(running))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launcher.partition=nowhere"], "launcher.partition=nowhere is refused (known partitions: low, high, closed)"),
        (["launcher.partition=closed"], "launcher.account=(the account by default) is refused"),
        (["launcher.partition=closed", "launcher.account=mine"], "launcher.account=mine is refused"),
        (
            ["launcher.minutes=3000"],
            "launcher.minutes=3000 is refused: sbatch: allocation failure: Requested time",
        ),
        (["launcher.warned=240", "launcher.minutes=4"], "launcher.warned=240 seconds are not less than"),
        (["device=cuda"], "device=cuda needs a GPU for each task: add launcher.gres=gpu:1"),
        (["launcher.gres=gpu:1"], "launcher.gres=gpu:1 is refused"),
    ],
)
def test_what_slurm_refuses_is_named_before_anything_is_written(
    bench: Callable[..., Done], tmp_path: Path, words: list[str], says: str
) -> None:
    done = bench("run", *SMOKE, "seeds=1", "launcher=slurm", f"output={tmp_path / 'study'}", *words)
    assert done.code == 2 and says in done.err and not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_study_with_a_served_judge_loses_its_command_a_task_and_a_node_and_equals_that_of_local(
    running: Cluster, bench: Callable[..., Done], tmp_path: Path
) -> None:
    study = tmp_path / "study"

    def begun(runs: str = "*/*/*/seed-*", node: str = "") -> bool:
        """Whether runs have checkpoints, of those that are held by workers on a node."""
        held = [run for run in study.glob(runs) if (holder := leases.holder(run)) and node in ("", node_of(holder.pid))]
        return any(any(run.glob("checkpoint-*")) for run in held)

    with judging() as (url, asked):
        words = ["run", *STUDY, f"judge.base_url={url}", f"models.budget_calls={LIMIT}", "launcher=slurm"]
        words += ["launcher.partition=low", "launcher.minutes=5", "launcher.wait=true", f"output={study}"]
        with subprocess.Popen([sys.executable, "-m", "guidebench", *words], stdout=subprocess.DEVNULL) as command:
            until(lambda: begun("*/*/uer-*/seed-0") or command.poll() is not None, every=0.2)
            command.kill()
        kept = node_of(*workers_of(study, "*/*/uer-*/seed-0"))
        lost = {"n1": "n2", "n2": "n1"}[kept]
        paused = [*workers_on(kept, study)]
        for worker in paused:  # or they might finish before SLURM preempts them, which continues them
            os.kill(worker, signal.SIGSTOP)
        until(lambda: begun(node=lost), every=0.2)
        for worker in workers_on(lost, study):
            os.kill(worker, signal.SIGSTOP)
        running.call("sbatch", "-p", "high", "-w", kept, "-n2", "--output=/dev/null", "--wrap", "true")
        until(lambda: any("stopped" in kinds for kinds in events(study)))
        for worker in paused:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
        running.kill_node(lost, *workers_on(lost, study))
        running.call("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=test")
        running.start_node(lost)
        until(lambda: finished_again(running), told=running.told)
        until(running.mend, told=running.told)
        done = bench(*words)  # it merges what the nodes have recorded
        assert done.code == 0 and f"{study}: 12 finished" in done.out, done.out + done.err
        is_whole(study, len(asked))
    assert sum(kinds.count("started") for kinds in events(study)) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("which", ["worker", "script and worker"])
def test_a_run_whose_worker_is_killed_is_marked_failed_and_says_how(
    running: Cluster, bench: Callable[..., Done], tmp_path: Path, which: str
) -> None:
    """As where memory runs out: the batch script tells of its worker, and SLURM of the script."""
    study = tmp_path / "study"
    words = ("run", *SMOKE, "seeds=1", "training.steps=200000", "evaluation.every=200000", "launcher=slurm")
    assert bench(*words, "launcher.minutes=5", f"output={study}").code == 0
    until(lambda: statuses(study) == ["running"])
    (run,) = study.glob("*/*/*/seed-0")
    holder = leases.holder(run)
    assert holder is not None
    (number, _) = queue(running)[0].split()
    for process in ([parent(holder.pid)] if which != "worker" else []) + [holder.pid]:
        os.kill(process, signal.SIGKILL)
    until(lambda: not queue(running))
    if which == "worker":
        until(lambda: statuses(study) == ["failed"])
        said = "the worker was killed (SIGKILL), by the system if memory ran out: then lower workers, pack or capacity"
    else:
        assert statuses(study) == ["running"]
        said = f"SLURM ended its task {number}: FAILED on node n"
    shown = bench("status", str(study)).out
    assert "seed 0    failed" in shown and said in shown
    content = json.loads((run / "run.json").read_text())
    assert content["status"] == "failed" and said in content["error"]
    assert events(study)[0][-1] == "crashed" and bench("status", str(study)).out == shown


@pytest.mark.slow
def test_the_commands_of_the_page_on_clusters_work_as_they_stand_there(
    running: Cluster, bench: Callable[..., Done], tmp_path: Path
) -> None:
    """But for a smaller study, this cluster's partition and directory, and a tracker that needs no account."""
    page = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text().partition("## Settings")[0]
    here = {
        "suite=metaworld_mt10 method=sac,furl seeds=5": " ".join((*SMOKE[:3], "seeds=1")),
        "partition=short": "partition=low",
        "/shared": str(tmp_path),
        "wandb --follow": "tensorboard",
    }
    for there, smaller in here.items():
        assert there in page
        page = page.replace(there, smaller)
    commands = [shlex.split(line, comments=True)[1:] for line in page.splitlines() if line.startswith("    bench ")]
    assert [words[0] for words in commands] == ["run", "status", "cancel", "report", "track"]
    submit, status, cancel, report, track = commands
    running.call("scontrol", "update", "PartitionName=low", "State=DOWN")  # or it might end before it is cancelled
    try:
        assert bench(*submit).code == 0 and "pending in SLURM as" in bench(*status).out
        assert "1 job cancelled" in bench(*cancel).out
    finally:
        running.call("scontrol", "update", "PartitionName=low", "State=UP")
    assert bench(*submit).code == 0
    until(lambda: not queue(running))
    assert "1 of 1 run finished" in bench(*status).out
    assert bench(*report).code == 0 and (tmp_path / "mt10" / "report" / "report.html").exists()
    assert bench(*track).code == 0 and [*(tmp_path / "mt10").rglob("events.out.tfevents*")]


@pytest.mark.slow
def test_a_command_that_waits_tells_of_its_tasks_as_of_local_workers(
    bench: Callable[..., Done], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    words = ("run", *SMOKE, "seeds=1", "launcher=slurm", "launcher.minutes=5", "launcher.wait=true")
    done = bench(*words, f"output={study}")
    assert done.code == 0, done.out + done.err
    assert done.out.count(": started") == 1 and done.out.count(": finished") == 1 and "1 finished" in done.out


def test_without_slurm_here_a_command_says_so_and_a_status_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="launcher=slurm needs sbatch, squeue, scancel, scontrol on this machine"):
        Slurm().ready(Execution(), tmp_path)
    with pytest.raises(UserError, match="squeue is not on this machine, so SLURM cannot be asked from here"):
        Slurm().spawn(Execution(), tmp_path).queued()


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `squeue` that prints a file, which this returns, and fails while there is none. No controller can be
    told to fail just once."""
    answer, program = tmp_path / "answer", tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "EVERY", 0.0)
    return answer


def waited_for(study: Path) -> tuple[slurm.Arrays, Path, str]:
    """The arrays of a study with one task, its job file, and what squeue prints of the task."""
    cell = {"suite": "s", "task": "t", "method": "m", "cell": "c0ffee"}
    path = job_files.put(study, Job("mine", str(study), cell, (0,)))
    job = job_files.read(path)
    array = slurm._listed(study / "jobs", "m-c0ffee", [job.name])
    arrays = slurm.Arrays(Slurm(wait=True), Execution(), study)
    arrays._hearing[job.name] = job, job_files.Hearing(path, new=True)
    return arrays, path, f"17_0|RUNNING|bench-{array}|0|None|(null)|{study.resolve()}\n"


def test_a_task_whose_end_was_heard_before_it_left_the_queue_did_not_crash(tmp_path: Path, squeue: Path) -> None:
    for kind, kinds in (("finished", []), ("started", ["crashed"])):
        arrays, path, line = waited_for(tmp_path / kind)
        squeue.write_text(line)
        job_files.tell(path, {"event": kind})
        assert [event.kind for event in arrays.poll(0.0)] == [kind] and arrays.open == 1
        squeue.write_text("")
        assert [event.kind for event in arrays.poll(0.0)] == kinds and arrays.open == 0


def test_a_queue_that_cannot_be_asked_for_a_while_is_told_once(tmp_path: Path, squeue: Path) -> None:
    arrays, path, line = waited_for(tmp_path / "study")
    (notice,) = arrays.poll(0.0)
    assert notice.kind == "notice" and "squeue: cat: " in notice.content["error"]
    assert arrays.poll(0.0) == [] and arrays.open == 1
    squeue.write_text(line)
    assert arrays.poll(0.0) == [] and arrays.open == 1
    squeue.write_text("")
    job_files.tell(path, {"event": "finished"})
    assert [event.kind for event in arrays.poll(0.0)] == ["finished"] and arrays.open == 0


def test_what_slurm_says_of_a_task_comes_from_its_controller_or_its_accounting(squeue: Path) -> None:
    def program(name: str, text: str) -> None:
        (squeue.parent / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (squeue.parent / "bin" / name).chmod(0o755)

    program("scontrol", "echo JobId=9 JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 BatchHost=n7")
    assert slurm._end_of("9_0") == (
        "OUT_OF_MEMORY on node n7, exit code and signal 0:125 (raise launcher.memory, or lower pack or "
        "training.capacity)"
    )
    program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    program("sacct", "echo 'NODE_FAIL|n3|1:0'")
    assert slurm._end_of("9_0") == "NODE_FAIL on node n3, exit code and signal 1:0"
    program("sacct", "echo 'sacct: error: Slurm accounting storage is disabled' >&2; exit 1")
    assert slurm._end_of("9_0") == ""


def test_a_task_that_left_the_queue_is_told_once_its_run_is_free(
    tmp_path: Path, squeue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was on another machine, so only the silence of its lease shows that it writes nothing more."""
    arrays, path, _ = waited_for(tmp_path)
    job = job_files.read(path)
    (run,) = ending.runs_of(StudyDirectory(tmp_path), job)
    run.update(status="running", step=3)
    with monkeypatch.context() as patched:
        patched.setattr(leases, "machine", lambda: "another")
        lease = leases.Lease(run.home, "run")
        lease.acquire()
        lease._epoch = 0
    job_files.tell(path, {"event": "started"})
    squeue.write_text("")
    assert [event.kind for event in arrays.poll(0.0)] == ["started"] and arrays.open == 1
    os.utime(run.home / ".lease" / "1", (1, 1))
    (crash,) = arrays.poll(0.0)
    assert crash.kind == "crashed" and "left SLURM's queue without a word" in crash.content["error"]
    studies._Recorder(StudyDirectory(tmp_path), lambda event: None, scheduled=True)(crash)
    assert run.read()["status"] == "failed" and arrays.open == 0


def test_the_queue_is_asked_once_for_a_command_and_arrays_wait_for_those_of_their_stage(
    tmp_path: Path, squeue: Path
) -> None:
    """One stage is in the queue as array 17, the other is submitted by the same command."""
    study = tmp_path / "study"
    _, _, line = waited_for(study)
    squeue.write_text(line)
    asked, sbatch = tmp_path / "asked", squeue.parent / "bin" / "sbatch"
    (squeue.parent / "bin" / "squeue").write_text(f"#!/bin/sh\necho squeue >>{asked}\nexec cat {squeue}\n")
    sbatch.write_text(f'#!/bin/sh\ncat >/dev/null\necho sbatch "$@" >>{asked}\ngrep -c sbatch {asked}\n')
    sbatch.chmod(0o755)
    names = {"suite": "s", "task": "t", "method": "m"}
    cells = [
        {**names, "cell": "after", "stage": {**names, "cell": "first"}},
        {**names, "cell": "late", "stage": {**names, "cell": "c0ffee"}},
        {**names, "cell": "first"},
    ]
    jobs = [Job("mine", str(study), cell, (seed,)) for cell in cells for seed in (0, 1)]
    Slurm().spawn(Execution(mixed_commits=True), study).submit(jobs)
    told = [line.split() for line in asked.read_text().splitlines()]
    assert [words[0] for words in told] == ["squeue", "sbatch", "sbatch", "sbatch"]
    arrays = [{word.partition("=")[0]: word.partition("=")[2] for word in words[1:]} for words in told[1:]]
    assert [array["--job-name"] for array in arrays] == ["bench-m-first.1", "bench-m-after.1", "bench-m-late.1"]
    assert [array.get("--dependency") for array in arrays] == [None, "afterany:1", "afterany:17"]
    assert all(array["--array"] == "0-1" for array in arrays)


def test_programs_of_slurm_see_no_filters_of_the_user_and_no_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_STATES", "SBATCH_TEST_ONLY", "SCANCEL_STATE", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    left = "[name for name in os.environ if name.startswith(('SQUEUE_', 'SBATCH_', 'SCANCEL_'))]"
    program = f"import os; print(os.getsid(0), *{left})"
    assert int(slurm._call(sys.executable, "-c", program)) != os.getsid(0)
    assert slurm._call(sys.executable, "-c", "import os; print(os.environ['SLURM_CONF'])") == "x\n"


def test_a_command_that_returns_tells_how_its_trackers_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Study("mine", tmp_path, (), submitted=2)
    run_._close_submitted(outcome, ("wandb", "mlflow"))
    assert f"bench track {tmp_path} --to wandb,mlflow --follow" in capsys.readouterr().out
    run_._close_submitted(outcome, ())
    assert "bench track" not in capsys.readouterr().out


def test_a_device_follows_from_the_resources_asked_for() -> None:
    assert Slurm().slots(Execution(workers=3)) == [slurm.Slot("cpu")] * 3
    assert Slurm(gres="gpu:1").slots(Execution()) == [slurm.Slot("cuda")]
    assert Slurm(gres="gpu:1").slots(Execution(device="cpu")) == [slurm.Slot("cpu")]
