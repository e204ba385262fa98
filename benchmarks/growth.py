"""Growth of a study: time and memory of each command on 1, 10, 100, 1,000 and 10,000 cells, and bytes per run.

    python -m benchmarks.growth [--cells 1 10 100 1000 10000] [--seeds 1] [--processes 2] [--seconds 1800]
                                [--output results/measured/growth.json]

For each number of cells a study of DoorKey is planned and submitted by `bench run`, and its runs are written by
simulated workers (`benchmarks.simulated_workers`): 50 evaluations of 10 episodes and the logs of 150,000 steps. Every
command is a process of its own, on files that were just written. The processor time is that of the process and of those
that it started; on a loaded machine it says more than the time that passed. A command that exceeds `--seconds`, or
fails, is recorded as failed, with what it said. `--output` keeps the figures of other numbers of cells and seeds that
the file holds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.identity.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
WORKERS = "benchmarks.simulated_workers"
"""The plug-in with `launcher=simulated`, which only processes of a study import: importing it registers it."""
BENCH = Path(sys.executable).with_name("bench")
SIDE = 100
"""Most values of one setting; more cells are a grid of two settings."""
SETUP = ("suite=minigrid_doorkey", "task=8x8", "method=uer", "profile=quick", "launcher=simulated")
LOGGED = ("evaluation.every=3000", "evaluation.episodes=10", "probes=2")
LOAD = "import sys, guidebench; print(len(guidebench.load(sys.argv[1])))"
STAGES = ("plan", "submit", "again", "status", "load", "report")


def words(cells: int, seeds: int, study: Path) -> list[str]:
    """Return the arguments of `bench` for a study of `cells` cells: values of one setting, or a grid of two."""
    if cells > SIDE and cells % SIDE:
        raise ValueError(f"{cells} cells are no grid; give at most {SIDE}, or a multiple of it")
    first, second = min(cells, SIDE), max(1, cells // SIDE)
    rates = ",".join(f"{1e-4 * (1 + index):.4f}" for index in range(first))
    discounts = ",".join(f"{0.9 + 0.09 * (1 + index) / second:.6f}" for index in range(second))
    sweep = [f"learner.lr={rates}", f"learner.discount={discounts}"]
    return ["run", *SETUP, *LOGGED, *sweep, f"seeds={seeds}", f"output={study}"]


def cost(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> tuple[dict[str, Any], str]:
    """Run a command and return its cost and the last line of its output: `seconds`, `processor_seconds` with the
    processes that it started, `peak_bytes` of the largest of them, and `failed` if it exceeds `seconds` or exits with
    another code than 0."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=dict(environment), stdout=output, stderr=output, start_new_session=True)
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        _, status, usage = os.wait4(process.pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - started
        output.seek(0, os.SEEK_END)
        output.seek(max(0, output.tell() - 400))
        last_line = (output.read().decode(errors="replace").strip().splitlines() or [""])[-1]
    figures: dict[str, Any] = {
        "seconds": round(taken, 3),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    if process.returncode:
        figures["failed"] = f"after {taken:.0f} s with exit code {process.returncode}: {last_line}"
    return figures, last_line


def announced(site: Path) -> dict[str, str]:
    """Write the entry point of `launcher=simulated` into a directory; return the environment in which `bench` finds
    it."""
    info = site / "simulated_workers-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated_workers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[guidebench.launchers]\nsimulated = {WORKERS}\n")
    path = os.pathsep.join([str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def sizes(study: Path, runs: int) -> dict[str, Any]:
    """Return files and bytes of a study by run: of all files, by name, and of the two that list the whole study."""
    names: Counter[str] = Counter()
    files = allocated = directories = 0
    for folder, _, inside in os.walk(study):
        directories += 1
        for name in inside:
            file_stat = os.stat(os.path.join(folder, name))
            files += 1
            allocated += file_stat.st_blocks * 512
            names[_kind(folder, name)] += file_stat.st_size
    return {
        "files_per_run": round(files / runs, 2),
        "directories_per_run": round(directories / runs, 2),
        "bytes_per_run": round(sum(names.values()) / runs),
        "allocated_bytes_per_run": round(allocated / runs),
        "bytes_per_run_by_name": {name: round(size / runs) for name, size in names.most_common()},
        "study_json_bytes": (study / "study.json").stat().st_size,
    }


def _kind(folder: str, name: str) -> str:
    """Return the name under which a file's bytes are summed: its own, or its folder's if files there are named after
    jobs or epochs."""
    inside = Path(folder).name
    return f"{inside}/" if inside in ("jobs", "logs", ".lease") else name


def study_of(cells: int, seeds: int, processes: int, seconds: float, home: Path) -> dict[str, Any]:
    """Plan, write and read a study of `cells` cells below `home`; return the cost of each command."""
    study = home / f"cells-{cells}"
    environment = announced(home / f"site-{cells}") | {"OMP_NUM_THREADS": "1"}
    environment["GUIDEBENCH_CACHE"] = str(home / "cache")
    run, runs = [str(BENCH), *words(cells, seeds, study)], cells * seeds
    figures: dict[str, Any] = {
        "cells": cells,
        "seeds": seeds,
        "runs": runs,
        "load_average": round(os.getloadavg()[0], 2),
    }

    def measured(name: str, *command: str) -> str:
        print(f"  {cells:,} cells, {name} …", file=sys.stderr, flush=True)
        figures[name], last_line = cost(command, environment, seconds)
        return last_line

    measured("plan", *run, "--dry-run")
    measured("submit", *run)
    writing = [sys.executable, "-m", WORKERS, str(study), "--processes", str(processes)]
    done = subprocess.run(writing, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    figures["rows_written"] = int(done.stdout)
    figures |= sizes(study, runs)
    measured("again", *run)
    measured("status", str(BENCH), "status", str(study))
    loaded = measured("load", sys.executable, "-c", LOAD, str(study))
    figures["rows_loaded"] = None if "failed" in figures["load"] else int(loaded)
    measured("report", str(BENCH), "report", str(study))
    figures["report_bytes"] = {
        path.name: path.stat().st_size for path in sorted((study / "report").glob("*")) if path.suffix != ".pdf"
    }
    return figures


def measure(cells: Sequence[int], seeds: int, processes: int, seconds: float, output: Path | None) -> dict[str, Any]:
    """Return the figures of each number of cells; each is written into `output` before the next is measured."""
    rows = []
    for number in cells:
        with tempfile.TemporaryDirectory() as home:
            rows.append(study_of(number, seeds, processes, seconds, Path(home)) | {"measured_on": provenance("cpu")})
            if output is not None:
                keep(rows[-1], output)
    return {"stages": list(STAGES), "rows": rows}


def keep(figures: dict[str, Any], output: Path) -> None:
    """Write the figures of one study into a file, replacing those of equal numbers of cells and seeds."""
    before = json.loads(output.read_text())["results"]["growth"]["rows"] if output.exists() else []
    rows = {(row["seeds"], row["cells"]): row for row in [*before, figures]}
    content = {"stages": list(STAGES), "rows": [rows[key] for key in sorted(rows)]}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"schema": 1, "results": {"growth": content}}, indent=1) + "\n")


def table(figures: Mapping[str, Any]) -> str:
    """Return the growth table in Markdown: seconds of processor time by command and number of cells."""
    rows = figures["rows"]
    heads = ["cells × seeds", *(f"{row['cells']:,} × {row['seeds']}" for row in rows)]
    lines = [["runs", *(f"{row['runs']:,}" for row in rows)]]
    lines.append(["rows of evaluations", *(f"{row['rows_written']:,}" for row in rows)])
    for stage in figures["stages"]:
        lines.append([f"{stage}, s", *(_table_figure(row[stage], "processor_seconds", 1.0, 1) for row in rows)])
    for stage in ("load", "report"):
        lines.append([f"{stage}, peak GiB", *(_table_figure(row[stage], "peak_bytes", 2**30, 2) for row in rows)])
    lines.append(["bytes per run", *(f"{row['bytes_per_run']:,}" for row in rows)])
    lines.append(["files per run", *(f"{row['files_per_run']:.1f}" for row in rows)])
    every = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)


def _table_figure(figures: Mapping[str, Any], column: str, unit: float, digits: int) -> str:
    return "failed" if "failed" in figures else f"{figures[column] / unit:,.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 10, 100, 1_000, 10_000])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="simulated workers at the same time")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="most seconds of one command")
    parser.add_argument("--output", type=Path, help="file that keeps the figures as JSON; default: none")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(options.cells, options.seeds, options.processes, options.seconds, options.output)
    print(json.dumps(figures) if options.json else table(figures))


if __name__ == "__main__":
    main()
