"""What a seed decides: the order of families, and for each round its commands, their packing and their faults.

A round follows from the seed and its number alone, so it can be repeated by itself. What a seed cannot decide is where
within a step a fault strikes: that depends on the machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools.chaos.families import Family
from tools.chaos.processes import COMMAND, FORK_SERVER, HOST, MODEL, TASKS, WORKER

KILL, INTERRUPT, TERMINATE, STOP = "kill", "interrupt", "terminate", "stop"
HANG, HOLD = "hang", "hang holding the interpreter"
FULL, LOSE, SILENCE, FAIL = "full disk", "lose", "silence", "fail"
DISK, SERVER = "disk", "server"
DISTURBED = 3
"""Number of commands in a round that are disturbed, each by one fault."""
ENDS = {
    (KILL, COMMAND), (INTERRUPT, COMMAND), (TERMINATE, WORKER), (FULL, DISK), (HANG, TASKS), (HANG, WORKER),
    (HOLD, TASKS), (HOLD, WORKER),
}  # fmt: skip
"""Faults that end the command, so that it must be given again. They come first in a round, since a study may finish
under another fault."""


@dataclass(frozen=True)
class Fault:
    """A disturbance of one command: its kind, its target and its moment."""

    kind: str
    target: str
    step: int
    """Environment step that a checkpoint must have reached."""
    delay: float
    """Seconds between that moment, or the start of the target if later, and the fault."""
    seconds: float = 0.0
    """Duration in seconds; 0 if the fault is not undone while the command runs, such as a process that stays
    stopped."""
    choice: int = 0
    """Index of the process to strike, modulo the number of processes."""

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.kind} {self.target} {self.delay:.2f} s after step {self.step}{lasting}"


@dataclass(frozen=True)
class Command:
    """A command of a round: its packing, whether it starts fresh, and its fault."""

    pack: int
    workers: int
    env_workers: int
    is_fresh: bool
    """Whether it is a new interpreter with a fork server of its own."""
    fault: Fault | None = None

    @property
    def words(self) -> list[str]:
        return [f"pack={self.pack}", f"workers={self.workers}", f"env_workers={self.env_workers}"]


@dataclass(frozen=True)
class Round:
    """The commands that train one study, in order; the last one is repeated until the study has finished."""

    number: int
    family: str
    commands: tuple[Command, ...]

    @property
    def has(self) -> frozenset[str]:
        """Return the kinds of the faults of its commands."""
        return frozenset(command.fault.kind for command in self.commands if command.fault)


UNDISTURBED = Command(pack=1, workers=2, env_workers=0, is_fresh=False)
"""The command of the reference study."""


def possible(family: Family) -> list[tuple[str, str]]:
    """Return the kinds of faults that a family can have, with their targets."""
    faults = [(KILL, WORKER), (KILL, COMMAND), (KILL, TASKS), (KILL, FORK_SERVER), (INTERRUPT, COMMAND)]
    faults += [(TERMINATE, WORKER), (STOP, WORKER), (STOP, COMMAND), (STOP, TASKS), (FULL, DISK)]
    faults += [(KILL, MODEL), (STOP, MODEL)] if family.asks else []
    faults += [(KILL, HOST), (KILL, HOST), (STOP, HOST)] if family.hosted else []
    faults += [(LOSE, SERVER), (SILENCE, SERVER), (FAIL, SERVER)] if family.served else []
    faults += [(HANG, TASKS), (HANG, WORKER), (HOLD, TASKS), (HOLD, WORKER)] if family.hangs else []
    return faults


def draw(seed: int, number: int, families: Mapping[str, Family]) -> Round:
    """Return round `number` of a seed. Every family has its turn before one comes again."""
    turn, place = divmod(number, len(families))
    order = [*families]
    random.Random(f"{seed} turn {turn}").shuffle(order)
    generator = random.Random(f"{seed} round {number}")
    family = families[order[place]]
    kinds = sorted(generator.sample(possible(family), DISTURBED), key=lambda kind: kind not in ENDS)
    steps = sorted(generator.randrange(family.steps * 9 // 10) for _ in kinds)
    commands = [_disturbed(generator, *kind, step) for kind, step in zip(kinds, steps, strict=True)]
    return Round(number, order[place], (*commands, _packing(generator)))


def rounds(seed: int, families: Mapping[str, Family], first: int = 0) -> Iterator[Round]:
    """Yield the rounds of a seed without end, from round `first` on."""
    number = first
    while True:
        yield draw(seed, number, families)
        number += 1


def _disturbed(generator: random.Random, kind: str, target: str, step: int) -> Command:
    longest = {STOP: 4.0, LOSE: 1.5, SILENCE: 4.0, FAIL: 1.5}.get(kind, 0.0)
    delay, seconds = 0.6 * generator.random() ** 3, longest * generator.uniform(0.2, 1.0)
    if kind == STOP and target != COMMAND and generator.random() < 0.5:
        seconds = 0.0
    fault = Fault(kind, target, step, round(delay, 3), round(seconds, 2), generator.randrange(60))
    return _packing(generator, fault)


def _packing(generator: random.Random, fault: Fault | None = None) -> Command:
    pack, workers, env_workers = (generator.choice(numbers) for numbers in ((1, 2), (1, 2), (0, 0, 1)))
    is_fresh = generator.random() < 0.15
    target = "" if fault is None else fault.target
    if target == TASKS:
        pack, env_workers = 2, 1  # the second seed's task is in the process beside the worker
    return Command(pack, workers, env_workers, is_fresh or target == FORK_SERVER, fault)
