"""A cache of episodes by content: their concatenated arrays as safetensors, beside a JSON file with a description and
the arrays' hash."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import Array
from guidebench.harness.packing import packed, unpacked
from guidebench.harness.records.files import write_bytes, write_json


class CachedEpisodes(NamedTuple):
    """Cached episodes, as they were given to `keep`."""

    described: Sequence[Mapping[str, Any]]
    arrays: Sequence[Mapping[str, Array]]
    per_episode: Mapping[str, Array]
    digest: str
    """SHA-256 of the file of arrays."""


def root(kind: str) -> Path:
    """Return the cache directory of a kind, below $GUIDEBENCH_CACHE or ~/.cache/guidebench."""
    return Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench") / kind


def key(content: Mapping[str, Any]) -> str:
    """Return a cache key of `content`, 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def keep(
    file: Path,
    content: Mapping[str, Any],
    described: Sequence[Mapping[str, Any]],
    arrays: Sequence[Mapping[str, Array]],
    per_episode: Mapping[str, Array] = MappingProxyType({}),
) -> Path:
    """Write episodes to `file` (.json, with the arrays beside it) and return the file. `content`: everything that
    decides the episodes; `described`: description of each episode; `arrays`: name -> [T, …] of each episode;
    `per_episode`: name -> [E, …], one row for each episode."""
    from safetensors.numpy import save

    together = {name: packed(np.concatenate([episode[name] for episode in arrays])) for name in arrays[0]}
    together |= {name: packed(array) for name, array in per_episode.items()}
    stored = save({name: raw for name, (raw, _) in together.items()})
    fields = {name: dtype for name, (_, dtype) in together.items() if dtype is not None}
    write_bytes(file.with_suffix(".safetensors"), stored)
    lengths = [len(next(iter(episode.values()))) for episode in arrays]
    descriptions = [{**episode, "steps": length} for episode, length in zip(described, lengths, strict=True)]
    # Write the description last: arrays without it are ignored.
    summary = {"sha256": hashlib.sha256(stored).hexdigest(), "episodes": descriptions}
    write_json(file, {**content, **summary, **({"fields": fields} if fields else {})})
    return file


def read(file: Path, names: Sequence[str]) -> CachedEpisodes | None:
    """Return what `keep` wrote, with the named arrays and all others in `per_episode`, or None if the file does not
    exist or, with a notice, if it is damaged."""
    from safetensors.numpy import load

    try:
        description: Mapping[str, Any] = json.loads(file.read_text())
        stored = file.with_suffix(".safetensors").read_bytes()
        if hashlib.sha256(stored).hexdigest() != description["sha256"]:
            raise ValueError("the arrays do not match their checksum")
        together = load(stored)
        for name, fields in description.get("fields", {}).items():
            together[name] = unpacked(together[name], fields)
        described = description["episodes"]
        ends = np.cumsum([episode["steps"] for episode in described])
        parts = {name: np.split(together[name], ends[:-1]) for name in names}
        arrays = [{name: parts[name][number] for name in names} for number in range(len(described))]
        per_episode = {name: array for name, array in together.items() if name not in names}
        return CachedEpisodes(described, arrays, per_episode, description["sha256"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        warnings.warn(Notice(f"{file} is damaged ({error}); its content is made again"), stacklevel=3)
        return None
