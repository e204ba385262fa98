"""The process that steps a task does not change any result; errors in it are reported; none outlives its worker."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.capabilities import HasExpert, HasSubgoals, Measured, Telling
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.loop.env_workers import OVERHEAD, START, EnvWorkers, Work, at_once, worthwhile
from tests import programs
from tests.harness.run.test_resume import rows


@pytest.fixture(scope="module")
def env_workers() -> Iterator[EnvWorkers]:
    """Start two processes that step tasks, for all tests of this file."""
    workers = EnvWorkers(2)
    yield workers
    workers.close()


@pytest.fixture
def two_env_workers(env_workers: EnvWorkers) -> EnvWorkers:
    """Return the started processes; the first task stays in this process."""
    workers = EnvWorkers(0)
    workers.processes = env_workers.processes
    return workers


def task_state(task: Any) -> list[Any]:
    """Return what a task reports about its state, one entry for each capability (None where it lacks one)."""
    names = ("events", "snapshot", "position", "measures", "text", "caption", "subgoals", "outcomes", "instruction")
    return [getattr(task, name)() if callable(getattr(task, name, None)) else None for name in names]


def equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return type(first) is type(second) and (
        first.tobytes() == second.tobytes() if hasattr(first, "tobytes") else first == second
    )


@pytest.mark.parametrize(
    ("suite", "task"),
    [
        ("minigrid_doorkey", "5x5"),
        pytest.param("metaworld_mt10", "mt10", marks=pytest.mark.release),
        pytest.param("ogbench_scene", "drawer", marks=pytest.mark.release),
        ("crafter_ood", "stone_sword"),
        ("housekeep", "adjustment_1"),
        ("classic", "CartPole-v1"),
    ],
)
def test_a_task_in_another_process_is_the_task(two_env_workers: EnvWorkers, suite: str, task: str) -> None:
    built_suite = registry.get("suite", suite)()
    local = [built_suite.make(task) for _ in range(3)]
    remote = [two_env_workers.make(built_suite, task) for _ in range(3)]
    assert [type(env).__name__ == "RemoteTask" for env in remote] == [False, True, True]
    for kind in (HasExpert, HasSubgoals, Measured, Telling):
        assert {isinstance(env, kind) for env in remote} == {isinstance(local[0], kind)}
    actions, generator = built_suite.spaces(task)[1], np.random.default_rng(3)
    assert equal(at_once(remote, "reset", ((n,) for n in range(3))), [env.reset(n) for n, env in enumerate(local)])
    for step in range(8):
        move = [
            generator.integers(actions.count) if actions.discrete else generator.uniform(-1, 1, actions.shape)
            for _ in remote
        ]
        assert equal(
            at_once(remote, "step", ((action,) for action in move)), [*map(lambda a, b: a.step(b), local, move)]
        )
        assert equal([task_state(env) for env in remote], [task_state(env) for env in local])
        assert [env.instruction for env in remote] == [env.instruction for env in local]
        if step == 3:  # a state moves to another process, and back
            states = [env.state() for env in remote]
            assert equal(states, [env.state() for env in local])
            for restored, state in zip(remote, states[1:] + states[:1], strict=True):
                restored.load_state(state)
            local = local[1:] + local[:1]
    if isinstance(local[0], HasExpert):
        assert equal([env.expert() for env in remote], [env.expert() for env in local])


class Broken:
    """A suite whose task fails in the way that its name states."""

    apart = False

    def make(self, task: str) -> Broken:
        if task == "refused":
            raise UserError("this suite needs a package")
        self.instruction, self.max_steps, self.task = task, 10, task
        return self

    def reset(self, seed: int | None = None) -> np.ndarray:
        if self.task == "faulty":
            raise ValueError("the simulation diverged")
        if self.task == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(1)


def test_what_goes_wrong_in_a_process_is_told() -> None:
    stepping = EnvWorkers(2)
    stepping.make(Broken(), "any")  # in this process  # type: ignore[arg-type]
    with pytest.raises(UserError, match="needs a package"):
        stepping.make(Broken(), "refused")  # type: ignore[arg-type]
    faulty, _, killed = (stepping.make(Broken(), name) for name in ("faulty", "any", "killed"))  # type: ignore
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*the simulation diverged"):
        faulty.reset()
    with pytest.raises(RuntimeError, match=r"env_workers\) ended by itself with exit code -9.*lower env_workers"):
        killed.reset()
    stepping.close()


def test_processes_are_started_where_they_save_time() -> None:
    doorkey = Work(3e-6, steps=10**6, seeds=5, evaluated=10**6, episodes=50)
    assert worthwhile(doorkey, cores=16) == 0
    scene = Work(1.6e-3, steps=10**6, seeds=5, evaluated=0, episodes=50)
    # with one extra process 3 of 5 tasks step one after another, with two or three 2, with four 1
    assert worthwhile(scene, cores=1) == 0 and worthwhile(scene, cores=2) == 1
    assert worthwhile(scene, cores=4) == 2 and worthwhile(scene, cores=16) == 4
    alone = Work(1.6e-3, steps=10**6, seeds=1, evaluated=10**5, episodes=10)
    assert worthwhile(alone, cores=3) == 2 and worthwhile(alone, cores=16) == 9
    assert worthwhile(alone._replace(evaluated=0), cores=16) == 0
    saved = 1_000 * (1.6e-3 - OVERHEAD)
    assert saved < START and worthwhile(scene._replace(seeds=2, steps=1_000), cores=2) == 0


SHORT = (
    "training.steps=80", "evaluation.every=40", "evaluation.episodes=2", "seeds=[0,1,2]", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=24",
)  # fmt: skip
DISCRETE = ("method=vlm_rb", "judge.delay=25", "drawing.tile_size=8", "learner.channels=4", "learner.features=8")
CONTINUOUS = ("suite=classic", "task=Pendulum-v1", "method=sac")


@pytest.mark.parametrize("settings", [DISCRETE, CONTINUOUS])
def test_any_number_of_processes_writes_the_same_bytes(train, settings: tuple[str, ...]) -> None:
    settings = (*settings, *SHORT)
    serial = train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, env_workers=0)
    interrupted = serial.with_name("interrupted")
    stop = (call == 60 for call in range(1, 10_000)).__next__
    with pytest.raises(Stopped):
        train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, env_workers=2, directory=interrupted, stop=stop)
    train(*settings, packs=[(0, 1), (2,)], checkpoint_every=35, env_workers=1, directory=interrupted)
    assert rows(interrupted) == rows(serial)


WORKER = """
from guidebench.harness import registry
from guidebench.harness.loop.env_workers import EnvWorkers
workers = EnvWorkers(1)
suite = registry.get("suite", "classic")()
tasks = [workers.make(suite, "CartPole-v1") for _ in range(2)]
print(workers.processes[0]._companion.pid, flush=True)
input()
"""


def test_a_process_ends_with_its_killed_worker() -> None:
    worker = programs.start("tests.programs", "python", WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    beside = os.pidfd_open(int(worker.stdout.readline()))
    try:
        worker.kill()
        worker.wait()
        assert select.select([beside], [], [], 60.0)[0], "the process outlived its worker"
    finally:
        os.close(beside)
