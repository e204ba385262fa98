"""Keys and values of the beginnings of prompts, kept across questions.

A prompt is computed in chunks of `CHUNK` tokens, each given the keys and values of those before it, so that the same
numbers come out whether a chunk was kept or is computed now: what a model answers depends on the prompt alone. Only
networks in which each layer attends to all tokens so far are computed so.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

CHUNK = 64
"""Tokens of a chunk (choice: large enough for products of matrices at full speed, small enough to share a prompt's
beginning with the next)."""
LIMIT = 2**29
"""Most bytes of kept keys and values (choice: 11,000 tokens of SmolLM2 135M)."""

Layers = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values [1, heads, tokens, width] of each layer."""


class Prefixes:
    """Computes the chunks of prompts, and keeps those that were used last."""

    def __init__(self, model: Any, limit: int = LIMIT) -> None:
        """`model`: a causal language model of transformers; `limit`: most bytes that are kept."""
        self._model, self._limit = model, limit
        self._chunks: OrderedDict[tuple[int, ...], Layers] = OrderedDict()
        """All tokens up to the end of a chunk -> the chunk's keys and values, the least recently used first."""
        self.bytes = 0

    def cache(self, tokens: Sequence[int]) -> tuple[DynamicCache | None, int]:
        """Return the cache of the leading chunks of a prompt, all but its last token at most, and the number of tokens
        that it holds; None for 0. Raise TypeError for a model whose layers do not all attend to all tokens."""
        if rotates_by_length(self._model.config):
            raise TypeError("positions are rotated by the length of the whole text, so its beginning cannot be kept")
        ends = range(CHUNK, len(tokens), CHUNK)
        keys = [tuple(tokens[:end]) for end in ends]
        count = 0
        while count < len(keys) and keys[count] in self._chunks:
            count += 1
        cache = self._joined([self._chunks[key] for key in keys[:count]])
        for key in reversed(keys[:count]):
            self._chunks.move_to_end(key)
        for number in range(count, len(keys)):
            places = torch.arange(number * CHUNK, (number + 1) * CHUNK, device=self._model.device)[None]
            ids = torch.tensor([tokens[number * CHUNK : (number + 1) * CHUNK]], device=self._model.device)
            cache = self._model(
                input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True, **last_logits(self._model, 1)
            ).past_key_values
            self._keep(keys[number], self._last_chunk(cache))
        for key in reversed(keys):  # a beginning outlives what follows it
            if key in self._chunks:
                self._chunks.move_to_end(key)
        return cache, len(keys) * CHUNK

    def _joined(self, chunks: Sequence[Layers]) -> DynamicCache | None:
        """Return the cache of consecutive chunks, None for no chunks."""
        if not chunks:
            return None
        return DynamicCache([
            tuple(torch.cat(tensors, dim=-2) for tensors in zip(*layer, strict=True))
            for layer in zip(*chunks, strict=True)
        ])  # fmt: skip

    def _last_chunk(self, cache: Any) -> Layers:
        """Return a copy of the keys and values of a cache's last chunk. Raise TypeError for another kind of cache."""
        layers = getattr(cache, "layers", ())
        if not layers or any(type(layer) is not DynamicLayer for layer in layers):
            raise TypeError(f"a cache of {type(cache).__name__} does not hold all tokens of each layer")
        return tuple((layer.keys[:, :, -CHUNK:].clone(), layer.values[:, :, -CHUNK:].clone()) for layer in layers)

    def _keep(self, key: tuple[int, ...], layers: Layers) -> None:
        """Keep a chunk, and drop those used least recently while there are too many bytes."""
        if (former := self._chunks.pop(key, None)) is not None:
            self.bytes -= _bytes(former)
        self._chunks[key] = layers
        self.bytes += _bytes(layers)
        while self.bytes > self._limit:
            self.bytes -= _bytes(self._chunks.popitem(last=False)[1])


def repeated(cache: Any, count: int) -> Any:
    """Return a copy of the cache of one text that holds the text in each of `count` rows. Layers of any kind can be
    reordered, while only those of attention can be repeated."""
    rows = copy.deepcopy(cache)
    rows.reorder_cache(torch.zeros(count, dtype=torch.long))
    return rows


def last_logits(model: Any, count: int) -> dict[str, int]:
    """Return the argument that limits a model's logits to those of the last tokens, if it has one; the output layer is
    a fifth of the work of a small model with many tokens."""
    return {"logits_to_keep": count} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def rotates_by_length(config: Any) -> bool:
    """Return whether a network rotates the positions of a text by factors that depend on the text's length."""
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    tables = [rope, *(table for table in rope.values() if isinstance(table, dict))]
    return any(table.get("rope_type") in ("dynamic", "longrope") for table in tables)


def _bytes(layers: Layers) -> int:
    return sum(tensor.nbytes for layer in layers for tensor in layer)
