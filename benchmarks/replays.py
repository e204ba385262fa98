"""Training with each replay against uniform replay: DQN's and IQN's environment steps per second.

    python -m benchmarks.replays [--rounds 10] [--task 8x8] [--profile quick] [--replays per vlm_rb]

Each replay has one process with one thread, and the processes alternate (see benchmarks/turns.py); the ratio to `uer`
is the median over rounds. Turns begin after `--start` steps, when learning is under way. A judge has its own process
and needs a core.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.table import Line
from benchmarks.turns import Contender, cell_arguments, interleave, rate, ratios
from guidebench.harness import registry

LEARNERS = ("dqn", "iqn")


def measure(rounds: int, start: int, turn: int, profile: str, task: str, replays: Sequence[str]) -> dict[str, Any]:
    """Return steps per second of every learner with each replay, including `uer`, and the ratio to `uer`."""
    rows = []
    for learner in LEARNERS:
        cell_names = {
            "suite": "minigrid_doorkey",
            "task": task,
            "profile": profile,
            "learner": learner,
            "judge": "sprite",
        }
        contenders = {
            replay: Contender("benchmarks.turns", cell_arguments(start, turn, {**cell_names, "method": replay}))
            for replay in replays
        }
        interleave(list(contenders.values()), rounds)
        for replay, contender in contenders.items():
            ratio = statistics.median(ratios(contenders["uer"], contender))
            rows.append(
                {"learner": learner, "replay": replay, "steps_per_second": rate(contender, turn), "ratio": ratio}
            )
        for contender in contenders.values():
            contender.close()
    return {"task": task, "profile": profile, "rounds": rounds, "turn": turn, "rows": rows}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        label = f"{row['learner']} on DoorKey {figures['task']}, {row['replay']}: uer"
        yield Line(label, f"{row['steps_per_second']:.0f} steps/s", "", row["ratio"], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--start", type=int, default=2_000, help="steps before the first turn")
    parser.add_argument("--turn", type=int, default=400, help="steps of a turn")
    parser.add_argument("--task", default="8x8")
    parser.add_argument("--profile", default="quick")
    parser.add_argument(
        "--replays", nargs="+", default=registry.names("replay"), help="compared with uer (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    replays = sorted({"uer", *options.replays})
    figures = measure(options.rounds, options.start, options.turn, options.profile, options.task, replays)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{'learner':9}{'replay':10}{'steps/s':>9}{'beside uer':>12}")
    for row in figures["rows"]:
        print(f"{row['learner']:9}{row['replay']:10}{row['steps_per_second']:9.0f}{row['ratio']:12.3f}")


if __name__ == "__main__":
    main()
