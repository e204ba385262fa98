"""DQN's training steps per second with a judge at work (`vlm_rb` and `sprite`) beside uniform replay (`uer`).

    python -m benchmarks.judged_training [--pairs 10] [--profile quick]

Each run is a process of its own that trains DoorKey 8x8 on one thread; the judge has its own process and needs a spare
core. The two methods take turns, the one that goes first changing, and the ratio is the median over pairs of the
pairs' ratios. Timed are the steps after `--start`: learning goes on, the judge's first answers count, and neither
imports, evaluation nor checkpoints are in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from benchmarks.timed_run import elsewhere

METHODS = ("vlm_rb", "uer")


def measure(pairs: int, start: int, steps: int, profile: str, task: str) -> dict[str, Any]:
    """Rates of both methods, the median ratio, the judge's seconds per clip and the share of time spent waiting."""
    runs: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for pair in range(pairs):
        for method in METHODS[:: 1 if pair % 2 else -1]:
            given = {"suite": "minigrid_doorkey", "task": task, "profile": profile, "method": method}
            never = {"evaluation.every": start + steps + 1, "training.steps": 150_000}
            runs[method].append(elsewhere(start, start + steps, {**given, **never}))

    def ratios(name: str) -> list[float]:
        return [judged[name] / plain[name] for judged, plain in zip(*runs.values(), strict=True)]

    judged = runs["vlm_rb"]
    return {
        "task": task,
        "profile": profile,
        "pairs": pairs,
        "steps": steps,
        **{f"{method}_steps_per_second": _median(runs[method], "steps_per_second") for method in METHODS},
        "ratio": statistics.median(ratios("steps_per_second")),
        "ratios": sorted(round(ratio, 4) for ratio in ratios("steps_per_second")),
        "processor_ratio": statistics.median(ratios("steps_per_processor_second")),
        "judge_seconds_per_clip": statistics.median(run["judge_seconds"] / run["clips"] for run in judged),
        "clips_per_run": _median(judged, "clips"),
        "waiting_share": statistics.median(run["wait_seconds"] / run["seconds"] for run in judged),
    }


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--start", type=int, default=1_500, help="steps before the clock starts (default %(default)s)")
    parser.add_argument("--steps", type=int, default=4_000, help="steps timed (default %(default)s)")
    parser.add_argument("--profile", default="quick", help="paper has the wider network (default %(default)s)")
    parser.add_argument("--task", default="8x8")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args()
    found = measure(asked.pairs, asked.start, asked.steps, asked.profile, asked.task)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"DoorKey {asked.task}, {asked.profile}, {asked.pairs} pairs of runs of {asked.steps:,} steps, one thread each")
    for method in METHODS:
        print(f"{method:8}{found[f'{method}_steps_per_second']:10,.0f} steps/s")
    print(f"ratio   {found['ratio']:10.3f}  (pairs {found['ratios'][0]:.3f} to {found['ratios'][-1]:.3f})")
    print(f"        {found['processor_ratio']:10.3f}  by the training process's own processor time")
    print(f"judge   {1e3 * found['judge_seconds_per_clip']:10.2f} ms a clip, drawn and judged in its own process")
    print(f"waiting {100 * found['waiting_share']:10.2f} % of the training's time")


if __name__ == "__main__":
    main()
