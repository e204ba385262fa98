"""Settings that judges, chats and embedders share: how a foundation model is reached and how it generates text.

A configuration inherits `Served` for a model behind a server and `Local` for weights that run on this machine; all
their fields but `model` are `Transport`. Every chat also inherits `Writing`.
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
    """A model behind an OpenAI-compatible server, hosted or self-run."""

    model: str = ""
    """Recipe, or the server's name of the model."""
    base_url: Annotated[str | None, Transport] = None
    """Address of the server, such as http://localhost:8000/v1; null means the environment's OPENAI_BASE_URL, or else
    OpenAI's own server (choice)."""
    key_variable: Annotated[str, Variable, Transport] = "OPENAI_API_KEY"
    """Environment variable that holds the server's API key, if it needs one; the key itself is never written
    (choice)."""
    price_in: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """Price of input tokens; null means the recipe's price (choice)."""
    price_out: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """Price of output tokens; null means the recipe's price (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 8
    """Concurrent calls to the server per worker (choice: hides a hosted model's latency and rarely hits rate
    limits)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 60.0
    """Timeout of one call (choice)."""
    attempts: Annotated[int, Bounds(1), Transport] = 4
    """Attempts per call before it counts as failed (choice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("openai.bib")
    backend: ClassVar[str] = "openai"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed")
    privileged: ClassVar[bool] = False
    section: ClassVar[str] = "judge"

    def server(self) -> Server:
        """Return the server's client; raise UserError for a missing package, key or address. Sends no call."""
        from guidebench.harness.models.backends.openai_.server import Server

        return Server(self.base_url, self.key_variable, self.timeout, self.section)

    def prices(self) -> Prices:
        """Return the configured prices per million tokens."""
        from guidebench.harness.models.backends.openai_.model import Prices

        return Prices(self.price_in, self.price_out)

    def ready(self) -> None:
        """Raise UserError for a missing package, key or address. Sends no call."""
        self.server()

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


@dataclass(frozen=True, kw_only=True)
class Local(ModelPart):
    """A model of the transformers library that runs on this machine."""

    model: str = ""
    """Recipe, repository id or local path; the weights must be safetensors."""
    device: Annotated[str | None, Transport] = None
    """Device of the model: cpu, cuda, cuda:1, …, one of the command's GPUs if workers share the model; null means the
    worker's own device (choice)."""
    batch_size: Annotated[int | None, Bounds(1), Unit("calls"), Transport] = None
    """Largest batch of calls computed together; null finds the largest that fits into memory (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 64
    """Concurrent calls from which batches are formed (choice: as many as the largest batch)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 600.0
    """Timeout of one call, including its time in the queue (choice: ample for a large model on a CPU)."""
    attempts: Annotated[int, Bounds(1), Transport] = 2
    """Attempts per call before it counts as failed (choice: a local model fails deterministically, so two suffice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("transformers.bib")
    backend: ClassVar[str] = "transformers"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed", "video")
    privileged: ClassVar[bool] = False

    def ready(self) -> None:
        """Raise UserError for a missing package or files that are not on this machine; load and download nothing."""
        from guidebench.harness.models.backends.transformers_.loading import check

        check(self.model, getattr(self, "revision", None))

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


@dataclass(frozen=True, kw_only=True)
class Writing(ModelPart):
    """Sampling settings of a chat, and the delay until its answer is used."""

    model: str = ""
    """Recipe, or another name of the model."""
    temperature: Annotated[float, Bounds(0)] = 0.0
    """Sampling temperature; 0 decodes greedily, and only then is an answer shared between equal questions (RL-SaLLM-F's
    released code)."""
    max_tokens: Annotated[int, Bounds(1), Unit("tokens")] = 1000
    """Most tokens in one answer (RL-SaLLM-F's released code)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer. With 1, training waits for every answer, and a spent budget
    stops the run before the step that lacks one; null applies answers on arrival, which is not reproducible (choice:
    negligible beside the 5,000 steps between the paper's sessions)."""

    def sampled(self, call: Call) -> Call:
        """Return a chat call with this chat's sampling settings; return other kinds of call unchanged."""
        if not isinstance(call, ChatCall):
            return call
        return dataclasses.replace(call, max_tokens=self.max_tokens, temperature=self.temperature)

    def fits(self, there: There) -> str:
        """Return why this chat cannot be used in the given cell, or ""."""
        found = recipes.recipe(self.model)
        if found is None or "chat" in found.calls:
            return ""
        return f"its model {self.model!r} ({found.title}) answers no chats; choose another chat.model"
