"""Embedding of texts, images and videos: CLIP's and X-CLIP's features, sentence-transformers' pooling, or the mean of
last hidden states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from guidebench.harness import outside
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel, Source

Pool = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Hidden states [n, m, d] and their mask [n, m] -> [n, d]."""
SHORTEST = 16
"""Tokens to which the shortest texts are padded; longer ones are padded to the next power of two (choice)."""


class Vector(NamedTuple):
    """One item's vector, float32 [d], and its tokens; 0 for an image or a video."""

    value: Array
    tokens: int


class Embedding:
    """Embeds items of one kind together: texts, images [height, width, 3], or videos [n, height, width, 3]."""

    def __init__(self, loaded: LoadedModel, source: Source) -> None:
        self._loaded = loaded
        self._pool, self._normalised = _pooling(source) if source.pool == "auto" else (POOLS[source.pool], False)
        if source.pool != "auto" and hasattr(loaded.model, "get_text_features"):
            raise UserError(f"model {loaded.name!r} has its own vectors of texts, so its pool must be auto")
        limits = loaded.context or 512, loaded.tokenizer.model_max_length, _longest(source), source.text_tokens
        self._limit = min(limit for limit in limits if limit is not None)

    def kind(self, item: str | Array) -> Hashable:
        """Return the batch kind of an item; inputs of one kind have equal shapes."""
        if isinstance(item, str):
            return "text", self._length(item)
        return "video" if item.ndim == 4 else "image", item.shape

    def __call__(self, items: Sequence[Any]) -> list[Vector]:
        if isinstance(items[0], str):
            return self._texts(items)
        return self._videos(items) if items[0].ndim == 4 else self._images(items)

    def _length(self, text: str) -> int:
        """Return the tokens to which a text is padded, which follow from the text alone."""
        tokens = len(self._loaded.tokenizer(text, truncation=True, max_length=self._limit)["input_ids"])
        return min(self._limit, max(SHORTEST, 1 << (tokens - 1).bit_length()))

    def _texts(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts of one kind, truncated to the model's limit as in the authors' own code."""
        loaded = self._loaded
        inputs = loaded.tokenizer(
            list(texts),
            return_tensors="pt",
            padding="max_length",
            padding_side="right",  # absolute positions begin at a text's own first token
            truncation=True,
            max_length=max(map(self._length, texts)),
        ).to(loaded.device)
        encode = getattr(loaded.model, "get_text_features", None)
        mask = inputs["attention_mask"]
        if encode is not None:
            vectors = _pooled(encode(**inputs))
        else:
            states = loaded.model.base_model(**inputs).last_hidden_state
            vectors = self._pool(states.float(), mask[..., None].float())
        return self._vectors(vectors, mask.sum(1).tolist())

    def _images(self, images: Sequence[Array]) -> list[Vector]:
        loaded = self._loaded
        features = getattr(loaded.model, "get_image_features", None)
        if features is None or loaded.kind != "embedding":
            raise UserError(f"model {loaded.name!r} turns no images into vectors; choose one such as CLIP")
        inputs = loaded.processor.image_processor(list(images), return_tensors="pt", input_data_format="channels_last")
        pixels = inputs["pixel_values"].to(loaded.device, loaded.model.dtype)
        return self._vectors(_pooled(features(pixel_values=pixels)), [0] * len(images))

    def _videos(self, videos: Sequence[Array]) -> list[Vector]:
        """Embed videos by the frames that `spread` chooses. X-CLIP's vector of a text, which its classifier adapts to
        the video, is taken without that."""
        loaded = self._loaded
        features = getattr(loaded.model, "get_video_features", None)
        length = getattr(getattr(loaded.model.config, "vision_config", None), "num_frames", None)
        if features is None or length is None or loaded.kind != "embedding":
            raise UserError(f"model {loaded.name!r} turns no videos into vectors; choose one such as X-CLIP")
        prepare = loaded.processor.image_processor
        clips = [list(video[spread(len(video), length)]) for video in videos]
        pixels = torch.cat([prepare(frames, return_tensors="pt")["pixel_values"] for frames in clips])
        pixels = pixels.reshape(len(videos), length, *pixels.shape[-3:]).to(loaded.device, loaded.model.dtype)
        return self._vectors(_pooled(features(pixel_values=pixels)), [0] * len(videos))

    def _vectors(self, features: torch.Tensor, tokens: Sequence[int]) -> list[Vector]:
        features = features.float()
        if self._normalised:
            features = torch.nn.functional.normalize(features, dim=-1)
        values = features.cpu().numpy().astype(np.float32)
        return [Vector(value, int(count)) for value, count in zip(values, tokens, strict=True)]


def spread(frames: int, length: int) -> Array:
    """Return `length` indices of `frames` frames, evenly spread from the first to the last (choice).

    >>> spread(9, 3).tolist(), spread(2, 4).tolist()
    ([0, 4, 8], [0, 0, 1, 1])
    """
    return np.round(np.linspace(0, frames - 1, length)).astype(np.int64)


def _pooled(features: Any) -> torch.Tensor:
    pooled: torch.Tensor = getattr(features, "pooler_output", features)
    return pooled


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)


def _first(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


def _largest(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(mask == 0, -torch.inf).amax(1)


def _last_and_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    last = mask.squeeze(-1).sum(1).long().sub(1).clamp(min=0)  # texts are padded on the right
    return 0.5 * states[torch.arange(len(states), device=states.device), last] + 0.5 * _mean(states, mask)


POOLS: dict[str, Pool] = {"mean": _mean, "cls": _first, "max": _largest, "last_and_mean": _last_and_mean}
PUBLISHED = ("mean", "cls", "max")
"""Pools that sentence-transformers' files may name."""


def _pooling(source: Source) -> tuple[Pool, bool]:
    """Return the pooling in sentence-transformers' files, and whether vectors are scaled to length 1; the mean by
    default."""
    modules = _file(source, "modules.json")
    if modules is None:
        return _mean, False
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if unsupported := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise UserError(
            f"model {source.model!r} goes through {', '.join(unsupported)}, which is not supported; expected "
            f"Transformer, Pooling and perhaps Normalize in its modules.json"
        )
    pooling: dict[str, Any] = {}
    if "Pooling" in kinds:
        pooling = _file(source, f"{modules[kinds.index('Pooling')]['path']}/config.json") or {}
    named = pooling.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for name, chosen in pooling.items()
        if name.startswith("pooling_mode_") and chosen
    ]
    names = [named] if isinstance(named, str) else list(named or ["mean"])
    if len(names) != 1 or names[0] not in PUBLISHED:
        raise UserError(
            f"model {source.model!r} pools by {' and '.join(names)}; expected one of {', '.join(PUBLISHED)}"
        )
    return POOLS[names[0]], "Normalize" in kinds


def _longest(source: Source) -> int | None:
    """Return the tokens at which sentence-transformers truncates a text, or None if its file does not say."""
    limit = (_file(source, "sentence_bert_config.json") or {}).get("max_seq_length")
    return None if limit is None else int(limit)


def _file(source: Source, name: str) -> Any:
    """Return the content of a JSON file beside the weights, or None if there is no such file."""
    from transformers.utils import cached_file

    from guidebench.harness.models.backends import packages, recipes

    path = cached_file(
        packages.located(recipes.repository(source.model)),
        name,
        revision=source.revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if path is None else outside.read_document(Path(path))
