"""A LeRobot dataset on disk, format v3.0, read by pyarrow in `reading`. Nothing is downloaded."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.dataset_reading import check_name
from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.interfaces import Actions
from guidebench.harness.parts import DatasetPart, FilePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Digest, Later, Unit

if TYPE_CHECKING:
    from guidebench.baselines.datasets.lerobot.metadata import Metadata
    from guidebench.harness.trajectories import Trajectory

ID = re.compile(r"[\w.-]*\w/[\w.-]*\w")
"""Pattern of a dataset's id: an owner and a name."""
INFO, STATS = "meta/info.json", "meta/stats.json"


@register.dataset("lerobot")
@dataclass(frozen=True)
class LeRobot(FilePart, DatasetPart):
    """A LeRobot dataset of format v3.0 stored on this machine. Its identity is the digest of its files; `id` and `path`
    only say where these are."""

    id: str = ""
    """Id of the dataset, such as lerobot/pusht, below $HF_LEROBOT_HOME or ~/.cache/huggingface/lerobot."""
    path: str = ""
    """Directory of the dataset, instead of `id`."""
    episodes: Annotated[int, Bounds(0), Unit("episodes")] = 0
    """Number of episodes to take, from the first; 0 takes all."""
    observation: str = "observation.state"
    """Feature that holds the observations. A part NAME of an observation of named parts is the feature
    observation.images.NAME, observation.NAME or NAME, whichever is there first."""
    action: str = "action"
    """Feature that holds the actions."""
    reward: str = "next.reward"
    """Feature that holds the rewards; without it every reward is 0, and learners of rewards are refused."""
    success: str = "next.success"
    """Feature that marks a successful step; without it no step counts as a success."""
    action_range: tuple[float, ...] = ()
    """Smallest and largest entry of an action, which become -1 and 1; empty for the minimum and maximum of each entry
    in meta/stats.json."""
    digest: Annotated[str | None, Digest, Later] = None
    """SHA-256 of its files, which identifies it. It is computed where the files are; null means that it is unknown, or
    that the dataset is known by its name alone."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("lerobot.bib")
    file_settings: ClassVar[tuple[str, ...]] = ("id", "path")

    def __post_init__(self) -> None:
        check_name(self.id, self.path, ID, "LeRobot", "me/reaching")
        low_high = self.action_range
        if low_high and not (len(low_high) == 2 and all(map(math.isfinite, low_high)) and low_high[0] < low_high[1]):
            raise UserError(
                f"dataset.action_range={list(low_high)}: expected two finite numbers [low,high], the smaller first"
            )

    @property
    def directory(self) -> Path:
        """Return the directory of its files; UserError where none is named or the files are missing."""
        if not (self.id or self.path):
            raise UserError("dataset=lerobot reads a LeRobot dataset: name it with dataset.id=… or dataset.path=…")
        root = Path(self.path) if self.path else home() / self.id
        if not (root / INFO).is_file():
            raise UserError(
                f"no LeRobot dataset is in {root}: {INFO} is not there; name the directory that holds meta/"
            )
        return root

    def ready(self) -> None:
        self.described().check_features(self.action, self.reward, self.success)
        self.verify()

    def content(self) -> str | None:
        """Return the digest of its metadata and data; None where they are missing. Videos are not read."""
        try:
            root = self.directory
        except UserError:
            return None
        files = sorted(file for folder in ("meta", "data") for file in (root / folder).rglob("*") if file.is_file())
        named = [digests.NamedFile(file.relative_to(root).as_posix(), file) for file in files]
        return digests.of_files(named, str(root))

    def origin(self) -> Mapping[str, Any]:
        """Return the digest of its files."""
        self.ready()
        return {"digest": self.content()}

    def described(self) -> Metadata:
        """Return what its metadata say; UserError if they are not of format v3.0."""
        from guidebench.baselines.datasets.lerobot.metadata import metadata

        return metadata(self.directory)

    def lacks(self) -> tuple[str, ...]:
        features = self.described().features
        return tuple(name for name in ("reward", "success") if getattr(self, name) not in features)

    def remarks(self, actions: Actions) -> Sequence[str]:
        if actions.discrete:
            return ()
        low, high = self.described().action_range(self.action, actions, self.action_range)
        source = "action_range" if self.action_range else STATS
        return (f"actions of {self.directory} from {_numbers(low)} to {_numbers(high)} ({source}) become -1 to 1",)

    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        from guidebench.baselines.datasets.lerobot.reading import Reader, gathered

        self.ready()
        observations, actions = suite.spaces(task)
        described = self.described()
        features = {name: getattr(self, name) for name in ("observation", "action", "reward", "success")}
        scaling = None if actions.discrete else described.action_range(self.action, actions, self.action_range)
        reader = Reader(described, features, task, tuple(suite.tasks), observations, actions, scaling)
        return gathered(reader, self.episodes)


def home() -> Path:
    """Return the directory of LeRobot's datasets."""
    hub = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
    return Path(os.environ.get("HF_LEROBOT_HOME") or hub / "lerobot").expanduser()


def _numbers(bounds: Any) -> str:
    distinct = {f"{bound:.4g}" for bound in bounds.flat}
    return distinct.pop() if len(distinct) == 1 else f"[{', '.join(f'{bound:.4g}' for bound in bounds.flat)}]"
