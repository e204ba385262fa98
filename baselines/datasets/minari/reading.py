"""Reader of Minari's files, limited to JSON and plain arrays. Minari's own reader may build the environment that the
metadata names, and so import untrusted code.

The files are a stranger's: `gathered` reads them in the separate process, after the declared bytes of all arrays have
been summed.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from guidebench.baselines.dataset_reading import as_actions, as_observations, joined, portions
from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, count
from guidebench.harness.interfaces import Actions, Array, Observations
from guidebench.harness.texts import one_line
from guidebench.harness.trajectories import Trajectory

WORDS = 2**20
"""Maximum number of bytes of the metadata."""


def metadata(path: Path) -> Mapping[str, Any]:
    """Return a dataset's metadata; UserError if it is not in Minari's format or cannot be read here."""
    content = reader_process.read(f"{path}: reading it", path, outside.document, path, WORDS)
    if not isinstance(content, dict):
        raise UserError(f"{path} cannot be read (it holds no mapping); restore it")
    if (form := content.get("data_format", "hdf5")) != "hdf5":
        raise UserError(f"{path} has data_format={form!r}, and only hdf5 is read; write the dataset anew as hdf5")
    return content


@dataclass(frozen=True)
class Reader:
    """Reads episodes in a task's spaces."""

    path: Path
    """File of the arrays."""
    metadata: Mapping[str, Any]
    task: str
    """Task of an episode that names none of `tasks`."""
    tasks: tuple[str, ...]
    """Tasks of the suite."""
    observations: Observations
    actions: Actions
    success: str
    """Name of the `infos` entry that marks a successful step."""

    def declared(self, most: int) -> list[int]:
        """Return the bytes of the arrays of each of the first `most` episodes, or of all for 0; UserError, naming file
        and episode, if they are missing, lie elsewhere, are shared, or declare more than the file may."""
        sizes = []
        with self._opened() as file:
            if most > len(file):
                raise UserError(f"dataset.episodes={most}, and {self.path} holds {count(len(file), 'episode')}")
            visited = {_place(file)}
            for number in range(most or len(file)):
                sizes.append(self._bytes(file, f"episode_{number}", visited))
                outside.check_packed(self.path, sum(sizes), f"its arrays up to episode_{number} declare")
        return sizes

    def episodes(self, first: int, number: int) -> list[Trajectory]:
        """Return `number` episodes from the episode `first`; UserError, naming file and episode, for data that do not
        fit the task."""
        scaling = None if self.actions.discrete else self._scaling()
        with self._opened() as file:
            names = [f"episode_{at}" for at in range(first, first + number)]
            return [self._episode(file[name], f"{self.path}, {name}", scaling) for name in names]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with h5py.File(self.path, "r") as file:
                yield file
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise UserError(
                f"{self.path} is damaged, or not what Minari writes ({one_line(str(error)[:200])}); restore it"
            ) from error

    def _bytes(self, file: Any, episode: str, visited: set[Any]) -> int:
        """Return the bytes of an episode's arrays; UserError for an array stored outside the file, and for an array
        that two links reach. `visited`: the places of all groups and arrays so far."""
        total, waiting = 0, [(file, episode, episode)]
        while waiting:
            group, key, path = waiting.pop()
            link = group.get(key, getlink=True)
            if link is None:
                raise UserError(f"{self.path} has no {path}; Minari counts episodes from 0")
            node = group[key] if isinstance(link, h5py.HardLink) else None
            if not isinstance(node, h5py.Group | h5py.Dataset) or (
                isinstance(node, h5py.Dataset) and (node.external or node.is_virtual)
            ):
                raise UserError(f"{self.path}: {path} lies elsewhere; a dataset holds its own arrays")
            if (place := _place(node)) in visited:
                raise UserError(f"{self.path}: {path} is linked to twice; write the dataset anew, each array once")
            visited.add(place)
            if isinstance(node, h5py.Group):
                waiting += [(node, name, f"{path}/{name}") for name in node]
            elif node.shape is not None:  # an empty one has no shape
                total += max(node.size, math.prod(node.chunks or ())) * node.dtype.itemsize
        return total

    def _episode(self, group: Any, location: str, scaling: tuple[Array, Array] | None) -> Trajectory:
        """Return one episode of T steps, which has T + 1 observations."""
        reward = _plain(group, "rewards", location).astype(np.float32)
        if reward.ndim != 1:
            raise UserError(f"{location}: rewards have shape {reward.shape}; expected one number a step")
        length = len(reward)
        observations = self._observed(group, location)
        if len(observations) != length + 1:
            raise UserError(
                f"{location} has {count(len(observations), 'observation')} and {count(length, 'reward')}; expected one "
                f"observation more"
            )
        terminated, truncated = (self._flags(group, name, length, location) for name in ("terminations", "truncations"))
        if length:
            truncated[-1] |= not terminated[-1]  # recording stopped before the episode ended
        action, success = self._acted(group, location, scaling), self._succeeded(group, length, location)
        opening = _plain(group, "opening", location) if "opening" in group else None
        named = group.attrs["task"] if "task" in group.attrs and group.attrs.get_id("task").shape == () else None
        task = named if isinstance(named, str) and named in self.tasks else self.task
        return Trajectory(
            task, observations[:-1], action, reward, terminated, truncated, success, observations[1:], opening
        )

    def _observed(self, group: Any, location: str) -> Array:
        """Return the observations, [T + 1, …]."""
        if not self.observations.parts:
            return as_observations(
                _plain(group, "observations", location), self.observations, f"{location}: observations"
            )
        arrays = group.get("observations")
        parts = {
            name: as_observations(
                _plain(arrays, name, f"{location}, observations"), part, f"{location}: observations/{name}"
            )
            for name, part in self.observations.parts.items()
        }
        return joined(parts, self.observations)

    def _acted(self, group: Any, location: str, scaling: tuple[Array, Array] | None) -> Array:
        """Return the actions: discrete ones unchanged, vectors scaled from their range to [-1, 1]."""
        values = _plain(group, "actions", location)
        if scaling is None:
            return values
        return as_actions(values, self.actions, *scaling, location)

    def _scaling(self) -> tuple[Array, Array]:
        """Return the lower and upper bounds of actions; UserError if they are unknown."""
        try:
            space = json.loads(self.metadata["action_space"])
            low, high = (np.broadcast_to(np.array(space[end], float), self.actions.shape) for end in ("low", "high"))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(
                f"the metadata beside {self.path} does not tell the range of actions of shape {self.actions.shape}, "
                f"which the task takes ({error})"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise UserError(f"the metadata beside {self.path} has actions from {low} to {high}; expected finite bounds")
        return low, high

    def _flags(self, group: Any, name: str, length: int, location: str) -> Array:
        flags = _plain(group, name, location)
        if flags.shape != (length,):
            raise UserError(f"{location}: {name} has shape {flags.shape} and the episode {count(length, 'step')}")
        return flags.astype(bool)

    def _succeeded(self, group: Any, length: int, location: str) -> Array:
        """Return the success of each step, bool [T]; infos may have one extra entry for the reset."""
        infos = group.get("infos")
        if infos is not None and not isinstance(infos, h5py.Group):
            raise UserError(f"{location}: infos is {infos.dtype} of shape {infos.shape}; expected a group of arrays")
        if infos is None or self.success not in infos:
            return np.zeros(length, bool)
        successes = _plain(infos, self.success, f"{location}, infos").reshape(-1)
        if len(successes) not in (length, length + 1):
            raise UserError(
                f"{location}: infos/{self.success} has {count(len(successes), 'entry')} and the episode "
                f"{count(length, 'step')}"
            )
        return successes[len(successes) - length :].astype(bool)


def gathered(reader: Reader, most: int) -> Sequence[Trajectory]:
    """Return the first `most` episodes of a dataset, or all for 0, read in the separate process in `portions`; raise
    UserError as `Reader` does."""
    activity = f"{reader.path}: reading its episodes"
    sizes = reader_process.read(activity, reader.path, reader.declared, most)
    return [
        episode
        for part in portions(sizes)
        for episode in reader_process.read(activity, reader.path, reader.episodes, part.start, part.stop - part.start)
    ]


def _place(node: Any) -> tuple[int, int]:
    """Return the identity of an HDF5 group or array, the same for every link to it."""
    object_info = h5py.h5o.get_info(node.id)
    return object_info.fileno, object_info.addr


def _plain(group: Any, name: str, location: str) -> Array:
    """Return an array of numbers; UserError for anything else."""
    dataset = group.get(name) if isinstance(group, h5py.Group) else None
    if not isinstance(dataset, h5py.Dataset) or not dataset.shape or dataset.dtype.kind not in "fiub":
        description = f"{dataset.dtype} of shape {dataset.shape}" if isinstance(dataset, h5py.Dataset) else "not there"
        raise UserError(
            f"{location}: {name} is {description}; expected an array of numbers (images have to be written with "
            f"jpeg_encoding=False)"
        )
    values: Array = dataset[()]
    return values
