"""Checkpoints: a tree of arrays and plain values per run, written beside the old one, flushed, renamed; two are kept.

Arrays go to safetensors, the rest to JSON with a checksum of both; nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from safetensors.numpy import save as to_bytes

from guidebench.harness.errors import Notice, UserError
from guidebench.harness.interfaces import State
from guidebench.harness.packing import packed, unpacked

KEPT = 2
_ARRAY, _FIELDS = "$array", "$fields"


class Checkpoint(NamedTuple):
    """What a run was at `step`."""

    step: int
    state: State


def save(directory: Path, step: int, state: State) -> Path:
    """Write `state` as the checkpoint of `step` in a run's directory and drop all but the two newest; UserError, by the
    place in it, for what a checkpoint cannot hold. Tuples come back as lists, and keys as text."""
    arrays: dict[str, np.ndarray] = {}
    tree = _pack(state, arrays)
    final = directory / f"checkpoint-{step:010d}"
    beside = directory / f".checkpoint-{step:010d}"
    for unfinished in directory.glob(".checkpoint-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    beside.mkdir(parents=True)
    contents = {"arrays.safetensors": to_bytes(arrays), "state.json": json.dumps(tree).encode()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents["digest.json"] = json.dumps(digests).encode()
    try:
        for name, content in contents.items():
            with open(beside / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
    except OSError:  # a full disk keeps the older checkpoints and gets back the room of this one
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if final.exists():
        shutil.rmtree(final)
    os.replace(beside, final)
    _flush(directory)
    for old in existing(directory)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest(
    directory: Path, lacks: Callable[[Checkpoint], str] = lambda checkpoint: "", before: int | None = None
) -> Checkpoint | None:
    """The newest checkpoint of a run that can be continued, or None; up to step `before` if that is given.

    One that is damaged, or of which `lacks` names something it refers to, is reported and the one before it used.
    """
    for path in reversed(existing(directory)):
        if before is not None and step_of(path) > before:
            continue
        try:
            checkpoint = load(path)
            missing = lacks(checkpoint)
        except PermissionError:
            raise
        except OSError as error:
            missing = f"{error.strerror}: {Path(error.filename or path).name}"
        except (ValueError, KeyError, TypeError) as error:
            missing = f"{type(error).__name__}: {error}"
        if not missing:
            return checkpoint
        warnings.warn(
            Notice(f"{path} is damaged ({missing}) and left out; the run continues from an earlier step"), stacklevel=2
        )
    return None


def drop_after(directory: Path, step: int) -> None:
    """Remove the checkpoints of steps beyond `step`: a run that continues there takes another way to them."""
    for path in existing(directory):
        if step_of(path) > step:
            shutil.rmtree(path)


def step_of(path: Path) -> int:
    """The step of a checkpoint's directory."""
    return int(path.name[11:])


def existing(directory: Path) -> list[Path]:
    """Checkpoint directories of a run, oldest first."""
    return sorted(path for path in directory.glob("checkpoint-*") if path.name[11:].isdigit())


def load(path: Path) -> Checkpoint:
    """Read one checkpoint; ValueError if a byte of it is not what was written."""
    digests = json.loads((path / "digest.json").read_text())
    for name in ("arrays.safetensors", "state.json"):
        if _digest(path / name) != digests[name]:
            raise ValueError(f"{name} does not match its checksum")
    state = _unpack(json.loads((path / "state.json").read_bytes()), load_file(path / "arrays.safetensors"))
    return Checkpoint(step_of(path), state)


def _pack(value: Any, arrays: dict[str, np.ndarray], *at: str) -> Any:
    if isinstance(value, (np.ndarray, np.void)):
        raw, fields = packed(np.asarray(value))
        name = str(len(arrays))
        # A copy, because safetensors writes the buffer of a view, not the view; and it has no 0-d bool.
        arrays[name] = np.array(raw, order="C", copy=True)
        return {_ARRAY: name} if fields is None else {_ARRAY: name, _FIELDS: fields}
    if isinstance(value, dict):
        return {str(key): _pack(item, arrays, *at, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays, *at, str(number)) for number, item in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UserError(
        f"the state of a run cannot be kept: {'.'.join(at)} is of type {type(value).__name__}; a checkpoint holds "
        f"None, truth values, numbers, text, NumPy arrays, and dicts, lists and tuples of them"
    )


def _unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        if value.keys() == {_ARRAY, _FIELDS}:
            return unpacked(arrays[value[_ARRAY]], value[_FIELDS])
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
