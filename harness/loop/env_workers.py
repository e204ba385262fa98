"""Processes beside a worker that hold some of its tasks, so that the tasks of several seeds and episodes step at the
same time on several cores.

A `RemoteTask` has the methods of the task that it stands for, and `at_once` calls a method of many tasks, those of all
processes at once. Which process steps a task changes no result. The processes and the worker speak pickle through a
pipe that nobody else can reach.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.companions import Companion, never
from guidebench.harness.errors import UserError
from guidebench.harness.heartbeats import SILENT_AFTER, Silent
from guidebench.harness.interfaces import Array, State, Step, Suite, Task

if TYPE_CHECKING:
    from guidebench.harness.loop.job import Job
    from guidebench.harness.plan.config import Cell

READINGS = ("events", "snapshot", "position", "measures", "text", "caption")
"""Methods that take no argument and change nothing. Those that are called of a task come along with its later steps."""
CAPABILITIES = (*READINGS, "subgoals", "outcomes", "score", "expert")
"""Methods of all capabilities of tasks (`harness.capabilities`), which a wrapper may have without its class."""
OVERHEAD = 3e-4
"""Seconds by which a turn of all tasks is longer than its longest share of their steps (measured: 1 to 7e-4, the more
the longer a step is; benchmarks/env_workers.py)."""
START = 3.0
"""Seconds of one core to start a process and to import a suite there (measured with MetaWorld)."""
MOST = 15
"""Maximum number of processes of a worker (choice: each imports the suite, which takes some 200 MB with MuJoCo)."""


class Work(NamedTuple):
    """The environment steps of a worker that are left."""

    seconds: float
    """Seconds of one step of one task."""
    steps: int
    """Steps of training."""
    seeds: int
    """Tasks that training steps at the same time."""
    evaluated: int
    """Steps of evaluations."""
    episodes: int
    """Tasks that an evaluation steps at the same time, of all seeds."""


def worthwhile(work: Work, cores: int) -> int:
    """Return the number of processes beside a worker of so many cores that is estimated to save most time; 0 where none
    saves any."""

    def saved(processes: int) -> float:
        total = -START * processes
        for steps, tasks in ((work.steps, work.seeds), (work.evaluated, work.episodes)):
            less = tasks - -(-tasks // (processes + 1))  # steps, one after another, that a turn of all tasks is spared
            total += steps * (less * work.seconds - OVERHEAD * (less > 0))
        return total

    return max(range(min(cores - 1, MOST) + 1), key=saved, default=0)


def spread(job: Job) -> bool:
    """Return whether the processes also step the tasks of training: on a CPU only if the job asks for processes, since
    updates leave the tasks' caches cold there and nothing is gained (measured: benchmarks/env_workers.py)."""
    return job.env_workers is not None or job.device != "cpu"


def processes(job: Job, cell: Cell, step: int) -> int:
    """Return the number of processes that step tasks beside a worker from a step on."""
    if job.env_workers is not None:
        return job.env_workers
    suite, evaluation, task, seeds = cell.section("suite"), cell.section("evaluation"), cell.names.task, len(job.seeds)
    remaining = cell.steps - step
    work = Work(
        suite.seconds_per_step(task), steps=remaining if spread(job) else 0, seeds=seeds,
        evaluated=remaining // evaluation.every * suite.horizon(task), episodes=seeds * evaluation.episodes,
    )  # fmt: skip
    return worthwhile(work, job.cores)


class EnvWorkers:
    """The processes of a worker; none is started before a task is made in it."""

    def __init__(self, processes: int, silent_after: float = SILENT_AFTER, stop: Callable[[], bool] = never) -> None:
        """`silent_after`: seconds without a heartbeat after which a process is killed; `stop`: says whether the worker
        is to stop, which waits for a step only a little longer then (`heartbeats.Watch`)."""
        self.processes = [EnvWorker(silent_after, stop) for _ in range(processes)]
        self._task_count = 0

    def make(self, suite: Suite, task: str) -> Task:
        """Make a task. The worker and its processes take turns in holding the tasks, beginning with the worker."""
        place = 0 if suite.apart else self._task_count % (len(self.processes) + 1)
        self._task_count += 1
        return self.processes[place - 1].make(suite, task) if place else suite.make(task)

    @property
    def processor_seconds(self) -> float:
        """Return the processor time of all processes so far."""
        return sum(process.processor_seconds for process in self.processes)

    def close(self) -> None:
        """End the processes with all that they hold."""
        for process in self.processes:
            process.close()


class EnvWorker:
    """A process that holds tasks. It answers each message by one message."""

    def __init__(self, silent_after: float = SILENT_AFTER, stop: Callable[[], bool] = never) -> None:
        self._companion = Companion(serve, silent_after, stop)
        self._method = ""
        """What the last message asked for."""

    def make(self, suite: Suite, task: str) -> RemoteTask:
        """Make a task in the process."""
        self.send("", [(suite, task)])
        ((number, methods, *attributes),) = self.receive()
        return _stand_in(methods)(self, number, *attributes)

    def send(self, method: str, calls: Sequence[tuple[Any, Any]]) -> None:
        """Ask for calls of a method of tasks (number of the task, arguments), or, if `method` is empty, for new tasks
        (suite, name). Receive the answer before the next message."""
        self._method = method
        with self._named():
            self._companion.send((method, calls))

    def receive(self) -> list[Any]:
        """Return the answer to the last message. Raise UserError if a task raised one, RuntimeError with the traceback
        for another error, RuntimeError in one line for the end of the process and for one that was killed because it
        gave no sign of life, and Stopped if the worker is to stop and no answer comes."""
        try:
            with self._named():
                answer = self._companion.receive()
        except (EOFError, OSError):
            code = self._companion.ended()
            raise RuntimeError(
                f"a process that steps tasks beside the worker (env_workers) ended by itself with exit code {code}; "
                f"if the machine's memory did not suffice, lower env_workers"
            ) from None
        if isinstance(answer, Failure):
            raise UserError(answer.text) if answer.of_user else RuntimeError(answer.text)
        return list(answer)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the process, and what it was asked, in the error that it is hung."""
        try:
            yield
        except Silent as silent:
            raise RuntimeError(
                f"a process that steps tasks beside the worker (env_workers), asked for "
                f"{self._method or 'new tasks'}, {silent}"
            ) from None

    @property
    def processor_seconds(self) -> float:
        """Return the processor time of the process so far; 0 before it starts."""
        return self._companion.processor_seconds

    def close(self) -> None:
        """End the process."""
        self._companion.close()


class RemoteTask:
    """Stands for a task in another process, and has all its methods. A subclass adds those beyond the protocol `Task`,
    so that the task has the same optional capabilities here."""

    def __init__(self, process: EnvWorker, number: int, instruction: str, max_steps: int) -> None:
        self.process, self.number = process, number
        self.instruction, self.max_steps = instruction, max_steps
        self.readings: Mapping[str, Any] = {}
        """Method -> what it returned right after the last change of the task's state."""

    def reset(self, seed: int | None = None) -> Array:
        return at_once([self], "reset", [(seed,)])[0]  # type: ignore[no-any-return]

    def step(self, action: Any) -> Step:
        return at_once([self], "step", [(action,)])[0]  # type: ignore[no-any-return]

    def events(self) -> Array:
        return self._read("events")  # type: ignore[no-any-return]

    def snapshot(self) -> Array:
        return self._read("snapshot")  # type: ignore[no-any-return]

    def position(self) -> bytes | None:
        return self._read("position")  # type: ignore[no-any-return]

    def state(self) -> State:
        return self._call("state")  # type: ignore[no-any-return]

    def load_state(self, state: State) -> None:
        self._call("load_state", state)

    def _read(self, method: str) -> Any:
        if method not in self.readings:
            return self._call(method)
        return self.readings[method]

    def _call(self, method: str, *arguments: Any) -> Any:
        return at_once([self], method, [arguments])[0]


def at_once(tasks: Sequence[Task], method: str, arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return what a method of each task returns for its arguments, in order. The tasks of each process run at the same
    time as those of the others and of this process."""
    argument_lists = list(arguments)
    elsewhere: dict[EnvWorker, list[int]] = {}
    for place, task in enumerate(tasks):
        if isinstance(task, RemoteTask):
            elsewhere.setdefault(task.process, []).append(place)
    if not elsewhere:
        return [getattr(task, method)(*mine) for task, mine in zip(tasks, argument_lists, strict=True)]
    answers: list[Any] = [None] * len(tasks)
    remote: Any = tasks
    for process, places in elsewhere.items():
        process.send(method, [(remote[place].number, argument_lists[place]) for place in places])
    for place, task in enumerate(tasks):
        if not isinstance(task, RemoteTask):
            answers[place] = getattr(task, method)(*argument_lists[place])
    for process, places in elsewhere.items():
        for place, (value, readings, instruction) in zip(places, process.receive(), strict=True):
            answers[place], remote[place].readings, remote[place].instruction = value, readings, instruction
    return answers


@functools.cache
def _stand_in(methods: tuple[str, ...]) -> type[RemoteTask]:
    """Return the class of tasks with these methods."""

    def calling(method: str) -> Callable[..., Any]:
        if method in READINGS:
            return lambda task: task._read(method)
        return lambda task, *arguments: task._call(method, *arguments)

    return type("RemoteTask", (RemoteTask,), {name: calling(name) for name in methods if not hasattr(RemoteTask, name)})


class Failure(NamedTuple):
    """Why a process could not do what it was asked."""

    text: str
    of_user: bool
    """Whether it is a UserError."""


def serve(connection: Connection) -> None:
    """Hold tasks until the worker ends, which is what signals end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(2, 1)  # the worker's standard output holds its events
    tasks: list[_HeldTask] = []
    while True:
        try:
            method, calls = connection.recv()
        except (EOFError, OSError):
            return
        answer: Failure | list[Any]
        try:
            if method:
                answer = [tasks[number].call(method, arguments) for number, arguments in calls]
            else:
                tasks += [_HeldTask(suite.make(name)) for suite, name in calls]
                answer = [(len(tasks) - 1, *tasks[-1].description)]
        except UserError as error:
            answer = Failure(str(error), True)
        except Exception:  # a package's task may raise anything; the worker raises it again
            answer = Failure(traceback.format_exc(), False)
        with contextlib.suppress(BrokenPipeError):
            connection.send(answer)


class _HeldTask:
    """A task in a process, and what is read of it after each change of its state."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._read_methods: tuple[str, ...] = ()

    @property
    def description(self) -> tuple[tuple[str, ...], str, int]:
        """Return the names of the task's public methods and capabilities, and its attributes."""
        names = {name for name in dir(type(self._task)) if not name.startswith("_")} | set(CAPABILITIES)
        methods = tuple(sorted(name for name in names if callable(getattr(self._task, name, None))))
        return methods, self._task.instruction, self._task.max_steps

    def call(self, method: str, arguments: tuple[Any, ...]) -> tuple[Any, dict[str, Any], str]:
        """Call a method of the task that this process holds; return its value and, after it, the readings that were
        ever called (`READINGS`) and the episode's instruction."""
        value = getattr(self._task, method)(*arguments)
        if method in READINGS:
            self._read_methods = tuple(dict.fromkeys((*self._read_methods, method)))
        return value, {name: getattr(self._task, name)() for name in self._read_methods}, self._task.instruction
