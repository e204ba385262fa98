"""Run all benchmarks in sequence; print tables and write results/measured/speed.json.

    python -m benchmarks [--peers peers/bin/python] [--only cartpole engine] [--output results/measured/speed.json]

Benchmarks against peer libraries (`WITH_PEERS`) run under the Python of the peers' environment, made from
benchmarks/peers.txt; without it they are skipped with a message, and `choices` leaves its peer out. Other load on the
machine distorts the figures, so the load average before each benchmark is recorded with it. The function `lines` of a
benchmark's module yields its lines of the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import benchmark_process
from benchmarks.table import Line
from guidebench.harness.identity.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
WITH_PEERS = ("replay", "cartpole", "crafter_dqn", "continuous", "continuous_metaworld", "envpool_steps")
ALSO = {
    "crafter_dqn": ("crafter_dqn", "--only", "peer", "flat"),
    "crafter_language": ("crafter_dqn", "--only", "symbols", "scripted", "sbert_shape"),
    "continuous_metaworld": ("continuous", "--suite", "metaworld_pbrl", "--task", "button-press", "--learners", "sac"),
}
"""Benchmarks that run another benchmark with other arguments."""
WITHOUT_PEERS = (
    "command_line",
    "engine",
    "doorkey_steps",
    "crafter_steps",
    "housekeep_steps",
    "bin_sorting_steps",
    "frames",
    "statistics",
    "seeds_needed",
    "report",
    "watch",
    "trackers",
    "env_workers",
    "leaderboard",
    "judged_training",
    "judging",
    "samplers",
    "replays",
    "models_desk",
    "arrays",
    "consulting",
    "ellm_questions",
    "model_as_agent",
    "dual_system",
    "observations",
    "preferences",
    "lagea",
    "apt_neighbours",
    "cal_ql",
    "kagi_rewards",
    "crafter_language",
    "choices",
)
ASKS_PEERS = ("choices",)
"""Those of `WITHOUT_PEERS` that start a process of the peers' environment themselves, and run without it too."""
SMALL = {
    "replay": ["--size", "20000", "--turns", "20", "--repeats", "2"],
    "cartpole": ["--rounds", "2", "--start", "1024", "--turn", "256"],
    "crafter_dqn": ["--rounds", "1", "--start", "5002", "--turn", "8"],
    "crafter_language": ["--rounds", "1", "--start", "20", "--turn", "8"],
    "command_line": ["--repeats", "1", "--cells", "4"],
    "continuous": ["--rounds", "1", "--turn", "8", "--warm-up", "8"],
    "continuous_metaworld": ["--rounds", "1", "--turn", "8", "--warm-up", "8"],
    "envpool_steps": ["--rounds", "1", "--seconds", "0.01"],
    "engine": ["--repeats", "1", "--run-steps", "600", "--slots", "2000", "--transitions", "500"],
    "doorkey_steps": ["--rounds", "1", "--sizes", "8"],
    "crafter_steps": ["--rounds", "1", "--steps", "40"],
    "housekeep_steps": ["--rounds", "1", "--steps", "40"],
    "bin_sorting_steps": ["--rounds", "1", "--steps", "40"],
    "frames": ["--rounds", "1", "--size", "48", "--moments", "2"],
    "statistics": ["--reps", "200", "--rliable-reps", "2", "2", "2", "--points", "2"],
    "seeds_needed": ["--rows", "2", "--seeds", "3"],
    "report": ["--methods", "2", "--tasks", "1", "--seeds", "2", "--evaluations", "3", "--repeats", "1"],
    "trackers": ["--rounds", "1", "--start", "120", "--turn", "30", "--every", "15", "task=5x5", "profile=smoke"],
    "env_workers": [
        *("--rounds", "1", "--episodes", "3", "--steps", "5", "--start", "260", "--turn", "4"),
        *("--only", "minigrid_doorkey"),
    ],
    "watch": ["--methods", "2", "--seeds", "2", "--rows", "1"],
    "leaderboard": ["--methods", "2", "--suites", "2", "--seeds", "2", "--evaluations", "3", "--repeats", "1"],
    "judged_training": [
        *("--pairs", "1", "--rounds", "2", "--start", "200", "--turn", "64", "--task", "5x5", "--profile", "smoke"),
    ],
    "judging": ["--rounds", "1", "--clips", "4", "--plain", "1", "--length", "4", "--batches", "2", "--hidden", "32"],
    "samplers": ["--size", "5000", "--batch", "16", "--rounds", "3"],
    "models_desk": ["--calls", "30", "--large-calls", "4"],
    "arrays": ["--numbers", "16", "--stretch", "4", "--questions", "4", "--transitions", "2000", "--repeats", "1"],
    "ellm_questions": ["--steps", "100", "--questions", "1", "--latency", "0.02"],
    "consulting": ["--episodes", "4", "--steps", "1", "--latency", "0.02"],
    "model_as_agent": ["--episodes", "2", "--steps", "1", "--latency", "0.02", "--saving-steps", "3"],
    "dual_system": ["--episodes", "2", "--steps", "1", "--latency", "0.02", "--rounds", "1"],
    "observations": ["--rounds", "2", "--start", "1024", "--turn", "256"],
    "preferences": [
        *("--profile", "smoke", "--pairs", "1", "--turns", "1", "--every", "60", "--pretraining", "150"),
        *("--labels", "64", "--transitions", "1000", "--rounds", "1"),
    ],
    "lagea": [
        *("--pairs", "1", "--turns", "1", "--profile", "smoke", "--widths", "32", "--batches", "2", "--size", "32"),
        *("--frames", "4", "--episodes", "2", "--start", "140", "--turn", "16", "--methods", "lagea"),
    ],
    "apt_neighbours": ["--rounds", "1"],
    "cal_ql": ["--rounds", "1", "--turn", "1", "--batch", "16", "--hidden", "16", "--image", "20"],
    "kagi_rewards": ["--rounds", "1", "--states", "400"],
    "choices": ["--rounds", "1", "--tokens", "150", "--ending", "50"],
    "replays": [
        *("--rounds", "1", "--start", "150", "--turn", "32", "--task", "5x5", "--profile", "smoke"),
        *("--replays", "vlm_rb"),
    ],
}
"""Arguments for tiny runs of seconds, which test that a benchmark works and measure nothing."""


def lines(results: dict[str, Any]) -> list[Line]:
    """Return the figures that have goals, of the benchmarks that were run."""
    names = [name for name in (*WITHOUT_PEERS, *WITH_PEERS) if name in results]
    modules = [importlib.import_module(f"benchmarks.{ALSO.get(name, (name,))[0]}") for name in names]
    return [line for name, module in zip(names, modules, strict=True) for line in module.lines(results[name])]


def show(results: dict[str, Any]) -> None:
    print("| what: peer | ours | peer | ratio or figure | goal | reached |\n| --- | --- | --- | --- | --- | --- |")
    for line in lines(results):
        goal = line.goal.replace("<", "≤ ") if line.goal.startswith("<") else f"≥ {line.goal}" if line.goal else ""
        figure = f"{line.figure:.{3 if line.figure < 10 else 0}f}"
        print(f"| {line.label} | {line.ours} | {line.peer} | {figure} | {goal} | {line.reached} |")


def run(name: str, python: str, arguments: list[str]) -> Any:
    """Run one benchmark in a new process and return its figures; if it fails, its error is on stderr, and return
    None."""
    quiet = {"RL_LOGGING_LEVEL": "ERROR"}  # TorchRL logs to standard output otherwise
    module, *extra = ALSO.get(name, (name,))
    words = ["--json", *extra, *arguments]
    process = benchmark_process.start(python, f"benchmarks.{module}", words, quiet, stdout=subprocess.PIPE)
    with process.stdout as output:
        printed = output.read()
    return json.loads(printed) if process.wait() == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter of the peers' environment")
    parser.add_argument(
        "--only", nargs="+", choices=[*WITHOUT_PEERS, *WITH_PEERS], metavar="NAME", help=", ".join(SMALL)
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes: a test that they work, not a measurement")
    parser.add_argument("--output", type=Path, help="default results/measured/speed.json; with --small, none")
    options = parser.parse_args()
    chosen = [name for name in (*WITHOUT_PEERS, *WITH_PEERS) if name in (options.only or SMALL)]
    if options.peers is None:
        left_out = [name for name in chosen if name in WITH_PEERS]
        chosen = [name for name in chosen if name not in WITH_PEERS]
        if left_out:
            print(f"left out, since no --peers is given (see benchmarks/peers.txt): {', '.join(left_out)}")
    output = options.output or (None if options.small else ROOT / "results" / "measured" / "speed.json")
    present = json.loads(output.read_text()) if output and output.exists() else {}
    results: dict[str, Any] = present.get("results", {})
    failed = []
    for name in chosen:
        load = os.getloadavg()[0]
        print(f"{name} (load average {load:.2f}) …", flush=True)
        python = options.peers if name in WITH_PEERS else sys.executable
        arguments = ["--peers", options.peers] if options.peers and name in ASKS_PEERS else []
        figures = run(name, python, [*(SMALL[name] if options.small else []), *arguments])
        if figures is None:
            failed.append(name)
            continue
        if not figures.get("rounds", True):  # what it needs is not here, as it has said
            continue
        results[name] = {**figures, "load_average_before": round(load, 2), "measured_on": provenance("cpu")}
    show(results)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps({"schema": 1, "results": results}, indent=1) + "\n")
        print(f"written to {output}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
