"""The process that asks a Ray cluster something for a command, and what it leaves in the cluster: a keeper and tasks.

A command starts it for one question and limits its time, as `slurm.py` does with sbatch and squeue. Ray's library stays
out of the command: it waits more than a minute for an address that nobody answers, and ends its own process if the
cluster goes away. The question is JSON on standard input, the answer JSON on standard output.

A keeper is a detached actor, so it outlives the command. It owns the tasks of what one command submitted: it lets a run
wait for its pre-training stage, starts a lost task again elsewhere, and ends with its last job. A task starts the
worker with its job file, stops it when the keeper says so, and returns its exit code.

This module runs as `__main__`, so Ray copies the keeper and the task by value. Both get plain arguments, and a node
that lacks this package can still say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.loop.job import (
    EXIT_CRASHED,
    EXIT_HALTED,
    EXIT_HELD,
    EXIT_STOPPED,
    EXIT_UNUSABLE,
    EXIT_USER_ERROR,
)

NAMESPACE = "guidebench"
"""The namespace of the keepers in Ray."""
PREFIX = "bench "
"""How the name of a keeper begins; the directory of its study and a number follow."""
STARTING = 40.0
"""Seconds within which a cluster must start a keeper."""
EVERY = 1.0
"""Seconds between two looks of a keeper at its tasks, and of a task at its worker."""
GRACE = 60.0
"""Seconds that a worker has to write its checkpoint after a stop signal."""
ENDED = (0, EXIT_CRASHED, EXIT_HALTED, EXIT_USER_ERROR)
"""Exit codes of a worker whose runs need nothing more; after others its job begins again."""


class Order(NamedTuple):
    """The jobs that a command submits, and how to run them. Ray carries it as a plain tuple."""

    study: str
    jobs: list[dict[str, Any]]
    """Of each job its `name`, its `runs` and the runs that must have ended before, `after`, both as CELL/SEED."""
    command: list[str]
    """The command of a worker, without its job file."""
    root: str
    """The directory from which this package is imported."""
    environment: dict[str, str]
    """Environment variables of a worker, in addition to those of its node."""
    resources: dict[str, float]
    """`num_cpus`, `num_gpus` and `memory` (bytes) of a task, as Ray takes them."""
    workers: int | None
    """Maximum number of tasks at the same time; None for as many as fit."""
    losses: int
    """Number of times that a lost worker of a job is started again."""
    later: float
    """Seconds until a job is started again whose runs another worker held, or whose worker was stopped from outside."""


class Outcome(NamedTuple):
    """The end of a task."""

    code: int | None
    """Exit code of its worker; None if the task was lost."""
    node: str = ""
    reason: str = ""


class Keeper:
    """Owns the tasks of an order until all have ended."""

    def __init__(self, order: tuple[Any, ...]) -> None:
        self._order = Order(*order)
        self._jobs = {job["name"]: job for job in self._order.jobs}
        """The jobs that have not ended, in order."""
        self._tasks: dict[Any, str] = {}
        """Ray's reference of a task's result -> job."""
        self._nodes: dict[str, str] = {}
        """Job with a worker -> its node."""
        self._reasons: dict[str, str] = {}
        """Job -> why it was started again, or is to be."""
        self._losses = dict.fromkeys(self._jobs, 0)
        self._not_before = dict.fromkeys(self._jobs, 0.0)
        self._unusable: dict[str, dict[str, str]] = {name: {} for name in self._jobs}
        """Job -> id of a node -> why its worker cannot run there. Another job may, such as one of another method."""
        self._wish = ""
        self._lock = threading.Lock()
        if not self.refusal():
            threading.Thread(target=self._keep, daemon=True).start()

    def refusal(self) -> str:
        """Return why the jobs cannot be kept on this node, or ""."""
        unseen = _unseen(self._order)
        return f"node {socket.gethostname()} {unseen}" if unseen else ""

    def wish(self, name: str, node: str) -> str:
        """Record on which node a job runs. Return what its task has to do: "" (go on), "stop" or "kill"."""
        with self._lock:
            if name in self._tasks.values():
                self._nodes[name] = node
            return self._wish

    def cancel(self, now: bool) -> None:
        """End all jobs; their workers write a checkpoint first, unless `now`."""
        import ray

        with self._lock:
            self._wish = "kill" if now else "stop"
            running = set(self._tasks.values()) & set(self._nodes)
            for reference in [task for task, name in self._tasks.items() if name not in running]:
                ray.cancel(reference)
            for name in set(self._jobs) - set(self._tasks.values()):
                del self._jobs[name]

    def standings(self) -> list[tuple[str, str]]:
        """Return each job that has not ended, and its state in words."""
        with self._lock:
            return [
                (name, "; ".join(filter(None, (self._state(name), self._reasons.get(name))))) for name in self._jobs
            ]

    def _state(self, name: str) -> str:
        if name in self._nodes:
            return f"running in Ray on {self._nodes[name]}"
        if name in self._tasks.values():
            units = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "bytes of memory"}
            needs = ", ".join(
                f"{amount:g} {units[resource]}" for resource, amount in self._order.resources.items() if amount
            )
            return f"pending in Ray: no node has {needs} free"
        if self._waits_for_stage(name):
            return "waiting in Ray: its pre-training stage has not ended"
        return "waiting in Ray"

    def _waits_for_stage(self, name: str) -> bool:
        """Return whether a job has to wait for its pre-training stage."""
        open_ = {run for job in self._jobs.values() for run in job["runs"]}
        return bool(open_.intersection(self._jobs[name]["after"]))

    def _keep(self) -> None:
        import ray

        try:
            while self._jobs:
                self._start()
                waited = list(self._tasks)
                if not waited:
                    time.sleep(EVERY)
                    continue
                ended, _ = ray.wait(waited, timeout=EVERY)
                for reference in ended:
                    self._end(reference)
        except Exception:
            for name in list(self._jobs):
                self._fail(name, f"the keeper of its task in Ray ended by an error\n{traceback.format_exc()}")
        finally:
            ray.kill(ray.get_runtime_context().current_actor)

    def _start(self) -> None:
        """Start the Ray tasks of the jobs that may begin."""
        import ray

        me = ray.get_runtime_context().current_actor
        task = ray.remote(carry_out)
        with self._lock:
            for name in [job for job in self._jobs if job not in self._tasks.values()]:
                full = self._order.workers is not None and len(self._tasks) >= self._order.workers
                if full or self._wish:
                    break
                if self._not_before[name] <= time.monotonic() and not self._waits_for_stage(name):
                    options: dict[str, Any] = {"max_retries": 0, **self._order.resources}
                    if unusable := self._unusable[name]:
                        options["label_selector"] = {"ray.io/node-id": f"!in({','.join(unusable)})"}
                    self._tasks[task.options(**options).remote(tuple(self._order), name, me)] = name

    def _end(self, reference: Any) -> None:
        """Handle the end of a task: drop its job if it is done, fail it, or let it begin again."""
        outcome = _outcome(reference)
        with self._lock:
            name = self._tasks.pop(reference)
            node = self._nodes.pop(name, "a node")
            if outcome.code in ENDED or self._wish:
                del self._jobs[name]
                return
            if outcome.code == EXIT_UNUSABLE:
                self._unusable[name][outcome.node] = self._reasons[name] = outcome.reason
                lost = "" if self._usable(name) else "; ".join(dict.fromkeys(self._unusable[name].values()))
            else:
                self._losses[name] = count = self._losses[name] + 1
                reason = (
                    outcome.reason if outcome.code is not None else f"its task on {node} was lost: {outcome.reason}"
                )
                self._reasons[name] = f"started again ({count}): {reason}"
                if outcome.code in (EXIT_STOPPED, EXIT_HELD):
                    self._not_before[name] = time.monotonic() + self._order.later
                often = (
                    f"its worker was lost {count} times; launcher.losses={self._order.losses} allows no more: {reason}"
                )
                lost = often if count > self._order.losses else ""
        if lost:
            self._fail(name, lost)

    def _usable(self, name: str) -> bool:
        """Return whether the cluster still has a node on which a job may run."""
        import ray

        usable_nodes = (node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in self._unusable[name])
        return any(fits(node, self._order.resources) for node in usable_nodes)

    def _fail(self, name: str, error: str) -> None:
        """Mark the runs of a job as failed on behalf of its worker."""
        sys.path.insert(0, self._order.root)
        with contextlib.suppress(Exception):  # nothing is lost but the reason: the runs have no holder any more
            from guidebench.harness.launchers import ending
            from guidebench.harness.records.leases import EXPIRES

            # the lease of a worker that was lost with its node expires meanwhile
            ending.failed(_job_file(self._order, name), error, abandoned=True, patience=EXPIRES + 5.0)
        with self._lock:
            self._jobs.pop(name, None)


def _outcome(reference: Any) -> Outcome:
    import ray

    try:
        return Outcome(*ray.get(reference))
    except ray.exceptions.TaskCancelledError:
        return Outcome(None, reason="cancelled")
    except ray.exceptions.RayError as lost:
        return Outcome(
            None, reason=_line(lost) if isinstance(lost, ray.exceptions.RayTaskError) else type(lost).__name__
        )


def carry_out(order_: tuple[Any, ...], name: str, keeper: Any) -> tuple[int, str, str]:
    """Start the worker of a job on this node, and end it when the keeper says so. Return its exit code, the node's id
    and, of a job that has to be started again, why."""
    import ray

    order = Order(*order_)
    id_ = ray.get_runtime_context().get_node_id()
    node = f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
    if unseen := _unseen(order, name):
        return EXIT_UNUSABLE, id_, f"node {node} {unseen}"

    heard, over = {"wish": ""}, threading.Event()

    def listen() -> None:
        while not over.is_set():
            with contextlib.suppress(ray.exceptions.RayError):  # if the keeper is lost, Ray ends this task
                heard["wish"] = ray.get(keeper.wish.remote(name, node), timeout=GRACE)
            over.wait(EVERY)

    # In the main thread Ray would lend the task's core to another task while this one waits for an answer.
    threading.Thread(target=listen, daemon=True).start()
    log = Path(order.study, "logs", f"{name}.log")
    environment = {**os.environ, **order.environment}
    if not order.resources.get("num_gpus"):
        environment["CUDA_VISIBLE_DEVICES"] = ""
    with open(log, "ab") as output:
        worker = subprocess.Popen(
            [*order.command, str(_job_file(order, name)), "--attached"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True,
        )  # fmt: skip
    sent_wish = ""
    try:
        while worker.poll() is None:
            if heard["wish"] != sent_wish:
                sent_wish = heard["wish"]
                worker.send_signal(signal.SIGKILL if sent_wish == "kill" else signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(EVERY)
    finally:  # Ray interrupts a task that it cancels
        over.set()
        if worker.poll() is None:
            worker.terminate()
            try:
                worker.wait(GRACE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
    code = worker.returncode
    if code < 0:
        return code, id_, f"its worker on {node} got signal {-code}"
    if code == EXIT_STOPPED:
        return code, id_, f"its worker on {node} was stopped"
    return code, id_, f"node {node}: {(log.read_text(errors='replace').splitlines() or [''])[-1]}"


def _line(error: Exception) -> str:
    """Return the first line of an error; Ray's errors are pages long."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _job_file(order: Order, name: str) -> Path:
    return Path(order.study, "jobs", f"{name}.json")


def _unseen(order: Order, name: str = "") -> str:
    """Return which file that a worker needs is missing on this node, or ""."""
    job_file = _job_file(order, name or order.jobs[0]["name"])
    if not job_file.is_file():
        return f"does not see {job_file}; mount the study's directory there, or choose a shared one with output=…"
    if not os.access(order.command[0], os.X_OK):
        return f"has no {order.command[0]}, the Python of the command"
    if not Path(order.root, "guidebench", "harness", "launchers").is_dir():
        return f"does not see {order.root}, from which guidebench is imported"
    return ""


def fits(node: dict[str, Any], resources: dict[str, float]) -> bool:
    """Return whether a node as `ray.nodes` describes it has what a task needs, if nothing else runs there."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    return all(node["Resources"].get(names[resource], 0.0) >= amount for resource, amount in resources.items())


def answer(question: dict[str, Any]) -> Any:
    """Return the answer of the connected cluster to a question. Raise a RayError or a ValueError that says why not."""
    match question["what"]:
        case "look":
            return _look()
        case "submit":
            return _submit(Order(*question["order"]))
        case "queued":
            return {**_look(), "queued": _queued(question["study"])}
        case "cancel":
            import ray

            ray.get([keeper.cancel.remote(question["now"]) for keeper in _keepers(question["study"])], timeout=STARTING)
        case unknown:
            raise ValueError(f"unknown question {unknown!r}")


def _look() -> dict[str, Any]:
    import ray

    context = ray.get_runtime_context()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return {
        "address": context.gcs_address,
        "session": context.get_session_name(),
        "nodes": [{"name": node["NodeManagerHostname"], "Resources": node["Resources"]} for node in nodes],
    }


def _submit(order: Order) -> None:
    import ray

    keeper_names = {*_names(order.study)}
    number = next(
        index for index in range(1, len(keeper_names) + 2) if f"{PREFIX}{order.study} {index}" not in keeper_names
    )
    # With the head a cluster is lost anyway; elsewhere the keeper's node would be one more whose loss ends all tasks.
    head = {"node:__internal_head__": 0.001}
    options = {"lifetime": "detached", "max_restarts": -1, "num_cpus": 0, "resources": head}
    keeper = ray.remote(Keeper).options(name=f"{PREFIX}{order.study} {number}", **options).remote(tuple(order))
    try:
        refusal = ray.get(keeper.refusal.remote(), timeout=STARTING)
    except ray.exceptions.GetTimeoutError:
        refusal = f"the cluster started no process within {STARTING:.0f} s; see `ray status`"
    if refusal:
        ray.kill(keeper)
        raise ValueError(refusal)


def _queued(study: str) -> list[tuple[str, str]]:
    import ray

    standings = []
    for keeper in _keepers(study):
        with contextlib.suppress(ray.exceptions.RayActorError):  # it ended meanwhile
            standings += ray.get(keeper.standings.remote(), timeout=STARTING)
    return standings


def _names(study: str) -> list[str]:
    """Return the names of the keepers of a study."""
    import ray

    actors = ray.util.list_named_actors()
    return [name for name in actors if name.rpartition(" ")[0] == f"{PREFIX}{study}"]


def _keepers(study: str) -> list[Any]:
    import ray

    keepers = []
    for name in _names(study):
        with contextlib.suppress(ValueError):  # it ended meanwhile
            keepers.append(ray.get_actor(name))
    return keepers


def main() -> None:
    question = json.load(sys.stdin)
    address, patience = question["address"], question["patience"]
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer

    def reply(**content: Any) -> None:
        os.write(out, json.dumps(content).encode())
        os._exit(0)  # Ray's own end takes seconds, and the cluster needs none

    def give_up() -> None:
        reply(refused=f"nobody answers as a Ray cluster at {address or 'the address found here'} within "
                      f"{patience:.0f} s")  # fmt: skip

    import ray  # takes seconds on a busy machine, which say nothing of the cluster

    timer = threading.Timer(patience, give_up)
    timer.daemon = True
    timer.start()
    try:
        ray.init(
            address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR",
            configure_logging=False,
        )  # fmt: skip
    except (ConnectionError, ValueError, RuntimeError) as error:
        timer.cancel()
        reply(refused=_line(error))
    timer.cancel()
    try:
        cluster_answer = answer(question)
    except (ray.exceptions.RayError, ValueError) as error:
        reply(refused=_line(error))
    reply(answer=cluster_answer)


if __name__ == "__main__":
    main()
