"""CLIP models that the transformers library lacks, through open_clip: RN50, from which LIV is fine-tuned.

The weights must be a file from `bench models convert`, which stores the architecture's name in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.embedding import Vector


class OpenClipEmbedding:
    """Embeds texts and images with CLIP's preprocessing; vectors are not scaled to length 1."""

    def __init__(self, file: str, dtype: str, device: torch.device) -> None:
        """Load the file; raise UserError for a missing package or a file that is not an open_clip model."""
        try:
            import open_clip
        except ImportError as error:
            raise UserError(f"{file} needs open_clip ({error}); pip install open_clip_torch") from None
        architecture, weights = _read(file)
        try:
            model = open_clip.create_model(architecture, load_weights=False).eval().requires_grad_(False)
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise UserError(f"{file} is no {architecture}: {' '.join(str(error).split())[:200]}") from None
        self._model = model.to(device, getattr(torch, dtype))
        self._words = open_clip.get_tokenizer(architecture)
        side = model.visual.image_size
        self._prepare = open_clip.image_transform(side, is_train=False, resize_mode="shortest")
        self.device, self._dtype = device, getattr(torch, dtype)

    def kind(self, item: str | Array) -> Hashable:
        return "embed", isinstance(item, str)

    def __call__(self, items: Sequence[Any]) -> list[Vector]:
        if isinstance(items[0], str):
            words = self._words(list(items)).to(self.device)
            found, tokens = self._model.encode_text(words), (words != 0).sum(1).tolist()
        else:
            from PIL import Image

            pixels = torch.stack([self._prepare(Image.fromarray(item)) for item in items])
            found, tokens = self._model.encode_image(pixels.to(self.device, self._dtype)), [0] * len(items)
        values = found.float().cpu().numpy()
        return [Vector(value, int(count)) for value, count in zip(values, tokens, strict=True)]


def _read(file: str) -> tuple[str, dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    if not Path(file).is_file():
        raise UserError(f"model {file!r} is no file")
    try:
        with safe_open(file, "pt") as opened:
            architecture = (opened.metadata() or {}).get("open_clip", "")
            weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, not a mapping
    except SafetensorError as error:
        raise UserError(f"{file} is no safetensors file ({error})") from None
    if not architecture:
        raise UserError(
            f"{file} does not say what it is; a single file has to be one of `bench models convert`, and other models "
            f"are named by the directory of their config.json"
        )
    return architecture, weights
