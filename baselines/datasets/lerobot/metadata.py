"""Metadata of LeRobot datasets, format v3.0: what features there are, and in which files. They are a stranger's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.datasets.lerobot import INFO, STATS
from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Actions, Array

VERSION = "v3.0"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
TEMPLATES = {"data_path": (DATA_PATH,), "video_path": (VIDEO_PATH, None)}
"""Key of info.json -> its permitted values. No text of a dataset is used as a template or as a path."""
EPISODES, TASKS = "meta/episodes", "meta/tasks.parquet"
WORDS = 2**24
"""Maximum number of bytes of a JSON file of the metadata."""
LAST = 999_999
"""Largest number of a chunk or file."""


class Feature(NamedTuple):
    """A column of the data."""

    dtype: str
    """A dtype of NumPy, `image`, `video` or `string`."""
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """What meta/info.json says of a dataset."""

    root: Path
    features: Mapping[str, Feature]

    def check_features(self, action: str, *optional: str) -> None:
        """Raise UserError if the feature of actions is missing, or one of them is a video or text."""
        self.feature(action)
        for name in optional:
            if name in self.features:
                self.feature(name)

    def feature(self, name: str) -> Feature:
        """Return a feature; UserError, with what there is, if it is missing, a video or text."""
        if name not in self.features:
            raise unknown(f"feature of {self.root / INFO}", name, self.features)
        if (feature := self.features[name]).dtype in ("video", "string"):
            kind = "a video, which loses what its codec leaves out" if feature.dtype == "video" else "text"
            raise UserError(
                f"{self.root}: the feature {name!r} is {kind}, and is not read; record it with use_videos=False, or "
                f"name another feature"
            )
        return feature

    def action_range(self, name: str, actions: Actions, named: tuple[float, ...]) -> tuple[Array, Array]:
        """Return the lower and upper bound of each entry of an action: `named` for all, or, if that is empty, those of
        the dataset. Raise UserError if the dataset does not state them."""
        if named:
            low, high = (np.full(actions.shape, bound) for bound in named)
            return low, high
        file = self.root / STATS
        document = reader_process.read(f"{file}: reading it", file, outside.document, file, WORDS)
        try:
            low, high = (np.array(document[name][end], float).reshape(actions.shape) for end in ("min", "max"))
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            raise UserError(
                f"{file} does not tell min and max of {name!r} as {actions.shape} numbers, which the task takes; set "
                f"dataset.action_range=[low,high]"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise UserError(f"{file} has {name!r} from {low} to {high}; expected finite numbers, or set action_range")
        return low, high


def metadata(root: Path) -> Metadata:
    """Return the metadata of the dataset in a directory. Raise UserError for another version of the format, templates
    of paths that are not the format's own, and features without dtype or shape."""
    file = root / INFO
    document = reader_process.read(f"{file}: reading it", file, outside.document, file, WORDS)
    if not isinstance(document, dict):
        raise UserError(f"{file} cannot be read (it holds no mapping); restore it")
    if (version := document.get("codebase_version")) != VERSION:
        raise UserError(
            f"{file} is of version {_excerpt(version)}, and {VERSION} is read; convert it with "
            f"lerobot.datasets.v30.convert_dataset_v21_to_v30 of LeRobot 0.4"
        )
    for key, templates in TEMPLATES.items():
        if document.get(key) not in templates:
            raise UserError(f"{file} has {key}={_excerpt(document.get(key))}; expected {templates[0]!r}")
    features = document.get("features")
    if not isinstance(features, dict):
        raise UserError(f"{file} has no mapping of features; restore it")
    checked: dict[str, Feature] = {}
    for name, feature in features.items():
        match feature:
            case {"dtype": str(dtype), "shape": list(shape)} if all(type(n) is int and 0 < n < 2**31 for n in shape):
                checked[name] = Feature(dtype, tuple(shape))
            case _:
                raise UserError(f"{file}: feature {_excerpt(name)} has no dtype and shape of whole numbers; restore it")
    return Metadata(root, checked)


def _excerpt(json_value: Any) -> str:
    return repr(json_value)[:80]
