"""Launcher of Ray tasks. The command hands its jobs to a keeper in the cluster and returns, or stays and listens.

Keepers are named after the directory of their study, so Ray finds them by it. A separate process makes every call to
Ray (`ray_driver.py`). The study records to which cluster it was submitted, but `bench status` and `bench cancel`
connect only to the cluster of this machine or of RAY_ADDRESS: Ray unpickles what its cluster sends, and a study may
come from a stranger."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness import extras, settings
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.identity import sources
from guidebench.harness.identity.cells import recorded
from guidebench.harness.launchers import base, job_files
from guidebench.harness.launchers.base import ENDS, Event, Launcher, Scheduled, Slot, Standing
from guidebench.harness.launchers.ray_driver import Order, fits
from guidebench.harness.loop.job import Job
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit
from guidebench.harness.texts import one_line

SECONDS = 90.0
"""Seconds that one question to a cluster may take."""
PATIENCE = 30.0
"""Seconds within which a cluster must answer at its address."""
LATER = 10.0
"""Seconds until a job is started again whose runs another worker held, or whose worker was stopped from outside."""
SOON, EVERY = 2.0, 20.0
"""Seconds between two questions which jobs a cluster has: after a worker told its end, and else."""
GONE = 300.0
"""Seconds without an answer after which a command that waits takes the cluster for lost."""
FORWARDED = ("GUIDEBENCH_", "MUJOCO_", "PYOPENGL_", "HF_", "OPENAI_BASE_URL")
"""How the names of environment variables begin that workers take over from the command, beside those that settings
name, such as that of a server's key."""


@register.launcher("ray")
@dataclass(frozen=True)
class Ray(Scheduled):
    """Tasks of a Ray cluster, one for each pack of seeds; the command returns once they are submitted."""

    address: str = ""
    """Address of the cluster, HOST:PORT; empty for RAY_ADDRESS or the cluster of this machine (Ray, `ray.init`)."""
    cpus: Annotated[float, Bounds(0), Unit("cores")] = 1.0
    """Cores that Ray reserves for a worker (choice: a worker computes with one thread)."""
    gpus: Annotated[float, Bounds(0, 1), Unit("GPUs")] = 0.0
    """Share of a GPU that Ray reserves for a worker, such as 0.25; workers that share a GPU may use this share of its
    memory (choice: a CPU suffices for small networks)."""
    gpu_memory: Annotated[int | None, Bounds(1), Unit("MiB")] = None
    """GPU memory that a worker may use, at most its share; null for its share. A node whose share is smaller gets no
    worker (choice: needs differ)."""
    memory: Annotated[int | None, Bounds(1), Unit("MiB")] = None
    """Memory that Ray reserves for a worker; null for none (Ray, which by default reserves cores only)."""
    losses: Annotated[int, Bounds(0), Unit("losses")] = 10
    """Number of times that a job whose worker was lost, as with its node, starts again (choice: nodes may be preempted
    often, and a worker that kills its node should not go on for ever)."""

    def ready(self, execution: Execution, study: Path) -> None:
        if "://" in self.address:
            raise UserError(
                f"launcher.address={self.address}: Ray Client is not supported; give the HOST:PORT that `ray start` "
                f"printed, and type the command on a node of the cluster"
            )
        if self.device(execution) == "cuda" and not self.gpus:
            raise UserError("device=cuda needs a share of a GPU for each task: add launcher.gpus=1, or less")
        if execution.env_workers and self.cpus < 1 + execution.env_workers:
            raise UserError(
                f"env_workers={execution.env_workers} needs {1 + execution.env_workers} cores for each worker, and "
                f"launcher.cpus={self.cpus:g}; raise launcher.cpus"
            )
        nodes = self.ask("look")["nodes"]
        resources = self.resources
        if not any(fits(node, resources) for node in nodes):
            most = {name: max((node["Resources"].get(name, 0.0) for node in nodes), default=0.0)
                    for name in ("CPU", "GPU", "memory")}  # fmt: skip
            raise UserError(
                f"no node of the Ray cluster has what a worker is to get (launcher.cpus={self.cpus:g}, "
                f"launcher.gpus={self.gpus:g}, launcher.memory={self.memory or 'null'}); the largest have "
                f"{most['CPU']:g} cores, {most['GPU']:g} GPUs and {most['memory'] / 2**20:,.0f} MiB"
            )

    extra: ClassVar[str] = "ray"

    @property
    def resources(self) -> dict[str, float]:
        """Return the options with which Ray reserves cores, GPUs and memory (bytes) for a task."""
        memory = {"memory": float(self.memory * 2**20)} if self.memory else {}
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, **memory}

    @property
    def on_gpu(self) -> bool:
        return self.gpus > 0

    def spawn(self, execution: Execution, study: Path) -> Launcher:
        return Tasks(self, execution, study)

    def ask(self, topic: str, **content: Any) -> Any:
        """Return the cluster's answer to a question about `topic` (`ray_driver.answer`). Raise UserError if there is
        none."""
        if importlib.util.find_spec("ray") is None:
            raise extras.missing("launcher=ray needs the package ray here", "ray")
        inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS" or not self.address}
        address = self.address or inherited.get("RAY_ADDRESS", "")
        question = json.dumps({"what": topic, "address": address, "patience": PATIENCE, **content})
        try:
            process = subprocess.run(
                [*base.command()[:-1], "guidebench.harness.launchers.ray_driver"], input=question, text=True,
                capture_output=True, timeout=SECONDS, env=base.environment(Slot("cpu"), inherited),
                start_new_session=True,  # a command that is stopped by Ctrl-C still asks
            )  # fmt: skip
            answer = json.loads(process.stdout)
        except subprocess.TimeoutExpired:
            raise UserError(f"the Ray cluster gave no answer within {SECONDS:.0f} s; see `ray status`") from None
        except ValueError:
            last = one_line((process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
            raise UserError(f"Ray could not be asked: {last}") from None
        if "refused" in answer:
            raise UserError(f"launcher.address={address or 'null'}: {one_line(answer['refused'])}")
        return answer["answer"]


class Tasks(Launcher):
    """The tasks of a study."""

    def __init__(self, part: Ray, execution: Execution, study: Path) -> None:
        self._part, self._execution, self._study = part, execution, study.resolve()
        self._hearing: dict[str, tuple[Job, job_files.Hearing]] = {}
        self._last: dict[str, str] = {}
        """Job -> kind of the last event that was heard of it."""
        self._earlier_events: list[Event] = []
        """Ends that were told before this command listened, and are not passed on yet."""
        self._looked = 0.0
        self._silent: float | None = None
        """Since when the cluster gives no answer."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit jobs, without the runs that the cluster already has; the events of those runs are read as well."""
        cluster = self._part.ask("queued", study=str(self._study))
        queued_jobs = {
            run: standing.job
            for standing in self._standings(cluster["queued"])
            for run in _runs(standing.job.cell, standing.job)
        }
        new = []
        for job in jobs:
            seeds = tuple(seed for seed in job.seeds if f"{job.cell['cell']}/{seed}" not in queued_jobs)
            for queued in {
                queued_jobs[run].name: queued_jobs[run] for run in _runs(job.cell, job) if run in queued_jobs
            }.values():
                self._listen_again(queued)
            if seeds:
                new.append(replace(job, seeds=seeds))
        new = self._prepared(new)
        (self._study / "logs").mkdir(exist_ok=True)
        write_json(self._note, {name: cluster[name] for name in ("address", "session")})
        for job in new:
            job_files.put(self._study, job)
            self._listen(job)
        if new:
            self._part.ask("submit", order=self._order(new))

    def _prepared(self, jobs: Sequence[Job]) -> list[Job]:
        """Return jobs with the device, cores and GPU memory that a worker needs on its node."""
        share, device = self._part.gpus or 1.0, self._part.device(self._execution)
        cores = max(1, int(self._part.cpus))
        new = [
            replace(job, device=device, gpu_share=share, gpu_memory=self._part.gpu_memory, cores=cores) for job in jobs
        ]
        return base.elsewhere(new, self._execution)

    def _order(self, jobs: Sequence[Job]) -> Order:
        variables = set().union(*(_variables(job.cell) for job in {job.cell["cell"]: job for job in jobs}.values()))
        inherited = {
            name: value for name, value in os.environ.items() if name.startswith(FORWARDED) or name in variables
        }
        environment = base.environment(Slot(""), inherited | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
        del environment["CUDA_VISIBLE_DEVICES"]  # Ray's choice
        return Order(
            study=str(self._study),
            jobs=[
                {"name": job.name, "runs": _runs(job.cell, job), "after": _runs(job.cell.get("stage", {}), job)}
                for job in jobs
            ],
            command=base.command(),
            root=str(sources.ROOT),
            environment=environment,
            resources=self._part.resources,
            workers=self._execution.workers,
            losses=self._part.losses,
            later=LATER,
        )

    def _listen(self, job: Job) -> None:
        path = self._study / job_files.FOLDER / f"{job.name}.json"
        self._hearing[job.name] = job, job_files.Hearing(path, new=True)

    def _listen_again(self, job: Job) -> None:
        """Read the events of a job of an earlier command; if its worker has already written its end, pass that on."""
        hearing = job_files.Hearing(self._study / job_files.FOLDER / f"{job.name}.json")
        before = [*hearing]
        self._hearing[job.name] = job, hearing
        if before and before[-1][0] == "finished":
            self._last[job.name] = "finished"
            self._earlier_events.append(Event(job, *before[-1]))

    @property
    def open(self) -> int:
        return len(self._hearing)

    def poll(self, seconds: float) -> list[Event]:
        """Return the events that the workers of this command's jobs wrote. A job that left the cluster without an event
        of its end counts as crashed."""
        time.sleep(seconds)
        events = self._heard()
        ended = any(kind in ENDS for kind in self._last.values())
        if time.monotonic() - self._looked < (SOON if ended else EVERY) or not self._hearing:
            return events
        try:
            open_ = {standing.job.name for standing in self.queued()}
        except UserError as error:
            events += self._unanswered(error)
            open_ = set(self._hearing)
        else:
            self._silent = None
        self._looked = time.monotonic()
        events += self._heard()  # what was written before the cluster had no more of a job
        for name, (job, _) in list(self._hearing.items()):
            if name not in open_:
                del self._hearing[name]
                if self._last.pop(name, "") not in ENDS:
                    log = self._study / "logs" / f"{name}.log"
                    events.append(
                        Event(job, "crashed", {"error": f"the cluster lost its task without a word; see {log}"})
                    )
        return events

    def _unanswered(self, error: UserError) -> list[Event]:
        """Return a notice that the cluster does not answer, the first time. Raise UserError after GONE seconds without
        an answer, since a cluster without its head ends its tasks."""
        now = time.monotonic()
        first, self._silent = self._silent is None, self._silent or now
        if now - self._silent > GONE:
            raise UserError(f"{error}; it is not waited for any longer, and the same command continues the study")
        text = f"{error}; it is asked again every {EVERY:.0f} s for {GONE / 60:.0f} minutes"
        return [Event(next(iter(self._hearing.values()))[0], "notice", {"error": text})] if first else []

    def _heard(self) -> list[Event]:
        events, self._earlier_events = self._earlier_events, []
        for name, (job, hearing) in self._hearing.items():
            for kind, content in hearing:
                events.append(Event(job, kind, content))
                self._last[name] = kind
        return events

    def cancel(self, now: bool = False) -> None:
        self._part.ask("cancel", study=str(self._study), now=now)

    def queued(self) -> list[Standing]:
        try:
            noted = read_json(self._note)
        except (OSError, UserError):
            noted = {}
        noted = noted if isinstance(noted, dict) else {}  # the file may have been edited
        submitted = one_line(str(noted.get("address", "")))[:200]
        variable = f"RAY_ADDRESS={shlex.quote(submitted)}"
        hint = f"; the study was submitted to Ray at {submitted}: to ask that cluster, set {variable}"
        try:
            cluster = self._part.ask("queued", study=str(self._study))
        except UserError as error:
            elsewhere = submitted and submitted not in str(error)
            raise UserError(f"{error}{hint if elsewhere else ''}") from None
        if submitted and noted.get("session") != cluster["session"]:
            raise UserError(f"the Ray cluster here, at {cluster['address']}, is another one than the study's{hint}")
        return self._standings(cluster["queued"])

    def _standings(self, queued: Sequence[tuple[str, str]]) -> list[Standing]:
        standings = []
        for name, words in queued:
            path = self._study / job_files.FOLDER / f"{name}.json"
            if path.exists():
                standings.append(Standing(job_files.read(path), one_line(words)))
        return standings

    @property
    def _note(self) -> Path:
        """The file that records to which cluster the study was last submitted."""
        return self._study / job_files.FOLDER / "ray.cluster"


def _variables(cell: Mapping[str, Any]) -> set[str]:
    """Return the names of the environment variables that settings of a recorded cell refer to, such as that of an API
    key."""
    sections = recorded(cell).sections.values()
    fields = ((section, field) for section in sections for field in settings.fields(section.__class__).values())
    return {getattr(section, field.name) for section, field in fields if field.variable}


def _runs(cell: Mapping[str, Any], job: Job) -> list[str]:
    """Return the runs of a cell record with the seeds of a job, as CELL/SEED; [] for an empty record."""
    return [f"{cell['cell']}/{seed}" for seed in job.seeds] if cell else []
