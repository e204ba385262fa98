"""The specification of a model to load, and a loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from guidebench.harness.models.backends.recipes import Dtype

Kind = Literal["vision", "text", "embedding"]
"""Whether a model generates text from images and text, generates text from text only, or only embeds."""


PoolName = Literal["auto", "mean", "last_and_mean"]


@dataclass(frozen=True)
class Source:
    """Weights to load, with precision and device."""

    model: str
    """Recipe, repository id or local path."""
    revision: str | None = None
    dtype: Dtype = "bfloat16"
    device: str = "cpu"
    trust_remote_code: bool = False
    pool: PoolName = "auto"
    """How hidden states of a text become its vector; `auto`: as the files beside the weights say, else their mean."""
    text_tokens: int | None = None
    """Tokens after which a text to embed is cut off; None means the model's own limit."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode on its device, and its input processor."""

    name: str
    kind: Kind
    model: Any
    processor: Any
    """Processor of texts and images; a text model's tokenizer; None for a single-file model, which prepares its own
    input."""

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processor, "tokenizer", self.processor)

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def context(self) -> int | None:
        """Context length in tokens, or None if the model does not state it."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)
