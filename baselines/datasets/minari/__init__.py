"""A Minari dataset on disk, read as plain arrays by `reading`. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.dataset_reading import check_name
from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.parts import DatasetPart, FilePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Digest, Later, Unit

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Trajectory

ID = re.compile(r"([\w-]+/)*[\w-]+-v\d+")
"""Pattern of a dataset's id: folders, a name and a version."""
METADATA, ARRAYS = "metadata.json", "main_data.hdf5"


@register.dataset("minari")
@dataclass(frozen=True)
class Minari(FilePart, DatasetPart):
    """A Minari dataset stored on this machine. Its identity is the digest of its files; `id` and `path` only say where
    these are."""

    id: str = ""
    """Id of the dataset, such as D4RL/door/human-v2, below $MINARI_DATASETS_PATH or ~/.minari/datasets."""
    path: str = ""
    """Directory of the dataset, instead of `id`."""
    episodes: Annotated[int, Bounds(0), Unit("episodes")] = 0
    """Number of episodes to take, from the first; 0 takes all."""
    success: str = "success"
    """Name of the `infos` entry that marks a successful step; without such an entry no step counts as a success."""
    digest: Annotated[str | None, Digest, Later] = None
    """SHA-256 of its metadata and arrays, which identifies it. It is computed where the files are; null means that it
    is unknown, or that the dataset is known by its name alone."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "minari"
    citation: ClassVar[str | Path] = Path(__file__).with_name("minari.bib")
    file_settings: ClassVar[tuple[str, ...]] = ("id", "path")

    def __post_init__(self) -> None:
        check_name(self.id, self.path, ID, "Minari", "D4RL/door/human-v2")

    @property
    def directory(self) -> Path:
        """Return the directory of its files; UserError where none is named or the files are missing."""
        if not (self.id or self.path):
            raise UserError("dataset=minari reads a dataset of Minari: name it with dataset.id=… or dataset.path=…")
        root = Path(self.path) if self.path else home() / self.id
        folder = next((place for place in (root / "data", root) if (place / METADATA).is_file()), None)
        if folder is None:
            fetched = f"; `minari download {self.id}` fetches it" if self.id else ""
            raise UserError(f"no Minari dataset is in {root}: data/{METADATA} is not there{fetched}")
        return folder

    def ready(self) -> None:
        if importlib.util.find_spec("h5py") is None:
            raise extras.missing("dataset=minari needs the package h5py", "minari")
        if not (self.directory / ARRAYS).is_file():
            raise UserError(f"{self.directory / ARRAYS} is not there; restore it")
        self.verify()

    def content(self) -> str | None:
        """Return the digest of its files; None where one of them is missing."""
        try:
            files = [digests.NamedFile(name, self.directory / name) for name in (METADATA, ARRAYS)]
        except UserError:
            return None
        return digests.of_files(files, str(self.directory)) if all(file.path.is_file() for file in files) else None

    def origin(self) -> Mapping[str, Any]:
        """Return the digest of its files."""
        self.ready()
        return {"digest": self.content()}

    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        from guidebench.baselines.datasets.minari.reading import Reader, gathered, metadata

        self.ready()
        observations, actions = suite.spaces(task)
        described = metadata(self.directory / METADATA)
        reader = Reader(
            self.directory / ARRAYS, described, task, tuple(suite.tasks), observations, actions, self.success
        )
        return gathered(reader, self.episodes)


def home() -> Path:
    """Return the directory of Minari's datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
