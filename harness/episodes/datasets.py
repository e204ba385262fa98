"""Datasets: previously collected episodes of any quality, whose transitions a run phase stores for the learner.

A part of kind `dataset` (`harness.parts.DatasetPart`) supplies the episodes. They depend only on that part and the
configured suite, are checked against the task's spaces, and are cached by content (`harness/episodes/files.py`). A run
records the hash of its dataset and can be continued only with the same one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import settings
from guidebench.harness.episodes import files
from guidebench.harness.episodes.demonstrations import roll
from guidebench.harness.errors import UserError, count
from guidebench.harness.identity.provenance import packages
from guidebench.harness.interfaces import Actions, Array, Build, Observations, Task, Transition
from guidebench.harness.trajectories import Demonstration, Trajectory

if TYPE_CHECKING:
    from guidebench.harness.plan.config import Cell

SCHEMA = 2
ARRAYS = tuple(name for name in Trajectory._fields[1:] if name != "opening")
"""Fields of an episode with one row for each step."""
CACHED_ARRAYS = tuple(name for name in ARRAYS if name != "next_observation")
"""Arrays that the cache stores. A next observation is that of the next step; the episode's last one is stored apart."""


class Dataset(NamedTuple):
    """The episodes of a dataset, and the hash of their content."""

    episodes: tuple[Trajectory, ...]
    digest: str

    @property
    def length(self) -> int:
        """Return the number of transitions."""
        return sum(episode.length for episode in self.episodes)


@dataclass(frozen=True)
class DatasetSpec:
    """Identifies a dataset: the part of kind `dataset` that fills a role of the cell, and the suite and task whose
    transitions it holds."""

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

    @property
    def file(self) -> Path:
        """Return the cached JSON file that describes it; the arrays are beside it."""
        return files.root("datasets") / self.role / f"{files.key(self.content)}.json"


def _named(part: Any) -> dict[str, Any]:
    """Return a configuration as JSON values, without the places of its files."""
    module = f"{type(part).__module__}.{type(part).__qualname__}"
    return {"part": module, "version": part.version, "settings": settings.identity(part)}


def specs(cell: Cell, seed: int) -> list[DatasetSpec]:
    """Return the datasets of the run of `cell` with this seed."""
    suite, task = cell.section("suite").of_run(seed), cell.names.task
    return [DatasetSpec(part.role, cell.section(part.role), suite, task) for part in cell.names.of("dataset")]


def loading(cell: Cell, seeds: Sequence[int]) -> dict[str, Callable[[], list[Dataset]]]:
    """Return role -> function that loads the dataset of each seed; equal datasets are loaded once."""

    def load(role: str) -> list[Dataset]:
        role_specs = [spec for seed in seeds for spec in specs(cell, seed) if spec.role == role]
        datasets = {spec: prepare(spec, cell.section("training").capacity) for spec in dict.fromkeys(role_specs)}
        return [datasets[spec] for spec in role_specs]

    return {part.role: functools.partial(load, part.role) for part in cell.names.of("dataset")}


class DatasetSummary(NamedTuple):
    """Summary of the datasets of a run."""

    digests: Mapping[str, str]
    """Role -> hash of the dataset."""
    length: int
    """Number of transitions in all datasets."""


def summaries(cell: Cell, seeds: Sequence[int]) -> dict[int, DatasetSummary]:
    """Return a summary of the datasets of each seed's run; datasets that are not cached are gathered."""
    digests: dict[int, dict[str, str]] = {seed: {} for seed in seeds}
    lengths = dict.fromkeys(seeds, 0)
    for role, load in loading(cell, seeds).items():
        for seed, dataset in zip(seeds, load(), strict=True):
            digests[seed][role] = dataset.digest
            lengths[seed] += dataset.length
    return {seed: DatasetSummary(digests[seed], lengths[seed]) for seed in seeds}


def of(build: Build, role: str, row: int = 0) -> Dataset:
    """Return the dataset in `role` for the run of seed row `row`, for a part that reads the dataset itself."""
    return obtain(DatasetSpec(role, build.parts[role], build.suite(row), build.task))


def prepare(spec: DatasetSpec, capacity: int) -> Dataset:
    """Return a dataset, gathered if it is not cached. Raise UserError if it has more transitions than `capacity`."""
    dataset = obtain(spec)
    if dataset.length > capacity:
        raise UserError(
            f"training.capacity={capacity} is smaller than {spec}, which holds {count(dataset.length, 'transition')}: "
            f"raise training.capacity, or take fewer episodes"
        )
    return dataset


def obtain(spec: DatasetSpec) -> Dataset:
    """Return the dataset, gathered if it is not cached. Raise UserError if it cannot be used for the task."""
    file = spec.file
    cached = files.read(file, CACHED_ARRAYS)
    if cached is None:
        gathered = spec.part.gather(spec.suite, spec.task)
        check(gathered, spec)
        arrays = [{name: getattr(episode, name) for name in CACHED_ARRAYS} for episode in gathered]
        per_episode = {"last": np.stack([episode.next_observation[-1] for episode in gathered])}
        if gathered[0].opening is not None:
            per_episode["opening"] = np.stack([episode.opening for episode in gathered])
        files.keep(file, spec.content, [{"task": episode.task} for episode in gathered], arrays, per_episode)
        cached = files.read(file, CACHED_ARRAYS)
        assert cached is not None, "what was just written can be read"
    openings, lasts = cached.per_episode.get("opening"), cached.per_episode["last"]
    episodes = []
    for number, (description, columns) in enumerate(zip(cached.described, cached.arrays, strict=True)):
        following = np.concatenate([columns["observation"][1:], lasts[number : number + 1]])
        opening = None if openings is None else openings[number]
        episodes.append(Trajectory(description["task"], **columns, next_observation=following, opening=opening))
    return Dataset(tuple(episodes), cached.digest)


def check(episodes: Sequence[Trajectory], spec: DatasetSpec) -> None:
    """Raise a UserError that names dataset and episode if a run of the task cannot store the episodes."""
    if not episodes:
        raise UserError(f"{spec} holds no episode; name another one, or take more of it")
    spaces: dict[str, tuple[Observations, Actions]] = {}
    observations, actions = spec.suite.spaces(spec.task)
    for number, episode in enumerate(episodes):
        subject = f"{spec}, episode {number}"
        task_spaces = spaces.setdefault(episode.task, spec.suite.spaces(episode.task))
        if task_spaces != (observations, actions):
            raise UserError(
                f"{subject} is of task {episode.task!r}, whose spaces {task_spaces} are not those of {spec.task!r}, "
                f"{(observations, actions)}; gather it on tasks that share their spaces"
            )
        if not episode.length:
            raise UserError(f"{subject} has no step; leave it out")
        for name in ("observation", "next_observation"):
            _observed(getattr(episode, name), episode.length, observations, f"{subject}: {name}")
        _check_actions(episode.action, episode.length, actions, f"{subject}: action")
        for name, dtype in (("reward", "float32"), *((n, "bool") for n in ("terminated", "truncated", "success"))):
            _array(getattr(episode, name), (episode.length,), np.dtype(dtype), f"{subject}: {name}")
        _finite(episode.reward, f"{subject}: reward")
        ended = episode.terminated | episode.truncated
        if ended.argmax() != episode.length - 1 or not ended[-1]:
            raise UserError(
                f"{subject} ends at step {int(ended.argmax())} and has {episode.length} steps; cut it there"
            )
        _followed(episode, subject)
        _opened(episode.opening, episodes[0].opening, subject)


def _array(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], subject: str) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise UserError(f"{subject} is {array.dtype} of shape {array.shape}; the task has {dtype} of shape {shape}")


def _observed(array: Array, length: int, space: Observations, subject: str) -> None:
    _array(array, (length, *space.shape), space.numpy, subject)
    for name, part in (space.parts or {"": space}).items():
        values, at = (array[name], f"{subject}[{name!r}]") if name else (array, subject)
        _finite(values, at)
        if part.categories is not None and (values >= np.array(part.categories)).any():
            raise UserError(f"{at} holds a code of {values.max()}; the task has {part.categories} codes in each entry")


def _followed(episode: Trajectory, subject: str) -> None:
    """Raise UserError unless each step's next observation is the observation of the step after it, since a store keeps
    only one of the two."""
    differs = episode.observation[1:] != episode.next_observation[:-1]
    if differs.any():
        step = int(np.argwhere(differs)[0][0])
        raise UserError(
            f"{subject}: next_observation of step {step} is not the observation of step {step + 1}; make two episodes "
            f"of it where it breaks"
        )


def _opened(opening: Array | None, first: Array | None, subject: str) -> None:
    """Raise UserError unless an episode's opening is a snapshot like that of the first episode, or both have none."""
    if opening is None and first is None:
        return
    if opening is None or first is None:
        one, other = ("no", "one") if opening is None else ("an", "none")
        raise UserError(
            f"{subject} has {one} opening and episode 0 has {other}; give the snapshot in which it began for every "
            f"episode, or for none"
        )
    if opening.shape != (first.size,) or opening.dtype != np.uint8:
        raise UserError(
            f"{subject}: opening is {opening.dtype} of shape {opening.shape}; expected a snapshot, uint8 of shape "
            f"{(first.size,)}, as that of episode 0"
        )


def _check_actions(array: Array, length: int, space: Actions, subject: str) -> None:
    if space.count is not None:
        if array.shape != (length,) or array.dtype.kind not in "iu":
            raise UserError(f"{subject} is {array.dtype} of shape {array.shape}; the task has {space.count} choices")
        if array.min() < 0 or array.max() >= space.count:
            raise UserError(
                f"{subject} is from {array.min()} to {array.max()}; the task has choices 0 to {space.count - 1}"
            )
        return
    _array(array, (length, *space.shape), np.dtype("float32"), subject)
    _finite(array, subject)
    if np.abs(array).max() > 1:
        raise UserError(f"{subject} is from {array.min():g} to {array.max():g}; the task has actions in [-1, 1]")


def _finite(array: Array, subject: str) -> None:
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    step, *_ = place = tuple(np.argwhere(~np.isfinite(array))[0])
    raise UserError(f"{subject} of step {step} holds {array[place]}, which is no finite number; leave out the episode")


def play(task: Task, name: str, seed: int, act: Callable[[Array], Any]) -> Trajectory:
    """Return the episode that `act(observation)` plays on layout `seed` of the task called `name`, with its opening."""
    openings: list[Array] = []

    def first(observation: Array) -> Any:
        if not openings:
            openings.append(task.snapshot().copy())
        return act(observation)

    played = roll(task, seed, first, task.max_steps)
    return of_demonstration(name, played)._replace(opening=openings[0])


def of_demonstration(name: str, played: Demonstration) -> Trajectory:
    """Return a demonstration of the task called `name` as an episode of a dataset, without its opening. Vectors of
    actions are clipped to [-1, 1], and an episode that stops before its end is marked truncated."""
    fields = {field: getattr(played, field) for field in ARRAYS}
    if np.issubdtype(fields["action"].dtype, np.floating):
        fields["action"] = np.clip(fields["action"], -1, 1).astype(np.float32)
    truncated = fields["truncated"].copy()
    truncated[-1] |= not fields["terminated"][-1]
    return Trajectory(name, **{**fields, "truncated": truncated})


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
    for episodes in zip(*(dataset.episodes for dataset in rows), strict=True):
        columns: Mapping[str, Array] = {
            name: np.stack([getattr(episode, name) for episode in episodes], 1) for name in ARRAYS
        }
        openings = [episode.opening for episode in episodes if episode.opening is not None]
        opening = np.stack(openings) if len(openings) == len(episodes) else None
        for step in range(episodes[0].length):
            fields = {name: column[step] for name, column in columns.items()}
            yield Transition(**fields, events=nothing, snapshot=None, opening=opening if step == 0 else None)
