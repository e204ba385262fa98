"""A Minari dataset on disk, read as plain arrays by `reading`. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.errors import UserError
from guidebench.harness.parts import DatasetPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Trajectory

ID = re.compile(r"([\w-]+/)*[\w-]+-v\d+")
"""Pattern of a dataset's id: folders, a name and a version."""
METADATA, ARRAYS = "metadata.json", "main_data.hdf5"


@register.dataset("minari")
@dataclass(frozen=True)
class Minari(DatasetPart):
    """A Minari dataset stored on this machine."""

    id: str = ""
    """Id of the dataset, such as D4RL/door/human-v2, below $MINARI_DATASETS_PATH or ~/.minari/datasets."""
    path: str = ""
    """Directory of the dataset, instead of `id`."""
    episodes: Annotated[int, Bounds(0), Unit("episodes")] = 0
    """Number of episodes to take, from the first; 0 takes all."""
    success: str = "success"
    """Name of the `infos` entry that marks a successful step; without such an entry no step counts as a success."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("minari.bib")

    def __post_init__(self) -> None:
        if self.id and self.path:
            raise UserError(f"dataset.id={self.id} and dataset.path={self.path} name two datasets; leave one out")
        if self.id and not ID.fullmatch(self.id):
            raise UserError(
                f"dataset.id={self.id!r} is no name of a Minari dataset; expected one such as D4RL/door/human-v2"
            )

    @property
    def directory(self) -> Path:
        """Return the directory of its files; UserError where none is named or the files are missing."""
        if not (self.id or self.path):
            raise UserError("dataset=minari reads a dataset of Minari: name it with dataset.id=… or dataset.path=…")
        root = Path(self.path) if self.path else home() / self.id
        found = next((place for place in (root / "data", root) if (place / METADATA).is_file()), None)
        if found is None:
            fetched = f"; `minari download {self.id}` fetches it" if self.id else ""
            raise UserError(f"no Minari dataset is in {root}: data/{METADATA} is not there{fetched}")
        return found

    def ready(self) -> None:
        if importlib.util.find_spec("h5py") is None:
            raise UserError("dataset=minari needs a package that is missing: pip install 'guidebench[minari]'")
        if not (self.directory / ARRAYS).is_file():
            raise UserError(f"{self.directory / ARRAYS} is not there; restore it")

    def origin(self) -> Mapping[str, Any]:
        """Return the hashes of its files."""
        self.ready()
        return {name: _digest(self.directory / name) for name in (METADATA, ARRAYS)}

    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        from guidebench.baselines.datasets.minari.reading import Reader, metadata

        self.ready()
        observations, actions = suite.spaces(task)
        described = metadata(self.directory / METADATA)
        reader = Reader(
            self.directory / ARRAYS, described, task, tuple(suite.tasks), observations, actions, self.success
        )
        return reader.episodes(self.episodes)


def home() -> Path:
    """Return the directory of Minari's datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
