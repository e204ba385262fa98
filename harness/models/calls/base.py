"""The types on a question's way to its answer, except the question itself: ticket, call, reply and answer.

The key of a recorded call is the SHA-256 of a canonical JSON text, which is stored with the answer so that anyone can
verify the key. It holds everything that can change the answer and nothing else; images are in it as digests.

A `Model` answers any number of calls concurrently. `guidebench.harness.models.desk` puts the cassette, retries and the
budget between callers and the model.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.records.answers import AnswerRecord
from guidebench.harness.types import Array

Json = Any
"""Any value that JSON can represent."""
FailureKind = Literal[
    "timeout", "rate_limited", "server", "connection", "malformed", "refused", "empty", "rejected", "memory", "crashed",
    "breaker",
]  # fmt: skip
RETRYABLE = frozenset(("timeout", "rate_limited", "server", "connection", "malformed", "empty"))
"""Kinds of failure after which another attempt may succeed; `malformed` only of a call that is sampled."""
CallSections = Sequence[tuple[str, Sequence[Json]]]
"""Sections of a call on a web page: a heading, and the texts and images, {"image": digest}, below it."""


DIGEST = 40
"""Hexadecimal digits of an image's digest: 160 bits."""
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=dict)


class Call(ABC):
    """A call to a foundation model: its content, the check of its answer, and the encoding of both.

    A kind of call is a frozen dataclass below `@register.call("name")`, and `kind` is that name. The canonical form is
    hashed into the key of a recorded call and stored in the cassette. An imported cassette is untrusted: `read` must
    rebuild the call from the form before an answer in it counts. The same `fault` checks new answers and recorded ones.
    """

    kind: ClassVar[str]
    tolerance: ClassVar[float] = 0.0
    """Largest `distance` between answers that count as equal; another processor, batch or precision stays below it."""
    measure: ClassVar[str] = "difference"
    """Name of the quantity that `distance` measures."""
    array: ClassVar[Form | None] = None
    """Form of answers that are arrays, whose raw bytes a cassette keeps; None if `encode` turns answers into JSON."""

    @abstractmethod
    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        """Return the canonical form: everything in the call that can change the answer, as JSON, each image replaced by
        `named(image)`. The names `kind`, `model` and `asker` are reserved."""

    def request(self, identity: Mapping[str, Any], ticket: Ticket | None) -> Request:
        """Return the recorded form of this call to a model; `identity` holds exactly the settings that can change the
        model's answers.

        The key of a sampled call includes the ticket, so that equal questions of two runs, in two roles, or repeated in
        one run are answered independently.
        """
        images: dict[str, Array] = {}

        def reference(image: Array) -> dict[str, str]:
            digest = image_digest(image)
            images[digest] = image
            return {"image": digest}

        form: dict[str, Any] = dict(**self.form(reference), kind=self.kind, model=identity)
        if self.sampled and ticket is not None:
            form["asker"] = [ticket.run, ticket.role, ticket.scope, ticket.ordinal]
        text = CANONICAL.encode(form)
        return Request(key_of(text), text, images, self)

    @classmethod
    @abstractmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        """Return the call with a canonical form; `image` maps a digest to its image. The form is untrusted: raise
        ValueError, KeyError or TypeError if it is invalid."""

    @classmethod
    @abstractmethod
    def small(cls) -> Self:
        """Return a call that any model of this kind answers quickly, to check that the model responds."""

    @classmethod
    def small_fault(cls, answer: Any) -> str:
        """Return why a valid answer to `small()` shows that the model does not compute what this kind of call asks for,
        or ""."""
        return ""

    @abstractmethod
    def images(self) -> Sequence[Array]:
        """Return the images of the call, uint8 [height, width, 3], in order."""

    @abstractmethod
    def fault(self, value: Any) -> str:
        """Return what is wrong with an answer of any type, or ""; must take bounded time."""

    @classmethod
    def encode(cls, value: Any) -> Json:
        """Return a valid answer as JSON."""
        return value

    @classmethod
    def decode(cls, stored: Json) -> Any:
        """Return the answer that `encode` was given, equal in type and content; raise ValueError for any other
        input."""
        return stored

    @property
    def purpose(self) -> str:
        """What a dialogue wants to know by the call, in lower-case letters, if it makes calls of a kind for several
        purposes; "" for the only one. A placebo gives a call answers of the same purpose; no key holds it."""
        return ""

    @property
    def options(self) -> tuple[str, ...]:
        """The texts that the rows of an array answer are about, in order, where another call of this kind may have
        others; () for other answers. A run keeps them with the answer (`answers.parquet`)."""
        return ()

    def fitted(self, answer: Any, options: Sequence[str]) -> Any:
        """Return the answer to another call of this kind, which had these `options`, as an answer to this one; None if
        it cannot be one."""
        return None if self.fault(answer) else answer

    @property
    def repeated(self) -> bool:
        """Whether it follows a reply in its conversation that could not be read; no key holds it."""
        return False

    @property
    def sampled(self) -> bool:
        """Whether equal calls may have different answers. The key of such a call includes the asker, so that its answer
        is never shared between askers."""
        return False

    def distance(self, recorded: Any, now: Any) -> float:
        """Return the distance between two answers, infinite if they cannot be compared."""
        return 0.0 if recorded == now else math.inf

    def answered_by(self, code: Callable[..., Any]) -> Any:
        """Return the answer of hand-written code, which gets only the content of the call."""
        return code(self)

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        """Return the sections in which a web page shows a canonical form."""
        fields = {name: value for name, value in form.items() if name not in ("kind", "model", "asker")}
        return [
            (name, [_part(field) for field in (value if isinstance(value, list) else [value])])
            for name, value in fields.items()
        ]

    @classmethod
    def words(cls, value: Any) -> str:
        """Return an answer as readable text."""
        if cls.array is not None:
            return f"{cls.array.dtype} {[*value.shape]}"
        return json.dumps(cls.encode(value))


class Request(NamedTuple):
    """A call in its recorded form."""

    key: str
    text: str
    """Canonical JSON of the call's `kind`, the `model`'s identity, and the call's own form."""
    images: Mapping[str, Array]
    """Digest -> image, without duplicates."""
    call: Call


def key_of(text: str) -> str:
    """Return the key of a request's canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()


def image_digest(image: Array) -> str:
    """Return the SHA-256 of an image's shape and bytes, truncated to 160 bits (processors accelerate SHA-256)."""
    assert image.dtype == np.uint8, f"an image of {image.dtype}"
    hashed = hashlib.sha256(",".join(map(str, image.shape)).encode() + b":")
    hashed.update(np.ascontiguousarray(image).data)
    return hashed.hexdigest()[:DIGEST]


def part(json_part: Json, image: Callable[[str], Array]) -> str | Array:
    """Return a text, or the image that a canonical form holds as {"image": digest}; raise ValueError for anything
    else."""
    match json_part:
        case str():
            return json_part
        case {"image": str(digest), **rest} if not rest:
            return image(digest)
    raise ValueError(f"{str(json_part)[:80]!r} is neither a text nor an image")


def _part(field: Json) -> Json:
    """Return a value of a canonical form as a text or image reference, for a web page."""
    if isinstance(field, str) or (isinstance(field, dict) and [*field] == ["image"]):
        return field
    return json.dumps(field)


class Usage(NamedTuple):
    """Resources that calls took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    images: int = 0
    seconds: float = 0.0
    """Computing time of a local model, or response time of a server; time in our own queues is excluded."""
    usd: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """Return the sum, field by field."""
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
    """Value of the type that the kind of call expects; if its `fault` rejects the value, the call has failed."""
    usage: Usage = ONE_CALL
    detail: Mapping[str, float | str] = {}
    """Diagnostics: `mass`, the total probability of yes and no; `served_by`, the model that the server reports;
    `cut_off`, 1 for a text truncated at the token limit; `repairs`, how often the model was shown what was wrong with
    an object; `missing`, how often the label of a candidate was not among
    the tokens that the server returned."""


def _ignore_request() -> None:
    """Do nothing, because requests are not being counted."""


_BEGUN: ContextVar[Callable[[], None]] = ContextVar("_BEGUN", default=_ignore_request)


def request_begins() -> None:
    """Announce that a request is about to be sent. A model whose attempt may take several requests calls this before
    each of them, so that the requests of an attempt that never ends are counted too."""
    _BEGUN.get()()


@contextmanager
def counting(begun: Callable[[], None]) -> Iterator[None]:
    """Call `begun` at each `request_begins` within the block, in this task."""
    token = _BEGUN.set(begun)
    try:
        yield
    finally:
        _BEGUN.reset(token)


class Failure(Exception):
    """A call that got no usable answer. The message says what came instead and contains no keys or headers."""

    def __init__(
        self, kind: FailureKind, message: str, usage: Usage = ONE_CALL, retry_after: float | None = None
    ) -> None:
        """`usage`: resources that the failed attempt took; `retry_after`: seconds that the server asks to wait."""
        super().__init__(message)
        self.kind, self.usage, self.retry_after = kind, usage, retry_after

    def __reduce__(self) -> tuple[type[Failure], tuple[Any, ...]]:
        return Failure, (self.kind, str(self), self.usage, self.retry_after)


class Model(Protocol):
    """One foundation model behind one backend, in the model process. Calls arrive concurrently; the model batches
    them."""

    async def answer(self, call: Call) -> Reply:
        """Make one attempt; raise Failure without a usable answer. Must not block the event loop: compute in a
        thread."""

    def estimate(self, call: Call) -> Usage:
        """Return an upper bound on what one attempt can take, for the budget."""

    async def close(self) -> None: ...


class Answer(NamedTuple):
    """The answer to a call, or to a question by its calls: a reply, from the model or the cassette, or the failure that
    remained after retries."""

    value: Any
    """As in Reply; None for a failure."""
    failure: FailureKind | Literal[""] = ""
    usage: Usage = Usage()
    """Usage as if nothing had been cached; for a failure, of all attempts."""
    billed: Usage = Usage()
    """Usage that the model actually incurred, failed attempts included; zero for a cached answer."""
    detail: Mapping[str, float | str] = {}
    records: tuple[AnswerRecord, ...] = ()
    """The answers to keep of a question (`Job.answers`)."""
    retried: bool = False
    """Of a question: whether a reply could not be read, so that the model was asked again."""


AskModel = Callable[[Call], Awaitable[Answer]]
"""Makes one call of a dialogue; a call without an answer returns an Answer with a `failure`."""

PROBES = "probes"
"""Last word of the name of an account for probes."""


class Ticket(NamedTuple):
    """The number of a question, or of a call that answers it. No two questions of a study that await answers at the
    same time have equal tickets."""

    run: str
    """CELL/SEED."""
    ordinal: int
    """Number of the question within its run, role and scope."""
    step: int
    """Environment step of the question; the role's delay is counted from it."""
    role: str = ""
    """Role of the model in the cell; "" if the ordinal alone distinguishes the run's questions."""
    scope: str = ""
    """Context of the question: "" for training, `evaluation/STEP/EPISODE`, or `eval/SEED/EPISODE`."""
    probe: bool = False
    """Whether it is about a clip of a probe, which is no question of the run."""

    @property
    def account(self) -> str:
        """Return the name of the account to which a cassette adds what the call takes (`spending.read_account`).

        >>> Ticket("cell/3", 7, 100, "planner").account, Ticket("cell/3", 7, 0, "judge", probe=True).account
        ('cell/3 planner', 'cell/3 judge probes')
        """
        return " ".join(filter(None, (self.run, self.role, PROBES if self.probe else "")))
