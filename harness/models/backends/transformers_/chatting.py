"""Continuing chats; calls with equal token limit and temperature are generated together.

Chats differ in length, and words need no last digits, so their batches are not filled up: a chat that waits alone is
generated alone. Where two tokens are equally likely to the last digits, the batch may decide between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.answers import (
    REPAIRS,
    Unreadable,
    in_schema,
    repaired,
    with_repair,
    with_schema,
)
from guidebench.harness.models.backends.transformers_ import reasoning
from guidebench.harness.models.backends.transformers_.batching import Batcher
from guidebench.harness.models.backends.transformers_.constraining import DeadEnd, Grammars
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.rendering import (
    decode_generated,
    parts_of,
    readable_images,
    render,
    tokens_of,
)
from guidebench.harness.models.calls import CUT_OFF, ChatCall, Failure, Reply, Usage
from guidebench.harness.models.reasoning import Thinking, detail


class Continuation(NamedTuple):
    """The model's next message."""

    text: str
    tokens_in: int
    tokens_out: int
    ended: bool
    fault: str = ""
    """Why it is no object of the schema under which it was written, or ""."""
    reasoning: str = ""
    """What it wrote before its answer."""


class Chatting:
    """Answers chats with free text, or with an object that fits a schema."""

    def __init__(self, loaded: LoadedModel, batcher: Batcher, thinking: Thinking = None) -> None:
        """`thinking`: the chat's setting. Raise UserError for a model that writes no text, or cannot reason so."""
        if loaded.kind == "embedding":
            raise UserError(
                f"model {loaded.name!r} writes no text; choose one for text-generation or image-text-to-text"
            )
        reasoning.check(loaded, thinking)
        self._loaded, self._batcher, self._thinking = loaded, batcher, thinking
        self._grammars: Grammars | None = None

    async def answer(self, call: ChatCall) -> Reply:
        """Return free text, or with a schema the object. The model is shown what is wrong with an object up to REPAIRS
        times before Failure("malformed") is raised; an empty answer raises Failure("empty"). A constrained call is
        written under its schema, at once or not at all."""
        if call.constrained:
            return await self._constrained(call)
        messages = call.messages if call.schema is None else with_schema(call.messages, call.schema)
        images = sum(not isinstance(part, str) for message in messages for part in message.content)
        usage = Usage(calls=1)
        for repairs_left in reversed(range(REPAIRS + 1)):
            plain_call = ChatCall(messages, None, call.max_tokens, call.temperature)
            output = await self._batcher.put(self._kind(plain_call), self._continue, plain_call, filled=False)
            continuation: Continuation = output.value
            call_usage = Usage(0, continuation.tokens_in, continuation.tokens_out, images, output.seconds)
            usage, recorded = usage.plus(call_usage), detail(continuation.reasoning)
            if not continuation.text.strip():
                raise Failure("empty", "the model answered nothing", usage)
            if call.schema is None:
                return Reply(continuation.text, usage, recorded if continuation.ended else {**recorded, **CUT_OFF})
            try:
                details = {**recorded, **repaired(REPAIRS - repairs_left)}
                return Reply(in_schema(continuation.text, call.schema), usage, details)
            except Unreadable as error:
                if not repairs_left:
                    raise Failure("malformed", f"after {REPAIRS} repairs {error}", usage) from None
                messages = with_repair(messages, continuation.text, error)
        raise AssertionError("the last attempt returns or raises")

    async def _constrained(self, call: ChatCall) -> Reply:
        """Return the object that a call asks for, whose schema its prompt does not repeat. Raise Failure("malformed")
        for one that the limit of tokens cut off, and where no token of the model continues it."""
        output = await self._batcher.put("object", self._write, call, filled=False)
        continuation: Continuation = output.value
        images = len(call.images())
        usage = Usage(1, continuation.tokens_in, continuation.tokens_out, images, output.seconds)
        if continuation.fault:
            raise Failure("malformed", continuation.fault, usage)
        assert call.schema is not None, "a constrained chat has a schema"
        try:
            return Reply(in_schema(continuation.text, call.schema), usage, detail(continuation.reasoning))
        except Unreadable as error:
            raise Failure("malformed", f"the object written under the schema cannot be read: {error}", usage) from None

    def _write(self, calls: Sequence[ChatCall]) -> list[Continuation]:
        """Return the object of each call, one after another, so that none depends on what else waits."""
        return [self._object(call) for call in calls]

    def _object(self, call: ChatCall) -> Continuation:
        loaded = self._loaded
        inputs, room, (thought,) = self._inputs([call])
        length = int(inputs["input_ids"].shape[1])
        self._grammars = self._grammars or Grammars(loaded)
        assert call.schema is not None, "a constrained chat has a schema"
        constraint = self._grammars.constraint(call.schema, length)
        ends = self._grammars.ends
        try:
            written = loaded.model.generate(
                **inputs, max_new_tokens=room, **_sampling(call), logits_processor=[constraint], eos_token_id=ends
            )[0]
            constraint.read(written)
        except DeadEnd as error:
            fault = f"decoding under the schema came to a dead end: {error}"
            return Continuation("", length, thought.tokens, False, fault, thought.reasoning)
        tokens = [token for token in written[length:].tolist() if token not in ends]
        text = loaded.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        fault = ""
        if not constraint.complete:
            fault = f"its object was cut off at the limit of {room} tokens: {text[-80:]!r}; raise max_tokens"
        tokens_out = len(written) - length + thought.tokens
        return Continuation(text, length, tokens_out, constraint.complete, fault, thought.reasoning)

    def _kind(self, call: ChatCall) -> Hashable:
        images = any(not isinstance(part, str) for message in call.messages for part in message.content)
        return "chat", call.max_tokens, call.temperature, images

    def _continue(self, calls: Sequence[ChatCall]) -> list[Continuation]:
        loaded = self._loaded
        inputs, room, thoughts = self._inputs(calls)
        length = inputs["input_ids"].shape[1]
        words = loaded.model.generate(**inputs, max_new_tokens=room, **_sampling(calls[0]))[:, length:]
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [
            Continuation(text, int(tokens_in), tokens_out + thought.tokens, ended, reasoning=thought.reasoning)
            for (text, tokens_out, ended), tokens_in, thought in zip(
                decode_generated(loaded, words), lengths, thoughts, strict=True
            )
        ]

    def _inputs(self, calls: Sequence[ChatCall]) -> tuple[dict[str, Any], int, list[reasoning.Reasoned]]:
        """Return the inputs of calls of one kind, how many tokens may be written after them, and the reasoning at the
        end of each; raise UserError for one beyond the context length."""
        loaded, variables = self._loaded, reasoning.switched(self._thinking)
        images = [readable_images(loaded, call.messages) for call in calls]
        texts = [render(loaded, [*map(parts_of, call.messages)], **variables) for call in calls]
        thoughts = [reasoning.Reasoned(text, "", 0) for text in texts]
        if isinstance(self._thinking, int):
            thoughts = reasoning.reasoned(loaded, texts, images, self._thinking, _sampling(calls[0]))
        inputs = tokens_of(loaded, [thought.text for thought in thoughts], images)
        length, limit, most = inputs["input_ids"].shape[1], loaded.context, calls[0].max_tokens
        if limit is not None and length >= limit:
            raise UserError(f"a chat takes {length} tokens and model {loaded.name!r} reads {limit}; shorten it")
        return inputs, most if limit is None else min(most, limit - length), thoughts


def _sampling(call: ChatCall) -> dict[str, Any]:
    """Return the settings of `generate` for a call's temperature."""
    return {"do_sample": True, "temperature": call.temperature} if call.temperature > 0 else {"do_sample": False}
