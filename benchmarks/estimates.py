"""Estimated and actual duration of one `quick` cell per suite and per learner.

    python -m benchmarks.estimates [--only minigrid_doorkey iqn] [--output results/measured/estimates.json] [--share .1]

Each cell is estimated as `bench run … --dry-run` does if the cache holds its dataset and nothing else. Then one seed of
it is trained by a worker in a new process, on one thread, to a tenth of its steps and for at least a minute, up to the
next evaluation. The steps before the first gradient step count as what they took; the others and their evaluations are
scaled to the whole run.

`ratio` is the actual time over the estimate, by the time that passed and by processor time, which other programs hardly
change. It should lie between 1/2 and 2 on an idle machine, and between 1/3 and 3 beside other work; where more programs
run than there are cores, only the processor time says something. `counted` is the estimate by operation counts alone.
`--output` keeps the rows of other cells that the file holds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import benchmark_process
from guidebench.harness import registry
from guidebench.harness.episodes import datasets
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.identity.cells import record
from guidebench.harness.identity.provenance import provenance
from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop.job import Job
from guidebench.harness.loop.training import learning_begins
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import estimates

BOUNDS = {"idle": 2.0, "beside other work": 3.0}
"""Greatest factor between the estimate and the actual time that is accepted."""
CHOSEN = {
    "prior_dqn": ["suite=housekeep", "method=linvit", "prior=scripted"],
    "sac": ["suite=classic", "task=Pendulum-v1"],
    "td3": ["suite=classic", "task=Pendulum-v1", "learner=td3"],
}
"""Learner -> the command of its cell, where the first suite that it fits has no settings for it, or none fits."""
RATIOS = {"the time that passed": "ratio", "processor time": "processor_ratio"}
SHORT = 60.0
"""Minimum seconds of a cell's training."""


def cells(profile: str = "quick") -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each suite and of each learner, with a command of one cell: a suite's default method on the
    profile's first task, and a learner in the first suite where it can be."""
    for suite in registry.names("suite"):
        if (words := _planned([f"suite={suite}", f"profile={profile}"])) is not None:
            yield suite, words
    for learner in registry.names("learner"):
        commands = [
            [f"suite={suite}", f"learner={learner}"] for suite in ("minigrid_doorkey", *registry.names("suite"))
        ]
        commands = [CHOSEN[learner]] if learner in CHOSEN else commands
        chosen = (_planned([*words, f"profile={profile}"]) for words in commands)
        if (words := next(filter(None, chosen), None)) is not None:
            yield learner, words


def _planned(words: list[str]) -> list[str] | None:
    """Return the words of one cell with one seed, or None if they are refused."""
    try:
        task = f"task={matrix.plan(words).cells[0].names.task}"
        words = [*words, *([] if task in words else [task]), "seeds=1", "workers=1", "device=cpu"]
        matrix.plan(words)
    except UserError:
        return None
    return words


def compare(name: str, words: list[str], share: float, least: float) -> dict[str, Any]:
    """Estimate and train one cell; return its row."""
    plan = matrix.plan(words)
    (cell,) = plan.cells
    with tempfile.TemporaryDirectory() as empty:
        os.environ["GUIDEBENCH_CACHE"] = empty
        datasets.summaries(cell, plan.seeds)  # gathering may take longer than a cell may when it is timed
        began = time.monotonic()
        (cost,) = estimates.costs(plan, [Slot("cpu")])
        took = time.monotonic() - began
        load = os.getloadavg()[0]
        options = ["--share", str(share), "--least", str(least), "--train", *words]
        process = benchmark_process.start(sys.executable, "benchmarks.estimates", options, stdout=subprocess.PIPE)
        with process.stdout as output:
            lines = output.read().splitlines()
        if process.wait():
            raise RuntimeError(f"training {' '.join(words)} failed; what went wrong is above")
    actual = json.loads(lines[-1])
    return {
        "name": name, "suite": cell.names.suite, "task": cell.names.task, "method": cell.names.method,
        "learner": cell.learner, "steps": cell.steps, "basis": cost.basis, "estimate_took_seconds": took,
        "estimated_seconds": cost.seconds, "counted_seconds": estimates.COUNTED * estimates.counted(cell),
        "load_average": load, **actual,
        "ratio": actual["seconds"] / cost.seconds, "processor_ratio": actual["processor_seconds"] / cost.seconds,
    }  # fmt: skip


def train(words: list[str], share: float, least: float) -> dict[str, float]:
    """Train one seed of a cell for a share of its steps and at least some seconds; return the steps and the seconds
    that a whole run takes at this pace."""
    from guidebench.harness.identity.cells import write_cell
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run import worker

    plan = matrix.plan(words)
    (cell,) = plan.cells
    marks: dict[int, tuple[float, float]] = {}
    begins = learning_step(cell)
    until, every, step = share * cell.steps, cell.section("evaluation").every, 0

    ended = False

    def stop() -> bool:
        nonlocal step, ended
        if ended:  # a worker that saves its state asks again
            return True
        step += 1
        if step in (1, begins) or step % every == 0:
            marks[step] = time.monotonic(), time.process_time()
        ended = step % every == 0 and step >= until and step > begins and marks[step][0] - marks[1][0] >= least
        return ended

    with tempfile.TemporaryDirectory() as directory:
        study = StudyDirectory(Path(directory))
        write_cell(study, cell)
        job = Job("estimates", directory, record(cell), plan.seeds)
        try:
            worker.work(job, lambda event: None, stop)
            step = cell.steps
            marks[step] = time.monotonic(), time.process_time()
        except Stopped:
            pass
    first, learns, last = marks[1], marks[begins], marks[step]
    run_seconds = [
        (learns[clock] - first[clock]) + (last[clock] - learns[clock]) / (step - begins) * (cell.steps - begins)
        for clock in (0, 1)
    ]
    return {"trained": step, "seconds": run_seconds[0], "processor_seconds": run_seconds[1]}


def learning_step(cell: Cell) -> int:
    """Return the step of a cell's first gradient step."""
    from guidebench.harness.loop.build import make_build

    with tempfile.TemporaryDirectory() as directory:
        build = make_build(cell, (0,), "cpu", [Path(directory)])
        phases = build.parts["agent"].spawn(build).phases()
    starts = [cell.section(part.role).learning_starts for part in cell.names.of("learner")]
    return learning_begins(phases, max(starts, default=1))


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the rows as lines of Markdown."""
    lines = [
        "| cell | steps | counted | estimated | actual: processor time; ratio | time that passed; ratio | load |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        name = f"{row['suite']} {row['task']}, {row['method']} ({row['learner'] or 'no learner'})"
        counted, estimated, processor, passed = (
            f"{row[f'{which}seconds'] / 60:.1f} min" for which in ("counted_", "estimated_", "processor_", "")
        )
        lines.append(
            f"| {name} | {row['steps']:,} | {counted} | {estimated} | {processor}; {row['processor_ratio']:.2f} | "
            f"{passed}; {row['ratio']:.2f} | {row['load_average']:.0f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="suites and learners (default: all)")
    parser.add_argument("--profile", default="quick", help="default %(default)s")
    parser.add_argument("--share", type=float, default=0.1, help="share of a run's steps (default %(default)s)")
    parser.add_argument("--least", type=float, default=SHORT, help="minimum seconds of training (default %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file to which the rows are added")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--train", nargs="+", metavar="key=value", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(options.train, options.share, options.least)))
        return
    rows = []
    for name, words in cells(options.profile):
        if options.only and name not in options.only:
            continue
        print(f"{name}: bench run {' '.join(words)}", file=sys.stderr, flush=True)
        rows.append(compare(name, words, options.share, options.least))
        if options.output:
            _keep(options.output, rows)
    print(json.dumps({"rows": rows}) if options.json else "\n".join(table(rows)))
    if not options.json:
        for (situation, most), (measure_name, ratio) in itertools.product(BOUNDS.items(), RATIOS.items()):
            outside = [row["name"] for row in rows if not 1 / most <= row[ratio] <= most]
            names = ", ".join(outside) or "no cell"
            print(f"a factor of {most:g} ({situation}) is exceeded by {measure_name} in: {names}")


def _keep(output: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows to a file, which keeps its rows of other cells."""
    earlier_rows = json.loads(output.read_text())["rows"] if output.exists() else []
    named = {row["name"]: row for row in [*earlier_rows, *rows]}
    content = {"schema": 1, "rows": [*named.values()], "measured_on": provenance("cpu")}
    output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
