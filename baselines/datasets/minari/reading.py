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

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, count
from guidebench.harness.interfaces import Actions, Array, Observations
from guidebench.harness.texts import one_line
from guidebench.harness.trajectories import Trajectory

TOGETHER = 2**28
"""Bytes of arrays that the separate process sends at once: 256 MiB (choice)."""
WORDS = 2**20
"""Maximum number of bytes of the metadata."""
SLACK = 1e-4
"""Tolerance by which an action scaled to [-1, 1] may exceed this range."""


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
    said: Mapping[str, Any]
    """The metadata."""
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
        """Return the bytes of the arrays of an episode; UserError for an array stored outside the file, and for one
        that is reached by two links. `visited`: the places of all groups and arrays so far."""
        total, waiting = 0, [(file, episode, episode)]
        while waiting:
            group, key, path = waiting.pop()
            link = group.get(key, getlink=True)
            if link is None:
                raise UserError(f"{self.path} has no {path}; Minari counts episodes from 0")
            item = group[key] if isinstance(link, h5py.HardLink) else None
            if not isinstance(item, h5py.Group | h5py.Dataset) or (
                isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)
            ):
                raise UserError(f"{self.path}: {path} lies elsewhere; a dataset holds its own arrays")
            if (place := _place(item)) in visited:
                raise UserError(f"{self.path}: {path} is linked to twice; write the dataset anew, each array once")
            visited.add(place)
            if isinstance(item, h5py.Group):
                waiting += [(item, name, f"{path}/{name}") for name in item]
            elif item.shape is not None:  # an empty one has no shape
                total += max(item.size, math.prod(item.chunks or ())) * item.dtype.itemsize
        return total

    def _episode(self, group: Any, here: str, scaling: tuple[Array, Array] | None) -> Trajectory:
        """Return one episode of T steps, which has T + 1 observations."""
        reward = _plain(group, "rewards", here).astype(np.float32)
        if reward.ndim != 1:
            raise UserError(f"{here}: rewards have shape {reward.shape}; expected one number a step")
        length = len(reward)
        seen = self._observed(group, here)
        if len(seen) != length + 1:
            raise UserError(
                f"{here} has {count(len(seen), 'observation')} and {count(length, 'reward')}; expected one observation "
                f"more"
            )
        terminated, truncated = (self._flags(group, name, length, here) for name in ("terminations", "truncations"))
        if length:
            truncated[-1] |= not terminated[-1]  # recording stopped before the episode ended
        action, success = self._acted(group, here, scaling), self._succeeded(group, length, here)
        opening = _plain(group, "opening", here) if "opening" in group else None
        named = group.attrs["task"] if "task" in group.attrs and group.attrs.get_id("task").shape == () else None
        task = named if isinstance(named, str) and named in self.tasks else self.task
        return Trajectory(task, seen[:-1], action, reward, terminated, truncated, success, seen[1:], opening)

    def _observed(self, group: Any, here: str) -> Array:
        """Return the observations, [T + 1, …]."""
        if not self.observations.parts:
            return _as_task(_plain(group, "observations", here), self.observations, f"{here}: observations")
        item = group.get("observations")
        parts = {
            name: _as_task(_plain(item, name, f"{here}, observations"), part, f"{here}: observations/{name}")
            for name, part in self.observations.parts.items()
        }
        found = np.zeros(len(next(iter(parts.values()))), self.observations.numpy)
        for name, values in parts.items():
            found[name] = values
        return found

    def _acted(self, group: Any, here: str, scaling: tuple[Array, Array] | None) -> Array:
        """Return the actions: discrete ones unchanged, vectors scaled from their range to [-1, 1]."""
        values = _plain(group, "actions", here)
        if scaling is None:
            return values
        if values.shape[1:] != self.actions.shape or values.dtype.kind != "f":
            raise UserError(
                f"{here}: actions are {values.dtype} of shape {values.shape[1:]}; the task's are vectors of shape "
                f"{self.actions.shape}"
            )
        middle, half = scaling
        scaled = (values - middle) / half
        return np.where(np.abs(scaled) <= 1 + SLACK, scaled.clip(-1, 1), scaled).astype(np.float32)

    def _scaling(self) -> tuple[Array, Array]:
        """Return the middle and half the width of the action range; UserError if it is unknown."""
        try:
            space = json.loads(self.said["action_space"])
            low, high = (np.broadcast_to(np.array(space[end], float), self.actions.shape) for end in ("low", "high"))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(
                f"the metadata beside {self.path} does not tell the range of actions of shape {self.actions.shape}, "
                f"which the task takes ({error})"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise UserError(f"the metadata beside {self.path} has actions from {low} to {high}; expected finite bounds")
        return (high + low) / 2, (high - low) / 2

    def _flags(self, group: Any, name: str, length: int, here: str) -> Array:
        found = _plain(group, name, here)
        if found.shape != (length,):
            raise UserError(f"{here}: {name} has shape {found.shape} and the episode {count(length, 'step')}")
        return found.astype(bool)

    def _succeeded(self, group: Any, length: int, here: str) -> Array:
        """Return the success of each step, bool [T]; infos may have one extra entry for the reset."""
        infos = group.get("infos")
        if infos is not None and not isinstance(infos, h5py.Group):
            raise UserError(f"{here}: infos is {infos.dtype} of shape {infos.shape}; expected a group of arrays")
        if infos is None or self.success not in infos:
            return np.zeros(length, bool)
        told = _plain(infos, self.success, f"{here}, infos").reshape(-1)
        if len(told) not in (length, length + 1):
            raise UserError(
                f"{here}: infos/{self.success} has {count(len(told), 'entry')} and the episode {count(length, 'step')}"
            )
        return told[len(told) - length :].astype(bool)


def gathered(reader: Reader, most: int) -> Sequence[Trajectory]:
    """Return the first `most` episodes of a dataset, or all for 0, read in the separate process in parts of at most
    `TOGETHER` bytes, or of one episode; raise UserError as `Reader` does."""
    what = f"{reader.path}: reading its episodes"
    sizes = reader_process.read(what, reader.path, reader.declared, most)
    episodes: list[Trajectory] = []
    while len(episodes) < len(sizes):
        number = first = len(episodes)
        together = 0
        while number < len(sizes) and (number == first or together + sizes[number] <= TOGETHER):
            together, number = together + sizes[number], number + 1
        episodes += reader_process.read(what, reader.path, reader.episodes, first, number - first)
    return episodes


def _place(item: Any) -> tuple[int, int]:
    """Return what identifies a group or an array of an HDF5 file, by whichever link it is reached."""
    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def _plain(group: Any, name: str, here: str) -> Array:
    """Return an array of numbers; UserError for anything else."""
    item = group.get(name) if isinstance(group, h5py.Group) else None
    if not isinstance(item, h5py.Dataset) or not item.shape or item.dtype.kind not in "fiub":
        found = f"{item.dtype} of shape {item.shape}" if isinstance(item, h5py.Dataset) else "not there"
        raise UserError(
            f"{here}: {name} is {found}; expected an array of numbers (images have to be written with "
            f"jpeg_encoding=False)"
        )
    values: Array = item[()]
    return values


def _as_task(values: Array, space: Observations, here: str) -> Array:
    """Return floats in the task's precision; UserError if any other dtype or the shape differs from the task's."""
    wanted = np.dtype(space.dtype)
    alike = values.dtype == wanted or (values.dtype.kind == "f" and wanted.kind == "f")
    if values.shape[1:] != space.shape or not alike:
        raise UserError(
            f"{here} are {values.dtype} of shape {values.shape[1:]}; the task's are {wanted} of shape {space.shape}"
        )
    return values.astype(wanted)
