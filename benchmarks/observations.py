"""DQN on CartPole-v1 with array observations, against observations as structured arrays with one field.

    python -m benchmarks.observations [--rounds 30]

Both train with the settings of the suite `classic` in separate processes that alternate (benchmarks/turns.py); a turn
consists of environment steps, storing and updates. Both learn bitwise equal parameters.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.table import Line
from benchmarks.turns import Contender, Turns, interleave, rate, ratios, tell, train
from guidebench.harness.interfaces import Actions, Array, Observations, Step
from guidebench.harness.registry import register
from guidebench.suites.classic import Classic

CELL = {"task": "CartPole-v1", "profile": "paper", "method": "uer"}
SUITES = {"array": "classic", "record": "classic_named"}


@register.suite("classic_named")
@dataclass(frozen=True)
class Named(Classic):
    """The suite `classic` with its observations as the field `observation` of a structured array."""

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        observations, actions = super().spaces(task)
        return observations.joined(), actions

    def make(self, task: str) -> Any:
        return NamedTask(super().make(task), self.spaces(task)[0].numpy)


class NamedTask:
    """A task whose observations are wrapped in structured arrays."""

    def __init__(self, task: Any, dtype: np.dtype[Any]) -> None:
        self._task, self._dtype = task, dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def reset(self, seed: int | None = None) -> Array:
        return self._record(self._task.reset(seed))

    def step(self, action: Any) -> Step:
        step: Step = self._task.step(action)
        return step._replace(observation=self._record(step.observation))

    def _record(self, observation: Array) -> Array:
        record = np.empty((), self._dtype)
        record["observation"] = observation
        return record


def speed(rounds: int, start: int, turn: int) -> dict[str, Any]:
    """Return the steps per second with both kinds of observation and the median ratio; a turn is whole cycles of the
    schedule's 256 steps and 128 updates."""
    contenders = {
        name: Contender("benchmarks.observations", ["--contend", name, "--start", str(start), "--turn", str(turn)])
        for name in SUITES
    }
    interleave([*contenders.values()], rounds)
    for contender in contenders.values():
        contender.close()
    array, record = contenders.values()
    speedups = ratios(array, record)
    return {
        "rounds": rounds,
        "turn": turn,
        "array_steps_per_second": rate(array, turn),
        "record_steps_per_second": rate(record, turn),
        "ratio": statistics.median(speedups),
        "ratio_lowest": speedups[0],
        "ratio_highest": speedups[-1],
        "processor_ratio": statistics.median(ratios(array, record, "processor")),
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    rates = [f"{figures[f'{kind}_steps_per_second']:,.0f} steps/s" for kind in ("record", "array")]
    yield Line("DQN on CartPole, one named part: an array", *rates, figures["ratio"], "0.97")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="turns of each (default %(default)s)")
    parser.add_argument("--start", type=int, default=2_000, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=1_280, help="steps of a turn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--contend", choices=[*SUITES], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        tell(train({**CELL, "suite": SUITES[options.contend]}, Turns(options.start, options.turn)))
        return
    figures = speed(options.rounds, options.start, options.turn)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"DQN on CartPole-v1, {options.rounds} turns of {options.turn:,} training steps each, one thread")
    print(f"an array         {figures['array_steps_per_second']:8,.0f} steps/s")
    print(f"one named part   {figures['record_steps_per_second']:8,.0f} steps/s")
    print(
        f"ratio            {figures['ratio']:8.3f}  ({figures['ratio_lowest']:.2f} to {figures['ratio_highest']:.2f})"
    )
    print(f"                 {figures['processor_ratio']:8.3f}  by processor time")


if __name__ == "__main__":
    main()
