"""Updates of five seeds together against one, with the settings of the paper profile: captured as CUDA graphs, and
eager. The goal of this project is five seeds in at most 1.5 times the time of one.

An update is one gradient step on a fixed batch: of DQN and IQN on DoorKey 8x8, of SAC and TD3 on Scene (ten critics,
three layers of 512). Its batch comes from the host and its TD errors return to it, as in training.
"""

from __future__ import annotations

import functools
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.continuous import SuiteTask, our_learner, update_of
from benchmarks.gpu import figures
from benchmarks.gpu.figures import Row
from benchmarks.gpu.machine import synchronise
from benchmarks.gpu.steps import Ask, Tell
from benchmarks.learner_update import CATEGORIES, build, random_batch
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.harness.interfaces import Observations

SEEDS = (1, 5)
GRID = Observations((8, 8, 3), "uint8", CATEGORIES)
WARM_UP, MOST, CYCLE = 24, 40, 8
"""Updates before the first turn, most rounds, and the updates after which actor and targets have had each of theirs."""
SMALL = {"learner.hidden": (16, 16), "learner.batch_size": 16, "learner.ensemble": 3, "learner.learning_starts": 32}


@dataclass
class Rival:
    """An update that is timed, and the seconds of a call in each round."""

    learner: str
    how: str
    seeds: int
    make: Callable[[], tuple[Any, Any]]
    """Returns a learner and a batch."""
    update: Callable[[], object] = lambda: None
    batch: int = 0
    seconds: list[float] = field(default_factory=list)
    error: str = ""
    _made: Any = None

    def begin(self, device: str) -> None:
        """Make the learner, and warm it up until its updates are captured."""
        try:
            self._made, batch = self.make()
            self.batch = self._made.batch_size
            if self.how == "eager":
                self._made._learn = getattr(self._made._learn, "learn", self._made._learn)
            self.update = update_of(self._made, batch)
            timed(self.update, WARM_UP, device)
        except Exception as error:  # of any package; the others go on
            traceback.print_exc()
            self.error = f"{type(error).__name__}: {error}"[:300]

    def note(self) -> str:
        """Return the number of captured CUDA graphs and why others were refused; "" for an eager update."""
        learn = getattr(self._made, "_learn", None)
        if self.how != "captured" or not hasattr(learn, "graphs"):
            return ""
        return f"{len(learn.graphs)} CUDA graphs" + (f", refused: {learn.refused}" if learn.refused else "")


def rivals(ask: Ask) -> list[Rival]:
    """Return all updates: for each learner and way, of one seed and then of five."""
    small: dict[str, Any] = {} if ask.full else {"channels": 8, "features": 16, "hidden": (16,), "batch_size": 16}

    def on_grid(kind: Any, seeds: int) -> tuple[Any, Any]:
        config = kind(**small)
        return config.spawn(build(GRID, 5, seeds, ask.device)), random_batch(GRID, 5, seeds, config.batch_size)

    def on_scene(name: str, seeds: int) -> tuple[Any, Any]:
        return our_learner(SuiteTask("ogbench_scene", "task3"), name, seeds, ask.device, {} if ask.full else SMALL)

    grid = [
        Rival(f"{name} on DoorKey 8x8", how, seeds, functools.partial(on_grid, kind, seeds))
        for name, kind in (("DQN", Dqn), ("IQN", Iqn))
        for how in ("captured", "eager")
        for seeds in SEEDS
    ]
    scene = [
        Rival(f"{name.upper()} on Scene", how, seeds, functools.partial(on_scene, name, seeds))
        for name in ("sac", "td3")
        for how in ("captured", "eager")
        for seeds in SEEDS
    ]
    return [*grid, *scene]


def timed(call: Callable[[], object], times: int, device: str) -> float:
    """Return the mean seconds of a call."""
    synchronise(device)
    begun = time.perf_counter()
    for _ in range(times):
        call()
    synchronise(device)
    return (time.perf_counter() - begun) / times


def rows(updates: Sequence[Rival], times: int) -> list[Row]:
    """Return updates per second, of all seeds together, and how the time of five seeds compares with that of one."""
    table_rows = []
    eager = {rival.learner: rival for rival in updates if rival.how == "eager" and rival.seeds == 1}
    for single, five in zip(updates[::2], updates[1::2], strict=True):
        for rival in (single, five):
            row = rate(rival, times)
            if rival.how == "captured" and rival.seeds == 1 and rival.seconds and eager[rival.learner].seconds:
                row = figures.compared(row, "eager", *map(speeds, (rival, eager[rival.learner])))
            table_rows.append(row)
        if single.seconds and five.seconds:
            longer = sorted(more / less for more, less in zip(five.seconds, single.seconds, strict=True))
            label = f"{single.learner}, {single.how}: time of an update of five seeds by that of one"
            table_rows.append(
                Row(
                    label,
                    statistics.median(longer),
                    "×",
                    longer[0],
                    longer[-1],
                    len(longer),
                    seeds=5,
                    batch=single.batch,
                    seconds=times * sum([*single.seconds, *five.seconds]),
                    note="goal: at most 1.5",
                )
            )
    return table_rows


def rate(rival: Rival, times: int) -> Row:
    """Return the row of one update."""
    label = f"{rival.learner}, {rival.how} updates"
    if not rival.seconds:
        return Row(label, None, "updates/s", seeds=rival.seeds, batch=rival.batch, note=rival.error)
    counts = [rival.seeds * times] * len(rival.seconds)
    taken = [times * seconds for seconds in rival.seconds]
    more = {"seeds": rival.seeds, "batch": rival.batch, "note": rival.note()}
    return figures.of_turns(label, "updates/s", counts, taken, **more)


def speeds(rival: Rival) -> list[float]:
    return [1 / seconds for seconds in rival.seconds]


def measure(ask: Ask, tell: Tell) -> None:
    torch.set_num_threads(1)
    updates = rivals(ask)
    for rival in updates:
        rival.begin(ask.device)
    running = [rival for rival in updates if not rival.error]
    slowest = sum(timed(rival.update, 3, ask.device) for rival in running)
    fitting = ask.seconds_left() / (5 * slowest) if ask.full and running else 0
    times = CYCLE * max(1, min(25, int(fitting / CYCLE)))
    for number in range(ask.rounds(MOST)):
        begun = time.monotonic()
        for rival in running[:: 1 if number % 2 else -1]:
            rival.seconds.append(timed(rival.update, times, ask.device))
        tell(rows(updates, times))
        if number >= 1 and ask.seconds_left() < time.monotonic() - begun:
            break
    tell(rows(updates, times))
