"""DQN's training steps per second with a judge at work (`vlm_rb` and `sprite`) beside uniform replay (`uer`).

    python -m benchmarks.judged_training [--pairs 10] [--profile quick]

On DoorKey 8x8, one thread each; the judge has its own process and needs a spare core. The two runs take turns (see
benchmarks/turns.py), and the ratio is the median over pairs of turns. They begin after `--start` steps: learning goes
on by then, and the judge's first answers count.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from benchmarks.turns import Contender, cell_arguments, interleave, rate, ratios


def measure(pairs: int, start: int, turn: int, profile: str, task: str) -> dict[str, Any]:
    """Rates of both methods, the median ratio, the judge's seconds per clip and the seconds spent waiting for it."""
    given = {"suite": "minigrid_doorkey", "task": task, "profile": profile}
    plain, judged = (
        Contender("benchmarks.turns", cell_arguments(start, turn, {**given, "method": method}))
        for method in ("uer", "vlm_rb")
    )
    interleave([plain, judged], pairs)
    plain.close()
    clock = judged.close()
    found = ratios(plain, judged)
    return {
        "task": task,
        "profile": profile,
        "pairs": pairs,
        "turn": turn,
        "uer_steps_per_second": rate(plain, turn),
        "vlm_rb_steps_per_second": rate(judged, turn),
        "ratio": statistics.median(found),
        "ratio_lowest": found[0],
        "ratio_highest": found[-1],
        "processor_ratio": statistics.median(ratios(plain, judged, "processor")),
        "judge_seconds_per_clip": clock["judge_seconds"] / clock["clips"],
        "clips": clock["clips"],
        "waiting_share": clock["wait_seconds"] / sum(taken["seconds"] for taken in judged.turns),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--start", type=int, default=1_600, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=800, help="steps of a turn (default %(default)s)")
    parser.add_argument("--profile", default="quick", help="paper has the wider network (default %(default)s)")
    parser.add_argument("--task", default="8x8")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args()
    found = measure(asked.pairs, asked.start, asked.turn, asked.profile, asked.task)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"DoorKey {asked.task}, {asked.profile}, {asked.pairs} pairs of {asked.turn:,} steps, one thread each")
    for method in ("uer", "vlm_rb"):
        print(f"{method:8}{found[f'{method}_steps_per_second']:9,.0f} steps/s")
    print(f"ratio   {found['ratio']:9.3f}  (pairs {found['ratio_lowest']:.3f} to {found['ratio_highest']:.3f})")
    print(f"        {found['processor_ratio']:9.3f}  by the training process's own processor time")
    print(f"judge   {1e3 * found['judge_seconds_per_clip']:9.2f} ms a clip, drawn and judged in its own process")
    print(f"waiting {100 * found['waiting_share']:9.2f} % of the training's time")


if __name__ == "__main__":
    main()
