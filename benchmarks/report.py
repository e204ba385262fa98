"""`bench report` on a thousand finished runs of 500 evaluation rows each: seconds and peak memory of the process.

    python -m benchmarks.report [--methods 10] [--tasks 10] [--seeds 10] [--repeats 3]

The study is written to a temporary directory: random learning curves, with fifty evaluations of ten episodes per run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.harness.records import schema

BENCH = Path(sys.executable).with_name("bench")
EVALUATIONS, EPISODES, EVERY = 50, 10, 1_000


def write(root: Path, methods: int, tasks: int, seeds: int, evaluations: int) -> None:
    """Write a study of methods × tasks cells with `seeds` seeds each."""
    import pandas as pd

    rng = np.random.default_rng(0)
    cells = {}
    for method in range(methods):
        for task in range(tasks):
            name = f"{method:05x}{task:05x}"
            names = dict(suite="synthetic", task=f"task-{task}", method=f"method-{method}")
            names |= dict(learner="dqn", backend="", model="", profile="paper")
            directory = f"synthetic/task-{task}/method-{method}-{name}"
            cells[name] = {"directory": directory, "seeds": list(range(seeds)), "label_variant": ""}
            cell = {"schema": schema.SCHEMA_VERSION, "cell": name, **names, "steps": evaluations * EVERY, "variant": ""}
            _json(root / directory / "cell.json", {**cell, "settings": {}, "versions": {"suite": 1}})
            for seed in range(seeds):
                run = {
                    "schema": schema.SCHEMA_VERSION,
                    "status": "finished",
                    "seed": seed,
                    "error": None,
                    "provenance": {"commit": "0"},
                }
                steps = evaluations * EVERY
                _json(root / directory / f"seed-{seed}" / "run.json", {**run, "step": steps, "steps": steps})
                rate = np.linspace(0, rng.uniform(0.2, 1), evaluations)[:, None]
                success = rng.random((evaluations, EPISODES)) < rate
                rows = pd.DataFrame({"study": "s", "cell": name, **names, "seed": seed, "return": success.ravel() * 0.9,
                                     "step": np.repeat(np.arange(1, evaluations + 1) * EVERY, EPISODES),
                                     "episode": np.tile(np.arange(EPISODES), evaluations),
                                     "success": success.ravel(), "length": 10})  # fmt: skip
                rows = rows[list(schema.EVALUATION)]
                rows.to_parquet(root / directory / f"seed-{seed}" / "evaluations.parquet", index=False)
    _json(
        root / "study.json",
        {"schema": schema.SCHEMA_VERSION, "study": "synthetic", "command": ["bench", "run"], "cells": cells},
    )


def measure(methods: int, tasks: int, seeds: int, evaluations: int, repeats: int) -> dict[str, Any]:
    """Return medians over whole processes."""
    taken, peak = [], []
    with tempfile.TemporaryDirectory() as directory:
        study = Path(directory) / "study"
        write(study, methods, tasks, seeds, evaluations)
        for _ in range(repeats):
            started = time.perf_counter()
            with open(os.devnull, "w") as nowhere:
                arguments = [str(BENCH), "report", str(study)]
                process = os.posix_spawn(
                    arguments[0], arguments, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
                )
                _, status, usage = os.wait4(process, 0)
            if status:
                raise RuntimeError(f"bench report ended with status {status}")
            taken.append(time.perf_counter() - started)
            peak.append(usage.ru_maxrss * 1024)
    return {
        "runs": methods * tasks * seeds,
        "rows_per_run": evaluations * EPISODES,
        "seconds": statistics.median(taken),
        "peak_bytes": statistics.median(peak),
    }


def _json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    size = f"{figures['peak_bytes'] / 2**30:.1f} GiB"
    label = f"bench report, {figures['runs']:,} runs of {figures['rows_per_run']} rows, seconds"
    yield Line(f"{label} ({size} at most)", f"{figures['seconds']:.1f} s", "", figures["seconds"], "<10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    options = parser.parse_args()
    figures = measure(options.methods, options.tasks, options.seeds, options.evaluations, options.repeats)
    if options.json:
        print(json.dumps(figures))
        return
    peak = figures["peak_bytes"] / 2**30
    print(f"bench report: {figures['seconds']:.1f} s, {peak:.2f} GiB ({figures['runs']:,} runs)")


if __name__ == "__main__":
    main()
