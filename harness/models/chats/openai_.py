"""The chat `openai`: a language model behind an OpenAI-compatible server, hosted or self-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.models.access import Served, Writing
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.chat("openai")
@dataclass(frozen=True)
class OpenAI(Served, Choosing, Writing):
    """Asks a served language model and returns its text as the answer."""

    model: str = "gpt-4o-mini"
    """Recipe, or the server's name of the model (RL-SaLLM-F, §6.2: gpt-4o-mini-2024-07-18, to which the recipe
    resolves)."""
    detail: Literal["low", "high", "auto"] = "low"
    """Image resolution that a hosted model uses and charges for; other servers ignore it (choice: rendered frames are
    small)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a language model behind a server"
    section: ClassVar[str] = "chat"

    def ready(self) -> None:
        """Raise UserError for a missing package, key or address. Sends no call."""
        try:
            super().ready()
        except UserError as error:
            raise UserError(
                f"chat 'openai' ({self.model}) cannot be asked: {error}; or choose chat=transformers, a model that "
                f"runs here, or, for teacher=llm, chat=scripted, hand-written, which needs neither key nor weights"
            ) from None

    def spawn_model(self, device: str) -> Model:
        """Return the model. `device` is ignored, since the server computes. Raise UserError for a missing package, key
        or address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        return OpenAIModel(self.model, self.server(), detail=self.detail, prices=self.prices())
