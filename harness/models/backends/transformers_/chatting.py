"""Continuing chats; calls with equal token limit and temperature are generated together.

Chats differ in length, and words need no last digits, so their batches are not filled up: a chat that waits alone is
generated alone. Where two tokens are equally likely to the last digits, the batch may decide between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.answers import REPAIRS, Unreadable, in_schema, with_repair, with_schema
from guidebench.harness.models.backends.transformers_ import reasoning
from guidebench.harness.models.backends.transformers_.batching import Batcher
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
    reasoning: str = ""


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

    async def answer(self, call: ChatCall) -> Reply:
        """Return free text, or with a schema the object. The model is shown what is wrong with an object up to REPAIRS
        times before Failure("malformed") is raised; an empty answer raises Failure("empty")."""
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
                return Reply(in_schema(continuation.text, call.schema), usage, recorded)
            except Unreadable as error:
                if not repairs_left:
                    raise Failure("malformed", f"after {REPAIRS} repairs {error}", usage) from None
                messages = with_repair(messages, continuation.text, error)
        raise AssertionError("the last attempt returns or raises")

    def _kind(self, call: ChatCall) -> Hashable:
        images = any(not isinstance(part, str) for message in call.messages for part in message.content)
        return "chat", call.max_tokens, call.temperature, images

    def _continue(self, calls: Sequence[ChatCall]) -> list[Continuation]:
        loaded, first = self._loaded, calls[0]
        images = [readable_images(loaded, call.messages) for call in calls]
        variables = reasoning.switched(self._thinking)
        texts = [render(loaded, [*map(parts_of, call.messages)], **variables) for call in calls]
        sampling = (
            {"do_sample": True, "temperature": first.temperature} if first.temperature > 0 else {"do_sample": False}
        )
        thoughts = [reasoning.Reasoned(text, "", 0) for text in texts]
        if isinstance(self._thinking, int):
            thoughts = reasoning.reasoned(loaded, texts, images, self._thinking, sampling)
        inputs = tokens_of(loaded, [thought.text for thought in thoughts], images)
        length, limit = inputs["input_ids"].shape[1], loaded.context
        if limit is not None and length >= limit:
            raise UserError(f"a chat takes {length} tokens and model {loaded.name!r} reads {limit}; shorten it")
        room = first.max_tokens if limit is None else min(first.max_tokens, limit - length)
        words = loaded.model.generate(**inputs, max_new_tokens=room, **sampling)[:, length:]
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [
            Continuation(text, int(tokens_in), tokens_out + thought.tokens, ended, thought.reasoning)
            for (text, tokens_out, ended), tokens_in, thought in zip(
                decode_generated(loaded, words), lengths, thoughts, strict=True
            )
        ]
