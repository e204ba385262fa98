"""Demonstrations: verified episodes of a suite's solver with which the replay of every run of a cell begins.

They depend only on (suite, its version and settings, task, count), so every method and seed gets the same ones;
if a run's seed decides its layout (the suite's `of_run`), each seed gets demonstrations of its own layout. They are
made once, verified by replaying them in a new task, and cached by content (`harness/episodes/files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.capabilities import Demonstrates
from guidebench.harness.episodes import files
from guidebench.harness.errors import UserError
from guidebench.harness.identity.provenance import packages
from guidebench.harness.interfaces import Array, Suite, Task, Transition
from guidebench.harness.plan.config import Cell
from guidebench.harness.trajectories import Demonstration

SCHEMA = 1
ENTROPY = 20
"""Entropy of the layout seeds, distinct from those of training, evaluation and the reference episode of probes."""
ATTEMPTS = 10
"""Maximum attempts per demonstration."""


def together(episodes: Sequence[Demonstration], step: int) -> Transition:
    """Return one step of a worker's seeds as a transition, from one episode per seed."""
    columns: dict[str, Any] = {
        name: np.array([getattr(episode, name)[step] for episode in episodes]) for name in ARRAYS
    }
    return Transition(**columns)


ARRAYS = Demonstration._fields[1:]


class Demonstrations(NamedTuple):
    """The demonstrations of a run, and the hash of their content."""

    episodes: tuple[Demonstration, ...]
    digest: str

    @property
    def length(self) -> int:
        """Return the number of transitions."""
        return sum(episode.length for episode in self.episodes)


Tell = Callable[[int, int], None]
"""Progress callback: number of demonstrations found, and of attempts made."""


@dataclass(frozen=True)
class DemonstrationSpec:
    """Identifies demonstrations: `count` episodes on a task of a configured suite."""

    name: str
    """Name of the suite."""
    suite: Suite
    task: str
    count: int

    def __str__(self) -> str:
        return f"{self.name}/{self.task}"

    @property
    def content(self) -> dict[str, Any]:
        """Return everything that decides the episodes, as JSON values."""
        return {
            "schema": SCHEMA,
            "suite": self.name,
            "version": self.suite.version,
            "settings": asdict(self.suite),  # type: ignore[call-overload]
            "task": self.task,
            "spaces": [asdict(space) for space in self.suite.spaces(self.task)],
            "count": self.count,
            "packages": packages(),
        }

    @property
    def file(self) -> Path:
        """Return the cached JSON file that describes them; the arrays are beside it."""
        return files.root("demonstrations") / self.name / self.task / f"{files.key(self.content)}.json"


def spec(cell: Cell, seed: int) -> DemonstrationSpec | None:
    """Return the demonstrations that the run of `cell` with this seed begins with, or None."""
    count = cell.section("training").demonstrations
    return (
        DemonstrationSpec(cell.names.suite, cell.section("suite").of_run(seed), cell.names.task, count)
        if count
        else None
    )


def prepare(cell: Cell, seed: int, tell: Tell = lambda successes, attempts: None) -> Demonstrations:
    """Return the demonstrations that the run of `cell` with this seed begins with. Raise UserError if its replay cannot
    hold them."""
    demonstration_spec = spec(cell, seed)
    if demonstration_spec is None:
        return Demonstrations((), "")
    demonstrations = obtain(demonstration_spec, tell)
    capacity = cell.section("training").capacity
    if demonstrations.length > capacity:
        raise UserError(
            f"training.capacity={capacity} is smaller than the {demonstration_spec.count} demonstrations of "
            f"{demonstration_spec}, which are {demonstrations.length} transitions: raise training.capacity or "
            f"lower training.demonstrations"
        )
    return demonstrations


def parallel_episodes(by_seed: Sequence[Sequence[Demonstration]]) -> list[tuple[Demonstration, ...]]:
    """Return tuples of one demonstration per seed, given the demonstrations of each seed of a worker. Raise UserError
    if episode lengths differ between seeds, since all seeds must store the same number of transitions."""
    parallel = list(zip(*by_seed, strict=True))
    for number, episodes in enumerate(parallel):
        if len(lengths := sorted({episode.length for episode in episodes})) > 1:
            raise UserError(
                f"demonstration {number} has {lengths[0]} to {lengths[-1]} steps, which depends on the seed, and seeds "
                f"that share a worker store equally many transitions: run them apart with pack=1"
            )
    return parallel


def obtain(spec: DemonstrationSpec, tell: Tell = lambda successes, attempts: None) -> Demonstrations:
    """Return the demonstrations, made if they are not cached. Raise UserError if they cannot be made or verified."""
    demonstrations = read(spec.file)
    if demonstrations is None:
        keep(make(spec, tell), spec)
        demonstrations = read(spec.file)
        assert demonstrations is not None, "what was just written can be read"
    return demonstrations


def make(spec: DemonstrationSpec, tell: Tell = lambda successes, attempts: None) -> tuple[Demonstration, ...]:
    """Return `count` new, verified episodes of the suite's solver; attempts that do not end in success are discarded.
    `tell`: called after each attempt. Raise UserError if too few attempts succeed or an episode fails verification."""
    if not isinstance(spec.suite, Demonstrates):
        raise UserError(f"suite {spec.name!r} has no solver that demonstrates; set training.demonstrations=0")
    episodes: list[Demonstration] = []
    for attempt in range(ATTEMPTS * spec.count):
        episode: Demonstration | None = spec.suite.demonstrate(spec.task, _seed(attempt))
        if episode is not None and episode.success[-1]:
            verify(episode, spec.suite.make(spec.task), f"demonstration {len(episodes)} of {spec}")
            episodes.append(episode)
        elif spec.suite.repeats(spec.task):
            raise UserError(
                f"the solver of {spec} fails in the one layout that this run has ({spec.suite}); set "
                f"training.demonstrations=0, or another seed"
            )
        tell(len(episodes), attempt + 1)
        if len(episodes) == spec.count:
            return tuple(episodes)
    raise UserError(
        f"{len(episodes)} of {ATTEMPTS * spec.count} attempts to demonstrate {spec} ended in success and {spec.count} "
        f"are needed: lower training.demonstrations, or fix the suite's demonstrate()"
    )


def _seed(attempt: int) -> int:
    return int(np.random.SeedSequence(ENTROPY, spawn_key=(attempt,)).generate_state(1)[0] >> 1)


def play(task: Task, seed: int, act: Callable[[Array], Any]) -> Demonstration | None:
    """Return the episode that `act(observation)` plays on layout `seed`, or None if no step of it is a success."""
    episode = roll(task, seed, act, task.max_steps)
    return episode if episode.success.any() else None


def first_success(task: Task, seed: int, act: Callable[[Array], Any]) -> Array | None:
    """Return the snapshot, uint8 [n], of the first state that counts as a success in the episode that
    `act(observation)` plays on layout `seed`, or None if there is none. The last state would not do, since some solvers
    lose the success again before the episode ends."""
    observation = task.reset(seed)
    for _ in range(task.max_steps):
        step = task.step(act(observation))
        if step.success:
            return task.snapshot().copy()
        if step.terminated or step.truncated:
            return None
        observation = step.observation
    return None


def verify(recorded: Demonstration, task: Task, name: str) -> None:
    """Replay an episode's actions in a new `task`. Raise a UserError that begins with `name` if the result differs."""
    if not recorded.success[-1]:
        raise UserError(f"{name} fails verification: it does not end in success after its {recorded.length} steps")
    ended = recorded.terminated | recorded.truncated
    if ended.argmax() != recorded.length - 1 or not ended[-1]:
        raise UserError(f"{name} fails verification: its end is not where the episode of {recorded.length} steps ends")
    actions = iter(recorded.action)
    replayed = roll(task, recorded.seed, lambda observation: next(actions), recorded.length)
    different = [
        (int(step), field)
        for field in ARRAYS
        for step in _differing(getattr(recorded, field), getattr(replayed, field))[:1]
    ]
    if different:
        step, field = min(different, key=lambda pair: pair[0])
        first, second = (getattr(episode, field)[step] for episode in (recorded, replayed))
        if first.dtype.names:  # a record: find the part that differs
            part = next(name for name in first.dtype.names if not np.array_equal(first[name], second[name]))
            field, first, second = f"{field}.{part}", first[part], second[part]
        before, now = np.atleast_1d(first), np.atleast_1d(second)
        at = int(np.flatnonzero(before.ravel() != now.ravel())[0]) if before.shape == now.shape else 0
        raise UserError(
            f"{name} fails verification: replayed from reset({recorded.seed}), {field}[{at}] of step {step} is "
            f"{now.ravel()[at]} and was {before.ravel()[at]}; the task is not deterministic, or has changed since"
        )


def _differing(recorded: Array, replayed: Array) -> Array:
    """Return the steps at which two arrays [T, …] differ, int [n], up to the length of the shorter one."""
    common = min(len(recorded), len(replayed))
    return np.flatnonzero((recorded[:common] != replayed[:common]).reshape(common, -1).any(axis=1))


def roll(task: Task, seed: int, act: Callable[[Array], Any], most: int) -> Demonstration:
    """Return the first steps, at most `most`, of the episode that `act(observation)` plays on layout `seed`."""
    observation = task.reset(seed)
    rows: list[tuple[Any, ...]] = []
    ended = False
    while not ended and len(rows) < most:
        action = act(observation)
        step = task.step(action)
        ended = bool(step.terminated or step.truncated)
        rows.append(
            (observation, action, np.float32(step.reward), bool(step.terminated), bool(step.truncated),
             bool(step.success), step.observation, task.events().copy(), task.snapshot().copy())
        )  # fmt: skip
        observation = step.observation
    return Demonstration(seed, *(np.array(column) for column in zip(*rows, strict=True)))


def keep(episodes: tuple[Demonstration, ...], spec: DemonstrationSpec, file: Path | None = None) -> Path:
    """Write demonstrations to `file` (.json, with the arrays beside it; None for the cache) and return the file."""
    arrays = [{name: getattr(episode, name) for name in ARRAYS} for episode in episodes]
    return files.keep(file or spec.file, spec.content, [{"seed": episode.seed} for episode in episodes], arrays)


def read(file: Path) -> Demonstrations | None:
    """Return the demonstrations that `keep` wrote, or None if the file is missing or, with a notice, damaged."""
    cached = files.read(file, ARRAYS)
    if cached is None:
        return None
    episodes = zip(cached.described, cached.arrays, strict=True)
    return Demonstrations(
        tuple(Demonstration(description["seed"], **arrays) for description, arrays in episodes), cached.digest
    )
