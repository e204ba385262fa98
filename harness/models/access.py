"""How a foundation model is reached and made to write: settings that judges, chats and embedders have in common.

Which class a configuration inherits says what stands behind it: a server (`Served`) or weights that run here (`Local`);
all their fields but `model` are `Transport`. `Writing` is what every chat has besides.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Call, ChatCall
from guidebench.harness.parts import ModelPart, There
from guidebench.harness.settings import Bounds, Transport, Unit, Variable

if TYPE_CHECKING:
    from guidebench.harness.models.backends.openai_.model import Prices
    from guidebench.harness.models.backends.openai_.server import Server
    from guidebench.harness.models.desk import Policy


@dataclass(frozen=True, kw_only=True)
class Served(ModelPart):
    """A model behind an OpenAI-compatible server, hosted or one's own."""

    model: str = ""
    """Recipe, or the name by which the server knows it."""
    base_url: Annotated[str | None, Transport] = None
    """Where the server is, http://localhost:8000/v1; null is the environment's OPENAI_BASE_URL, or else OpenAI's own
    (choice)."""
    key_variable: Annotated[str, Variable, Transport] = "OPENAI_API_KEY"
    """Environment variable that holds the server's key, if it has one; the key itself is written nowhere (choice)."""
    price_in: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """For what the model reads; null is its recipe's price (choice)."""
    price_out: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """For what the model writes; null is its recipe's price (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 8
    """Calls sent to the server at a time, by each worker (choice: a hosted model's latency hidden, few limits met)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 60.0
    """How long the server may take for one call (choice)."""
    attempts: Annotated[int, Bounds(1), Transport] = 4
    """Times that a call is made before it counts as failed (choice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("openai.bib")
    backend: ClassVar[str] = "openai"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed")
    privileged: ClassVar[bool] = False
    section: ClassVar[str] = "judge"

    def server(self) -> Server:
        """UserError for a missing package, key or address; nothing is asked."""
        from guidebench.harness.models.backends.openai_.server import Server

        return Server(self.base_url, self.key_variable, self.timeout, self.section)

    def prices(self) -> Prices:
        from guidebench.harness.models.backends.openai_.model import Prices

        return Prices(self.price_in, self.price_out)

    def ready(self) -> None:
        """UserError for a missing package, key or address; nothing is asked."""
        self.server()

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


@dataclass(frozen=True, kw_only=True)
class Local(ModelPart):
    """A model of the transformers library that runs here."""

    model: str = ""
    """Recipe, repository id or local path; weights are safetensors."""
    device: Annotated[str | None, Transport] = None
    """Where it runs: cpu, cuda, cuda:1, …; null is the worker's own device (choice)."""
    batch_size: Annotated[int | None, Bounds(1), Unit("calls"), Transport] = None
    """The most calls computed together; null finds what fits into memory (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 64
    """Calls sent to it at a time, of which batches are made (choice: as many as the largest batch)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 600.0
    """How long one call may take, its place in the queue included (choice: ample for a large model on a CPU)."""
    attempts: Annotated[int, Bounds(1), Transport] = 2
    """Times that a call is made before it counts as failed (choice: a local model fails alike twice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("transformers.bib")
    backend: ClassVar[str] = "transformers"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed")
    privileged: ClassVar[bool] = False

    def ready(self) -> None:
        """UserError for a missing package, or files that are not on this machine; nothing is loaded or downloaded."""
        from guidebench.harness.models.backends.transformers_.loading import check

        check(self.model, getattr(self, "revision", None))

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


@dataclass(frozen=True, kw_only=True)
class Writing(ModelPart):
    """A chat: how it writes, and when what it wrote counts."""

    model: str = ""
    """Recipe, or another name of a model."""
    temperature: Annotated[float, Bounds(0)] = 0.0
    """Of sampling; 0 always writes what is likeliest, and only then are equal questions asked once (RL-SaLLM-F's
    released code)."""
    max_tokens: Annotated[int, Bounds(1), Unit("tokens")] = 1000
    """The most that it writes in an answer (RL-SaLLM-F's released code)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer; with 1 training waits for each, and a budget stops a run
    before the step that lacks one; null applies answers on arrival, which is not reproducible (choice: as good as none
    beside the 5,000 steps between the paper's sessions)."""

    def sampled(self, call: Call) -> Call:
        """The call as this chat is to answer it; those that are no chats as they stand."""
        if not isinstance(call, ChatCall):
            return call
        return dataclasses.replace(call, max_tokens=self.max_tokens, temperature=self.temperature)

    def fits(self, there: There) -> str:
        """Why this chat cannot answer there, or ""."""
        found = recipes.recipe(self.model)
        if found is None or "chat" in found.calls:
            return ""
        return f"its model {self.model!r} ({found.title}) answers no chats; choose another chat.model"
