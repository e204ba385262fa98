"""The chat `openai`: a language model behind an OpenAI-compatible server, hosted or one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.models.access import Served, Writing
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.chat("openai")
@dataclass(frozen=True)
class OpenAI(Served, Writing):
    """Puts questions to a served language model and takes its words for an answer."""

    model: str = "gpt-4o-mini"
    """Recipe, or the name by which the server knows it (RL-SaLLM-F, §6.2: gpt-4o-mini-2024-07-18, which the recipe
    means)."""
    detail: Literal["low", "high", "auto"] = "low"
    """How closely a hosted model looks at a frame, by which it is priced; other servers ignore it (choice: drawn frames
    are small)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a language model behind a server"
    section: ClassVar[str] = "chat"

    def ready(self) -> None:
        """UserError for a missing package, key or address; nothing is asked."""
        try:
            super().ready()
        except UserError as error:
            raise UserError(
                f"chat 'openai' ({self.model}) cannot be asked: {error}; or choose chat=transformers, a model that "
                f"runs here, or, for teacher=llm, chat=scripted, hand-written, which needs neither key nor weights"
            ) from None

    def spawn_model(self, device: str) -> Model:
        """The model, wherever it runs: `device` is none of its business. UserError for a missing package, key or
        address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        return OpenAIModel(self.model, self.server(), detail=self.detail, prices=self.prices())
