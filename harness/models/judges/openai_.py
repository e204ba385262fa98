"""The judge `openai`: a vision-language model behind an OpenAI-compatible server, hosted or self-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models.access import Served
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.judge("openai")
@dataclass(frozen=True)
class OpenAI(Served):
    """Asks a served vision-language model about each clip. P(yes) is the probability of yes divided by that of yes or
    no, or 0 or 1 from the text of the answer where the server returns no log-probabilities."""

    model: str = "gpt-4o-mini"
    """Recipe, or the server's name of the model (choice: the cheapest model with log-probabilities that a paper
    uses)."""
    prompt: Annotated[str, Text] = ""
    """Question about each clip. A suite's configuration layer sets its own; with an empty prompt the judge cannot run
    (choice)."""
    scoring: Literal["prefill", "logprobs", "literal"] = "logprobs"
    """How yes and no are read. prefill scores the token after "Answer:" and needs a server that continues a final
    message (vLLM); logprobs scores the first yes or no in the generated text; literal maps the text to 1 or 0 and works
    with any server (choice: hosted servers do not continue a message)."""
    detail: Literal["low", "high", "auto"] = "low"
    """Image resolution that a hosted model uses and charges for; other servers ignore it (choice: rendered frames are
    small)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: equal to the judge transformers, so that only the answers differ)."""

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a vision-language model behind a server"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if self.prompt or view.worded(self):
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def spawn_model(self, device: str) -> Model:
        """Return the model. `device` is ignored, since the server computes. Raise UserError for a missing package, key
        or address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        return OpenAIModel(self.model, self.server(), self.scoring, self.detail, self.prices())
