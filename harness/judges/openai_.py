"""The judge `openai`: a vision-language model behind an OpenAI-compatible server, hosted or one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from harness.interfaces import Suite
from harness.registry import register
from harness.settings import Bounds, Text, Transport, Unit

if TYPE_CHECKING:
    from harness.foundation.calls import Model
    from harness.foundation.desk import Policy


@register.judge("openai")
@dataclass(frozen=True)
class OpenAI:
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
    base_url: Annotated[str | None, Transport] = None
    """Where the server is, http://localhost:8000/v1; null is the environment's OPENAI_BASE_URL, or else OpenAI's own
    (choice)."""
    key_variable: Annotated[str, Transport] = "OPENAI_API_KEY"
    """Environment variable that holds the server's key, if it has one; the key itself is written nowhere (choice)."""
    price_in: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """For what the model reads; null is its recipe's price (choice)."""
    price_out: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """For what the model writes; null is its recipe's price (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("clips"), Transport] = 8
    """Clips sent to the server at a time, by each worker (choice: a hosted model's latency hidden, few limits met)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 60.0
    """How long the server may take for one clip (choice)."""
    attempts: Annotated[int, Bounds(1), Transport] = 4
    """Times that a clip is asked about before it counts as failed (choice)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = """@misc{openai2026python,
  title = {The official {Python} library for the {OpenAI} {API}},
  author = {{OpenAI}},
  year = {2026},
  note = {Python package openai}
}"""
    backend: ClassVar[str] = "openai"
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "a vision-language model behind a server"

    def fits(self, suite: Suite) -> str:
        """Why this judge cannot answer there, or ""."""
        if self.prompt:
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def ready(self) -> None:
        """UserError for a missing package, key or address; nothing is asked."""
        from harness.foundation.backends.openai_.server import Server

        Server(self.base_url, self.key_variable, self.timeout)

    def spawn_model(self, device: str) -> Model:
        """The model, wherever it runs: `device` is none of its business. UserError for a missing package, key or
        address."""
        from harness.foundation.backends.openai_.model import OpenAIModel, Prices
        from harness.foundation.backends.openai_.server import Server

        server = Server(self.base_url, self.key_variable, self.timeout)
        return OpenAIModel(self.model, server, self.scoring, self.detail, Prices(self.price_in, self.price_out))

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from harness.foundation.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)
