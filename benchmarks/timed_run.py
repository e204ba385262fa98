"""One training run with a clock: what the benchmarks that compare training speed start, each run in its own process.

    python -m benchmarks.timed_run --start 1500 --stop 4500 suite=minigrid_doorkey task=8x8 profile=quick method=uer

The cell trains as `bench run` would train it (`harness.worker.work`), and is stopped by the question that the loop asks
after every step; so imports, the first steps and the closing checkpoint are outside of what is timed. Settings after
the names change a field of the cell (`training.steps=…`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import config, settings
from harness.config import Cell, Names
from harness.errors import Stopped
from harness.records.study import StudyDirectory
from harness.worker import Job, record, work, write_cell

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("suite", "task", "method", "profile")


class Clock:
    """Answers the loop's question whether to stop, and notes the time at two of its steps."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.steps = 0
        self.wall: dict[int, float] = {}
        self.processor: dict[int, float] = {}

    def __call__(self) -> bool:
        self.steps += 1
        if self.steps in (self.start, self.stop):
            self.wall[self.steps], self.processor[self.steps] = time.perf_counter(), time.process_time()
        return self.steps >= self.stop

    def rates(self) -> dict[str, float]:
        """Steps per second of the wall clock, and of this process's own processor time."""
        count = self.stop - self.start
        wall = self.wall[self.stop] - self.wall[self.start]
        processor = self.processor[self.stop] - self.processor[self.start]
        return {"steps_per_second": count / wall, "steps_per_processor_second": count / processor, "seconds": wall}


def make_cell(given: Mapping[str, str]) -> Cell:
    """The cell of `suite`, `task`, `method`, `profile` with the other settings, which are whole numbers, on top."""
    values = {name: given[name] for name in NAMES}
    names = Names(**values, parts=config.parts_of(values["suite"], values["method"], {}))
    overrides = {}
    for key in given.keys() - set(NAMES):
        section, field = key.split(".")
        overrides[key] = settings.check(config.cell_fields(names)[section][field], int(given[key]), key)
    cell = config.resolve(names, overrides, {})
    config.validate(cell)
    return cell


def train(cell: Cell, clock: Clock, directory: Path, seed: int = 0, **job: Any) -> dict[str, float]:
    """Train one seed of `cell` in `directory` until the clock stops it; rates and what the run's own clock says."""
    study = StudyDirectory(directory)
    write_cell(study, cell)
    whole = Job(study="benchmark", directory=str(directory), cell=record(cell), seeds=(seed,), **job)
    try:
        work(whole, lambda event: None, clock)
    except Stopped:
        pass
    timings = study.run(cell.directory, seed).path / "timings.jsonl"
    last: dict[str, float] = json.loads(timings.read_text().splitlines()[-1])
    return {**clock.rates(), **{name: last[name] for name in last if name not in ("step", "seeds", "seconds")}}


def elsewhere(start: int, stop: int, given: Mapping[str, object]) -> dict[str, float]:
    """The same in a process of its own, on one thread."""
    return on_one_thread(
        "benchmarks.timed_run",
        ["--start", str(start), "--stop", str(stop), *(f"{key}={value}" for key, value in given.items())],
    )


def on_one_thread(module: str, arguments: Sequence[str]) -> Any:
    """What `python -m MODULE` of this interpreter prints as JSON."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", module, *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=int, required=True, help="first step that is not timed")
    parser.add_argument("--stop", type=int, required=True, help="last step that is timed, before the run's last")
    parser.add_argument("given", nargs="+", metavar="key=value", help="suite, task, method, profile; settings")
    asked = parser.parse_args()
    cell = make_cell(dict(item.split("=", 1) for item in asked.given))
    with tempfile.TemporaryDirectory() as directory:
        never = cell.steps
        result = train(cell, Clock(asked.start, asked.stop), Path(directory), checkpoint_every=never)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
