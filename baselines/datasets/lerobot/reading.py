"""Reader of the episodes of LeRobot datasets, format v3.0: Parquet files, read by pyarrow in the separate process.

A row holds an observation, the action taken there, and the reward, success and end of that step (`next.*`). The
observation after the last row is stored nowhere. If `next.done` marks that row, the episode terminated there, and what
follows does not matter; otherwise the row serves only as the observation after the row before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from guidebench.baselines.dataset_reading import as_actions, as_observations, joined, portions
from guidebench.baselines.datasets.lerobot.metadata import EPISODES, LAST, Metadata
from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, count
from guidebench.harness.interfaces import Actions, Array, Observations
from guidebench.harness.texts import one_line
from guidebench.harness.trajectories import Trajectory

DONE, NUMBER, FRAME = "next.done", "episode_index", "frame_index"
TASK = "guidebench.task"
"""Column of meta/episodes that `writing` adds: the suite's name of the episode's task."""
INDEX = (NUMBER, "length", "data/chunk_index", "data/file_index", "dataset_from_index")
"""Columns of meta/episodes that are read."""


class Episode(NamedTuple):
    """Where the rows of an episode are."""

    number: int
    length: int
    """Rows."""
    chunk: int
    file: int
    first: int
    """Its first row in that file."""
    task: str
    """The suite's name of its task; "" where none is stated."""


@dataclass(frozen=True)
class Reader:
    """Reads episodes in a task's spaces."""

    metadata: Metadata
    named: Mapping[str, str]
    """observation, action, reward and success -> feature."""
    task: str
    """Task of an episode that names none of `tasks`."""
    tasks: tuple[str, ...]
    """Tasks of the suite."""
    observations: Observations
    actions: Actions
    scaling: tuple[Array, Array] | None
    """Lower and upper bounds of the dataset's actions; None for discrete ones."""

    @property
    def files(self) -> list[Path]:
        """Return all Parquet files."""
        return sorted(
            file for folder in (EPISODES, "data") for file in (self.metadata.root / folder).rglob("*.parquet")
        )

    def sources(self) -> Mapping[str, str]:
        """Return part of an observation -> its feature, "" for an observation without parts; UserError if a feature is
        missing, or is an image where the task has none."""
        sources: dict[str, str] = {}
        for part, space in (self.observations.parts or {"": self.observations}).items():
            candidates = (f"observation.images.{part}", f"observation.{part}", part) if part else ()
            name = next((name for name in candidates if name in self.metadata.features), self.named["observation"])
            if part and name not in candidates:
                raise UserError(
                    f"{self.metadata.root} has no feature for the part {part!r} of the task's observations; expected "
                    f"one of {', '.join(candidates)}"
                )
            feature = self.metadata.feature(name)
            if feature.dtype == "image" and (space.dtype != "uint8" or feature.shape != space.shape):
                raise UserError(
                    f"{self.metadata.root}: images {name!r} are uint8 of shape {feature.shape}; the task's are "
                    f"{space.dtype} of shape {space.shape}"
                )
            sources[part] = name
        return sources

    def index(self, most: int) -> list[Episode]:
        """Return where the first `most` episodes are, or all for 0; UserError, naming the file, for an index that
        contradicts itself."""
        root, episodes = self.metadata.root, list[Episode]()
        starts: dict[tuple[int, int], int] = {}
        for file in sorted((root / EPISODES).glob("chunk-*/file-*.parquet")):
            with _opened(file) as table_file:
                outside.check_rows(file, table_file.metadata.num_rows, table_file.metadata.num_columns)
                present = [name for name in (*INDEX, TASK) if name in table_file.schema_arrow.names]
                table = table_file.read(columns=present)
            columns = [_numbers(table, name, (), str(file)) for name in INDEX]
            if any(column.dtype.kind not in "iu" for column in columns):
                raise UserError(f"{file}: {', '.join(INDEX)} are to be whole numbers; restore it")
            tasks = _texts(table, TASK) if TASK in present else [""] * len(table)
            for row, task in zip(np.stack(columns, 1).astype(np.int64).tolist(), tasks, strict=True):
                number, length, chunk, at, first = row
                start = starts.setdefault((chunk, at), first)
                if (
                    number != len(episodes)
                    or length < 1
                    or first < start
                    or not (0 <= min(chunk, at) <= max(chunk, at) <= LAST)
                ):
                    raise UserError(
                        f"{file}: episode {len(episodes)} is described as number {number} of {length} rows from row "
                        f"{first} in chunk {chunk}, file {at}; restore it"
                    )
                episodes.append(Episode(number, length, chunk, at, first - start, task))
        if not episodes:
            raise UserError(f"{root / EPISODES} describes no episode; restore it")
        if most > len(episodes):
            raise UserError(f"dataset.episodes={most}, and {root} holds {count(len(episodes), 'episode')}")
        return episodes[: most or None]

    def episodes(self, index: Sequence[Episode]) -> list[Trajectory]:
        """Return the episodes at these places; UserError, naming file and episode, for data that do not fit."""
        trajectories = []
        for (chunk, at), group in groupby(index, lambda episode: (episode.chunk, episode.file)):
            together = [*group]
            file = self.metadata.root / "data" / f"chunk-{chunk:03d}" / f"file-{at:03d}.parquet"
            first, end = together[0].first, max(episode.first + episode.length for episode in together)
            table = self._rows(file, first, end - first)
            for episode in together:
                rows = table.slice(episode.first - first, episode.length)
                trajectories.append(self._episode(rows, episode, f"{file}, episode {episode.number}"))
        return trajectories

    def _rows(self, file: Path, first: int, number: int) -> Any:
        """Return `number` rows of a file, with the columns that are read; UserError if it has fewer, or declares more
        than it may."""
        names = {*self.sources().values(), self.named["action"], NUMBER, FRAME}
        names |= {
            name for name in (self.named["reward"], self.named["success"], DONE) if name in self.metadata.features
        }
        if not file.is_file():
            raise UserError(f"{file} is not there, and the index names it; restore it")
        with _opened(file) as table_file:
            if missing := sorted(names - {*table_file.schema_arrow.names}):
                raise UserError(f"{file} has no column {', '.join(missing)}, and the metadata name it; restore it")
            groups, before, position, declared = list[int](), 0, 0, 0
            for group in range(table_file.num_row_groups):
                described = table_file.metadata.row_group(group)
                if position < first + number and position + described.num_rows > first:
                    before = before if groups else position
                    groups.append(group)
                    columns = [described.column(at) for at in range(described.num_columns)]
                    declared += sum(
                        8 * column.num_values + column.total_uncompressed_size
                        for column in columns
                        if any(f"{column.path_in_schema}.".startswith(f"{name}.") for name in names)
                    )
                position += described.num_rows
            if position < first + number:
                raise UserError(f"{file} has {position:,} rows, and the index names row {first + number:,}; restore it")
            if declared > outside.FEW:
                outside.check_packed(file, declared, "its columns declare")
            return table_file.read_row_groups(groups, columns=sorted(names)).slice(first - before, number)

    def _episode(self, rows: Any, episode: Episode, location: str) -> Trajectory:
        """Return an episode; its last row is dropped unless it is done."""
        length = episode.length
        if (_numbers(rows, NUMBER, (), location) != episode.number).any() or (
            _numbers(rows, FRAME, (), location) != np.arange(length)
        ).any():
            raise UserError(f"{location}: the rows that the index names are of another episode; restore it")
        observation = self._observed(rows, location)
        action = _numbers(rows, self.named["action"], self._shape("action"), location)
        if self.scaling is None:
            action = action.reshape(length, -1)[:, 0] if action.ndim == 2 and action.shape[1] == 1 else action
        else:
            action = as_actions(action, self.actions, *self.scaling, location)
        reward = self._column(rows, self.named["reward"], length, location).astype(np.float32)
        success, terminated = (
            self._column(rows, name, length, location).astype(bool) for name in (self.named["success"], DONE)
        )
        following = np.concatenate([observation[1:], observation[-1:]])
        steps = length if terminated[-1] else length - 1
        truncated = np.zeros(length, bool)
        if steps < length and steps:
            truncated[steps - 1] = not terminated[steps - 1]
        task = episode.task if episode.task in self.tasks else self.task
        columns = (observation, action, reward, terminated, truncated, success, following)
        return Trajectory(task, *(column[:steps] for column in columns))

    def _observed(self, rows: Any, location: str) -> Array:
        """Return the observations, [T, …]."""
        arrays = {}
        for part, name in self.sources().items():
            feature = self.metadata.features[name]
            space = self.observations.parts[part] if part else self.observations
            at = f"{location}: {name}"
            if feature.dtype == "image":
                arrays[part] = _images(rows, name, feature.shape, at)
            else:
                arrays[part] = as_observations(_numbers(rows, name, feature.shape, location), space, at)
        return joined(arrays, self.observations) if self.observations.parts else arrays[""]

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.metadata.feature(self.named[name]).shape

    def _column(self, rows: Any, name: str, length: int, location: str) -> Array:
        """Return one number a row; zeros where the dataset has no such feature."""
        if name not in self.metadata.features:
            return np.zeros(length)
        numbers = _numbers(rows, name, self.metadata.features[name].shape, location)
        if numbers.size != length:
            raise UserError(f"{location}: {name} has shape {numbers.shape[1:]}; expected one number a step")
        return numbers.reshape(length)


def gathered(reader: Reader, most: int) -> Sequence[Trajectory]:
    """Return the first `most` episodes of a dataset, or all for 0, read in the separate process in `portions`; raise
    UserError as `Reader` does."""
    reader.sources()
    activity, files = f"{reader.metadata.root}: reading its episodes", reader.files
    index = reader_process.read(activity, files, reader.index, most)
    row_bytes = 2 * reader.observations.numpy.itemsize * int(np.prod(reader.observations.shape, dtype=np.int64)) + 64
    return [
        episode
        for part in portions([row_bytes * place.length for place in index])
        for episode in reader_process.read(activity, files, reader.episodes, index[part])
    ]


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open a Parquet file; errors of pyarrow become UserErrors that name it."""
    try:
        with pq.ParquetFile(file) as table_file:
            yield table_file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{file} is damaged, or no Parquet file ({one_line(str(error)[:200])}); restore it") from None


def _only(table: Any, name: str, location: str) -> Any:
    """Return the values of a column; UserError if it is missing, there twice, or has missing values."""
    indices = table.schema.get_all_field_indices(name)
    if len(indices) != 1:
        raise UserError(f"{location}: there are {len(indices)} columns {name!r}; expected one")
    column = table.column(indices[0]).combine_chunks()
    return getattr(column, "storage", column)


def _numbers(table: Any, name: str, shape: tuple[int, ...], location: str) -> Array:
    """Return a column of numbers, [rows, *shape], where a shape of (1,) may be stored as plain numbers; UserError for
    anything else."""
    column, stored = _only(table, name, location), list[int]()
    while (
        pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type) or pa.types.is_large_list(column.type)
    ):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if column.null_count or len(lengths) != 1:
            raise UserError(f"{location}: rows of {name} have lengths {lengths[:5]}; expected equal ones")
        stored.append(lengths[0])
        column = getattr(flat := column.flatten(), "storage", flat)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
    if not plain or column.null_count or (tuple(stored) != shape and not (shape == (1,) and not stored)):
        raise UserError(
            f"{location}: {name} holds {column.type} of shape {tuple(stored)}"
            f"{' with missing values' if column.null_count else ''}; the metadata have numbers of shape {shape}"
        )
    array: Array = column.to_numpy(zero_copy_only=False).reshape(len(table), *shape)
    return array


def _texts(table: Any, name: str) -> list[str]:
    """Return a column of texts; "" for a value that is none."""
    return [text if isinstance(text, str) else "" for text in table.column(name).to_pylist()]


def _images(table: Any, name: str, shape: tuple[int, ...], location: str) -> Array:
    """Return a column of PNGs as pixels, uint8 [rows, height, width, 3]; UserError for images of another kind or
    shape."""
    column = _only(table, name, location)
    if not pa.types.is_struct(column.type) or column.type.get_field_index("bytes") < 0:
        raise UserError(f"{location} holds {column.type}; expected images as bytes within the file")
    frames = np.zeros((len(table), *shape), np.uint8)
    for number, png in enumerate(column.field("bytes")):
        if not isinstance(encoded := png.as_py(), bytes):
            raise UserError(f"{location}: the image of row {number} is not in the file; write the dataset with images")
        try:
            pixels = outside.picture(encoded)
        except UserError as error:
            raise UserError(f"{location}, row {number}: {error}") from None
        if pixels.shape != shape:
            raise UserError(
                f"{location}: the image of row {number} has shape {pixels.shape}; the metadata have {shape}"
            )
        frames[number] = pixels
    return frames
