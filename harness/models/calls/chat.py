"""The call `chat`: a conversation that the model continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from guidebench.harness.models.calls import schemas
from guidebench.harness.models.calls.base import Call, CallSections, Json, part
from guidebench.harness.registry import register
from guidebench.harness.texts import each_text, mended
from guidebench.harness.types import Array

CUT_OFF: Mapping[str, float | str] = {"cut_off": 1.0}
"""Detail of a reply whose text was truncated at the token limit."""
YES_OR_NO: Mapping[str, Json] = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    """One message of a chat: texts and images, uint8 [height, width, 3], in order."""

    role: Role
    content: tuple[str | Array, ...]


@register.call("chat")
@dataclass(frozen=True, eq=False)
class ChatCall(Call):
    """A conversation that the model continues, with free text or, given a JSON schema, with an object that fits it.
    Raises ValueError for a schema with keywords other than those of `guidebench.harness.models.calls.schemas`."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] | None = None
    max_tokens: int = 1024
    temperature: float = 0.0
    aim: str = ""
    """Its `purpose`."""
    constrained: bool = False
    """Whether the model writes under the schema, so that it can write nothing else, where its backend can constrain it;
    else it is shown the schema, and what is wrong with an answer that does not fit."""
    repeats: bool = False
    """Its `repeated`."""

    kind: ClassVar[str] = "chat"

    def __post_init__(self) -> None:
        if self.schema is not None:
            schemas.check(self.schema)
        if self.constrained and self.schema is None:
            raise ValueError("a constrained chat has a schema")

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {
            "messages": message_forms(self.messages, named),
            "schema": self.schema,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            **({"constrained": True} if self.constrained else {}),
        }

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {
                "messages": list(messages), "schema": dict() | None as schema,
                "max_tokens": int(tokens), "temperature": int() | float() as temperature,
            } if (constrained := form.get("constrained", False)) in (True, False):  # fmt: skip
                return cls(messages_of(messages, image), schema, tokens, temperature, constrained=constrained is True)
        raise ValueError("a chat has messages, a schema or none, max_tokens, a temperature, and may be constrained")

    @classmethod
    def small(cls) -> Self:
        return cls((Message("user", ("Say yes.",)),), max_tokens=8)

    @classmethod
    def small_object(cls) -> Self:
        """Return a small call whose answer is an object under a schema."""
        return replace(cls.small(), schema=YES_OR_NO, constrained=True, max_tokens=32)

    @property
    def purpose(self) -> str:
        return self.aim

    @property
    def repeated(self) -> bool:
        return self.repeats

    @property
    def sampled(self) -> bool:
        return self.temperature > 0

    def images(self) -> Sequence[Array]:
        return images_of(self.messages)

    def fault(self, value: Any) -> str:
        if self.schema is None:
            return "" if isinstance(value, str) else f"expected str, got {type(value).__name__}"
        return _misfit(value, self.schema) if isinstance(value, dict) else f"expected dict, got {type(value).__name__}"

    @classmethod
    def encode(cls, value: Any) -> Json:
        return {"text": value} if isinstance(value, str) else {"object": value}

    @classmethod
    def decode(cls, stored: Json) -> Any:
        match stored:
            case {"text": str(answer), **rest} if not rest:
                return mended(answer)
            case {"object": dict(answer), **rest} if not rest:
                return each_text(answer, mended)
        raise ValueError("an answer to a chat is a text or an object")

    def answered_by(self, code: Callable[..., Any]) -> Any:
        return code(self.messages)

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        return [(str(message["role"]), message["content"]) for message in form["messages"]]

    @classmethod
    def words(cls, value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, indent=1)


def message_forms(messages: Sequence[Message], named: Callable[[Array], Json]) -> list[Json]:
    """Return the canonical form of messages, each image replaced by `named(image)`."""
    return [
        {"role": role, "content": [part if isinstance(part, str) else named(part) for part in content]}
        for role, content in messages
    ]


def messages_of(forms: Sequence[Json], image: Callable[[str], Array]) -> tuple[Message, ...]:
    """Return the messages of a canonical form; `image` maps a digest to its image. Raise ValueError for any other
    form."""
    return tuple(_message(form, image) for form in forms)


def images_of(messages: Sequence[Message]) -> list[Array]:
    """Return the images of messages, in order."""
    return [part for message in messages for part in message.content if not isinstance(part, str)]


def _message(form: Json, image: Callable[[str], Array]) -> Message:
    match form:
        case {"role": role, "content": list(content)} if role in get_args(Role):
            return Message(role, tuple(part(piece, image) for piece in content))
    raise ValueError(f"{str(form)[:80]!r} is no message of a chat")


def _misfit(value: Mapping[str, Json], schema: Mapping[str, Json]) -> str:
    import jsonschema

    error = next(jsonschema.Draft202012Validator(schema).iter_errors(value), None)
    return "" if error is None else f"the object does not fit its schema: {error.message:.300}"
