"""The embedder `transformers` for texts alone: the role `text_embedder` means it by `text_embedder=transformers`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness import outside
from guidebench.harness.errors import UserError
from guidebench.harness.models.embedders.transformers_ import Transformers
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model

WIDTHS = ("hidden_size", "n_embd", "d_model")
"""Names under which configurations of text models give the width of their hidden states."""


@register.embedder("transformers_text_embedder")
@dataclass(frozen=True)
class TextTransformers(Transformers):
    """Turns texts into vectors on this machine, pooled and cut off as a part or a command chooses; `text_embedder=
    transformers` means it."""

    model: str = "sbert"
    """Recipe, repository id or local path; the weights must be safetensors (ELLM, released code: paraphrase-MiniLM-L3;
    LaGEA's methods choose GPT-2)."""
    pool: Literal["auto", "mean", "last_and_mean"] = "auto"
    """How the last hidden states of a text become its vector. `auto`: as files of sentence-transformers beside the
    weights say, and without such files, as for GPT-2, their mean. `last_and_mean`: half the last token's plus half the
    mean (choice; last_and_mean: LaGEA, released code)."""
    text_tokens: Annotated[int | None, Bounds(1), Unit("tokens")] = None
    """Tokens after which a text is cut off; null means the model's own limit (choice; 128: LaGEA, released code)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a model of texts that runs here"

    def dimensions(self) -> int | None:
        """Return the width that the model's recipe states, or that of the hidden states of a model in a local
        directory, by its config.json; None where neither tells it."""
        width = super().dimensions()
        return hidden_size(Path(self.model) / "config.json") if width is None else width

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; errors as for the embedder transformers."""
        from guidebench.harness.models.backends.transformers_.loaded_model import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        source = Source(
            self.model, self.revision, self.dtype, self.device or device, self.trust_remote_code, self.pool,
            self.text_tokens,
        )  # fmt: skip
        return TransformersModel(source, batch_size=self.batch_size)


def hidden_size(file: Path) -> int | None:
    """Return the width of the hidden states by a model's config.json; None for a missing or unknown file, and for a
    model with vectors of texts of its own, such as CLIP."""
    if not file.is_file():
        return None
    try:
        content = outside.read_document(file)
    except UserError:
        return None
    if not isinstance(content, dict) or "projection_dim" in content:
        return None
    widths = (content.get(name) for name in WIDTHS)
    return next((width for width in widths if type(width) is int and width > 0), None)
