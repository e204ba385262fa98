"""Chats that a model writes under a JSON schema, by models of random weights, which would never write JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import ChatCall, Failure, Message, Reply
from tests.harness.models.backends.transformers_.asking import ask, model

pytest.importorskip("llguidance")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "thoughts": {"type": "string", "maxLength": 12},
        "steps": {
            "type": "array", "minItems": 2, "maxItems": 3,
            "items": {
                "type": "array", "prefixItems": [{"enum": ["chop tree", "sleep"]}, {"type": "integer", "maximum": 99}],
                "minItems": 2, "maxItems": 2,
            },
        },
        "sure": {"type": "boolean"},
    },
    "required": ["thoughts", "steps", "sure"],
    "additionalProperties": False,
}  # fmt: skip


def call(text: str = "What now?", schema: Any = SCHEMA, **settings: Any) -> ChatCall:
    return ChatCall((Message("user", (text,)),), schema, **{"max_tokens": 200, "constrained": True, **settings})


@pytest.mark.parametrize("name", ["llama", "gpt2", "gguf", "qwen_vl"])
def test_random_weights_write_an_object_of_the_schema_and_the_same_one_whatever_else_was_asked(
    tiny: Callable[..., Path], name: str
) -> None:
    directory = tiny(name)
    chat = model(next(directory.glob("*.gguf"), directory))
    images = (np.zeros((28, 28, 3), np.uint8),) if name == "qwen_vl" else ()
    mine = ChatCall((Message("user", (*images, "What now?")),), SCHEMA, max_tokens=200, constrained=True)
    (alone,) = ask(chat, mine)
    assert isinstance(alone, Reply), alone
    jsonschema.Draft202012Validator(SCHEMA).validate(alone.value)
    assert mine.fault(alone.value) == "" and 10 < alone.usage.tokens_out <= 200 and alone.usage.calls == 1
    others = [call("Another question, which is longer than the first"), call("Hi", max_tokens=150)]
    again = [ask(chat, *others, mine)[-1], ask(model(Path(chat._source.model)), mine)[0]]
    assert [(reply.value, reply.usage[:3]) for reply in again] == [(alone.value, alone.usage[:3])] * 2


def test_an_object_that_the_limit_of_tokens_cuts_off_is_a_failure_that_says_so(tiny: Callable[..., Path]) -> None:
    (failure,) = ask(model(tiny("llama")), call(max_tokens=12))
    assert isinstance(failure, Failure) and failure.kind == "malformed" and failure.usage.tokens_out == 12
    assert "cut off at the limit of 12 tokens" in str(failure) and "max_tokens" in str(failure)


def test_a_schema_that_none_of_the_tokens_can_write_is_a_failure_that_says_so(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = model(tiny("llama"))
    width = chat._loaded.tokenizer.convert_tokens_to_ids("{")
    right = chat._loaded.model.forward

    def narrow(*arguments: Any, **settings: Any) -> Any:
        """Return the logits of a model that never writes an opening brace."""
        output = right(*arguments, **settings)
        output.logits[..., width] = -np.inf
        return output

    monkeypatch.setattr(chat._loaded.model, "forward", narrow)
    (failure,) = ask(chat, call())
    assert isinstance(failure, Failure) and failure.kind == "malformed" and failure.usage.tokens_in
    assert "dead end: none of the model's tokens continues the object" in str(failure)


def test_a_schema_that_cannot_be_compiled_is_refused_with_the_reason(tiny: Callable[..., Path]) -> None:
    fields = {"a": {"type": "integer", "minimum": 2, "maximum": 1}}
    nothing = {"type": "object", "properties": fields, "required": ["a"]}
    (error,) = ask(model(tiny("llama")), call(schema=nothing))
    assert isinstance(error, UserError) and "required property 'a' is unsatisfiable" in str(error)
