"""Datasets: previously collected episodes of any quality, whose transitions a run phase stores for the learner.

A part of kind `dataset` (`harness.parts.DatasetPart`) supplies the episodes. They depend only on that part and the
configured suite, are checked against the task's spaces, and are cached by content (`harness/episodes/files.py`). A run
records the hash of its dataset and can be continued only with the same one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.episodes import files as keeping
from guidebench.harness.errors import UserError, count
from guidebench.harness.identity.provenance import packages
from guidebench.harness.interfaces import Actions, Array, Build, Observations, Transition
from guidebench.harness.trajectories import Trajectory

if TYPE_CHECKING:
    from guidebench.harness.plan.config import Cell

SCHEMA = 1


ARRAYS = Trajectory._fields[1:]


class Dataset(NamedTuple):
    """The episodes of a dataset, and the hash of their content."""

    episodes: tuple[Trajectory, ...]
    digest: str

    @property
    def length(self) -> int:
        """Return the number of transitions."""
        return sum(episode.length for episode in self.episodes)


@dataclass(frozen=True)
class Wanted:
    """Identifies a dataset: the part in a role, for a task of a configured suite."""

    role: str
    part: Any
    suite: Any
    task: str

    def __str__(self) -> str:
        return f"dataset {self.role!r} ({type(self.part).__name__})"

    @property
    def content(self) -> dict[str, Any]:
        """Return everything that decides the episodes, as JSON values."""
        return {
            "schema": SCHEMA,
            "dataset": _named(self.part),
            "suite": _named(self.suite),
            "task": self.task,
            "spaces": [asdict(space) for space in self.suite.spaces(self.task)],
            "origin": dict(self.part.origin()),
            "packages": packages(),
        }


def _named(part: Any) -> dict[str, Any]:
    """Return a configuration as JSON values."""
    module = f"{type(part).__module__}.{type(part).__qualname__}"
    return {"part": module, "version": part.version, "settings": asdict(part)}


def wanted(cell: Cell, seed: int) -> list[Wanted]:
    """Return the datasets of the run of `cell` with this seed."""
    suite, task = cell.section("suite").of_run(seed), cell.names.task
    return [Wanted(part.role, cell.section(part.role), suite, task) for part in cell.names.of("dataset")]


def loading(cell: Cell, seeds: Sequence[int]) -> dict[str, Callable[[], list[Dataset]]]:
    """Return role -> function that loads the dataset of each seed; equal datasets are loaded once."""

    def load(role: str) -> list[Dataset]:
        own = [what for seed in seeds for what in wanted(cell, seed) if what.role == role]
        known = {what: prepare(what, cell.section("training").capacity) for what in dict.fromkeys(own)}
        return [known[what] for what in own]

    return {part.role: functools.partial(load, part.role) for part in cell.names.of("dataset")}


class Given(NamedTuple):
    """Summary of the datasets of a run."""

    digests: Mapping[str, str]
    """Role -> hash of the dataset."""
    length: int
    """Number of transitions in all datasets."""


def given(cell: Cell, seeds: Sequence[int]) -> dict[int, Given]:
    """Return a summary of the datasets of each seed's run; datasets that are not cached are gathered."""
    digests: dict[int, dict[str, str]] = {seed: {} for seed in seeds}
    lengths = dict.fromkeys(seeds, 0)
    for role, load in loading(cell, seeds).items():
        for seed, dataset in zip(seeds, load(), strict=True):
            digests[seed][role] = dataset.digest
            lengths[seed] += dataset.length
    return {seed: Given(digests[seed], lengths[seed]) for seed in seeds}


def of(build: Build, role: str, row: int = 0) -> Dataset:
    """Return the dataset in a role for the run of a seed row, for a part that reads it itself."""
    return obtain(Wanted(role, build.parts[role], build.suite(row), build.task))


def prepare(what: Wanted, capacity: int) -> Dataset:
    """Return a dataset. Raise UserError if a replay of this capacity cannot hold its transitions."""
    found = obtain(what)
    if found.length > capacity:
        raise UserError(
            f"training.capacity={capacity} is smaller than {what}, which holds {count(found.length, 'transition')}: "
            f"raise training.capacity, or take fewer episodes"
        )
    return found


def obtain(what: Wanted) -> Dataset:
    """Return the dataset, gathered if it is not cached. Raise UserError if it cannot be used for the task."""
    content = what.content
    file = keeping.root("datasets") / what.role / f"{keeping.key(content)}.json"
    found = keeping.kept(file, ARRAYS)
    if found is None:
        gathered = what.part.gather(what.suite, what.task)
        check(gathered, what)
        arrays = [{name: getattr(episode, name) for name in ARRAYS} for episode in gathered]
        keeping.keep(file, content, [{"task": episode.task} for episode in gathered], arrays)
        found = keeping.kept(file, ARRAYS)
        assert found is not None, "what was just written can be read"
    told = zip(found.described, found.arrays, strict=True)
    return Dataset(tuple(Trajectory(said["task"], **arrays) for said, arrays in told), found.digest)


def check(episodes: Sequence[Trajectory], what: Wanted) -> None:
    """Raise a UserError that names dataset and episode if a run of the task cannot store the episodes."""
    if not episodes:
        raise UserError(f"{what} holds no episode; name another one, or take more of it")
    spaces: dict[str, tuple[Observations, Actions]] = {}
    observations, actions = what.suite.spaces(what.task)
    for number, episode in enumerate(episodes):
        here = f"{what}, episode {number}"
        own = spaces.setdefault(episode.task, what.suite.spaces(episode.task))
        if own != (observations, actions):
            raise UserError(
                f"{here} is of task {episode.task!r}, whose spaces {own} are not those of {what.task!r}, "
                f"{(observations, actions)}; gather it on tasks that share their spaces"
            )
        if not episode.length:
            raise UserError(f"{here} has no step; leave it out")
        for name in ("observation", "next_observation"):
            _observed(getattr(episode, name), episode.length, observations, f"{here}: {name}")
        _acted(episode.action, episode.length, actions, f"{here}: action")
        for name, dtype in (("reward", "float32"), *((n, "bool") for n in ("terminated", "truncated", "success"))):
            _array(getattr(episode, name), (episode.length,), np.dtype(dtype), f"{here}: {name}")
        _finite(episode.reward, f"{here}: reward")
        ended = episode.terminated | episode.truncated
        if ended.argmax() != episode.length - 1 or not ended[-1]:
            raise UserError(f"{here} ends at step {int(ended.argmax())} and has {episode.length} steps; cut it there")


def _array(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], here: str) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise UserError(f"{here} is {array.dtype} of shape {array.shape}; the task has {dtype} of shape {shape}")


def _observed(array: Array, length: int, space: Observations, here: str) -> None:
    _array(array, (length, *space.shape), space.numpy, here)
    for name, part in (space.parts or {"": space}).items():
        values, at = (array[name], f"{here}[{name!r}]") if name else (array, here)
        _finite(values, at)
        if part.categories is not None and (values >= np.array(part.categories)).any():
            raise UserError(f"{at} holds a code of {values.max()}; the task has {part.categories} codes in each entry")


def _acted(array: Array, length: int, space: Actions, here: str) -> None:
    if space.count is not None:
        if array.shape != (length,) or array.dtype.kind not in "iu":
            raise UserError(f"{here} is {array.dtype} of shape {array.shape}; the task has {space.count} choices")
        if array.min() < 0 or array.max() >= space.count:
            raise UserError(
                f"{here} is from {array.min()} to {array.max()}; the task has choices 0 to {space.count - 1}"
            )
        return
    _array(array, (length, *space.shape), np.dtype("float32"), here)
    _finite(array, here)
    if np.abs(array).max() > 1:
        raise UserError(f"{here} is from {array.min():g} to {array.max():g}; the task has actions in [-1, 1]")


def _finite(array: Array, here: str) -> None:
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    step, *_ = place = tuple(np.argwhere(~np.isfinite(array))[0])
    raise UserError(f"{here} of step {step} holds {array[place]}, which is no finite number; leave out the episode")


def transitions(rows: Sequence[Dataset], events: int) -> Iterator[Transition]:
    """Yield the transitions of the datasets of a worker's seeds, in parallel, episode by episode. Raise UserError if
    episode lengths differ between seeds, since all seeds must store the same number of transitions."""
    shape = [[episode.length for episode in dataset.episodes] for dataset in rows]
    if any(lengths != shape[0] for lengths in shape):
        raise UserError(
            "the datasets of two seeds have episodes of other lengths, since the seed decides the task's layout, and "
            "seeds that share a worker store equally many transitions: run them apart with pack=1"
        )
    nothing = np.zeros((len(rows), events), bool)
    for beside in zip(*(dataset.episodes for dataset in rows), strict=True):
        columns: Mapping[str, Array] = {name: np.stack([getattr(each, name) for each in beside], 1) for name in ARRAYS}
        for step in range(beside[0].length):
            yield Transition(**{name: column[step] for name, column in columns.items()}, events=nothing, snapshot=None)
