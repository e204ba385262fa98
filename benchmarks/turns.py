"""Training runs that alternate in turns, the basis of all benchmarks that compare training speed.

    python -m benchmarks.turns --start 1500 --turn 400 suite=minigrid_doorkey task=8x8 profile=quick method=uer

Every contender is a separate process with one thread. It trains up to `--start`, reports that, and then trains one turn
of steps for each line that it receives, while the others wait; so a ratio within a round compares two runs seconds
apart on the same machine. Imports, first steps, evaluation and checkpoints are not timed.

Run as a module, this file is a contender that trains a cell of this project as `bench run` does
(`guidebench.harness.run.worker.work`); a turn ends in the training loop's check, after every step, whether to stop.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet

from benchmarks import benchmark_process

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("suite", "task", "method", "profile")


class Turns:
    """The contender's side. Call it after every step; it returns True once no further turn is requested."""

    def __init__(self, start: int, turn: int) -> None:
        self._next, self._turn = start, turn
        self._step = 0
        self._since: tuple[float, float] | None = None

    def __call__(self) -> bool:
        self._step += 1
        if self._step < self._next:
            return False
        self._next += self._turn
        taken = {}
        if self._since is not None:
            taken = {"seconds": time.perf_counter() - self._since[0], "processor": time.process_time() - self._since[1]}
        tell(taken)
        if not sys.stdin.readline():
            return True
        self._since = time.perf_counter(), time.process_time()
        return False


def tell(figures: object) -> None:
    """Print figures as a line of JSON, which the benchmark's side reads."""
    print(json.dumps(figures), flush=True)


class Contender:
    """The benchmark's side: one process, which waits at `start`."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self._process = benchmark_process.start(sys.executable, module, arguments, **pipes)
        self.turns: list[dict[str, float]] = []
        self._hear()

    def turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.turns.append(self._hear())

    def close(self) -> Any:
        """End the run and return the figures that it reports."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        last = self._hear()
        self._process.wait()
        return last

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"a contender ended with exit code {self._process.wait()}; what went wrong is above")
        return json.loads(line)


def interleave(contenders: Sequence[Contender], rounds: int) -> None:
    """Run one turn of each contender per round; the last contender of a round is the first of the next."""
    for number in range(rounds):
        for contender in contenders[:: 1 if number % 2 else -1]:
            contender.turn()


def ratios(slow: Contender, fast: Contender, clock: str = "seconds") -> list[float]:
    """Return the speed of `fast` relative to the other for every round, in ascending order."""
    return sorted(a[clock] / b[clock] for a, b in zip(slow.turns, fast.turns, strict=True))


def rate(contender: Contender, turn: int) -> float:
    """Return the median steps per second."""
    return statistics.median(turn / taken["seconds"] for taken in contender.turns)


def cell_arguments(start: int, turn: int, cell_settings: Mapping[str, object]) -> list[str]:
    """Return the command-line arguments of `benchmarks.turns` for a cell."""
    return ["--start", str(start), "--turn", str(turn), *(f"{key}={value}" for key, value in cell_settings.items())]


def train(
    cell_settings: Mapping[str, Any],
    stop: Callable[[], bool],
    seeds: int = 1,
    device: str = "cpu",
    home: Path | None = None,
    checkpoint_every: int | None = None,
    env_workers: int = 0,
) -> dict[str, float]:
    """Train `seeds` seeds of a cell together until `stop`, before any evaluation; return the run's timings.

    Settings other than names are values, or texts of whole numbers and of names. `home`: the study's directory
    (default: a temporary one); `checkpoint_every`: steps between checkpoints (default: only the last); `env_workers`:
    processes that step tasks."""
    from guidebench.harness import settings
    from guidebench.harness.errors import Stopped
    from guidebench.harness.identity.cells import record, write_cell
    from guidebench.harness.loop.job import Job
    from guidebench.harness.plan import config, roles
    from guidebench.harness.plan.names import Names
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run.worker import work

    values = {name: cell_settings[name] for name in NAMES}
    chosen = {role: part for role, part in cell_settings.items() if role not in NAMES and "." not in role}
    names = Names(**values, parts=roles.parts_of(chosen=chosen, **values))
    fields, overrides = config.cell_fields(names), {}
    for key in cell_settings.keys() - set(NAMES) - set(chosen):
        section, field = key.split(".")
        overrides[key] = settings.check(fields[section][field], _plain(cell_settings[key]), key)
    steps = overrides.get("training.steps", config.base_settings(names)["training.steps"].value)
    # as late as a replay that learns from evaluations permits
    cell = config.resolve(names, {**overrides, "evaluation.every": (steps - 1) // 2}, {})
    config.validate(cell)
    with tempfile.TemporaryDirectory() as temporary:
        directory = home or Path(temporary)
        study, packed = StudyDirectory(directory), tuple(range(seeds))
        listed = {"directory": cell.directory, "seeds": list(packed), "label_variant": ""}
        study.write("benchmark", [], {cell.id: listed})
        write_cell(study, cell)
        every = checkpoint_every or cell.steps
        job = Job(
            "benchmark", str(directory), record(cell), seeds=packed, device=device, checkpoint_every=every,
            env_workers=env_workers,
        )  # fmt: skip
        with contextlib.suppress(Stopped):
            work(job, lambda event: None, stop)
        return last_timing(study.run(cell.directory, 0).path)


def last_timing(run: Path) -> dict[str, Any]:
    """Return the last row of a run's timings: Parquet of a finished run, JSON lines of a stopped one."""
    if (run / "timings.parquet").exists():
        return dict(parquet.read_table(run / "timings.parquet").to_pylist()[-1])
    return dict(json.loads((run / "timings.jsonl").read_text().splitlines()[-1]))


def _plain(text: Any) -> Any:
    return int(text) if isinstance(text, str) and text.isdigit() else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=int, required=True, help="steps before the first turn")
    parser.add_argument("--turn", type=int, required=True, help="steps of a turn")
    parser.add_argument("--seeds", type=int, default=1, help="seeds trained together (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="default %(default)s")
    parser.add_argument("--env-workers", type=int, default=0, help="processes that step tasks (default %(default)s)")
    help_text = "suite, task, method, profile; parts of roles; settings"
    parser.add_argument("given", nargs="+", metavar="key=value", help=help_text)
    options = parser.parse_args()
    cell_settings = dict(item.split("=", 1) for item in options.given)
    tell(
        train(
            cell_settings,
            Turns(options.start, options.turn),
            options.seeds,
            options.device,
            env_workers=options.env_workers,
        )
    )


if __name__ == "__main__":
    main()
