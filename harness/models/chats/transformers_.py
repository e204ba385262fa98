"""The chat `transformers`: a language model that runs here, by recipe, repository id or local path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from guidebench.harness.models.access import Local, Writing
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.chat("transformers")
@dataclass(frozen=True)
class Transformers(Local, Writing):
    """Puts questions to a language model that runs here and takes its words for an answer."""

    model: str = "qwen2_5_vl_7b"
    """Recipe, repository id or local path; weights are safetensors (choice: small, free, reads frames too)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null is its main branch (choice)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Of weights and computation (choice: as most models are published)."""
    trust_remote_code: bool = False
    """Whether code that comes with the repository may run here, with all your rights (choice: never unasked)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a language model that runs here"

    def spawn_model(self, device: str) -> Model:
        """The model, loaded; `device` is the worker's. UserError for a missing package, an unknown model or device."""
        from guidebench.harness.models.backends.transformers_.loaded import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        source = Source(self.model, self.revision, self.dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, batch_size=self.batch_size)
