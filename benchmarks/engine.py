"""Cost of the engine apart from learning: checkpoints, resuming, stored transitions, evaluation.

    python -m benchmarks.engine [--repeats 5] [--run-steps 10000]

Checkpoints are of DQN on DoorKey 8x8 with the paper's network and one seed, for runs of 100,000 and 1,000,000 steps
(with equal capacity). They are written and flushed as in training and read as in a resume; priorities are random, so
that every memory page is used. The size of stored 16x16 transitions is counted in disk blocks of the ring's files and
in bytes per transition of each sampler. The share of evaluation is measured by the clock of a real run on 5x5 with the
quick profile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Line
from benchmarks.turns import last_timing
from guidebench.harness.interfaces import Transition
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Names

METHODS = ("uer", "per", "vlm_rb")


def cell(task: str, method: str, steps: int) -> Cell:
    parts = roles.parts_of("minigrid_doorkey", task, method, "paper", {"judge": "sprite"})
    names = Names("minigrid_doorkey", task, method, "paper", parts)
    return config.resolve(names, {"training.steps": steps, "training.capacity": steps, "evaluation.every": steps}, {})


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median wall-clock seconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def checkpoint(method: str, slots: int, repeats: int) -> dict[str, float]:
    """Return seconds to write and to load a checkpoint of one seed, and its bytes."""
    with tempfile.TemporaryDirectory() as directory:
        build = make_build(cell("8x8", method, slots), (0,), "cpu", [Path(directory)])
        agent: Any = build.parts["agent"].spawn(build)
        tree = getattr(agent.experience.sampler, "tree", None)
        if tree is not None:
            tree.load_leaves(0, np.random.default_rng(0).random(tree.size))

        def write() -> Path:
            return checkpoints.save(Path(directory), 1, agent.state(0))

        def resume() -> None:
            newest = checkpoints.newest(Path(directory))
            assert newest is not None
            agent.load_state(0, newest.state)

        write()
        return {
            "write_seconds": seconds(write, repeats),
            "resume_seconds": seconds(resume, repeats),
            "bytes": sum(file.stat().st_size for file in write().iterdir()),
        }


def stored(count: int) -> dict[str, float]:
    """Return bytes per stored 16x16 transition: of the ring on disk, and of each method's sampler in memory."""
    from guidebench.baselines.storage import Storage

    with tempfile.TemporaryDirectory() as directory:
        build = make_build(cell("16x16", "uer", count), (0,), "cpu", [Path(directory)])
        storage, suite = Storage(build), build.parts["suite"]
        task = suite.make("16x16")
        observation = task.reset(0)
        for action in build.streams[0].explore.integers(build.actions.count, size=count):
            step = task.step(action)
            storage.append(
                Transition(
                    observation[None], np.array([action]), np.array([step.reward], np.float32),
                    np.array([step.terminated]), np.array([step.truncated]), step.observation[None],
                    task.events()[None], None, np.array([step.success]),
                )
            )  # fmt: skip
            observation = task.reset() if step.terminated or step.truncated else step.observation
        storage.state(0)
        disk = sum(file.stat().st_blocks * 512 for file in (Path(directory) / "replay").iterdir())
    both = 2 * observation.nbytes + 2 + 4 + 1
    sizes = {"disk_bytes": disk / count, "both_observations_bytes": float(both)}
    for method in METHODS:
        with tempfile.TemporaryDirectory() as directory:
            build = make_build(cell("16x16", method, 1_000_000), (0,), "cpu", [Path(directory)])
            build.parts["replay"].spawn(build)  # import first, so that memory counts only the sampler
            tracemalloc.start()
            sampler = build.parts["replay"].spawn(build)
            sizes[f"{method}_memory_bytes"] = tracemalloc.get_traced_memory()[0] / build.slots
            tracemalloc.stop()
            del sampler
    return sizes


def shares(steps: int) -> dict[str, float]:
    """Return the seconds of a real run, and the shares of evaluation and checkpoints in them."""

    import guidebench

    with tempfile.TemporaryDirectory() as directory:
        study = guidebench.run(
            "suite=minigrid_doorkey", "task=5x5", "method=uer", "profile=quick", "seeds=1", "report=false",
            f"training.steps={steps}", f"evaluation.every={min(steps, 2_000)}", f"output={directory}/study",
        )  # fmt: skip
        (run,) = study.runs
        if run.status != "finished":
            raise SystemExit(f"the run did not finish: {run.error}")
        clock = last_timing(run.directory)
    return {
        "steps": steps,
        "seconds": clock["seconds"],
        "evaluation_share": clock["evaluation_seconds"] / clock["seconds"],
        "checkpoint_share": clock["checkpoint_seconds"] / clock["seconds"],
    }


def measure(repeats: int, run_steps: int, slots: tuple[int, ...], transitions: int) -> dict[str, Any]:
    return {
        "checkpoint_8x8": {
            f"{method}, {size} slots": checkpoint(method, size, repeats) for size in slots for method in METHODS
        },
        "transition_16x16": stored(transitions),
        "run_5x5": shares(run_steps),
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield no line of the table of all benchmarks, since bytes of a checkpoint have no goal."""
    yield from ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--run-steps", type=int, default=10_000, help="steps of the timed run")
    parser.add_argument("--slots", type=int, nargs="+", default=[100_000, 1_000_000], help="capacity of the replay")
    parser.add_argument("--transitions", type=int, default=50_000, help="stored 16x16 transitions")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    figures = measure(options.repeats, options.run_steps, tuple(options.slots), options.transitions)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{'checkpoint, 8x8':28}{'write ms':>10}{'resume ms':>11}{'MB':>8}")
    for name, row in figures["checkpoint_8x8"].items():
        times = f"{1e3 * row['write_seconds']:10.1f}{1e3 * row['resume_seconds']:11.1f}"
        print(f"{name:28}{times}{row['bytes'] / 1e6:8.1f}")
    print("\nbytes for each stored 16x16 transition")
    for name, number in figures["transition_16x16"].items():
        print(f"{name.replace('_', ' '):28}{number:10.1f}")
    run = figures["run_5x5"]
    evaluation, checkpointing = 100 * run["evaluation_share"], 100 * run["checkpoint_share"]
    print(f"\n5x5 quick, {run['steps']:,} steps: evaluation {evaluation:.1f} %, checkpoints {checkpointing:.1f} %")


if __name__ == "__main__":
    main()
