"""`bench leaderboard` on many studies: seconds and peak memory of the process, size of the page, browser times.

    python -m benchmarks.leaderboard [--methods 200] [--suites 10] [--seeds 5] [--evaluations 20] [--episodes 10]

The studies, one per method, are written to a temporary directory: random learning curves with the settings, provenance
and ledgers of real runs. Browser times are skipped without Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.leaderboard_browser import browser_times
from benchmarks.table import Line
from guidebench.harness.records import schema

BENCH = Path(sys.executable).with_name("bench")
EVERY = 1_000
SETTINGS = 40
"""Settings per cell"""
MODELS = ("vlm-small", "vlm-large")
"""Guiding models; every third method uses one of them in turn."""


def fabricate(
    directory: Path, methods: int, suites: int, seeds: int, evaluations: int, episodes: int, tasks: int = 1
) -> list[Path]:
    """Write finished studies below `directory`, one per method, with a cell per suite and task; return their
    directories.

    Methods differ in final success rate, so that some differences are significant and others are not.
    """
    rng = np.random.default_rng(0)
    return [
        _study(directory / f"method-{method:03}", method, suites, seeds, evaluations, episodes, tasks, rng)
        for method in range(methods)
    ]


def _study(
    root: Path, method: int, suites: int, seeds: int, evaluations: int, episodes: int, tasks: int, rng: Any
) -> Path:
    guided = method % 3 == 2
    model = MODELS[method // 3 % len(MODELS)] if guided else ""
    names = dict(method=f"method-{method:03}", learner="dqn", backend="openai" if guided else "", model=model)
    steps = evaluations * EVERY
    cells = {}
    for suite in range(suites):
        for task in range(tasks):
            cell_names = dict(suite=f"suite-{suite:02}", task=f"task-{task}", **names, profile="quick")
            cell = f"{method:04x}{suite:03x}{task:03x}"
            cell_directory = f"{cell_names['suite']}/{cell_names['task']}/{cell_names['method']}-{cell}"
            cells[cell] = {"directory": cell_directory, "seeds": list(range(seeds)), "label_variant": ""}
            _json(root / cell_directory / "cell.json", _cell(cell, cell_names, method, steps))
            top = np.clip(rng.normal(0.4 + 0.5 * method / 200, 0.1), 0.05, 1.0)
            for seed in range(seeds):
                run = root / cell_directory / f"seed-{seed}"
                _json(run / "run.json", _run(seed, steps))
                rate = np.linspace(0.05, np.clip(top + rng.normal(0, 0.05), 0, 1), evaluations)[:, None]
                success = rng.random((evaluations, episodes)) < rate
                _rows(
                    run / "evaluations.parquet", {"study": root.name, "cell": cell, **cell_names, "seed": seed}, success
                )
                if guided:
                    used = dict.fromkeys(schema.LEDGER, 0) | {"step": steps, "calls": 500, "tokens_in": 90_000}
                    used |= {"seconds": 40.0, "billed_seconds": 40.0, "usd": 0.25, "billed_usd": 0.25}
                    (run / "ledger.jsonl").write_text(json.dumps(used) + "\n")
    command = ["bench", "run", f"method={names['method']}"]
    _json(
        root / "study.json", {"schema": schema.SCHEMA_VERSION, "study": root.name, "command": command, "cells": cells}
    )
    return root


def _cell(cell: str, names: dict[str, str], method: int, steps: int) -> dict[str, Any]:
    layers = ("default", "suite", f"method {names['method']}", "profile quick")
    settings = {
        f"{'learner' if index % 2 else 'replay'}.setting_{index:02}": {
            "value": method if index == 0 else index / 8, "layer": layers[index % 4], "source": "table 2",
        }
        for index in range(SETTINGS)
    }  # fmt: skip
    return {
        **{"schema": schema.SCHEMA_VERSION, "cell": cell, **names, "steps": steps, "variant": "", "settings": settings},
        **{
            "versions": {"suite": 1, "method": 1},
            "parts": {part: {"kind": part, "name": name} for part, name in (("learner", "dqn"), ("replay", "uer"))},
        },
    }


def _run(seed: int, steps: int) -> dict[str, Any]:
    packages = {"python": "3.11.7", "torch": "2.14.1", "numpy": "2.4.6"}
    made = {"commit": "0" * 40, "dirty": False, "packages": packages}
    made["hardware"] = {"processor": "some CPU", "cores": 2, "device": "cpu"}
    common = {
        "schema": schema.SCHEMA_VERSION,
        "status": "finished",
        "seed": seed,
        "step": steps,
        "steps": steps,
        "error": None,
    }
    return {**common, "provenance": made}


def _rows(path: Path, identity: dict[str, Any], success: Any) -> None:
    """Write the evaluation rows of a finished run; `success` [evaluations, episodes]."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    evaluations, episodes = success.shape
    columns = {name: pa.repeat(value, success.size) for name, value in identity.items()}
    columns |= {
        "step": pa.array(np.repeat(np.arange(1, evaluations + 1) * EVERY, episodes)),
        "episode": pa.array(np.tile(np.arange(episodes), evaluations)),
        "return": pa.array(success.ravel() * 0.9),
        "success": pa.array(success.ravel()),
        "length": pa.repeat(10, success.size),
    }
    pq.write_table(pa.table({name: columns[name] for name in schema.EVALUATION}), path, compression="zstd")


def _json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def build(studies: list[Path], output: Path) -> dict[str, float]:
    """Return seconds and peak memory of `bench leaderboard` as a process with one thread."""
    arguments = [str(BENCH), "leaderboard", *map(str, studies), "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    core = min(os.sched_getaffinity(0))
    process = os.posix_spawn("/usr/bin/env", ["env", "taskset", "-c", str(core), *arguments], environment,
                             file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])  # fmt: skip
    started = time.perf_counter()
    _, status, usage = os.wait4(process, 0)
    if status:
        raise RuntimeError(f"bench leaderboard ended with status {status}")
    return {"seconds": time.perf_counter() - started, "peak_bytes": usage.ru_maxrss * 1024}


def measure(methods: int, suites: int, seeds: int, evaluations: int, episodes: int, repeats: int) -> dict[str, Any]:
    """Return build time, memory, size of the page, and milliseconds in the browser."""
    with tempfile.TemporaryDirectory() as directory:
        studies = fabricate(Path(directory) / "studies", methods, suites, seeds, evaluations, episodes)
        output = Path(directory) / "board"
        built = build(studies, output)
        page = output / "index.html"
        return {
            "rows": methods * suites,
            "runs": methods * suites * seeds,
            "rows_per_run": evaluations * episodes,
            **built,
            "page_bytes": page.stat().st_size,
            "browser": browser_times(page, repeats),
        }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    label = f"bench leaderboard, {figures['rows']:,} rows of {figures['runs']:,} runs"
    size = f"{figures['peak_bytes'] / 2**30:.1f} GiB"
    yield Line(f"{label}, seconds ({size} at most)", f"{figures['seconds']:.1f} s", "", figures["seconds"], "<30")
    megabytes = figures["page_bytes"] / 10**6
    yield Line("its page, megabytes", f"{megabytes:.1f} MB", "", megabytes, "<5")
    for name, value in figures["browser"].items():
        goal = "<1000" if name.startswith("usable") else "<100"
        yield Line(f"in Chromium, ms: {name.replace('_', ' ')}", f"{value:.0f} ms", "", value, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=int, default=200)
    parser.add_argument("--suites", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5, help="times that the page is opened (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    options = parser.parse_args()
    figures = measure(
        options.methods, options.suites, options.seeds, options.evaluations, options.episodes, options.repeats
    )
    if options.json:
        print(json.dumps(figures))
        return
    sizes = f"{figures['peak_bytes'] / 2**30:.2f} GiB, page {figures['page_bytes'] / 1e6:.1f} MB"
    print(
        f"bench leaderboard: {figures['seconds']:.1f} s, {sizes} ({figures['rows']:,} rows, {figures['runs']:,} runs)"
    )
    for name, milliseconds in figures["browser"].items():
        print(f"  {name}: {milliseconds:.0f} ms")


if __name__ == "__main__":
    main()
