"""launcher=slurm on a real SLURM of two nodes: jobs are submitted, preempted, warned, cancelled, and refused by
name."""

import functools
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from guidebench.harness.commands import cli, run_
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.launchers import ending, job_files, slurm
from guidebench.harness.launchers.slurm import Slurm
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records import leases
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study as studies
from guidebench.harness.run.study import Study
from tests.conftest import skip_or_fail
from tests.harness.launchers import scheduled
from tests.harness.launchers.scheduled import LIMIT, RUNS, STUDY, check_finished_study, events, judging, rows, statuses
from tests.harness.launchers.slurm_cluster import Cluster, cluster, missing_packages, parent
from tests.programs import bench, start_bench
from tests.refusals import check_refused

SMALL = (
    "suite=minigrid_doorkey", "method=uer", "profile=smoke", "report=false", "evaluation.episodes=1",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
)  # fmt: skip
SHORT = ("training.steps=200", "evaluation.every=200")
LONG = (*SMALL, "training.steps=2000000", "evaluation.every=2000000")
SLURM = ("launcher=slurm", "launcher.minutes=5")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    if absent := missing_packages():
        skip_or_fail(f"SLURM is missing here; install {', '.join(absent)}")
    with cluster() as running:
        yield running


@pytest.fixture
def slurm_cluster(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Return the cluster that a test's commands connect to. After the test, even a failed one, no task is left."""
    for name, value in nodes.environment.items():
        monkeypatch.setenv(name, value)
    yield nodes
    nodes.empty()


@pytest.fixture
def wait_until(slurm_cluster: Cluster, tmp_path: Path) -> Callable[..., None]:
    """Return `wait_until(is_done)`, which waits as long as the queue, the nodes or the files of the test's study
    change."""

    def moves() -> object:
        return slurm_cluster.queue(), slurm_cluster.states(), scheduled.progress(tmp_path)

    return functools.partial(scheduled.wait_until, moves=moves, describe=slurm_cluster.report)


def node_of(worker: int) -> str:
    """Return the name of a worker's node."""
    variables = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    return (
        next(variable for variable in variables if variable.startswith(b"SLURMD_NODENAME=")).partition(b"=")[2].decode()
    )


def workers_of(study: Path, runs: str = "*/*/*/seed-*") -> set[int]:
    """Return the ids of the workers that hold runs now."""
    return {holder.pid for run in study.glob(runs) if (holder := leases.holder(run)) is not None}


def workers_on(node: str, study: Path) -> set[int]:
    return {worker for worker in workers_of(study) if node_of(worker) == node}


@pytest.mark.waits
def test_the_commands_of_the_page_on_clusters_submit_a_study_once_and_it_equals_that_of_local(
    slurm_cluster: Cluster, wait_until: Callable[..., None], train: Callable[..., Path], tmp_path: Path
) -> None:
    """The commands are as printed there, except for a smaller study, this cluster's partition and directory, and a
    tracker that needs no account."""
    page = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text().partition("## Settings")[0]
    replacements = {
        "suite=metaworld_mt10 method=sac,furl seeds=5": " ".join((*SMALL, *SHORT, "seeds=2")),
        "partition=short": "partition=low",
        "/shared": str(tmp_path),
        "wandb --follow": "tensorboard",
    }
    for original, smaller in replacements.items():
        assert original in page
        page = page.replace(original, smaller)
    commands = [shlex.split(line, comments=True)[1:] for line in page.splitlines() if line.startswith("    bench ")]
    assert [words[0] for words in commands] == ["run", "status", "cancel", "report", "track"]
    submit, status, cancel, report, track = commands
    study = tmp_path / "mt10"
    slurm_cluster.hold()
    done = bench(*submit)
    assert done.code == 0 and "2 jobs in the queue" in done.out and f"bench cancel {study}" in done.out
    assert "2 jobs in the queue" in bench(*submit).out and len(slurm_cluster.queue()) == 2, "no job is submitted twice"
    assert job_files.read(next((study / "jobs").glob("*-0.json"))).code, "the job records the sources of this machine"
    assert bench(*status).out.count("pending in SLURM as") == 2
    assert "2 jobs cancelled" in bench(*cancel).out
    wait_until(lambda: not slurm_cluster.queue())
    slurm_cluster.go_on()
    done = bench(*submit, "launcher.wait=true")
    assert done.code == 0, done.out + done.err
    assert done.out.count(": started") == done.out.count(": finished") == 2 and "2 finished" in done.out
    assert statuses(study) == ["finished", "finished"] and events(study) == [["started", "finished"]] * 2
    local = train("method=uer", *SMALL[4:], *SHORT, packs=[(0,), (1,)])
    assert rows(study) == rows(local) and len(rows(study)) == 2
    assert "2 of 2 runs finished" in bench(*status).out
    resubmitted = bench(*submit)
    assert resubmitted.code == 0 and "2 finished" in resubmitted.out and "0 jobs in the queue" in resubmitted.out
    assert bench(*cancel).out == f"{study}: no job of it is in a queue\n"
    assert bench(*report).code == 0 and (study / "report" / "report.html").exists()
    assert bench(*track).code == 0 and [*study.rglob("events.out.tfevents*")]


@pytest.mark.waits
def test_a_task_continues_after_its_limit_a_killed_one_is_marked_failed_and_a_cancelled_one_stops(
    slurm_cluster: Cluster, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    """Workers are killed as when memory runs out: a killed worker is reported by its batch script, a killed script by
    SLURM."""
    study = tmp_path / "study"
    assert bench("run", *LONG, "seeds=3", *SLURM, f"output={study}").code == 0
    wait_until(
        lambda: [path.read_text().count('"progress"') > 0 for path in study.glob("jobs/*.events.*")] == [True] * 3
    )
    number = next(line.split("_")[0] for line in slurm_cluster.queue())
    slurm_cluster.call(
        "scancel", "--batch", "--signal=USR1", f"{number}_0"
    )  # SLURM sends this some time before the limit
    wait_until(lambda: events(study)[0] == ["started", "stopped"] and f"{number}_0 PENDING" in slurm_cluster.queue())
    runs = sorted(study.glob("*/*/*/seed-*"))
    step = json.loads((runs[0] / "run.json").read_text())["step"]
    slurm_cluster.hasten()
    wait_until(lambda: events(study)[0] == ["started", "stopped", "started"])
    lines = min((study / "jobs").glob("*.events.jsonl")).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if '"started"' in line] == [0, step] and step > 0
    first, second = (leases.holder(run) for run in runs[:2])
    for process in (first.pid, parent(second.pid), second.pid):
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: slurm_cluster.queue() == [f"{number}_2 RUNNING"] and statuses(study)[0] == "failed")
    assert statuses(study)[1:] == ["running", "running"]
    assert "1 job cancelled" in bench("cancel", str(study)).out
    wait_until(lambda: not slurm_cluster.queue() and events(study)[2] == ["started", "stopped"])
    output = bench("status", str(study)).out
    for seed, error in [
        (0, "the worker was killed (SIGKILL), by the system if memory ran out: then lower workers, pack or capacity"),
        (1, f"SLURM ended its task {number}_1: FAILED on node n"),
    ]:
        assert f"seed {seed}    failed" in output and error in output
        run_record = json.loads((runs[seed] / "run.json").read_text())
        assert (
            run_record["status"] == "failed" and error in run_record["error"] and events(study)[seed][-1] == "crashed"
        )
    assert "seed 2    stopped" in output and bench("status", str(study)).out == output


@pytest.mark.waits
def test_a_node_that_does_not_see_the_study_is_named_and_its_task_waits(
    slurm_cluster: Cluster, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    slurm_cluster.hold()
    assert bench("run", *SMALL, "seeds=1", *SLURM, f"output={study}").code == 0
    study.rename(tmp_path / "elsewhere")  # as on a node that has not mounted the directory
    slurm_cluster.go_on()
    try:
        wait_until(lambda: "does not see" in slurm_cluster.call("squeue", "-h", "-o", "%k"))
    finally:
        (tmp_path / "elsewhere").rename(study)
    status = bench("status", str(study)).out
    assert f"does not see {study}" in status and "seed 0    waiting" in status


@pytest.mark.waits
def test_what_slurm_refuses_is_named_before_anything_is_written(
    slurm_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, says in [
        (
            ["launcher.partition=nowhere"],
            "launcher.partition=nowhere is refused (known partitions: low, alone, high, closed)",
        ),
        (["launcher.partition=closed"], "launcher.account=(the account by default) is refused"),
        (["launcher.partition=closed", "launcher.account=mine"], "launcher.account=mine is refused"),
        (["launcher.minutes=3000"], "launcher.minutes=3000 is refused: sbatch: allocation failure: Requested time"),
        (["launcher.warned=240", "launcher.minutes=4"], "launcher.warned=240 seconds are not less than"),
        (["device=cuda"], "device=cuda needs a GPU for each task: add launcher.gres=gpu:1"),
        (["launcher.gres=gpu:1"], "launcher.gres=gpu:1 is refused"),
    ]:
        code = cli.main(["run", *SMALL, "seeds=1", "launcher=slurm", f"output={tmp_path / 'study'}", *words])
        assert (code, (tmp_path / "study").exists()) == (2, False) and says in capsys.readouterr().err


@pytest.mark.release
@pytest.mark.waits
def test_a_study_with_a_served_judge_loses_its_command_a_task_and_a_node_and_equals_that_of_local(
    slurm_cluster: Cluster, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"

    def have_begun(runs: str = "*/*/*/seed-*", node: str = "") -> bool:
        """Return whether any run that a worker on `node` holds has a checkpoint."""
        held_runs = [
            run for run in study.glob(runs) if (holder := leases.holder(run)) and node in ("", node_of(holder.pid))
        ]
        return any(any(run.glob("checkpoint-*")) for run in held_runs)

    def has_recovered() -> bool:
        """Return whether no task is left and both nodes are idle after a node was lost."""
        slurm_cluster.hasten()
        return slurm_cluster.mend() and not slurm_cluster.queue()

    with judging() as (url, requests):
        words = ["run", *STUDY, f"judge.base_url={url}", f"models.budget_calls={LIMIT}", *SLURM]
        words += ["launcher.partition=alone", "launcher.wait=true", f"output={study}"]
        command = start_bench(*words)
        wait_until(lambda: have_begun("*/*/uer-*/seed-0") or command.poll() is not None)
        command.kill()
        command.wait()
        kept_node = node_of(*workers_of(study, "*/*/uer-*/seed-0"))
        lost_node = {"n1": "n2", "n2": "n1"}[kept_node]
        paused = [*workers_on(kept_node, study)]
        for worker in paused:  # otherwise they might finish before SLURM preempts them, which continues them
            os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: have_begun(node=lost_node))
        for worker in workers_on(lost_node, study):
            os.kill(worker, signal.SIGSTOP)
        slurm_cluster.call("sbatch", "-p", "high", "-w", kept_node, "-n2", "--output=/dev/null", "--wrap", "true")
        wait_until(lambda: any("stopped" in kinds for kinds in events(study)))
        slurm_cluster.kill_node(lost_node, *workers_on(lost_node, study))
        slurm_cluster.call("scontrol", "update", f"NodeName={lost_node}", "State=DOWN", "Reason=test")
        slurm_cluster.start_node(lost_node)
        wait_until(has_recovered)
        done = bench(*words)  # it merges what the nodes have recorded
        assert done.code == 0 and f"{study}: {RUNS} finished" in done.out, done.out + done.err
        check_finished_study(study, len(requests))
    assert sum(kinds.count("started") for kinds in events(study)) >= 4


def test_without_slurm_here_a_command_says_so_and_a_status_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check_refused(
        "launcher=slurm needs sbatch, squeue, scancel, scontrol on this machine", Slurm().ready, Execution(), tmp_path
    )
    with pytest.raises(UserError, match="squeue is not on this machine, so SLURM cannot be asked from here"):
        Slurm().spawn(Execution(), tmp_path).queued()


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a program `squeue` that prints the returned file and fails while the file is missing. A real controller
    cannot be made to fail just once."""
    answer, program = tmp_path / "answer", tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "EVERY", 0.0)
    return answer


def waited_for(study: Path) -> tuple[slurm.Arrays, Path, str]:
    """Return the arrays of a study with one task, its job file, and the line that squeue prints for the task."""
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
    """Its worker ran on another machine, so only the silence of its lease shows that it writes nothing more."""
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
    """One stage is queued as array 17; the other is submitted by the same command."""
    study = tmp_path / "study"
    _, _, line = waited_for(study)
    squeue.write_text(line)
    log, sbatch = tmp_path / "asked", squeue.parent / "bin" / "sbatch"
    (squeue.parent / "bin" / "squeue").write_text(f"#!/bin/sh\necho squeue >>{log}\nexec cat {squeue}\n")
    sbatch.write_text(f'#!/bin/sh\ncat >/dev/null\necho sbatch "$@" >>{log}\ngrep -c sbatch {log}\n')
    sbatch.chmod(0o755)
    names = {"suite": "s", "task": "t", "method": "m"}
    cells = [
        {**names, "cell": "after", "stage": {**names, "cell": "first"}},
        {**names, "cell": "late", "stage": {**names, "cell": "c0ffee"}},
        {**names, "cell": "first"},
    ]
    jobs = [Job("mine", str(study), cell, (seed,)) for cell in cells for seed in (0, 1)]
    Slurm().spawn(Execution(mixed_commits=True), study).submit(jobs)
    commands = [line.split() for line in log.read_text().splitlines()]
    assert [words[0] for words in commands] == ["squeue", "sbatch", "sbatch", "sbatch"]
    arrays = [{word.partition("=")[0]: word.partition("=")[2] for word in words[1:]} for words in commands[1:]]
    assert [array["--job-name"] for array in arrays] == ["bench-m-first.1", "bench-m-after.1", "bench-m-late.1"]
    assert [array.get("--dependency") for array in arrays] == [None, "afterany:1", "afterany:17"]
    assert all(array["--array"] == "0-1" for array in arrays)


def test_programs_of_slurm_see_no_filters_of_the_user_and_no_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_STATES", "SBATCH_TEST_ONLY", "SCANCEL_STATE", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    filters = "[name for name in os.environ if name.startswith(('SQUEUE_', 'SBATCH_', 'SCANCEL_'))]"
    program = f"import os; print(os.getsid(0), *{filters})"
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


def test_printed_commands_are_quoted_for_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "it's; touch $HOME here"
    run_._close_submitted(Study("mine", directory, (), submitted=2), ("wandb",))
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  bench ")]
    assert len(commands) == 4 and all(shlex.split(command)[2] == str(directory) for command in commands)


def test_a_path_with_a_line_break_is_refused_since_the_queue_lists_directories_line_by_line(
    tmp_path: Path, squeue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "launcher=slurm"]
    for name in ("two\nlines", "a\ttab", "next\u2028line"):
        with pytest.raises(UserError, match="may hold no control characters"):
            studies.directory_of(replace(matrix.plan(words), execution=Execution(output=str(tmp_path / name))))
    broken = tmp_path / "two\nlines"
    broken.mkdir()
    monkeypatch.chdir(broken)
    check_refused("may hold no control characters", studies.directory_of, matrix.plan(words))
    squeue.write_text("")
    for ask in (Slurm().spawn(Execution(), broken).queued, Slurm().spawn(Execution(), broken).cancel):
        check_refused("lists directories line by line; rename the directory", ask)


def test_a_device_follows_from_the_resources_asked_for() -> None:
    assert Slurm().slots(Execution(workers=3)) == [slurm.Slot("cpu")] * 3
    assert Slurm(gres="gpu:1").slots(Execution()) == [slurm.Slot("cuda")]
    assert Slurm(gres="gpu:1").slots(Execution(device="cpu")) == [slurm.Slot("cpu")]
