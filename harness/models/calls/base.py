"""What every kind of call has in common: what it is, what its answer took, how it can fail, and who answers.

A `Model` answers any number of calls at a time; what stands between it and who asks (the cassette, retries, the budget)
is `guidebench.harness.models.desk`.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.types import Array

Json = Any
"""What JSON can hold."""
FailureKind = Literal[
    "timeout", "rate_limited", "server", "connection", "malformed", "refused", "empty", "rejected", "memory", "crashed",
    "breaker",
]  # fmt: skip
RETRYABLE = frozenset(("timeout", "rate_limited", "server", "connection", "malformed", "empty"))
"""Kinds of failure of which another attempt may not be one."""
Shown = Sequence[tuple[str, Sequence[Json]]]
"""What a page shows of a call: a heading, and texts and images, {"image": digest}, below it."""


class Call(ABC):
    """A call to a foundation model: what is asked, what counts as an answer, and how both are written down.

    A kind of call is a frozen dataclass below `@register.call("name")`, and `kind` is that name. The canonical form is
    what the key of a recorded call hashes; a cassette keeps it, and a stranger's is read back with `read` before an
    answer in it counts. The same `fault` decides of an answer that a model just gave and of one that is on record.
    """

    kind: ClassVar[str]
    tolerance: ClassVar[float] = 0.0
    """The largest `distance` of two answers that agree: another processor, batch or precision moves them by less."""
    measure: ClassVar[str] = "difference"
    """What `distance` measures, in words."""
    array: ClassVar[Form | None] = None
    """What its answers are where they are arrays, whose bytes a cassette keeps as they are; None where `encode` says
    how they are written down."""

    @abstractmethod
    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        """The canonical form: all that can change the answer, as JSON can hold it, each image as `named` has it. The
        names `kind`, `model` and `asker` are not its to give."""

    @classmethod
    @abstractmethod
    def read(cls, asked: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        """The call that has a canonical form; `image` has the image of a digest. A stranger may have written the form:
        ValueError, KeyError or TypeError for one that is none."""

    @classmethod
    @abstractmethod
    def small(cls) -> Self:
        """A call that any model of this kind answers quickly: it shows that the model is there."""

    @abstractmethod
    def images(self) -> Sequence[Array]:
        """The images of the call, uint8 [height, width, 3], in order."""

    @abstractmethod
    def fault(self, value: Any) -> str:
        """What is wrong with an answer, of any type, or ""; decides in bounded time."""

    @classmethod
    def encode(cls, value: Any) -> Json:
        """An answer without fault as JSON can hold it."""
        return value

    @classmethod
    def decode(cls, stored: Json) -> Any:
        """The answer that `encode` was given, equal to it in type and content; ValueError for what it never wrote."""
        return stored

    @property
    def sampled(self) -> bool:
        """Whether equal calls may have different answers. Such calls belong to who asks, and are never asked once for
        several askers."""
        return False

    def distance(self, recorded: Any, now: Any) -> float:
        """How far two answers are from each other; infinite where they cannot be compared."""
        return 0.0 if recorded == now else math.inf

    def answered_by(self, code: Callable[..., Any]) -> Any:
        """The answer of hand-written code, which is told what the call asks and nothing else."""
        return code(self)

    @classmethod
    def shown(cls, asked: Mapping[str, Json]) -> Shown:
        """What a page shows of a canonical form."""
        fields = {name: value for name, value in asked.items() if name not in ("kind", "model", "asker")}
        return [
            (name, [_part(each) for each in (value if isinstance(value, list) else [value])])
            for name, value in fields.items()
        ]

    @classmethod
    def words(cls, value: Any) -> str:
        """An answer in words."""
        if cls.array is not None:
            return f"{cls.array.dtype} {[*value.shape]}"
        return json.dumps(cls.encode(value))


def part(given: Json, image: Callable[[str], Array]) -> str | Array:
    """A text, or the image that stands in a canonical form as {"image": digest}; ValueError for anything else."""
    match given:
        case str():
            return given
        case {"image": str(digest), **rest} if not rest:
            return image(digest)
    raise ValueError(f"{str(given)[:80]!r} is neither a text nor an image")


def _part(given: Json) -> Json:
    """Of a canonical form, as a text or an image to be shown."""
    if isinstance(given, str) or (isinstance(given, dict) and [*given] == ["image"]):
        return given
    return json.dumps(given)


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


class Reply(NamedTuple):
    """A model's answer."""

    value: Any
    """What the kind of call is answered with; one that its `fault` objects to is a failed call."""
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


class CallResult(NamedTuple):
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
    """Who asks: the run, `CELL/SEED`, and the how-manieth question of that run in a role and a scope it is, with its
    environment step."""

    run: str
    ordinal: int
    step: int
    role: str = ""
    """The role of the model that is asked; "" where nothing but a run's own order tells questions apart."""
    scope: str = ""
    """Within what the question was put: "" for training, `evaluation/STEP/EPISODE`, `eval/SEED/EPISODE`."""
