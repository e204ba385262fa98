"""launcher=ray on a real Ray cluster of a head and two nodes: jobs are submitted, lost, cancelled, and refused by
name."""

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.identity import sources
from guidebench.harness.launchers import base, job_files, ray_
from guidebench.harness.launchers.ray_ import Ray, Tasks
from guidebench.harness.launchers.ray_driver import Order
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records import leases
from tests.harness.launchers import scheduled
from tests.harness.launchers.scheduled import LIMIT, RUNS, STUDY, check_finished_study, events, judging, statuses
from tests.programs import bench, python, start_bench
from tests.refusals import check_refused

SMALL = (
    "suite=minigrid_doorkey", "profile=smoke", "report=false", "method=uer", "evaluation.episodes=1",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
)  # fmt: skip
RAYLET = "NODE=$(grep PPid /proc/$PPID/status | cut -f2)"
"""Sets $NODE in a worker's script to the process id of its raylet, which identifies its node on this host."""
UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done"
NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Refused connections soon show that a node was killed; a slow node has a minute for each answer.
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "60000",
}
END_ALL = """
import ray, sys
ray.init(address=sys.argv[1], namespace="guidebench", log_to_driver=False)
for name in ray.util.list_named_actors():
    ray.kill(ray.get_actor(name))
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Run a cluster: a head that runs no tasks, two nodes, and one with a GPU that exists only in Ray's bookkeeping."""
    pytest.importorskip("ray", reason="launcher=ray needs guidebench[ray]")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SETTINGS.items():
            patched.setenv(name, value)
        from ray.cluster_utils import Cluster

        before = signal.getsignal(signal.SIGTERM)
        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
        try:
            for node in (NODE, NODE, {**NODE, "num_cpus": 0, "num_gpus": 1}):
                cluster.add_node(**node)
            signal.signal(signal.SIGTERM, before)  # Ray's handler would keep this process alive
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture
def ray_cluster(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the cluster that a test's commands connect to. After the test, even a failed one, no job is left and all
    nodes are back."""
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    yield nodes
    if keepers(nodes):
        with contextlib.suppress(AssertionError):
            scheduled.wait_until(lambda: not keepers(nodes), still=5.0)  # a keeper ends with its last job
    if keepers(nodes):
        assert python(END_ALL, nodes.address).code == 0
        scheduled.wait_until(lambda: not keepers(nodes))
    before = signal.getsignal(signal.SIGTERM)
    while len(nodes.worker_nodes) < 3:
        nodes.add_node(**NODE)
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def wait_until(ray_cluster: Any, tmp_path: Path) -> Callable[..., None]:
    """Return `wait_until(is_done)`, which waits as long as the nodes or the files of the test's study change."""

    def moves() -> object:
        return keepers(ray_cluster), scheduled.progress(tmp_path)

    return partial(scheduled.wait_until, moves=moves)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def keepers(cluster: Any) -> list[int]:
    """Return the ids of the cluster's processes that hold a queue of jobs."""
    pids, raylet = [], cluster.head_node.all_processes["raylet"][0].process.pid
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # a process that has ended meanwhile
            if b"ray::Keeper" in (process / "cmdline").read_bytes() and parent(int(process.name)) == raylet:
                pids.append(int(process.name))
    return pids


@pytest.mark.release
@pytest.mark.waits
def test_a_study_with_a_served_judge_loses_its_command_a_worker_and_a_node_and_equals_that_of_local(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"

    def has_begun() -> bool:
        """Return whether one job has begun and both runs of the other have a checkpoint."""
        checkpoints = (study.glob(f"*/*/vlm_rb-*/seed-{seed}/checkpoint-*") for seed in (0, 1))
        return all(map(any, checkpoints)) and any(study.glob("*/*/uer-*/seed-0"))

    with judging() as (url, requests):
        words = ["run", *STUDY, f"judge.base_url={url}", f"models.budget_calls={LIMIT}", "launcher=ray"]
        words += ["launcher.cpus=2", "launcher.wait=true", f"output={study}"]
        command = start_bench(*words)
        wait_until(lambda: has_begun() or command.poll() is not None)
        command.kill()
        command.wait()
        holder = leases.holder(next(study.glob("*/*/vlm_rb-*/seed-0")))
        os.kill(holder.pid, signal.SIGSTOP)  # otherwise it might finish before its node is lost
        raylet = parent(parent(holder.pid))
        (lost_node,) = (
            node for node in ray_cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == raylet
        )
        ray_cluster.remove_node(lost_node, allow_graceful=False)
        os.kill(holder.pid, signal.SIGKILL)
        done = bench(*words)  # the repeated command submits nothing and listens to the jobs
        assert done.code == 0 and f"{study}: {RUNS} finished" in done.out, done.out + done.err
        check_finished_study(study, len(requests))
    starts = {path.name: path.read_text().count('"started"') for path in (study / "jobs").glob("*.events.jsonl")}
    assert len(starts) == 2 and max(starts.values()) >= 2 and [kinds[-1] for kinds in events(study)] == ["finished"] * 2
    lines = next((study / "jobs").glob("vlm_rb-*.events.jsonl")).read_text().splitlines()
    first, *later = (json.loads(line)["step"] for line in lines if '"started"' in line)
    assert first == 0 and later and all(step > 0 for step in later)
    assert bench("cancel", str(study)).out == f"{study}: no job of it is in a queue\n"


@pytest.mark.waits
def test_jobs_of_the_command_of_the_page_on_clusters_are_submitted_once_share_the_cores_and_are_cancelled(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    """The command is as printed there, except for a smaller study and its directory."""
    page = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text().partition("## Ray")[2]
    long = ("training.steps=2000000", "evaluation.every=2000000", "seeds=3", "launcher.cpus=2")
    replacements = {
        "suite=metaworld_mt10 method=sac,furl seeds=5": " ".join((*SMALL, *long)),
        "/shared": str(tmp_path),
    }
    for original, smaller in replacements.items():
        assert original in page
        page = page.replace(original, smaller)
    (submit,) = [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    bench ")]
    study = tmp_path / "mt10"
    done = bench(*submit)
    assert done.code == 0 and "3 jobs in the queue" in done.out and f"bench cancel {study}" in done.out
    assert "3 jobs in the queue" in bench(*submit).out  # a second command submits none of them again
    wait_until(lambda: statuses(study) == ["running", "running"])
    status = bench("status", str(study)).out
    assert status.count("running in Ray on ") == 2 and status.count("pending in Ray: no node has 2 CPU free") == 1
    done = bench("cancel", str(study))
    assert done.code == 0 and "3 jobs cancelled" in done.out
    wait_until(
        lambda: events(study) == [["started", "stopped"]] * 2
    )  # this event is written last, after the run's state
    assert statuses(study) == ["stopped", "stopped"] and list(study.glob("*/*/*/seed-0/checkpoint-*"))
    wait_until(lambda: not keepers(ray_cluster))
    assert bench("cancel", str(study)).code == 1


def submit_scripts(study: Path, script: str, jobs: dict[str, dict[str, Any]], **changes: Any) -> Tasks:
    """Submit jobs (name -> fields of the order) whose worker is a script, and return the study's launcher. The script
    reads the job's name from $NAME and its node from $NODE."""
    (study / "logs").mkdir(parents=True)
    program = study / "worker"
    program.write_text(f'#!/bin/bash\nNAME=$(basename "$1" .json)\n{RAYLET}\ncd {study}\n{script}\n')
    program.chmod(0o755)
    listed = []
    for seed, (name, fields) in enumerate(jobs.items()):
        job = Job("mine", str(study), {"suite": "s", "task": "t", "method": name, "cell": "c"}, (seed,))
        job_files.put(study, job)
        listed.append({"name": job.name, "runs": [f"c/{seed}"], "after": [], **fields})
    resources = {"num_cpus": 1.0, "num_gpus": 0.0}
    order = Order(str(study), listed, [str(program)], str(sources.ROOT), {}, resources, None, 3, 0.3)
    Ray().ask("submit", order=order._replace(**changes))
    return Tasks(Ray(), Execution(), study)


@pytest.mark.release
@pytest.mark.waits
def test_a_node_that_cannot_work_is_left_out_and_named(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    first = "mkdir odd 2>/dev/null && echo $NODE > odd/node"
    script = f'{first}; [ "$(cat odd/node)" = $NODE ] && echo other packages && exit 69; {UNTIL_GO}; echo $NAME >> done'
    tasks = submit_scripts(study, script, {"a": {}, "b": {}}, workers=1)
    wait_until(lambda: any("other packages" in task.words for task in tasks.queued()))
    (study / "go").touch()
    wait_until(lambda: (study / "done").exists() and len((study / "done").read_text().split()) == 2)
    assert sorted((study / "done").read_text().split()) == ["a-c-0", "b-c-1"]


@pytest.mark.waits
def test_a_job_begins_again_unless_it_dies_again_and_again_or_no_node_is_left_for_it(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    script = """
        [ $NAME = c-c-2 ] && echo it has other packages && exit 69
        echo $NAME >> begun
        [ $NAME = a-c-0 ] && kill -9 $$
        exit $((73 + 2 * ($(grep -c b begun) - 1)))
    """
    submit_scripts(study, script, {"a": {}, "b": {}, "c": {}}, losses=1)
    wait_until(lambda: events(study) == [["crashed"]] * 3)
    starts = (study / "begun").read_text().split()
    assert starts.count("a-c-0") == 2 and starts.count("b-c-1") == 2  # held, then stopped
    runs = [json.loads(path.read_text()) for path in sorted(study.glob("s/t/*/seed-*/run.json"))]
    assert [run["status"] for run in runs] == ["failed"] * 3
    killed, stopped, unusable = (run["error"] for run in runs)
    assert "its worker was lost 2 times; launcher.losses=1 allows no more" in killed and "got signal 9" in killed
    assert "lost 2 times" in stopped and stopped.endswith("was stopped")
    assert unusable.count("it has other packages") == 1


@pytest.mark.waits
def test_two_workers_share_a_gpu(ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path) -> None:
    study = tmp_path / "study"
    script = f"echo +$CUDA_VISIBLE_DEVICES >> log; {UNTIL_GO}; echo - >> log"
    resources = {"num_cpus": 0.0, "num_gpus": 0.5}
    tasks = submit_scripts(study, script, {name: {} for name in ("a", "b", "c")}, resources=resources)

    def lines() -> list[str]:
        return (study / "log").read_text().split() if (study / "log").exists() else []

    wait_until(lambda: len(lines()) == 2)
    assert lines() == ["+0", "+0"] and sum("pending" in task.words for task in tasks.queued()) == 1
    (study / "go").touch()
    wait_until(lambda: len(lines()) == 6)
    assert lines().count("+0") == lines().count("-") == 3


@pytest.mark.waits
def test_jobs_wait_for_their_stages_and_for_their_number(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    script = "echo +$NAME >> log; sleep 0.5; echo -$NAME >> log"
    submit_scripts(study, script, {"a": {"after": ["c/1"]}, "b": {}, "c": {}}, workers=1)
    wait_until(lambda: (study / "log").exists() and len((study / "log").read_text().split()) == 6)
    assert (study / "log").read_text().split() == ["+b-c-1", "-b-c-1", "+a-c-0", "-a-c-0", "+c-c-2", "-c-c-2"]


@pytest.mark.release
@pytest.mark.waits
def test_a_keeper_that_is_killed_begins_again_with_its_jobs(
    ray_cluster: Any, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    submit_scripts(study, f"echo x >> begun; {UNTIL_GO}; echo x >> ended", {"a": {}})
    wait_until(lambda: (study / "begun").exists())
    (keeper,) = keepers(ray_cluster)
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: (study / "begun").read_text() == "x\nx\n")
    (study / "go").touch()
    wait_until(lambda: (study / "ended").exists() and not keepers(ray_cluster))
    assert (study / "begun").read_text() == "x\nx\n", "the job was restarted exactly once"


@pytest.mark.waits
def test_what_the_cluster_cannot_give_or_see_is_named_before_anything_starts(
    ray_cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"
    for words, says in [
        (["launcher.gpus=0.5"], "no node of the Ray cluster has what a worker is to get"),
        (["launcher.cpus=8"], "the largest have 2 cores, 1 GPUs and"),
        (["device=cuda"], "device=cuda needs a share of a GPU for each task: add launcher.gpus=1"),
        (["launcher.gpus=2"], "launcher.gpus"),
        (["launcher.address=ray://head:10001"], "launcher.address=ray://head:10001: Ray Client is not supported"),
    ]:
        code = cli.main(["run", *SMALL, "launcher=ray", "seeds=1", f"output={study}", *words])
        assert (code, study.exists()) == (2, False) and says in capsys.readouterr().err
    gone = [{"name": "gone", "runs": [], "after": []}]
    order = Order(str(study), gone, [sys.executable], str(sources.ROOT), {}, {"num_cpus": 1.0}, None, 3, 0.3)
    check_refused(
        r"node .* does not see .*gone\.json; mount the study's directory there", Ray().ask, "submit", order=order
    )
    assert Tasks(Ray(), Execution(), study).queued() == []


@pytest.mark.waits
def test_an_address_that_nobody_answers_is_named_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own library would wait for more than a minute."""
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_, "PATIENCE", 1.0)
    with pytest.raises(UserError, match=r"launcher\.address=127\.0\.0\.1:1: nobody answers as a Ray cluster at"):
        Ray(address="127.0.0.1:1").ready(Execution(), tmp_path)


def test_without_ray_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"launcher=ray needs the package ray here; install the extra ray \(\d+ MB\): "):
        Ray().ready(Execution(), tmp_path)
    check_refused("needs the package ray here", Tasks(Ray(), Execution(), tmp_path).queued)


def test_a_cluster_that_is_not_the_study_s_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "ray.cluster").write_text('{"address": "10.0.0.1:6379", "session": "first"}')
    cluster = {"address": "10.0.0.2:6379", "session": "second", "queued": []}
    monkeypatch.setattr(Ray, "ask", lambda self, request, **content: cluster)
    tasks = Tasks(Ray(), Execution(), tmp_path)
    check_refused(r"10\.0\.0\.2:6379, is another one than .* RAY_ADDRESS=10\.0\.0\.1:6379", tasks.queued)
    cluster["session"] = "first"
    assert tasks.queued() == []


def test_a_task_whose_end_was_heard_did_not_crash_and_a_lost_one_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guidebench.harness.launchers.ray_.SOON", 0.0)
    monkeypatch.setattr("guidebench.harness.launchers.ray_.EVERY", 0.0)
    cluster = {"address": "a:1", "session": "s", "queued": []}
    monkeypatch.setattr(Ray, "ask", lambda self, request, **content: cluster)
    cell = {"suite": "s", "task": "t", "method": "m", "cell": "c"}
    for kind, kinds in (("finished", ["finished"]), ("started", ["started", "crashed"])):
        tasks = Tasks(Ray(wait=True), Execution(mixed_commits=True), tmp_path / kind)
        cluster["queued"] = []
        (tmp_path / kind / "jobs").mkdir(parents=True)
        path = job_files.put(tmp_path / kind, Job("mine", str(tmp_path / kind), cell, (0,)))
        cluster["queued"] = [(path.stem, "running in Ray on n")]
        tasks.submit([job_files.read(path)])  # the cluster has this job: it is listened to, not submitted
        assert tasks.open == 1 and tasks.poll(0.0) == []
        job_files.tell(path, {"event": kind})
        cluster["queued"] = []
        assert [event.kind for event in tasks.poll(0.0)] == kinds and tasks.open == 0


def test_an_end_that_the_cluster_has_not_noticed_when_the_command_comes_back_is_told_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SOON", "EVERY"):
        monkeypatch.setattr(f"guidebench.harness.launchers.ray_.{name}", 0.0)
    cell = {"suite": "s", "task": "t", "method": "m", "cell": "c"}
    (tmp_path / "jobs").mkdir()
    path = job_files.put(tmp_path, Job("mine", str(tmp_path), cell, (0,)))
    for kind in ("started", "finished"):
        job_files.tell(path, {"event": kind})
    cluster = {"address": "a:1", "session": "s", "queued": [(path.stem, "running in Ray on n")]}
    monkeypatch.setattr(Ray, "ask", lambda self, request, **content: cluster)
    tasks = Tasks(Ray(wait=True), Execution(mixed_commits=True), tmp_path)
    tasks.submit([job_files.read(path)])
    cluster["queued"] = []
    assert [event.kind for event in tasks.poll(0.0)] == ["finished"] and tasks.open == 0


def test_a_cluster_that_stays_silent_is_told_once_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SOON", "EVERY"):
        monkeypatch.setattr(f"guidebench.harness.launchers.ray_.{name}", 0.0)

    def silent(self: Ray, request: str, **content: object) -> None:
        raise UserError("nobody answers")

    monkeypatch.setattr(Ray, "ask", silent)
    cell = {"suite": "s", "task": "t", "method": "m", "cell": "c"}
    tasks = Tasks(Ray(wait=True), Execution(), tmp_path)
    tasks._listen(Job("mine", str(tmp_path), cell, (0,)))
    assert [event.kind for event in tasks.poll(0.0)] == ["notice"] and tasks.poll(0.0) == [] and tasks.open == 1
    monkeypatch.setattr("guidebench.harness.launchers.ray_.GONE", -1.0)
    check_refused("nobody answers; it is not waited for any longer, and the same command", tasks.poll, 0.0)


def test_a_device_follows_from_the_share_of_a_gpu() -> None:
    assert Ray().slots(Execution(workers=3)) == [base.Slot("cpu")] * 3
    assert Ray(gpus=0.25).slots(Execution()) == [base.Slot("cuda")]
    assert Ray(gpus=0.25).slots(Execution(device="cpu")) == [base.Slot("cpu")]


def test_a_job_tells_its_worker_what_its_node_must_have(tmp_path: Path) -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "method=uer", "profile=smoke"]).cells
    from guidebench.harness.identity.cells import record

    job = Job("mine", str(tmp_path), record(cell), (0,))
    (prepared,) = Tasks(Ray(gpus=0.25, gpu_memory=2000), Execution(), tmp_path)._prepared([job])
    assert (prepared.device, prepared.gpu_share, prepared.gpu_memory) == ("cuda", 0.25, 2000)
    assert "package torch" in prepared.code and "harness.loop" in prepared.code
    (prepared,) = Tasks(Ray(), Execution(mixed_commits=True), tmp_path)._prepared([job])
    assert not prepared.code


def listening_addresses(pids: set[int]) -> list[tuple[str, int]]:
    """Return (address, port) on which processes listen, read from /proc."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            sockets |= {os.readlink(file).strip("socket:[]") for file in Path(f"/proc/{pid}/fd").iterdir()}
    endpoints = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            place, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == "0A" and inode in sockets:
                address, _, port = place.partition(":")
                endpoints.append((address, int(port, 16)))
    return endpoints


def test_a_head_that_is_started_as_the_page_says_listens_on_its_own_machine_alone(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="launcher=ray needs guidebench[ray]")
    page = Path("docs/clusters.md").read_text()
    (exports,) = [line.split("#")[0].split()[1:] for line in page.splitlines() if line.startswith("    export RAY_")]
    (command,) = [line.split()[1:] for line in page.splitlines() if line.startswith("    ray start --head")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | SETTINGS | dict(variable.split("=") for variable in exports)
    ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
    options = ["--block", f"--port={port}", "--num-cpus=1", f"--temp-dir={tempfile.mkdtemp(prefix='gb-')}"]
    head = subprocess.Popen(
        [*ray, *command, *options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        alive = "import ray; ray.init(address='auto'); print(ray.nodes()[0]['Alive'])"
        for _ in range(20):
            probe = python(alive, env=environment | {"RAY_ADDRESS": f"127.0.0.1:{port}"})
            if probe.code == 0:
                break
        assert probe.out.strip().endswith("True"), probe.err
        family = {int(folder.name) for folder in Path("/proc").glob("[0-9]*") if session_of(folder) == head.pid}
        places = listening_addresses(family)
        assert port in {number for _, number in places}
        loopback = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
        assert [place for place in places if place[0] not in loopback] == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGTERM)
        try:
            head.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)


def session_of(process: Path) -> int:
    """Return the session id of a process, or 0 if it has ended."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0
