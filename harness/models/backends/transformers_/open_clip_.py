"""CLIP models that the transformers library lacks, through open_clip: RN50, from which LIV is fine-tuned.

The weights must be a file from `bench models convert`, which stores the architecture's name in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.embedding import Vector
from guidebench.harness.models.backends.transformers_.single_files import read
from guidebench.harness.texts import one_line


class OpenClipEmbedding:
    """Embeds texts and images with CLIP's preprocessing; vectors are not scaled to length 1."""

    def __init__(self, file: str, dtype: str, device: torch.device) -> None:
        """Load the file; raise UserError for a missing package or a file that is not an open_clip model."""
        try:
            import open_clip
        except ImportError as error:
            raise extras.missing(f"{file} needs open_clip ({error})", "vlm") from None
        architecture, _, weights = read(file)
        if architecture not in open_clip.list_models():  # which could name a repository or a folder
            raise UserError(
                f"{file} holds an architecture {one_line(repr(architecture[:80]))}, which open_clip does not list; "
                f"convert the checkpoint again with the name of its architecture (--architecture)"
            )
        try:
            with torch.device("meta"):  # a name may stand for a network that is much larger than the weights
                described = open_clip.create_model(architecture, load_weights=False, device="meta")
            with warnings.catch_warnings(action="ignore"):  # nothing is copied
                described.load_state_dict(weights)
            model = open_clip.create_model(architecture, load_weights=False).eval().requires_grad_(False)
            model.load_state_dict(weights)
        except (RuntimeError, OSError, ValueError) as error:
            raise UserError(f"{file} is no {architecture}: {' '.join(str(error).split())[:200]}") from None
        self._model = model.to(device, getattr(torch, dtype))
        self._words = open_clip.get_tokenizer(architecture)
        side = model.visual.image_size
        self._prepare = open_clip.image_transform(side, is_train=False, resize_mode="shortest")
        self.device, self._dtype = device, getattr(torch, dtype)

    def kind(self, item: str | Array) -> Hashable:
        return "embed", isinstance(item, str), *(item.shape if not isinstance(item, str) and item.ndim == 4 else ())

    def __call__(self, items: Sequence[Any]) -> list[Vector]:
        if isinstance(items[0], str):
            words = self._words(list(items)).to(self.device)
            vectors, tokens = self._model.encode_text(words), (words != 0).sum(1).tolist()
        elif items[0].ndim == 4:
            raise UserError("CLIP turns no videos into vectors; choose a model such as X-CLIP (embedder.model=xclip)")
        else:
            from PIL import Image

            pixels = torch.stack([self._prepare(Image.fromarray(item)) for item in items])
            vectors, tokens = self._model.encode_image(pixels.to(self.device, self._dtype)), [0] * len(items)
        values = vectors.float().cpu().numpy()
        return [Vector(value, int(count)) for value, count in zip(values, tokens, strict=True)]
