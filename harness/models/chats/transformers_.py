"""The chat `transformers`: a language model on this machine, named by recipe, repository id or local path."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from guidebench.harness.extras import missing
from guidebench.harness.models.access import Local, Writing
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.models.reasoning import Reasoning
from guidebench.harness.parts import SCHEMA
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.chat("transformers")
@dataclass(frozen=True)
class Transformers(Local, Choosing, Reasoning, Writing):
    """Asks a language model that runs on this machine and returns its text as the answer, or how likely it says each of
    some candidates."""

    model: str = "qwen2_5_vl_7b"
    """Recipe, repository id, `package:NAME` or local path; the weights must be safetensors or GGUF (choice: small,
    free, accepts frames too)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null means its main branch (choice)."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Precision of weights and computation. auto means that of the model's recipe: float32 below a billion parameters,
    bfloat16 above; of a model without a recipe the files here tell the number, else recorded calls tell the precision,
    else it is bfloat16 (choice: most models are published in bfloat16, in which many CPUs are slow)."""
    trust_remote_code: bool = False
    """Whether code from the repository may run on this machine with your full permissions (choice: only on request)."""

    constrains: ClassVar[bool] = True
    answers: ClassVar[tuple[str, ...]] = (*Local.answers, "choice")
    version: ClassVar[int] = 1
    title: ClassVar[str] = "a language model that runs here"

    def ready(self) -> None:
        """Raise UserError as `Local.ready` does, and for a missing package of `answer=schema`."""
        super().ready()
        if self.answer == SCHEMA and importlib.util.find_spec("llguidance") is None:
            raise missing("chat=transformers with answer=schema needs the package llguidance", "tiny")

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; `device` is the worker's. Raise UserError for a missing package, unknown model or
        device."""
        from guidebench.harness.models.backends.transformers_.loaded_model import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        dtype: Any = self.resolved().dtype
        source = Source(self.model, self.revision, dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, batch_size=self.batch_size, thinking=self.thinking)
