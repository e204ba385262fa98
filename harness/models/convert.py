"""Convert a published `torch.save` checkpoint to safetensors; `weights_only=True` prevents it from running code."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError

WRAPPINGS = ("module.", "model.")
"""Prefixes of all tensor names that DataParallel or a wrapper class adds in training."""
RN50 = "RN50-quickgelu"
"""open_clip's name for the CLIP ResNet-50 that OpenAI published and that LIV fine-tunes."""

LONGEST_HEADER = 10**8
"""Bytes of a safetensors header at most, as the format's own reader has it."""


class Converted(NamedTuple):
    """Summary of a converted checkpoint."""

    tensors: int
    parameters: int
    architecture: str
    """open_clip's name of the architecture; "" if unknown, and then the file cannot be used as a model."""


def convert(source: Path, target: Path, architecture: str = "") -> Converted:
    """Write the tensors of `source` to the new file `target`; raise UserError unless `source` is a checkpoint of
    tensors only."""
    import torch
    from safetensors.torch import save_file

    if not source.is_file():
        raise UserError(f"{source} is no file; expected a checkpoint as torch.save wrote it")
    if target.exists():
        raise UserError(f"{target} exists; name a file that does not, or remove it")
    try:
        read = torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{source} holds more than tensors and plain values, and opening that could run code of its author's, so "
            f"it is not opened ({_first_line(error)}); ask for a checkpoint of weights alone"
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        raise UserError(f"{source} is no checkpoint that torch.save wrote ({_first_line(error)})") from None
    tensors = _unwrapped(max(_mappings(read), key=len, default={}))
    if not tensors:
        raise UserError(f"{source} holds no named tensors")
    architecture = architecture or (RN50 if _is_rn50(tensors) else "")
    # A tensor may be a view of another; safetensors needs separate copies.
    whole = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(whole, target, {"format": "pt"} | ({"open_clip": architecture} if architecture else {}))
    return Converted(len(whole), sum(tensor.numel() for tensor in whole.values()), architecture)


def width(file: Path) -> int | None:
    """Numbers in a vector of the CLIP model in a safetensors file, by the file's header alone; None where there is no
    such file, or another model in it."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length)) if length <= LONGEST_HEADER else None
    except (OSError, ValueError):
        return None
    match header:
        case {"text_projection": {"shape": [_, int(found)]}}:
            return found
    return None


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the named tensors at each level of a checkpoint: `{"liv": {…}}`, `{"state_dict": {…}}`, or the top
    level."""
    import torch

    if isinstance(value, Mapping):
        yield {str(name): found for name, found in value.items() if isinstance(found, torch.Tensor)}
        for inner in value.values():
            yield from _mappings(inner)


def _unwrapped(tensors: dict[str, Any]) -> dict[str, Any]:
    while wrapping := next((w for w in WRAPPINGS if tensors and all(name.startswith(w) for name in tensors)), None):
        tensors = {name.removeprefix(wrapping): tensor for name, tensor in tensors.items()}
    return tensors


def _is_rn50(tensors: Mapping[str, Any]) -> bool:
    """Return whether tensors have CLIP RN50's distinctive shape: stages of 3, 4, 6 and 3 blocks, and 1024 features."""
    blocks = [
        len({name.split(".")[2] for name in tensors if name.startswith(f"visual.layer{at}.")}) for at in range(1, 5)
    ]
    features = tensors.get("visual.attnpool.c_proj.weight")
    return blocks == [3, 4, 6, 3] and features is not None and features.shape[0] == 1024


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
