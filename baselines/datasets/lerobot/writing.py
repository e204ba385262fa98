"""Writer of LeRobot datasets, format v3.0; LeRobot itself is not needed. Rows hold observation, action, reward, success
and `next.done`, which marks the end of episodes that terminated. The observation after the last row has no place in the
format, so an episode that a time limit ended comes back without its last step."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from guidebench.baselines.datasets.lerobot import INFO, STATS
from guidebench.baselines.datasets.lerobot.metadata import DATA_PATH, EPISODES, TASKS, VERSION
from guidebench.baselines.datasets.lerobot.reading import DONE, FRAME, NUMBER, TASK
from guidebench.harness.capabilities import InstructsBySnapshot
from guidebench.harness.episodes.datasets import Dataset
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Observations, Suite
from guidebench.harness.trajectories import Trajectory

FPS = 10
"""Rows per second that the dataset states; tasks have no clock of their own (choice)."""
LARGEST = 100 * 2**20
"""Bytes of columns after which a new file begins (LeRobot's default for files)."""
INTEGERS = (FRAME, NUMBER, "index", "task_index")
"""Features of whole numbers that every dataset has."""
FILES = 1_000
"""Files of a chunk (LeRobot's default)."""


class Values(NamedTuple):
    """A feature of an episode."""

    array: Array
    """[T, …]."""
    is_image: bool = False


def write(dataset: Dataset, suite: Suite, task: str, root: Path) -> Path:
    """Write a dataset of a suite's task as a LeRobot dataset into the directory `root`, and return the directory.
    UserError where something lies there."""
    if root.exists():
        raise UserError(f"{root} is there already; choose another id, or remove it")
    unfinished = root.with_name(f".{root.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / EPISODES / "chunk-000").mkdir(parents=True)
    observations = suite.spaces(task)[0]
    columns = [_columns(episode, observations) for episode in dataset.episodes]
    texts = _texts(dataset, suite)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    places = _write_data(unfinished, columns, [numbers[text] for text in texts])
    index = [
        {
            NUMBER: number, "tasks": [texts[number]], "length": episode.length, **place,
            "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0, TASK: episode.task,
        }
        for number, (episode, place) in enumerate(zip(dataset.episodes, places, strict=True))
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(index), unfinished / EPISODES / "chunk-000" / "file-000.parquet")
    pd.DataFrame({"task_index": range(len(numbers))}, index=list(numbers)).to_parquet(unfinished / TASKS)
    features = {name: _feature(feature) for name, feature in columns[0].items()}
    stats = {name: _statistics([of_episode[name] for of_episode in columns]) for name in features}
    information = {
        "codebase_version": VERSION, "robot_type": None, "total_episodes": len(index), "total_frames": dataset.length,
        "total_tasks": len(numbers), "chunks_size": FILES, "data_files_size_in_mb": LARGEST // 2**20,
        "video_files_size_in_mb": 200, "fps": FPS, "splits": {"train": f"0:{len(index)}"}, "data_path": DATA_PATH,
        "video_path": None,
        "features": features | {
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **{name: {"dtype": "int64", "shape": [1], "names": None} for name in INTEGERS},
        },
    }  # fmt: skip
    for file, document in ((INFO, information), (STATS, stats)):
        (unfinished / file).write_text(json.dumps(document, indent=1), encoding="utf-8")
    unfinished.rename(root)
    return root


def _columns(episode: Trajectory, observations: Observations) -> dict[str, Values]:
    """Return the features of an episode by their names in LeRobot."""
    columns: dict[str, Values] = {}
    for part, space in (observations.parts or {"": observations}).items():
        array = episode.observation[part] if part else episode.observation
        is_image = space.dtype == "uint8" and space.categories is None and space.shape[2:] == (3,)
        name = ("images" if is_image else "") if part else ("image" if is_image else "state")
        columns[".".join(filter(None, ("observation", name, part)))] = Values(array, is_image)
    return columns | {
        "action": Values(episode.action),
        "next.reward": Values(episode.reward),
        "next.success": Values(episode.success),
        DONE: Values(episode.terminated),
    }


def _texts(dataset: Dataset, suite: Suite) -> list[str]:
    """Return the instruction of each episode."""
    instructions: dict[str, str] = {}
    texts = []
    for episode in dataset.episodes:
        if episode.opening is not None and isinstance(suite, InstructsBySnapshot):
            texts.append(suite.instruction_at(episode.task, episode.opening))
            continue
        if episode.task not in instructions:
            instructions[episode.task] = suite.make(episode.task).instruction
        texts.append(instructions[episode.task])
    return texts


def _write_data(root: Path, columns: list[dict[str, Values]], tasks: list[int]) -> list[dict[str, int]]:
    """Write the rows of all episodes, and return where those of each are."""
    places: list[dict[str, int]] = []
    writer: Any = None
    first = number = size = 0
    try:
        for episode, task in zip(columns, tasks, strict=True):
            table = _table(episode, len(places), task, first)
            if writer is not None and size + table.nbytes > LARGEST:
                writer.close()
                writer, number, size = None, number + 1, 0
            chunk, file = divmod(number, FILES)
            if writer is None:
                path = root / "data" / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
            size += table.nbytes
            span = {"dataset_from_index": first, "dataset_to_index": (first := first + len(table))}
            places.append({"data/chunk_index": chunk, "data/file_index": file, **span})
    finally:
        if writer is not None:
            writer.close()
    return places


def _table(episode: Mapping[str, Values], number: int, task: int, first: int) -> Any:
    """Return the rows of an episode."""
    length = len(episode["next.reward"].array)
    arrays = {
        name: _pngs(feature.array) if feature.is_image else _lists(feature.array) for name, feature in episode.items()
    }
    rows = np.arange(length)
    return pa.table({
        **arrays, "timestamp": np.float32(rows / FPS), FRAME: rows, NUMBER: np.full(length, number),
        "index": first + rows, "task_index": np.full(length, task),
    })  # fmt: skip


def _lists(array: Array) -> Any:
    """Return numbers as Arrow has them: plain for one a row, else lists of a fixed length."""
    extents = array.shape[1:] if array.shape[1:] != (1,) else ()
    feature = pa.array(np.ascontiguousarray(array).reshape(-1))
    for extent in reversed(extents):
        feature = pa.FixedSizeListArray.from_arrays(feature, extent)
    return feature


def _pngs(frames: Array) -> Any:
    """Return frames, uint8 [T, height, width, 3], as PNGs."""
    return pa.array([{"bytes": png, "path": None} for png in map(_png, frames)], _IMAGE)


_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def _png(frame: Array) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(frame).save(stream, "PNG")
    return stream.getvalue()


def _feature(feature: Values) -> dict[str, Any]:
    shape = list(feature.array.shape[1:]) or [1]
    dtype = "image" if feature.is_image else feature.array.dtype.name
    return {"dtype": dtype, "shape": shape, "names": ["height", "width", "channel"] if feature.is_image else None}


def _statistics(episodes: list[Values]) -> dict[str, Any]:
    """Return minimum, maximum, mean and standard deviation of each entry over all rows; of an image those of each
    channel, as numbers in [0, 1] of shape [3, 1, 1], as LeRobot has them."""
    is_image = episodes[0].is_image
    axes = (0, 1, 2) if is_image else (0,)
    scale, rows, total, squares = (255.0 if is_image else 1.0), 0, 0.0, 0.0
    low: Any = np.inf
    high: Any = -np.inf
    for feature in episodes:
        array = (feature.array if feature.array.ndim > 1 else feature.array[:, None]).astype(float) / scale
        rows += len(array)
        low, high = np.minimum(low, array.min(axes)), np.maximum(high, array.max(axes))
        total, squares = total + array.sum(axes), squares + (array**2).sum(axes)
    count = rows * (int(np.prod(episodes[0].array.shape[1:3])) if is_image else 1)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    shape = (3, 1, 1) if is_image else np.shape(mean)
    numbers = {"min": low, "max": high, "mean": mean, "std": deviation}
    return {**{name: np.reshape(array, shape).tolist() for name, array in numbers.items()}, "count": [rows]}
