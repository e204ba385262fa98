"""Writer of Minari's files, as Minari writes them with `data_format="hdf5"` and `jpeg_encoding=False`; the package
itself is not needed. An episode has two attributes of ours, `task` and, where each has its own, `instruction`; and, if
known, the array `opening`, which Minari ignores and `reading` reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from guidebench.baselines.datasets.minari import ARRAYS, METADATA
from guidebench.harness.capabilities import InstructsBySnapshot
from guidebench.harness.episodes.datasets import Dataset
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Array, Observations, Suite
from guidebench.harness.trajectories import Trajectory

FORMAT = "0.5.4"
"""Version of Minari whose files these are."""


def write(dataset: Dataset, suite: Suite, task: str, root: Path, id: str, about: str) -> Path:
    """Write a dataset of a suite's task as the Minari dataset `id` into the directory `root`, and return the directory.
    `about` describes it. UserError where something lies there."""
    if root.exists():
        raise UserError(f"{root} is there already; choose another id, or remove it")
    unfinished = root.with_name(f".{root.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    folder = unfinished / "data"
    folder.mkdir(parents=True)
    with h5py.File(folder / ARRAYS, "w", track_order=True) as file:
        for number, episode in enumerate(dataset.episodes):
            group = file.create_group(f"episode_{number}")
            _put(group, number, episode)
            if episode.opening is not None and isinstance(suite, InstructsBySnapshot):
                group.attrs["instruction"] = suite.instruction_at(episode.task, episode.opening)
    observations, actions = suite.spaces(task)
    metadata = {
        "total_episodes": len(dataset.episodes),
        "total_steps": dataset.length,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": json.dumps(_observation_space(observations)),
        "action_space": json.dumps(_action_space(actions)),
        "dataset_id": id,
        "minari_version": FORMAT,
        "dataset_size": round((folder / ARRAYS).stat().st_size / 1e6, 1),
        "description": about,
    }
    (folder / METADATA).write_text(json.dumps(metadata), encoding="utf-8")
    unfinished.rename(root)
    return root


def _put(group: Any, number: int, episode: Trajectory) -> None:
    group.attrs.update({"id": number, "total_steps": episode.length, "task": episode.task})
    observations = np.concatenate([episode.observation, episode.next_observation[-1:]])
    if observations.dtype.names:
        for name in observations.dtype.names:
            group[f"observations/{name}"] = observations[name]
    else:
        group["observations"] = observations
    group["actions"] = episode.action
    group["rewards"] = episode.reward
    group["terminations"], group["truncations"] = episode.terminated, episode.truncated
    group["infos/success"] = np.concatenate([[False], episode.success])
    if episode.opening is not None:
        group["opening"] = episode.opening


def _observation_space(observations: Observations) -> dict[str, Any]:
    """Return the description of a space of observations, as Minari describes those of Gymnasium."""
    if observations.parts:
        return {
            "type": "Dict",
            "subspaces": {name: _observation_space(part) for name, part in observations.parts.items()},
        }
    floats = np.issubdtype(observations.dtype, np.floating)
    low = -np.inf if floats else np.iinfo(observations.dtype).min
    high: Array | float = np.inf if floats else np.iinfo(observations.dtype).max
    if observations.categories is not None:
        low, high = 0, np.array(observations.categories) - 1
    return _box(observations.shape, observations.dtype, low, high)


def _action_space(actions: Actions) -> dict[str, Any]:
    if actions.count is not None:
        return {"type": "Discrete", "dtype": "int64", "start": 0, "n": actions.count}
    return _box(actions.shape, "float32", -1.0, 1.0)


def _box(shape: tuple[int, ...], dtype: str, low: Array | float, high: Array | float) -> dict[str, Any]:
    ends = {name: np.broadcast_to(end, shape).tolist() for name, end in (("low", low), ("high", high))}
    return {"type": "Box", "dtype": dtype, "shape": list(shape), **ends}
