"""Checkpoints: a tree of arrays and plain values per run, written beside the old one, flushed, renamed; two are kept.

Arrays go to safetensors, the rest to JSON with a checksum of both; nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from harness.interfaces import State

KEPT = 2
_ARRAY = "$array"


class Checkpoint(NamedTuple):
    """What a run was at `step`."""

    step: int
    state: State


def save(directory: Path, step: int, state: State) -> Path:
    """Write `state` as the checkpoint of `step` in a run's directory and drop all but the two newest."""
    arrays: dict[str, np.ndarray] = {}
    tree = _pack(state, arrays)
    final = directory / f"checkpoint-{step:010d}"
    beside = directory / f".checkpoint-{step:010d}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    save_file(arrays, beside / "arrays.safetensors")
    text = json.dumps(tree).encode()
    digest = {"state": hashlib.sha256(text).hexdigest(), "arrays": _digest(beside / "arrays.safetensors")}
    (beside / "state.json").write_bytes(text)
    (beside / "digest.json").write_text(json.dumps(digest))
    for file in beside.iterdir():
        _flush(file)
    if final.exists():
        shutil.rmtree(final)
    os.replace(beside, final)
    _flush(directory)
    for old in existing(directory)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest(directory: Path) -> Checkpoint | None:
    """The newest intact checkpoint of a run, or None; a damaged one is reported and the one before it is used."""
    for path in reversed(existing(directory)):
        try:
            return load(path)
        except (OSError, ValueError, KeyError) as error:
            warnings.warn(
                f"{path} is damaged ({error}) and left out; an older checkpoint is used if there is one", stacklevel=2
            )
    return None


def existing(directory: Path) -> list[Path]:
    """Checkpoint directories of a run, oldest first."""
    return sorted(path for path in directory.glob("checkpoint-*") if path.name[11:].isdigit())


def load(path: Path) -> Checkpoint:
    """Read one checkpoint; ValueError if a byte of it is not what was written."""
    text = (path / "state.json").read_bytes()
    digest = json.loads((path / "digest.json").read_text())
    if hashlib.sha256(text).hexdigest() != digest["state"]:
        raise ValueError("state.json does not match its checksum")
    if _digest(path / "arrays.safetensors") != digest["arrays"]:
        raise ValueError("arrays.safetensors does not match its checksum")
    state = _unpack(json.loads(text), load_file(path / "arrays.safetensors"))
    return Checkpoint(int(path.name[11:]), state)


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        # A copy, because safetensors writes the buffer of a view, not the view; and it has no 0-d bool.
        arrays[name] = np.array(value, order="C", copy=True)
        return {_ARRAY: name}
    if isinstance(value, dict):
        return {str(key): _pack(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")


def _unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _unpack(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    return value


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
