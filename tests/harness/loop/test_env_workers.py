"""Which process steps a task changes no result; what goes wrong in one is told; none outlives its worker."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.capabilities import HasExpert, HasSubgoals, Measured, Telling
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.loop.env_workers import OVERHEAD, START, EnvWorkers, Work, at_once, worthwhile
from tests.harness.launchers.scheduled import until
from tests.harness.run.test_resume import TINY, bench, family, rows


@pytest.fixture
def stepping() -> Iterator[EnvWorkers]:
    """Two processes beside this one."""
    made = EnvWorkers(2)
    yield made
    made.close()


def told(task: Any) -> list[Any]:
    """What a task says of its state, of each capability that it has."""
    names = ("events", "snapshot", "position", "measures", "text", "caption", "subgoals", "outcomes", "instruction")
    return [getattr(task, name)() if callable(getattr(task, name, None)) else None for name in names]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and (one.tobytes() == other.tobytes() if hasattr(one, "tobytes") else one == other)


@pytest.mark.parametrize(
    ("suite", "task"),
    [
        ("minigrid_doorkey", "5x5"),
        ("metaworld_mt10", "mt10"),
        ("ogbench_scene", "drawer"),
        ("bin_sorting", "sorting"),
        ("crafter_ood", "stone_sword"),
        ("housekeep", "adjustment_1"),
        ("classic", "CartPole-v1"),
    ],
)
def test_a_task_in_another_process_is_the_task(stepping: EnvWorkers, suite: str, task: str) -> None:
    made = registry.get("suite", suite)()
    here = [made.make(task) for _ in range(4)]
    there = [stepping.make(made, task) for _ in range(4)]
    assert [type(each).__name__ == "RemoteTask" for each in there] == [False, True, True, False]
    for kind in (HasExpert, HasSubgoals, Measured, Telling):
        assert {isinstance(each, kind) for each in there} == {isinstance(here[0], kind)}
    actions, generator = made.spaces(task)[1], np.random.default_rng(3)
    assert equal(
        at_once(there, "reset", ((seed,) for seed in range(4))), [each.reset(n) for n, each in enumerate(here)]
    )
    for step in range(30):
        move = [
            generator.integers(actions.count) if actions.discrete else generator.uniform(-1, 1, actions.shape)
            for _ in there
        ]
        assert equal(at_once(there, "step", ((each,) for each in move)), [*map(lambda a, b: a.step(b), here, move)])
        assert equal([told(each) for each in there], [told(each) for each in here])
        assert [each.instruction for each in there] == [each.instruction for each in here]
        if step == 15:  # a state moves to another process, and back
            states = [each.state() for each in there]
            assert equal(states, [each.state() for each in here])
            for one, state in zip(there, states[1:] + states[:1], strict=True):
                one.load_state(state)
            here = here[1:] + here[:1]
    if isinstance(here[0], HasExpert):
        assert equal([each.expert() for each in there], [each.expert() for each in here])


class Broken:
    """A suite whose task fails as its name says."""

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


def test_what_goes_wrong_in_a_process_is_told(stepping: EnvWorkers) -> None:
    stepping.make(Broken(), "any")  # in this process  # type: ignore[arg-type]
    with pytest.raises(UserError, match="needs a package"):
        stepping.make(Broken(), "refused")  # type: ignore[arg-type]
    faulty, _, killed = (stepping.make(Broken(), name) for name in ("faulty", "any", "killed"))  # type: ignore
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*the simulation diverged"):
        faulty.reset()
    with pytest.raises(RuntimeError, match=r"env_workers\) ended by itself with exit code -9.*lower env_workers"):
        killed.reset()


def test_processes_are_started_where_they_save_time() -> None:
    doorkey = Work(3e-6, steps=10**6, seeds=5, evaluated=10**6, episodes=50)
    assert worthwhile(doorkey, cores=16) == 0
    scene = Work(1.6e-3, steps=10**6, seeds=5, evaluated=0, episodes=50)
    # with one process 3 of 5 steps come one after another, with two 2, with three and four 2 and 1
    assert worthwhile(scene, cores=1) == 0 and worthwhile(scene, cores=2) == 1
    assert worthwhile(scene, cores=4) == 2 and worthwhile(scene, cores=16) == 4
    alone = Work(1.6e-3, steps=10**6, seeds=1, evaluated=10**5, episodes=10)
    assert worthwhile(alone, cores=3) == 2 and worthwhile(alone, cores=16) == 9
    assert worthwhile(alone._replace(evaluated=0), cores=16) == 0
    saved = 1_000 * (1.6e-3 - OVERHEAD)
    assert saved < START and worthwhile(scene._replace(seeds=2, steps=1_000), cores=2) == 0


@pytest.mark.parametrize("suite", [(), ("suite=metaworld_pbrl", "task=button-press", "method=sac")])
def test_any_number_of_processes_writes_the_same_bytes(train, suite: tuple[str, ...]) -> None:
    short = ("training.steps=200", "evaluation.every=100", "evaluation.episodes=2", "seeds=[0,1,2]")
    settings = (*suite, *short) if suite else ("method=vlm_rb", *TINY)
    whole = train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, env_workers=0)
    assert rows(train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, env_workers=1)) == rows(whole)
    other = whole.with_name("interrupted")
    stop = (call == 116 for call in range(1, 10_000)).__next__
    with pytest.raises(Stopped):
        train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, env_workers=2, directory=other, stop=stop)
    train(*settings, packs=[(0, 1), (2,)], checkpoint_every=35, env_workers=1, directory=other)
    assert rows(other) == rows(whole)


def test_processes_end_with_a_killed_worker_and_the_run_continues(tmp_path: Path) -> None:
    command = [*bench(tmp_path / "study", 1_000, seeds=2), "env_workers=1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "started" in line:
            break
    (worker,) = family(process.pid)["worker"]
    until(lambda: bool(children(worker)), every=0.1)
    beside = children(worker)
    os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    until(lambda: not any(map(alive, beside)), every=0.1)
    alone = subprocess.run([*bench(tmp_path / "alone", 1_000, seeds=2), "env_workers=0"], capture_output=True)
    assert alone.returncode == 0 and rows(tmp_path / "study") == rows(tmp_path / "alone")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
