"""Demonstrations: a few verified episodes of a suite's own solver that every run of a cell begins with.

They follow from (suite, its version and settings, task, count) alone, so every method and seed gets the same ones;
where a run's seed decides its layout (the suite's `of_run`), a seed gets those of its own layout. They are
made once, replayed in a fresh task before they count, and kept by content (`harness/episodes/files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.capabilities import Demonstrates
from guidebench.harness.episodes import files as keeping
from guidebench.harness.errors import UserError
from guidebench.harness.identity.provenance import packages
from guidebench.harness.interfaces import Array, Suite, Task, Transition
from guidebench.harness.plan.config import Cell
from guidebench.harness.trajectories import Demonstration

SCHEMA = 1
ENTROPY = 20
"""Of the layouts demonstrated: apart from those of training, evaluation and the reference episode of probes."""
ATTEMPTS = 10
"""Most attempts per demonstration."""


def together(episodes: Sequence[Demonstration], step: int) -> Transition:
    """One step of the episodes that the seeds of a worker are shown side by side, one each."""
    columns = ([getattr(episode, name)[step] for episode in episodes] for name in Transition._fields)
    return Transition(*(np.array(column) for column in columns))


ARRAYS = Demonstration._fields[1:]


class Demonstrations(NamedTuple):
    """What a run begins with, and the hash of its content."""

    episodes: tuple[Demonstration, ...]
    digest: str

    @property
    def length(self) -> int:
        """Transitions in all of them."""
        return sum(episode.length for episode in self.episodes)


Tell = Callable[[int, int], None]
"""Told of progress: how many episodes are there, and after how many attempts."""


@dataclass(frozen=True)
class Wanted:
    """Which demonstrations: `count` of them on a task of a suite as it is configured."""

    name: str
    """Of the suite."""
    suite: Suite
    task: str
    count: int

    def __str__(self) -> str:
        return f"{self.name}/{self.task}"

    @property
    def content(self) -> dict[str, Any]:
        """All that decides them."""
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
        """Where their description is kept; the arrays are beside it."""
        return keeping.root("demonstrations") / self.name / self.task / f"{keeping.key(self.content)}.json"


def wanted(cell: Cell, seed: int) -> Wanted | None:
    """What the run of `cell` with this seed begins with, or None."""
    count = cell.section("training").demonstrations
    return Wanted(cell.names.suite, cell.section("suite").of_run(seed), cell.names.task, count) if count else None


def prepare(cell: Cell, seed: int, tell: Tell = lambda found, attempts: None) -> Demonstrations:
    """What the run of `cell` with this seed begins with; UserError if its replay cannot hold it."""
    what = wanted(cell, seed)
    if what is None:
        return Demonstrations((), "")
    found = obtain(what, tell)
    capacity = cell.section("training").capacity
    if found.length > capacity:
        raise UserError(
            f"training.capacity={capacity} is smaller than the {what.count} demonstrations of {what}, which are "
            f"{found.length} transitions: raise training.capacity or lower training.demonstrations"
        )
    return found


def beside(found: Sequence[Sequence[Demonstration]]) -> list[tuple[Demonstration, ...]]:
    """The demonstrations of each seed of a worker -> what its seeds are shown side by side; UserError where the
    episodes of two seeds differ in length, since all seeds store the same number of transitions."""
    shown = list(zip(*found, strict=True))
    for number, episodes in enumerate(shown):
        if len(lengths := sorted({episode.length for episode in episodes})) > 1:
            raise UserError(
                f"demonstration {number} has {lengths[0]} to {lengths[-1]} steps, which depends on the seed, and seeds "
                f"that share a worker store equally many transitions: run them apart with pack=1"
            )
    return shown


def obtain(what: Wanted, tell: Tell = lambda found, attempts: None) -> Demonstrations:
    """The demonstrations, made if they are not kept yet; UserError if they cannot be made or verified."""
    found = kept(what.file)
    if found is None:
        keep(make(what, tell), what)
        found = kept(what.file)
        assert found is not None, "what was just written can be read"
    return found


def make(what: Wanted, tell: Tell = lambda found, attempts: None) -> tuple[Demonstration, ...]:
    """`count` episodes of the suite's solver, each verified; attempts that do not end in success are left out."""
    if not isinstance(what.suite, Demonstrates):
        raise UserError(f"suite {what.name!r} has no solver that demonstrates; set training.demonstrations=0")
    found: list[Demonstration] = []
    for attempt in range(ATTEMPTS * what.count):
        episode: Demonstration | None = what.suite.demonstrate(what.task, _seed(attempt))
        if episode is not None and episode.success[-1]:
            verify(episode, what.suite.make(what.task), f"demonstration {len(found)} of {what}")
            found.append(episode)
        elif what.suite.repeats(what.task):
            raise UserError(
                f"the solver of {what} fails in the one layout that this run has ({what.suite}); set "
                f"training.demonstrations=0, or another seed"
            )
        tell(len(found), attempt + 1)
        if len(found) == what.count:
            return tuple(found)
    raise UserError(
        f"{len(found)} of {ATTEMPTS * what.count} attempts to demonstrate {what} ended in success and {what.count} are "
        f"wanted: lower training.demonstrations, or mend the suite's demonstrate()"
    )


def _seed(attempt: int) -> int:
    return int(np.random.SeedSequence(ENTROPY, spawn_key=(attempt,)).generate_state(1)[0] >> 1)


def play(task: Task, seed: int, act: Callable[[Array], Any]) -> Demonstration | None:
    """The episode that `act(observation)` makes of layout `seed`; None if no step of it is a success."""
    episode = roll(task, seed, act, task.max_steps)
    return episode if episode.success.any() else None


def first_success(task: Task, seed: int, act: Callable[[Array], Any]) -> Array | None:
    """Return the snapshot, uint8 [n], of the first state that is a success in the episode that `act(observation)` makes
    of layout `seed`; None where no state of it is one. Solvers of some tasks lose success again before the episode
    ends, so its last state would not do."""
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
    """Replay an episode action by action in a fresh `task`; UserError, by `name`, if it is not what was recorded."""
    if not recorded.success[-1]:
        raise UserError(f"{name} fails verification: it does not end in success after its {recorded.length} steps")
    ended = recorded.terminated | recorded.truncated
    if ended.argmax() != recorded.length - 1 or not ended[-1]:
        raise UserError(f"{name} fails verification: its end is not where the episode of {recorded.length} steps ends")
    actions = iter(recorded.action)
    seen = roll(task, recorded.seed, lambda observation: next(actions), recorded.length)
    different = [
        (int(step), field)
        for field in ARRAYS
        for step in _differing(getattr(recorded, field), getattr(seen, field))[:1]
    ]
    if different:
        step, field = min(different, key=lambda pair: pair[0])
        first, second = (getattr(episode, field)[step] for episode in (recorded, seen))
        if first.dtype.names:  # of a record, the part that differs
            part = next(name for name in first.dtype.names if not np.array_equal(first[name], second[name]))
            field, first, second = f"{field}.{part}", first[part], second[part]
        before, now = np.atleast_1d(first), np.atleast_1d(second)
        at = int(np.flatnonzero(before.ravel() != now.ravel())[0]) if before.shape == now.shape else 0
        raise UserError(
            f"{name} fails verification: replayed from reset({recorded.seed}), {field}[{at}] of step {step} is "
            f"{now.ravel()[at]} and was {before.ravel()[at]}; the task is not deterministic, or has changed since"
        )


def _differing(recorded: Array, seen: Array) -> Array:
    """The steps whose entries differ; one that ends too early differs there in `terminated` or `truncated`."""
    common = min(len(recorded), len(seen))
    return np.flatnonzero((recorded[:common] != seen[:common]).reshape(common, -1).any(axis=1))


def roll(task: Task, seed: int, act: Callable[[Array], Any], most: int) -> Demonstration:
    """The episode of layout `seed`, at most `most` steps of it."""
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


def keep(episodes: tuple[Demonstration, ...], what: Wanted, file: Path | None = None) -> Path:
    """Write them as `file` (.json, its arrays beside it; by default where `obtain` looks); the file."""
    arrays = [{name: getattr(episode, name) for name in ARRAYS} for episode in episodes]
    return keeping.keep(file or what.file, what.content, [{"seed": episode.seed} for episode in episodes], arrays)


def kept(file: Path) -> Demonstrations | None:
    """What `keep` wrote; None if there is nothing, or (with a notice) if a byte of it is not what was written."""
    found = keeping.kept(file, ARRAYS)
    if found is None:
        return None
    episodes = zip(found.described, found.arrays, strict=True)
    return Demonstrations(tuple(Demonstration(said["seed"], **arrays) for said, arrays in episodes), found.digest)
