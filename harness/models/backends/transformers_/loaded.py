"""Which model to load, and a model that is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["vision", "text", "embedding"]
"""Answers about images and texts, about texts alone, or not at all: it only embeds."""


Dtype = Literal["bfloat16", "float16", "float32"]


@dataclass(frozen=True)
class Source:
    """Which weights, and how they are held."""

    model: str
    """Recipe, repository id or local path."""
    revision: str | None = None
    dtype: Dtype = "bfloat16"
    device: str = "cpu"
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode on its device, and what prepares its input."""

    name: str
    kind: Kind
    model: Any
    processor: Any
    """Of texts and images; of a text model, its tokenizer; None for a single file, whose model prepares its own."""

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processor, "tokenizer", self.processor)

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def context(self) -> int | None:
        """Tokens that it can read, where it says so."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)
