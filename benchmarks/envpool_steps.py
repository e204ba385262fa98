"""Steps per second of DoorKey and MetaWorld beside EnvPool, which steps many copies of an environment in C++.

    PYTHONPATH=. peers/bin/python -P -m benchmarks.envpool_steps [--rounds 7] [--json]

Each round steps one task of ours and then EnvPool's copies, with random actions on one core, resets included; a ratio
is the median of the rounds' ratios. EnvPool is measured with each number of copies in `COPIES`, and the fastest stands
beside ours. Its DoorKey observes 7x7 cells before the agent, ours the whole grid; MetaWorld's observations are equal.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cartpole import on_one_core
from benchmarks.table import Line

COPIES = (1, 8, 64)
TASKS = {
    "DoorKey 8x8": ("minigrid_doorkey", "8x8", "MiniGrid-DoorKey-8x8-v0"),
    "MetaWorld button-press": ("metaworld_pbrl", "button-press", "MetaWorld/ButtonPress-v3"),
}
"""Name -> suite and task here, and EnvPool's id."""
GOALS = {"DoorKey 8x8": "1", "MetaWorld button-press": ".85"}


class OneTask:
    """A task of ours, stepped with random actions."""

    def __init__(self, suite: str, name: str) -> None:
        from guidebench.harness import registry

        configured = registry.get("suite", suite)()
        self.task, actions = configured.make(name), configured.spaces(name)[1]
        rng = np.random.default_rng(0)
        drawn = rng.integers(0, actions.count, 64) if actions.count else rng.uniform(-1, 1, (64, *actions.shape))
        self.actions = [int(action) for action in drawn] if actions.count else [*drawn.astype(np.float32)]
        self.task.reset(0)

    def __call__(self, steps: int) -> float:
        """Return steps per second over a number of steps."""
        task, actions, start = self.task, self.actions, time.perf_counter()
        for number in range(steps):
            step = task.step(actions[number % 64])
            if step.terminated or step.truncated:
                task.reset()
        return steps / (time.perf_counter() - start)


class Pool:
    """Copies of an environment of EnvPool, stepped together with random actions by one thread."""

    def __init__(self, name: str, copies: int) -> None:
        import envpool

        self.copies = copies
        self.pool = envpool.make(name, env_type="gymnasium", num_envs=copies, num_threads=1, seed=0)
        space, rng = self.pool.action_space, np.random.default_rng(0)
        shape = (64, copies, *space.shape)
        discrete = hasattr(space, "n")
        self.actions = rng.integers(0, space.n, shape) if discrete else rng.uniform(-1, 1, shape).astype(np.float32)
        self.pool.reset()

    def __call__(self, steps: int) -> float:
        """Return steps per second, of all copies together, over at least a number of steps."""
        calls, start = -(-steps // self.copies), time.perf_counter()
        for number in range(calls):
            self.pool.step(self.actions[number % 64])
        return calls * self.copies / (time.perf_counter() - start)


def compare(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Return our steps per second and those of EnvPool by number of copies; a turn takes about `seconds`."""
    suite, task, peer = TASKS[name]
    contenders = {0: OneTask(suite, task), **{copies: Pool(peer, copies) for copies in COPIES}}
    steps = {key: int(max(200, contender(1_000) * seconds)) for key, contender in contenders.items()}
    rates: dict[int, list[float]] = {key: [] for key in contenders}
    for _ in range(rounds):
        for key, contender in contenders.items():
            rates[key].append(contender(steps[key]))
    medians = {key: statistics.median(speeds) for key, speeds in rates.items()}
    fastest = max(COPIES, key=medians.__getitem__)
    ratios = sorted(ours / theirs for ours, theirs in zip(rates[0], rates[fastest], strict=True))
    return {
        "name": name,
        "ours_per_second": medians[0],
        "peer_per_second": {str(copies): medians[copies] for copies in COPIES},
        "copies": fastest,
        "ratio": statistics.median(ratios),
        "ratio_lowest": ratios[0],
        "ratio_highest": ratios[-1],
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        label = f"{row['name']}, steps of one task: EnvPool, {row['copies']} copies in one thread"
        rates = [f"{rate:,.0f}/s" for rate in (row["ours_per_second"], row["peer_per_second"][str(row["copies"])])]
        yield Line(label, *rates, row["ratio"], GOALS[row["name"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of a turn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if importlib.util.find_spec("envpool") is None:
        parser.error("envpool is not installed here; make the peers' environment (benchmarks/peers.txt)")
    on_one_core()
    figures: dict[str, Any] = {
        "rounds": options.rounds,
        "rows": [compare(name, options.rounds, options.seconds) for name in TASKS],
        "versions": {name: importlib.metadata.version(name) for name in ("envpool", "numpy")},
    }
    if options.json:
        print(json.dumps(figures))
        return
    for line in lines(figures):
        print(f"{line.label}: {line.ours} beside {line.peer}, {line.figure:.2f}")


if __name__ == "__main__":
    main()
