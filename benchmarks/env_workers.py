"""Steps per second of training, and of an evaluation, with processes that step tasks beside the worker and without.

    python -m benchmarks.env_workers [--json] [--rounds 7] [--seeds 2] [--processes 1]

Training: two runs of the same cell and seeds on one thread of PyTorch each alternate in turns (`benchmarks.turns`) once
the learner learns; the figure is the median ratio of their times. Evaluation: tasks of as many episodes step with
random actions, in this process and distributed over it and the others. `overhead`: microseconds that a turn takes
longer than the longest share of its steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.table import Line
from benchmarks.turns import Contender, interleave, rate, ratios
from guidebench.harness import registry
from guidebench.harness.interfaces import Actions, Task
from guidebench.harness.loop.env_workers import EnvWorkers, at_once

CELLS = {
    "minigrid_doorkey": ("8x8", "uer", 1_200, 200),
    "metaworld_pbrl": ("button-press", "sac", 300, 30),
    "ogbench_scene": ("drawer", "sac", 300, 30),
}
"""Suite -> task, method, step of the first turn, steps of a turn."""
EVALUATED = {"minigrid_doorkey": "8x8", "metaworld_pbrl": "button-press", "ogbench_scene": "drawer", "crafter": "game"}
"""Suite -> task of the evaluation."""


def training(
    suite: str, rounds: int, seeds: int, processes: int, start: int | None, turn: int | None
) -> dict[str, Any]:
    """Return steps per second of all seeds together, and the ratios of the speed with processes to that without."""
    task, method, *usual = CELLS[suite]
    start, turn = start or usual[0], turn or usual[1]
    cell_words = [f"suite={suite}", f"task={task}", f"method={method}", "profile=quick", "learner.learning_starts=256"]
    words = ["--start", str(start), "--turn", str(turn), "--seeds", str(seeds)]
    alone, beside = (
        Contender("benchmarks.turns", [*words, "--env-workers", str(count), *cell_words]) for count in (0, processes)
    )
    interleave((alone, beside), rounds)
    speedups = ratios(alone, beside)
    for contender in (alone, beside):
        contender.close()
    return {
        "suite": suite, "task": task, "method": method, "ratio": statistics.median(speedups), "ratios": speedups,
        "steps_per_second": [seeds * rate(contender, turn) for contender in (alone, beside)],
    }  # fmt: skip


def evaluation(suite: str, rounds: int, episodes: int, processes: int, steps: int) -> dict[str, Any]:
    """Return steps per second of all episodes together, the ratio, and the overhead of a turn in microseconds."""
    made, task = registry.get("suite", suite)(), EVALUATED[suite]
    stepping = EnvWorkers(processes)
    try:
        alone = [made.make(task) for _ in range(episodes)]
        beside = [stepping.make(made, task) for _ in range(episodes)]
        took = [
            [played(tasks, made.spaces(task)[1], steps, number) for tasks in (alone, beside)]
            for number in range(rounds + 1)
        ]
    finally:
        stepping.close()
    del took[0]  # it contains one-time work
    alone_seconds, beside_seconds = (statistics.median(times) for times in zip(*took, strict=True))
    share = -(-episodes // (processes + 1)) / episodes
    return {
        "suite": suite, "task": task, "ratio": statistics.median(one / other for one, other in took),
        "steps_per_second": [episodes * steps / alone_seconds, episodes * steps / beside_seconds],
        "overhead_microseconds": 1e6 * (beside_seconds - share * alone_seconds) / steps,
    }  # fmt: skip


def played(tasks: list[Task], actions: Actions, steps: int, seed: int) -> float:
    """Return the seconds that `steps` steps of all tasks take, without resets."""
    generator = np.random.default_rng(seed)
    at_once(tasks, "reset", ((seed,) for _ in tasks))
    taken = 0.0
    for _ in range(steps):
        moves: list[Any] = [
            int(generator.integers(actions.count)) if actions.discrete
            else generator.uniform(-1, 1, actions.shape).astype(np.float32) for _ in tasks
        ]  # fmt: skip
        started = time.perf_counter()
        steps_taken = at_once(tasks, "step", ((move,) for move in moves))
        taken += time.perf_counter() - started
        ended = [task for task, step in zip(tasks, steps_taken, strict=True) if step.terminated or step.truncated]
        at_once(ended, "reset", [()] * len(ended))
    return taken


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    cores = f"{figures['processes'] + 1} processes step its tasks"
    for kind, tasks in (("training", f"{figures['seeds']} seeds"), ("evaluation", f"{figures['episodes']} episodes")):
        for row in figures[kind]:
            rates = [f"{rate:,.0f} steps/s" for rate in reversed(row["steps_per_second"])]
            label = f"{kind} of {tasks}, {row['suite']} {row['task']}, {cores}: one"
            yield Line(label, *rates, row["ratio"], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=2, help="seeds of a worker (default %(default)s)")
    parser.add_argument("--episodes", type=int, default=10, help="episodes of an evaluation (default %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="processes beside the worker (default %(default)s)")
    parser.add_argument("--steps", type=int, default=150, help="steps of an episode and round (default %(default)s)")
    parser.add_argument("--start", type=int, help="steps of training before the first turn (default: by suite)")
    parser.add_argument("--turn", type=int, help="steps of training in a turn (default: by suite)")
    parser.add_argument("--only", nargs="+", choices=[*EVALUATED], default=[*EVALUATED], help="suites")
    options = parser.parse_args()
    figures = {
        "seeds": options.seeds, "episodes": options.episodes, "processes": options.processes, "rounds": options.rounds,
        "training": [
            training(suite, options.rounds, options.seeds, options.processes, options.start, options.turn)
            for suite in CELLS if suite in options.only
        ],
        "evaluation": [
            evaluation(suite, options.rounds, options.episodes, options.processes, options.steps)
            for suite in options.only
        ],
    }  # fmt: skip
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'':40}{'without /s':>12}{'with /s':>12}{'ratio':>8}")
    for kind in ("training", "evaluation"):
        for row in figures[kind]:
            before, after = row["steps_per_second"]
            print(f"{kind:12}{row['suite'] + ' ' + row['task']:28}{before:12,.0f}{after:12,.0f}{row['ratio']:8.2f}")


if __name__ == "__main__":
    main()
