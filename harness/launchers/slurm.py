"""Launcher of job arrays of SLURM. The command submits and returns; its state is in the study's directory and in SLURM.

A cell is an array and a job of it a task, so that a site's limits of array sizes and of running jobs apply. The batch
script is the only program that SLURM starts: it starts the worker with its job file, passes signals on to it, and lets
the task be queued again when its time is about to end. A preempted task is queued again by SLURM. sbatch is used as it
is: submitit pickles what it calls, and ignores SIGTERM.

    STUDY/jobs/ARRAY.array        the jobs of an array, one a line
    STUDY/jobs/ARRAY.submitted    the id that SLURM gave the array
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.identity import sources
from guidebench.harness.launchers import base, ending, job_files
from guidebench.harness.launchers.base import ENDS, Event, Launcher, Scheduled, Slot, Standing
from guidebench.harness.loop.job import EXIT_STOPPED, EXIT_USER_ERROR, Job
from guidebench.harness.records import leases
from guidebench.harness.records.files import read_regular, write_bytes
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit
from guidebench.harness.texts import control_characters, one_line

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
OPTIONS = ("SQUEUE_", "SBATCH_", "SCANCEL_")
"""How the names of environment variables begin that are options of these programs."""
NAME = "bench-"
"""How the names of its arrays in SLURM begin."""
SECONDS = 60.0
"""Seconds that one call of a program of SLURM's may take."""
SOON, EVERY = 1.0, 5.0
"""Seconds until the next look at the queue: after a worker told its end, and else."""
FORMAT = "%i|%T|%j|%K|%r|%k|%Z"
"""What squeue prints of a task: id, state, name, index, reason, comment, working directory."""
SCRIPT = """\
#!/bin/bash
study={study}; array={array}; python={python}
leave() {{  # wait in the queue, held, with the reason as comment, until somebody mends it
    scontrol update JobId="$SLURM_JOB_ID" Comment="$1"
    scontrol requeuehold "$SLURM_JOB_ID"
    sleep 30; exit {unusable}
}}
name=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$study/jobs/$array.array" 2>/dev/null)
[ -n "$name" ] || leave "node $SLURMD_NODENAME does not see $study"
[ -x "$python" ] || leave "node $SLURMD_NODENAME does not see $python"
exec >>"$study/logs/$name.log" 2>&1
{exports}
"$python" -P -m guidebench.harness.run.worker "$study/jobs/$name.json" &
worker=$!; late=
trap 'late=1; kill -USR1 $worker' USR1
trap 'kill -TERM $worker' TERM
while wait $worker; code=$?; kill -0 $worker 2>/dev/null; do :; done
if [ $code = {stopped} ] && [ -n "$late" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
if [ $code -gt 128 ]; then  # a signal ended it, as when memory runs out
    "$python" -P -m guidebench.harness.launchers.ending "$study/jobs/$name.json" "$SLURMD_NODENAME" $((code - 128))
fi
exit $code
"""


@register.launcher("slurm")
@dataclass(frozen=True)
class Slurm(Scheduled):
    """Job arrays of SLURM, one for each cell; the command returns once they are submitted."""

    partition: str = ""
    """Partition; empty for the cluster's default (choice: sites differ)."""
    account: str = ""
    """Account to charge; empty for the user's default (choice: sites differ)."""
    qos: str = ""
    """Quality of service; empty for the user's default (choice: sites differ)."""
    minutes: Annotated[int, Bounds(2), Unit("minutes")] = 240
    """Time limit of a task, after which it is queued again and continues (choice: short limits start soon)."""
    warned: Annotated[int, Bounds(10), Unit("seconds")] = 120
    """Time before that limit at which a worker is told to write its checkpoint and stop (choice: a checkpoint takes
    seconds)."""
    memory: Annotated[int | None, Bounds(1), Unit("MiB")] = None
    """Memory of a task; null for the partition's default (choice: sites differ)."""
    gres: str = ""
    """Generic resources of a task, such as gpu:1; empty for none (choice: a CPU suffices for small networks)."""

    def ready(self, execution: Execution, study: Path) -> None:
        if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
            raise UserError(
                f"launcher=slurm needs {', '.join(absent)} on this machine; type the command where jobs are submitted, "
                f"or use launcher=local"
            )
        if self.device(execution) == "cuda" and not self.on_gpu:
            raise UserError("device=cuda needs a GPU for each task: add launcher.gres=gpu:1")
        if 60 * self.minutes <= self.warned:
            raise UserError(
                f"launcher.warned={self.warned} seconds are not less than launcher.minutes={self.minutes} minutes; "
                f"lower launcher.warned"
            )
        self._submitted("--test-only", "--array=0", *_cores(execution), script="#!/bin/bash\n")

    @property
    def on_gpu(self) -> bool:
        return "gpu" in self.gres

    def spawn(self, execution: Execution, study: Path) -> Launcher:
        return Arrays(self, execution, study)

    def submitted(self, array: str, study: Path, tasks: int, execution: Execution, after: Sequence[str]) -> str:
        """Submit an array of which at most `execution.workers` tasks run at the same time, after other arrays have
        ended; return its id."""
        limit = f"%{execution.workers}" if execution.workers else ""
        words = [f"--array=0-{tasks - 1}{limit}", f"--job-name={NAME}{array}", f"--chdir={study}"]
        words += [*_cores(execution), *([f"--dependency=afterany:{':'.join(after)}"] if after else [])]
        threads = base.environment(Slot(""), {})
        variables = {name: value for name, value in threads.items() if name != "PYTHONPATH" and value}
        variables |= {} if self.on_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        path = os.pathsep.join([str(sources.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        exports = [f"export {name}={shlex.quote(value)}" for name, value in {**variables, "PYTHONPATH": path}.items()]
        script = SCRIPT.format(
            study=shlex.quote(str(study)), array=shlex.quote(array), python=shlex.quote(sys.executable),
            exports="\n".join(exports), stopped=EXIT_STOPPED, unusable=EXIT_USER_ERROR,
        )  # fmt: skip
        return self._submitted("--parsable", *words, script=script).strip().partition(";")[0]

    def _submitted(self, *words: str, script: str) -> str:
        """Return what sbatch prints for `script` with this part's settings. Raise a UserError that names the refused
        setting."""
        settings = {"partition": self.partition, "account": self.account, "qos": self.qos, "gres": self.gres}
        options = [f"--{name}={value}" for name, value in settings.items() if value]
        options += [f"--mem={self.memory}"] if self.memory else []
        options += [f"--time={self.minutes}", f"--signal=B:USR1@{self.warned}", "--nodes=1"]
        options += ["--requeue", "--open-mode=append", "--output=/dev/null"]
        try:
            return _call("sbatch", *words, *options, text=script)
        except UserError as error:
            message = str(error)
            named = next((name for name in settings if re.search(rf"\b{name}\b", message, re.IGNORECASE)), "")
            if "account" in message.lower():
                named = "account"
            if "time limit" in message.lower():
                named = "minutes"
            if not named:
                raise
            hint = f" (known partitions: {_partitions()})" if named == "partition" else ""
            setting = {**settings, "minutes": self.minutes}[named] or f"(the {named} by default)"
            raise UserError(f"launcher.{named}={setting} is refused{hint}: {message}") from None


def _cores(execution: Execution) -> list[str]:
    """Return the option that reserves a task's cores: one for the worker, and one for each process that steps tasks."""
    return [f"--cpus-per-task={1 + (execution.env_workers or 0)}"]


class _Task(NamedTuple):
    """A task in SLURM's queue."""

    number: str
    """Its id, such as 17_3."""
    job: Job
    state: str
    why: str
    """Comment or reason of a task that does not run."""


class Arrays(Launcher):
    """The arrays of a study."""

    def __init__(self, part: Slurm, execution: Execution, study: Path) -> None:
        self._part, self._execution, self._study = part, execution, study.resolve()
        self._hearing: dict[str, tuple[Job, job_files.Hearing]] = {}
        self._last: dict[str, str] = {}
        """Job -> kind of the last event that was heard of it."""
        self._next_look = 0.0
        self._unanswered = False
        self._gone: dict[str, float] = {}
        """Job that left the queue without a word -> since when."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit jobs, without the runs that are in the queue already."""
        tasks = self._tasks()
        queued = {(task.job.cell["cell"], seed) for task in tasks for seed in task.job.seeds}
        arrays: dict[str, set[str]] = {}
        for task in tasks:
            arrays.setdefault(str(task.job.cell["cell"]), set()).add(task.number.partition("_")[0])
        new = []
        for job in jobs:
            seeds = tuple(seed for seed in job.seeds if (job.cell["cell"], seed) not in queued)
            if seeds:
                new.append(replace(job, seeds=seeds, device=self._part.device(self._execution)))
        by_cell: dict[str, list[Job]] = {}
        for job in base.elsewhere(new, self._execution):
            by_cell.setdefault(str(job.cell["cell"]), []).append(job)
        (self._study / "logs").mkdir(exist_ok=True)
        for cell in sorted(by_cell, key=lambda cell_id: _depth(by_cell[cell_id][0].cell)):
            after = arrays.get(by_cell[cell][0].cell.get("stage", {}).get("cell", ""), set())
            arrays.setdefault(cell, set()).add(self._submit(by_cell[cell], sorted(after)))

    def _submit(self, jobs: Sequence[Job], after: Sequence[str]) -> str:
        """Submit the jobs of a cell as an array, to begin after other arrays have ended; return its id."""
        cell = jobs[0].cell
        for job in jobs:
            path = job_files.put(self._study, job)
            self._hearing[job.name] = job, job_files.Hearing(path, new=True)
        array = _listed(self._study / job_files.FOLDER, f"{cell['method']}-{cell['cell']}", [job.name for job in jobs])
        number = self._part.submitted(array, self._study, len(jobs), self._execution, after)
        write_bytes(self._study / job_files.FOLDER / f"{array}.submitted", number.encode())
        return number

    @property
    def open(self) -> int:
        return len(self._hearing)

    def poll(self, seconds: float) -> list[Event]:
        """Return the events that the workers of this command's jobs wrote. A job that left the queue without an event
        of its end counts as crashed."""
        time.sleep(seconds)
        events = self._heard()
        if time.monotonic() < self._next_look or not self._hearing:
            return events
        try:
            queued = {task.job.name for task in self._tasks()}
        except UserError as error:  # a controller that restarts: the tasks go on
            queued = set(self._hearing)
            if not self._unanswered:
                text = f"{error}; the tasks go on, and SLURM is asked again every {EVERY:.0f} s"
                events.append(Event(next(iter(self._hearing.values()))[0], "notice", {"error": text}))
            self._unanswered = True
        else:
            self._unanswered = False
        self._next_look = time.monotonic() + EVERY
        events += self._heard()  # what was written before a task left the queue
        for name, (job, _) in list(self._hearing.items()):
            if name not in queued:
                silent = self._last.get(name, "") not in ENDS
                if silent and self._held(job):
                    continue  # its lease is watched meanwhile
                del self._hearing[name]
                self._last.pop(name, "")
                if silent:
                    numbers = self._numbers()
                    events.append(Event(job, "crashed", {"error": self._how(name, numbers.get(name, ""))}))
        return events

    def _heard(self) -> list[Event]:
        """Return the events that workers wrote since the last call. After an end the queue is read again soon."""
        events = []
        for name, (job, hearing) in self._hearing.items():
            for kind, content in hearing:
                events.append(Event(job, kind, content))
                self._last[name] = kind
        if any(event.kind in ENDS for event in events):
            self._next_look = min(self._next_look, time.monotonic() + SOON)
        return events

    def _held(self, job: Job) -> bool:
        """Return whether the lease of a run of a job that left the queue has not expired yet."""
        since = self._gone.setdefault(job.name, time.monotonic())
        waits = time.monotonic() - since < leases.EXPIRES + 2 * EVERY
        return waits and any(run.held() for run in ending.runs_of(StudyDirectory(self._study), job))

    def lost(self) -> list[Standing]:
        lost_jobs = []
        for name, number in self._numbers().items():
            path = self._study / job_files.FOLDER / f"{name}.json"
            try:
                job = job_files.read(path)
            except UserError:
                continue
            kinds = [kind for kind, _ in job_files.Hearing(path)]
            runs = ending.runs_of(StudyDirectory(self._study), job)
            if (not kinds or kinds[-1] not in ENDS) and any(run.status == "running" and not run.held() for run in runs):
                lost_jobs.append((job, number))
        queued = {task.job.name for task in self._tasks()} if lost_jobs else set()
        return [Standing(job, self._how(job.name, number)) for job, number in lost_jobs if job.name not in queued]

    def _numbers(self) -> dict[str, str]:
        """Return job -> the id of the last task that was submitted for it, such as 17_3."""
        folder, arrays = self._study / job_files.FOLDER, {}
        for path in folder.glob("*.submitted"):
            with contextlib.suppress(OSError, ValueError):
                listed = read_regular(path.with_suffix(".array")).decode("utf-8").splitlines()
                arrays[int(read_regular(path))] = listed
        return {name: f"{array}_{index}" for array in sorted(arrays) for index, name in enumerate(arrays[array])}

    def _how(self, name: str, number: str) -> str:
        """Describe how SLURM says that the task `number` of a job ended."""
        log = self._study / "logs" / f"{name}.log"
        if not number or not (end := _end_of(number)):
            return f"its task {number} left SLURM's queue without a word, and SLURM does not say how; see {log}"
        return f"SLURM ended its task {number}: {end}; see {log}"

    def cancel(self, now: bool = False) -> None:
        tasks = self._tasks()
        if tasks:
            _call("scancel", *(["--signal=KILL", "--full"] if now else []), *(task.number for task in tasks))

    def queued(self) -> list[Standing]:
        return [
            Standing(task.job, ": ".join(filter(None, (f"{task.state.lower()} in SLURM as {task.number}", task.why))))
            for task in self._tasks()
        ]

    def _tasks(self) -> list[_Task]:
        """Return the tasks of the study in the queue. Raise UserError for a study that squeue cannot name on a line."""
        if controls := control_characters(str(self._study)):
            raise UserError(
                f"the path of {str(self._study)!r} holds {controls}, and SLURM's queue lists directories line by line; "
                f"rename the directory"
            )
        tasks = []
        for line in _call("squeue", "--me", "-h", "-r", "-o", FORMAT).splitlines():
            number, state, name, index, reason, comment, place = (line.split("|", 6) + [""] * 7)[:7]
            if place == str(self._study) and name.startswith(NAME) and index.isdecimal():
                why = comment if comment != "(null)" else "" if reason == "None" else reason
                job = _job_of(self._study, name.removeprefix(NAME), int(index))
                if job is not None:
                    tasks.append(_Task(number, job, state, one_line(why)))
        return tasks


def _listed(folder: Path, stem: str, names: Iterable[str]) -> str:
    """Write the names of an array's jobs, one per line, into a new file STEM.NUMBER.array; return STEM.NUMBER."""
    number = 1
    while True:
        try:
            with open(folder / f"{stem}.{number}.array", "x", encoding="utf-8") as file:
                file.writelines(f"{name}\n" for name in names)
            return f"{stem}.{number}"
        except FileExistsError:
            number += 1


def _job_of(study: Path, array: str, index: int) -> Job | None:
    """Return the job at an index of an array of the study, or None if there is none."""
    folder = study / job_files.FOLDER
    if not re.fullmatch(r"[\w.+-]+", array):
        return None
    try:
        name = read_regular(folder / f"{array}.array").decode("utf-8").splitlines()[index]
        return job_files.read(folder / f"{name}.json")
    except (OSError, ValueError, IndexError, UserError):
        return None


def _end_of(number: str) -> str:
    """Describe the state, node and exit code with which a task ended. Asks SLURM's controller, which forgets tasks
    after some minutes, then the accounting, which not every site has; "" if neither knows the task."""
    with contextlib.suppress(UserError):
        fields = dict(
            word.split("=", 1) for word in _call("scontrol", "show", "job", number, "-o").split() if "=" in word
        )
        if state := fields.get("JobState"):
            node, code = fields.get("BatchHost") or fields.get("NodeList", ""), fields.get("ExitCode", "")
            return one_line(_words(state, node, code))
    with contextlib.suppress(UserError):
        lines = _call("sacct", "-n", "-X", "-P", "-j", number, "-o", "State,NodeList,ExitCode").splitlines()
        if lines and lines[-1].count("|") == 2:
            return one_line(_words(*lines[-1].split("|")))
    return ""


def _words(state: str, node: str, code: str) -> str:
    """Format the end of a task as text. `code`: exit code as SLURM prints it, CODE:SIGNAL."""
    memory = " (raise launcher.memory, or lower pack or training.capacity)" if state.startswith("OUT_OF_ME") else ""
    return f"{state}{f' on node {node}' if node else ''}, exit code and signal {code}{memory}"


def _depth(cell: Mapping[str, object]) -> int:
    """Return the number of pre-training stages before a cell."""
    stage = cell.get("stage")
    return 1 + _depth(stage) if isinstance(stage, Mapping) else 0


def _partitions() -> str:
    try:
        return ", ".join(dict.fromkeys(_call("sinfo", "-h", "-o", "%R").split()))
    except UserError:
        return "see sinfo"


def _call(program: str, *words: str, text: str = "") -> str:
    """Call a program of SLURM's and return what it printed. Raise UserError if it fails.

    Its own environment variables, such as SQUEUE_STATES, are left out: they would hide tasks, or change what is asked.
    Ctrl-C does not reach it, since a command that is stopped still asks.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OPTIONS)}
    try:
        done = subprocess.run(
            [program, *words], input=text, capture_output=True, text=True, timeout=SECONDS, env=environment,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise UserError(f"{program} is not on this machine, so SLURM cannot be asked from here") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{program} gave no answer within {SECONDS:.0f} s; is SLURM's controller up (sinfo)?") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        message = "; ".join(dict.fromkeys(one_line(line.removeprefix(f"{program}: error: ")) for line in lines))
        raise UserError(f"{program}: {message or f'exit code {done.returncode}'}")
    return done.stdout
