"""Checkpoints of runs: nested dicts of arrays and plain values, written atomically; the two newest are kept.

Arrays are stored as safetensors and the rest as JSON, with checksums of both; pickle is never used.
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
from guidebench.harness.records.files import move, nothing, open_regular, read_regular

MOST_CHECKPOINTS = 2
_ARRAY, _FIELDS = "$array", "$fields"


class Checkpoint(NamedTuple):
    """The state of a run at `step`."""

    step: int
    state: State


def save(directory: Path, step: int, state: State, fence: Callable[[], None] = nothing) -> Path:
    """Write `state` as the checkpoint of `step` in a run's directory and delete all but the two newest. Raise a
    UserError that names the entry for a value that a checkpoint cannot hold. Tuples are restored as lists, and keys as
    strings. `fence` is called before the rename that ends the write (`write_bytes`)."""
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
    except OSError:  # on a full disk, keep the older checkpoints and free the space of this one
        shutil.rmtree(beside, ignore_errors=True)
        raise
    fence()
    if final.exists():
        shutil.rmtree(final)
    move(beside, final)
    _flush(directory)
    for old in existing(directory)[:-MOST_CHECKPOINTS]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest(
    directory: Path, lacks: Callable[[Checkpoint], str] = lambda checkpoint: "", before: int | None = None
) -> Checkpoint | None:
    """Return the newest usable checkpoint of a run, at most at step `before` if given, or None.

    A checkpoint that is damaged, or for which `lacks` returns a missing file, is reported and the next older one used.
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
    """Delete the checkpoints after `step`, which a run that continues at `step` will write again."""
    for path in existing(directory):
        if step_of(path) > step:
            shutil.rmtree(path)


def step_of(path: Path) -> int:
    """Return the step of a checkpoint directory."""
    return int(path.name[11:])


def existing(directory: Path) -> list[Path]:
    """Return the checkpoint directories of a run, oldest first."""
    return sorted(path for path in directory.glob("checkpoint-*") if path.name[11:].isdigit())


def load(path: Path) -> Checkpoint:
    """Read one checkpoint. Raise ValueError if it does not match its checksums."""
    digests = json.loads(read_regular(path / "digest.json"))
    for name in ("arrays.safetensors", "state.json"):
        if _digest(path / name) != digests[name]:
            raise ValueError(f"{name} does not match its checksum")
    state = _unpack(json.loads(read_regular(path / "state.json")), load_file(path / "arrays.safetensors"))
    return Checkpoint(step_of(path), state)


def _pack(value: Any, arrays: dict[str, np.ndarray], *at: str) -> Any:
    if isinstance(value, (np.ndarray, np.void)):
        raw, fields = packed(np.asarray(value))
        name = str(len(arrays))
        # Copy, because safetensors writes the whole buffer of a view and does not support 0-d bool.
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
        f"None, bools, numbers, strings, NumPy arrays, and dicts, lists and tuples of them"
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
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
