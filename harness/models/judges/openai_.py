"""The judge `openai`: a vision-language model behind an OpenAI-compatible server, hosted or one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models.access import Served
from guidebench.harness.parts import There
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.judge("openai")
@dataclass(frozen=True)
class OpenAI(Served):
    """Asks a served vision-language model about each clip: P(yes) is the share of yes among the yes and no that it
    would say, or what it says where the server tells no log-probabilities."""

    model: str = "gpt-4o-mini"
    """Recipe, or the name by which the server knows it (choice: a paper's model with log-probabilities, by price)."""
    prompt: Annotated[str, Text] = ""
    """What is asked about a clip; a suite's own stands in its layer, and an empty one cannot judge (choice)."""
    scoring: Literal["prefill", "logprobs", "literal"] = "logprobs"
    """Where yes and no are read: prefill scores what follows "Answer:", of servers that continue a final message
    (vLLM); logprobs the first yes or no that the model says by itself; literal takes its text for 1 or 0, which any
    server can serve (choice: hosted servers continue no message)."""
    detail: Literal["low", "high", "auto"] = "low"
    """How closely a hosted model looks at a frame, by which it is priced; other servers ignore it (choice: drawn frames
    are small)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the judge transformers, so that only the answers differ)."""

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a vision-language model behind a server"

    def fits(self, there: There) -> str:
        """Why this judge cannot answer there, or ""."""
        if self.prompt:
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def spawn_model(self, device: str) -> Model:
        """The model, wherever it runs: `device` is none of its business. UserError for a missing package, key or
        address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        return OpenAIModel(self.model, self.server(), self.scoring, self.detail, self.prices())
