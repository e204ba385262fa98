"""Housekeep's steps per second without drawing, with texts and with pictures, and the time of its parts.

    python -m benchmarks.housekeep_steps [--json] [--rounds 5] [--steps 20000]

Each round steps every kind of observation on one thread with the same random actions; resets are left out, and measured
apart. `agent` and `above` draw one picture of 128 pixels per step from a snapshot, as a model is shown them, on a tenth
of the steps. There is no peer: Housekeep's own simulator is published for conda alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.suites.housekeep import Housekeep, HousekeepDrawing

TASK = "adjustment_1"


def rate(task: Any, actions: list[int], drawer: Any = None) -> float:
    """Return steps per second of processor time without resets; with a drawer, a picture is drawn for each."""
    spent = 0.0
    task.reset(0)
    for start in range(0, len(actions), task.max_steps):
        part = actions[start : start + task.max_steps]
        begun = time.process_time()
        for action in part:
            task.step(action)
            if drawer is not None:
                drawer(task.snapshot()[None])
        spent += time.process_time() - begun
        task.reset()
    return len(actions) / spent


def seconds(work: Callable[[], object], count: int) -> float:
    """Return the seconds of processor time of one call."""
    begun = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - begun) / count


def spread(rates: Sequence[float]) -> dict[str, float]:
    """Return the median, the lowest and the highest of the rates of all rounds."""
    return {"per_second": statistics.median(rates), "lowest": min(rates), "highest": max(rates)}


def measure(rounds: int, steps: int) -> dict[str, Any]:
    actions = np.random.default_rng(0).integers(0, 6, steps).tolist()
    few_actions = actions[: max(1, steps // 10)]
    symbols, text = (Housekeep(observation=kind).make(TASK) for kind in ("symbols", "text"))  # type: ignore[arg-type]
    drawers = {view: HousekeepDrawing(view=view).spawn(TASK) for view in ("agent", "above")}  # type: ignore[arg-type]
    rate(symbols, few_actions)  # the layouts are made
    rates: dict[str, list[float]] = {name: [] for name in ("symbols", "text", *drawers)}
    for _ in range(rounds):
        rates["symbols"].append(rate(symbols, actions))
        rates["text"].append(rate(text, actions))
        for view, drawer in drawers.items():
            rates[view].append(rate(symbols, few_actions, drawer))
    fresh = Housekeep(layouts=None).make(TASK)
    fresh.reset(0)
    works = {"reset": symbols.reset, "fresh_layout": fresh.reset, "text": text.text, "snapshot": symbols.snapshot}
    return {
        "task": TASK,
        "steps": steps,
        "rounds": rounds,
        "kinds": {name: spread(kind_rates) for name, kind_rates in rates.items()},
        **{
            f"{name}_seconds": statistics.median(seconds(work, 100) for _ in range(rounds))
            for name, work in works.items()
        },
        "transition_bytes": Housekeep().spaces(TASK)[0].numpy.itemsize,
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for kind, goal in (("symbols", "20000"), ("text", ""), ("agent", "")):
        row = figures["kinds"][kind]
        yield Line(f"Housekeep, steps a second with {kind}", f"{row['per_second']:,.0f}/s", "", row["per_second"], goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps of each kind in a round (default 20000)")
    options = parser.parse_args()
    figures = measure(options.rounds, options.steps)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, row in figures["kinds"].items():
        print(f"{name:13}{row['per_second']:10,.0f} steps/s  ({row['lowest']:,.0f} to {row['highest']:,.0f})")
    for name in ("reset", "fresh_layout", "text", "snapshot"):
        print(f"{name:13}{1e6 * figures[f'{name}_seconds']:10,.1f} µs")
    print(f"bytes of an observation: {figures['transition_bytes']:,}")


if __name__ == "__main__":
    main()
