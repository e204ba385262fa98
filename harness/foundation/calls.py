"""The calls to a foundation model, as data: what is asked, what is answered, what that took, how it can fail.

There are three: a clip is judged, a chat is answered, images or texts are embedded. A `Model` answers any number of
them at a time; what stands between it and who asks (the cassette, retries, the budget) is
`guidebench.harness.foundation.desk`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from guidebench.harness.foundation import schemas
from guidebench.harness.interfaces import Array

Json = Any
"""What JSON can hold."""
FailureKind = Literal[
    "timeout", "rate_limited", "server", "connection", "malformed", "refused", "empty", "rejected", "memory", "crashed",
    "breaker",
]  # fmt: skip
RETRYABLE = frozenset(("timeout", "rate_limited", "server", "connection", "malformed", "empty"))
"""Kinds of failure of which another attempt may not be one."""


@dataclass(frozen=True, eq=False)
class JudgeCall:
    """How likely does a clip show what the prompt asks for?"""

    clip: Array
    """uint8 [L, height, width, 3], padded to its full length."""
    prompt: str


class Message(NamedTuple):
    """What one side says: texts and images, uint8 [height, width, 3], in order."""

    role: Literal["system", "user", "assistant"]
    content: tuple[str | Array, ...]


@dataclass(frozen=True, eq=False)
class ChatCall:
    """A chat to be continued, as free text or, with a JSON schema, as an object that fits it; ValueError for a schema
    with other keywords than those of `guidebench.harness.foundation.schemas`."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] | None = None
    max_tokens: int = 1024
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.schema is not None:
            schemas.check(self.schema)


@dataclass(frozen=True, eq=False)
class EmbedCall:
    """Texts, or images uint8 [height, width, 3], to be turned into one vector each."""

    items: tuple[str, ...] | tuple[Array, ...]


Call = JudgeCall | ChatCall | EmbedCall


class Usage(NamedTuple):
    """What calls took; usages add up field by field with `plus`."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    images: int = 0
    seconds: float = 0.0
    """Of the model's own time, or of the server's until it answered; waiting in our queues is left out."""
    usd: float = 0.0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.images + other.images,
            self.seconds + other.seconds,
            self.usd + other.usd,
        )


ONE_CALL = Usage(calls=1)


CUT_OFF: Mapping[str, float | str] = {"cut_off": 1.0}


class Reply(NamedTuple):
    """A model's answer."""

    value: Any
    """judge: P(yes), in [0, 1]; chat: text, or the object that fits the schema; embed: float32 [n, d]."""
    usage: Usage = ONE_CALL
    detail: Mapping[str, float | str] = {}
    """What a diagnosis may want to know: `mass`, the probability of yes and no together; `served_by`, the model that a
    server claims to be; `cut_off`, 1 for a text that the limit of tokens ended."""


class Failure(Exception):
    """A call that got no usable answer; its message says what came instead, keys and headers left out."""

    def __init__(
        self, kind: FailureKind, message: str, usage: Usage = ONE_CALL, retry_after: float | None = None
    ) -> None:
        """`usage`: what the attempt took all the same; `retry_after`: seconds that the server asks to wait."""
        super().__init__(message)
        self.kind, self.usage, self.retry_after = kind, usage, retry_after


class Model(Protocol):
    """One foundation model behind one backend, in the model process. Calls run concurrently; it batches them itself."""

    async def answer(self, call: Call) -> Reply:
        """One attempt; Failure where there is no usable answer. Never blocks the event loop for long: computing goes
        to a thread."""

    def estimate(self, call: Call) -> Usage:
        """The most that an attempt can take, for the budget."""

    async def close(self) -> None: ...


class Told(NamedTuple):
    """What became of a call: a reply, from the model or the cassette, or the failure that remained after retries."""

    value: Any
    """As in Reply; None for a failure."""
    failure: FailureKind | Literal[""] = ""
    usage: Usage = Usage()
    """Would-be: as if nothing had been cached. Of a failure, all its attempts."""
    billed: Usage = Usage()
    """What was really asked of the model for it, attempts that failed included; nothing for a cached answer."""
    detail: Mapping[str, float | str] = {}


class Asker(NamedTuple):
    """Who asks: the run, `CELL/SEED`, and the how-manieth question of that run it is, with its environment step."""

    run: str
    ordinal: int
    step: int


def images_of(call: Call) -> Sequence[Array]:
    """The images of a call, in order."""
    if isinstance(call, JudgeCall):
        return list(call.clip)
    if isinstance(call, ChatCall):
        return [part for message in call.messages for part in message.content if not isinstance(part, str)]
    return [item for item in call.items if not isinstance(item, str)]
