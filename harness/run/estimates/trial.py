"""The steps of a cell that are timed, and their clock. The results of the steps are discarded.

The learners' stores are filled with as many transitions as they draw from. Then the loop is moved to the first learning
step of each run phase, and whole cycles of its schedule of gradient steps are timed. On a CPU, processor time is
measured, that of the processes beside the worker included, so that other programs do not matter.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness.loop import env_workers

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Array, RunPhase, Task
    from guidebench.harness.loop.evaluation import Evaluator
    from guidebench.harness.loop.training import Loop


FILL = 1_000
"""Maximum transitions that are stored before the first update, unless a batch has more. A learner that begins later
draws from no more than this when it is timed."""
WARM = 12
"""Minimum steps of a run phase that are not timed, in whole cycles, since they include compilation and allocation (on a
GPU the fourth update of each kind is captured as a graph). Cycles that take longer than the time allows end them."""
LONGEST_CYCLE = 1_000
"""Maximum steps of a cycle that is timed as a whole."""
CLIPS, ANSWERED = 8, 6.0
"""Number of clips to wait for when timing a scripted judge, and the maximum seconds to wait."""
Clock = Callable[[], "Array"]
"""Returns the seconds of the worker and the processor time of the processes beside it, [2]."""


def clock_of(device: str, stepping: env_workers.EnvWorkers) -> Clock:
    """Return a clock of a worker on a device, with these processes beside it."""
    if not device.startswith("cuda"):
        return lambda: np.array([time.process_time(), stepping.processor_seconds])
    import torch

    def synchronised() -> Array:
        torch.cuda.synchronize()
        return np.array([time.perf_counter(), stepping.processor_seconds])

    return synchronised


def common_cycle(cycles: Sequence[int]) -> int:
    """Return the least common multiple of the cycles (`Part.cycle`, in steps) of at most `LONGEST_CYCLE` steps, or the
    longest of these cycles if the multiple exceeds `LONGEST_CYCLE`.

    >>> common_cycle([1, 4, 6, 5_000])
    12
    """
    short = [cycle for cycle in cycles if cycle <= LONGEST_CYCLE]
    common = math.lcm(*short)
    return common if common <= LONGEST_CYCLE else max(short)


class Trial:
    """Times the steps of a loop. All seconds are [2], as those of its clock."""

    def __init__(self, loop: Loop, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        """`now` decides when enough was timed."""
        self._loop, self._clock, self._read_clock = loop, clock, now
        self._steps_done = 0
        self._phases = loop.agent.phases()

    def training(self, learning_starts: int, filling: int, cycle: int, seconds: float) -> Array:
        """Return the seconds of a whole run's training, whose learners begin at the step `learning_starts`, by timing
        each run phase for `seconds` divided by their number.

        First `filling` transitions are stored, however long that takes. Steps before learning starts take as long as
        those if they step the environment, and no time otherwise. `cycle`: steps after which the schedule of gradient
        steps repeats."""
        loop = self._loop
        total, filled, begin = np.zeros(2), None, 0
        for phase in self._phases:
            loop.enter(phase)
            acts = phase.source == "environment"
            if acts and filled is None:
                filled = self._fill(phase, min(filling, phase.steps))
            end = begin + phase.steps
            starts = max(begin, min(learning_starts, end)) if phase.updates is None else begin
            # Move to the step before the first learning step, so that one-time work there is excluded by WARM.
            loop.step = max(starts - 1, min(loop.step, end))
            step = self._cycles(phase, end - loop.step, cycle, seconds / len(self._phases))
            before = filled if acts and filled is not None else np.zeros(2)
            total = total + (starts - begin) * before + (end - starts) * (before if step is None else step)
            begin = end
        return total

    def _fill(self, phase: RunPhase, count: int) -> Array:
        """Take `count` steps and return the mean seconds of each, without the first ones."""
        warm = min(WARM, count // 2)
        self._advance(phase, warm)
        return self._timed(phase, count - warm)

    def _cycles(self, phase: RunPhase, remaining: int, cycle: int, seconds: float) -> Array | None:
        """Return the mean seconds [2] per step over whole timed cycles, at least one and as many as `seconds` allow,
        after warm-up cycles if the phase has more than one. None if no step remains."""
        if not remaining:
            return None
        cycle = min(cycle, remaining)
        cycles = remaining // cycle
        until = self._read_clock() + seconds
        for _ in range(min(-(-WARM // cycle), cycles - 1)):
            self._advance(phase, cycle)
            cycles -= 1
            if self._read_clock() > until:
                break
        until = self._read_clock() + seconds
        took = [self._timed(phase, cycle)]
        while len(took) < cycles and self._read_clock() < until:
            took.append(self._timed(phase, cycle))
        return np.mean(took, axis=0)  # type: ignore[no-any-return]

    def _timed(self, phase: RunPhase, steps: int) -> Array:
        """Take some steps and return the mean seconds of each."""
        started = self._clock()
        self._advance(phase, steps)
        return (self._clock() - started) / steps

    def _advance(self, phase: RunPhase, steps: int) -> None:
        for _ in range(steps):
            self._loop.advance(phase)
        self._steps_done += steps

    def evaluation(self, evaluator: Evaluator, rows: Sequence[int], seconds: float) -> Array:
        """Return the seconds [2] of an evaluation. Episodes that have not ended after `seconds` are assumed to last
        until their time limit."""
        limits: dict[int, int] = {}
        lengths: Counter[int] = Counter()
        until = self._read_clock() + seconds

        def watch(number: int, task: Task, action: Any) -> None:
            limits[number] = task.max_steps
            lengths[number] += 1
            if self._read_clock() > until and lengths[number] > 1:
                raise Enough

        started, shorter = self._clock(), 1.0
        try:
            evaluator(self._loop.agent, self._loop.step, rows, watch, lambda questions: [None] * len(questions))
        except Enough:
            latest = max(lengths.values())
            total_steps = sum(
                limits[episode] if length >= latest - 1 else length for episode, length in lengths.items()
            )
            shorter = lengths.total() / max(total_steps, lengths.total())
        return (self._clock() - started) / shorter

    def judging(self, backend: Any, question_count: int) -> float:
        """Return the seconds for which a parallel process draws and judges in a whole run with `question_count`
        questions so far, extrapolated from the clips answered so far."""
        until = time.monotonic() + ANSWERED
        before = (0, 0.0)
        while backend.clips < min(question_count, CLIPS) and time.monotonic() < until:
            backend.poll()
            time.sleep(0.02)
            if not before[0]:
                before = backend.clips, backend.seconds  # exclude the first clips, which include one-time work
        clips, seconds = backend.clips - before[0], backend.seconds - before[1]
        if not clips or getattr(backend, "pid", None) is None:
            return 0.0
        steps = sum(phase.steps for phase in self._phases)
        return float(seconds / clips * question_count / self._steps_done * steps)


class Enough(Exception):
    """The time for an evaluation is over."""


class Silent:
    """A backend in place of a foundation model during timing: every question ends without an answer."""

    restarts, clips, seconds, halted = 0, 0, 0.0, ""

    def __init__(self) -> None:
        from guidebench.harness.models.questions import Memory

        self.memory = Memory()

    def ask(self, ticket: Any, question: Any, ahead: bool = False) -> None: ...
    def arrived(self, ticket: Any) -> bool:
        return True

    def wait(self, ticket: Any) -> bool:
        return True

    def take(self, ticket: Any, stop: Callable[[], bool] | None = None) -> tuple[Any, float]:
        from guidebench.harness.models.calls import Answer

        return Answer(None, "breaker"), 0.0

    def poll(self) -> None: ...
    def publish(self, followers: Sequence[Path] = ()) -> None: ...
    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None: ...


class Nowhere:
    """A journal that writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None
