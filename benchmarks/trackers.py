"""What a tracker costs the run that it follows: DQN beside TensorBoard, beside a client that hangs, and alone.

    python -m benchmarks.trackers [--rounds 150] [--turn 300] [--every 300]

One worker trains DoorKey 8x8 with one thread, in turns. Each tracker follows the study as `bench run … trackers=NAME`
has it do, by a process of low priority that is stopped (SIGSTOP) except in its own turns. A turn contains checkpoints,
which make points final, so a tracker has the points of all contenders' turns to read and to send in each of its own:
the cost of a tracker that is never stopped is a quarter. A round has two turns without any tracker, and the order of
its four turns is random. A ratio is the seconds of a turn with the tracker by the mean of the two without; the ratio of
these two shows what the method finds where there is nothing. The processor's seconds are those of the worker. Other
work on the machine makes turns differ by several percent, so turns are short and many, and each median has an interval
that needs no assumption on how they differ: 95 % of such intervals contain the median of all rounds that could be
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.table import Line
from benchmarks.turns import ROOT, Contender, Turns, tell, train

ALONE = ("alone", "again")
"""The two turns of a round without a tracker."""
TRACKERS = ("tensorboard", "hanging")
CELL = {"suite": "minigrid_doorkey", "task": "8x8", "method": "uer", "profile": "quick"}
HANGING = '''
import time

from guidebench.harness.registry import register
from guidebench.harness.trackers import START, Offset, Tracker


@register.tracker("hanging")
class Hanging(Tracker):
    """A client whose server never answers."""

    name = "hanging"
    modules = ("json",)

    def held(self, run, offset):
        return offset

    def begin(self, run):
        return Offset(id="page")

    def put(self, run, offset, points):
        (self.directory / "hangs").touch()
        time.sleep(1e6)

    def end(self, run, offset, status):
        pass

    def publish(self, report):
        pass
'''


def plug_in(directory: Path) -> None:
    """Write the package of the client that hangs, as if it were installed in a directory."""
    (directory / "hanging_client.py").write_text(HANGING)
    about = directory / "hanging_client-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging_client\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[guidebench.trackers]\nhanging = hanging_client\n")


@contextmanager
def following(name: str, study: Path, packages: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in which a tracker follows a study, as a training command does; it and its children are one
    process group, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "guidebench.harness.trackers.side_processes", str(study), name],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(packages)))},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def measure(rounds: int, start: int, turn: int, every: int, cell_settings: dict[str, str]) -> dict[str, Any]:
    """Return the medians of turns and of ratios."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in (*ALONE, *TRACKERS)}
    with tempfile.TemporaryDirectory() as directory:
        study, packages = Path(directory) / "study", Path(directory) / "packages"
        packages.mkdir()
        plug_in(packages)
        words = ["--train", str(study), "--start", str(start), "--turn", str(turn), "--every", str(every)]
        steps = 3 * (start + (rounds + 1) * len(taken) * turn)  # so that it neither ends nor evaluates meanwhile
        cell_settings = {"training.steps": str(steps), **cell_settings}
        run = Contender("benchmarks.trackers", [*words, *(f"{name}={value}" for name, value in cell_settings.items())])
        with following(TRACKERS[0], study, packages) as first, following(TRACKERS[1], study, packages) as second:
            _wait_for(study)
            groups = dict(zip(TRACKERS, (first.pid, second.pid), strict=True))
            for group in groups.values():
                os.killpg(group, signal.SIGSTOP)
            rng = np.random.default_rng(0)
            for _ in range(rounds):
                for name in rng.permutation([*taken]):
                    if name in groups:
                        os.killpg(groups[name], signal.SIGCONT)
                    run.turn()
                    if name in groups:
                        os.killpg(groups[name], signal.SIGSTOP)
                    taken[name].append(run.turns[-1])
            if first.poll() is not None or second.poll() is not None:
                raise RuntimeError("a tracker has ended")
            events = sum(path.stat().st_size for path in study.glob("tensorboard/**/events.*"))
        run.close()
    figures: dict[str, Any] = {"turn": turn, "checkpoint_every": every, "rounds": rounds, "event_bytes": events}
    for clock in ("seconds", "processor"):
        seconds = {name: np.array([turn_clock[clock] for turn_clock in turns]) for name, turns in taken.items()}
        alone, again = (seconds[name] for name in ALONE)
        figures[f"{clock}_alone"] = statistics.median([*alone, *again])
        ratios = {"again": again / alone} | {name: 2 * seconds[name] / (alone + again) for name in TRACKERS}
        for name, of_rounds in ratios.items():
            figures[f"{clock}_{name}"] = statistics.median(of_rounds)
            figures[f"{clock}_{name}_interval"] = interval(sorted(of_rounds))
    return figures


def never_stopped(ratio: Any) -> Any:
    """Return a ratio, or the ends of its interval, scaled to a tracker that is never stopped: in its own turn a tracker
    here handles the points of a whole round."""
    return (1 + (np.asarray(ratio) - 1) / (len(ALONE) + len(TRACKERS))).tolist()


def interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median between two order statistics, with a confidence of at least 95 %; of fewer than
    six values, their range."""
    below = max(0, int(stats.binom.ppf(0.025, len(ordered), 0.5)) - 1)
    return ordered[below], ordered[-1 - below]


def _wait_for(study: Path) -> None:
    """Wait until both trackers have points: one has written them, the other hangs."""
    end = time.monotonic() + 120.0
    while not ((study / "hangs").exists() and list(study.glob("tensorboard/**/events.*"))):
        if time.monotonic() > end:
            raise RuntimeError("the trackers take no points")
        time.sleep(0.1)


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for name, label in (("tensorboard", "TensorBoard"), ("hanging", "a client that hangs")):
        ratio, (_, most) = (never_stopped(figures[f"processor_{name}{kind}"]) for kind in ("", "_interval"))
        label = f"DQN on DoorKey 8x8 beside {label}, processor time by that without; at most, with confidence 97.5 %"
        yield Line(label, f"{ratio:.4f} of it", "", most, "<1.01")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--start", type=int, default=2_500, help="steps before the first turn")
    parser.add_argument("--turn", type=int, default=300, help="steps of a turn")
    parser.add_argument("--every", type=int, default=300, help="steps between checkpoints; a run's are 5,000 apart")
    parser.add_argument("--train", type=Path, metavar="STUDY", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("given", nargs="*", metavar="key=value", help="suite, task, method, profile")
    options = parser.parse_args()
    cell_settings = CELL | dict(item.split("=", 1) for item in options.given)
    if options.train:
        tell(
            train(cell_settings, Turns(options.start, options.turn), home=options.train, checkpoint_every=options.every)
        )
        return
    figures = measure(options.rounds, options.start, options.turn, options.every, cell_settings)
    if options.json:
        print(json.dumps(figures))
        return
    for name in ("again", *TRACKERS):
        low, high = figures[f"processor_{name}_interval"]
        print(
            f"{name}: {figures[f'seconds_{name}']:.3f} of the seconds, {figures[f'processor_{name}']:.3f} of the "
            f"processor's ({low:.3f} to {high:.3f})"
        )


if __name__ == "__main__":
    main()
