"""Parsing of a server's responses; each body is untrusted and first checked against a schema."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jsonschema
import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Failure, Json


class Likely(NamedTuple):
    """A token and its log-probability."""

    text: str
    logprob: float


class Token(NamedTuple):
    """A generated token, and the most likely tokens at its position, including itself."""

    text: str
    likeliest: tuple[Likely, ...]


class PromptToken(NamedTuple):
    """A token of the rendered prompt."""

    number: str
    """Its number in the vocabulary; "" for the first token, of which servers say nothing."""
    logprob: float
    """Log-probability after the tokens before it; 0 for the first one."""


class Completion(NamedTuple):
    """The continuation of a chat."""

    text: str
    finish: str
    """"stop", "length" if truncated, "content_filter", …; "" if the server does not say."""
    refusal: str
    tokens: tuple[Token, ...] | None
    """None if the server returns no log-probabilities."""
    served_by: str
    """Name of the model that the server reports."""
    tokens_in: int
    tokens_out: int
    reasoning: str = ""
    """What the model reasoned before its answer, of servers that tell it apart."""
    prompt: tuple[PromptToken, ...] | None = None
    """None if the server returns no log-probabilities of the prompt (`prompt_logprobs`)."""


def completion(body: Json) -> Completion:
    """Return the completion in a response body; raise Failure("malformed") if the body is invalid."""
    _check(body, _COMPLETION)
    choice: Mapping[str, Any] = (body["choices"] or [{"message": {}}])[0]
    message, usage = choice["message"], body.get("usage") or {}
    logprobs = (choice.get("logprobs") or {}).get("content")
    prompt = body.get("prompt_logprobs")
    return Completion(
        text=message.get("content") or "",
        finish=choice.get("finish_reason") or "",
        refusal=message.get("refusal") or "",
        tokens=None if logprobs is None else tuple(_token(position) for position in logprobs),
        served_by=body.get("model") or "",
        tokens_in=usage.get("prompt_tokens") or 0,
        tokens_out=usage.get("completion_tokens") or 0,
        reasoning=message.get("reasoning_content") or message.get("reasoning") or "",
        prompt=None if prompt is None else tuple(_prompt_token(position) for position in prompt),
    )


def reads(text: str) -> str:
    """Return a token's text in lower case and without surrounding white space."""
    return text.strip().lower()


def share(token: Token) -> tuple[float, float] | None:
    """Return P(yes) = p(Yes variants) / (p(Yes variants) + p(No variants)) (VLM-RB, §3.1) and the mass, which is the
    denominator, over the most likely tokens at a position; None if neither word is among them."""
    yes, no = ([logprob for text, logprob in token.likeliest if reads(text) == word] for word in ("yes", "no"))
    if not yes and not no:
        return None
    top = max(yes + no)
    weight_yes, weight_no = (sum(math.exp(logprob - top) for logprob in logprobs) for logprobs in (yes, no))
    mass = math.exp(min(0.0, top)) * (weight_yes + weight_no)
    return weight_yes / (weight_yes + weight_no), min(1.0, mass)


def vectors(body: Json, count: int) -> tuple[Array, str, int]:
    """Return vectors float32 [count, d], the model that the server reports, and input tokens; raise
    Failure("malformed")."""
    _check(body, _EMBEDDINGS)
    rows = {row["index"]: row["embedding"] for row in body["data"]}
    if sorted(rows) != list(range(count)) or len({len(row) for row in rows.values()}) > 1:
        raise Failure("malformed", f"expected {count} vectors of one length, got {len(body['data'])} others")
    matrix = np.array([rows[index] for index in range(count)], np.float32)
    return matrix, body.get("model") or "", (body.get("usage") or {}).get("prompt_tokens") or 0


def _token(position: Mapping[str, Any]) -> Token:
    likeliest = [Likely(likely["token"], float(likely["logprob"])) for likely in position.get("top_logprobs") or ()]
    if all(likely.text != position["token"] for likely in likeliest):
        likeliest.append(Likely(position["token"], float(position["logprob"])))
    return Token(position["token"], tuple(likeliest))


def _prompt_token(position: Json) -> PromptToken:
    """Return a token of a prompt from vLLM's form, {number: {"logprob": …}}, or null for the first one. A prompt has
    thousands, for which a schema would take seconds."""
    if position is None:
        return PromptToken("", 0.0)
    if isinstance(position, dict) and len(position) == 1:
        ((number, scored),) = position.items()
        logprob = scored.get("logprob") if isinstance(scored, dict) else None
        if isinstance(logprob, (int, float)) and not isinstance(logprob, bool) and -1e9 <= logprob <= 1:
            return PromptToken(number, min(0.0, float(logprob)))
    raise Failure("malformed", f"prompt_logprobs of another form than {{number: {{logprob}}}}: {position!s:.80}")


def _check(body: Json, form: Mapping[str, Any]) -> None:
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(form).iter_errors(body))
    if error is not None:
        raise Failure("malformed", f"a body of another form, at {error.json_path}: {error.message:.80}")


def _object(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(form: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [form, {"type": "null"}]}


_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": ["integer", "null"], "minimum": 0, "maximum": 10**9}
_SCORED_TOKEN = {"token": {"type": "string"}, "logprob": {"type": "number", "minimum": -1e9, "maximum": 1}}
_LIKELY = _object(tuple(_SCORED_TOKEN), **_SCORED_TOKEN)
_GENERATED_TOKEN = _object(tuple(_SCORED_TOKEN), **_SCORED_TOKEN, top_logprobs=_or_null(_list_of(_LIKELY)))
_USAGE = _or_null(_object(prompt_tokens=_COUNT, completion_tokens=_COUNT))
_CHOICE = _object(
    ["message"],
    message=_object(content=_TEXT, refusal=_TEXT, reasoning_content=_TEXT, reasoning=_TEXT),
    finish_reason=_TEXT,
    logprobs=_or_null(_object(content=_or_null(_list_of(_GENERATED_TOKEN)))),
)
_COMPLETION = _object(
    ["choices"],
    choices=_list_of(_CHOICE),
    model=_TEXT,
    usage=_USAGE,
    prompt_logprobs={"type": ["array", "null"]},
)
_FINITE = {"type": "number", "minimum": -3e38, "maximum": 3e38}
_VECTOR = _object(["index", "embedding"], index={"type": "integer"}, embedding=_list_of(_FINITE))
_EMBEDDINGS = _object(["data"], data=_list_of(_VECTOR), model=_TEXT, usage=_USAGE)
