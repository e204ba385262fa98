"""A `Model` behind an OpenAI-compatible server: it judges clips, continues chats, chooses and embeds texts.

Every request counts as a call, including requests that show a model what is wrong with its answer.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.answers import (
    BEGUN,
    OUR_WORDS,
    REPAIRS,
    SPOKEN,
    Unreadable,
    answer_index,
    choice_of,
    in_schema,
    repaired,
    with_repair,
    with_schema,
    yes_or_no,
    yes_share,
)
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.backends.openai_ import choosing, reading
from guidebench.harness.models.backends.openai_.choosing import LIKELIEST, Choosing
from guidebench.harness.models.backends.openai_.reading import Completion
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.backends.recipes import IMAGE_TOKENS, MILLION, Scoring
from guidebench.harness.models.calls import (
    CUT_OFF,
    Call,
    ChatCall,
    ChoiceCall,
    EmbedCall,
    Failure,
    Json,
    JudgeCall,
    Message,
    Reply,
    Usage,
    request_begins,
)
from guidebench.harness.models.reasoning import OFF, Thinking, detail, split

CONTINUED: Mapping[str, Json] = {"continue_final_message": True, "add_generation_prompt": False}
"""Request fields with which vLLM and similar servers continue the last message instead of answering it."""
UNCONTINUED = "does not continue an answer that is begun for it"
UNSCORED = "tells no log-probabilities"
UNSCORED_PROMPT = "tells no log-probabilities of a prompt (prompt_logprobs)"
TEMPLATE, SWITCH = "chat_template_kwargs", "enable_thinking"
"""Field of a request, which servers of open models know, that sets variables of the model's chat template; and the one
by which a model reasons or not."""
REJECTED: Mapping[str, str] = {
    "prompt_logprobs": UNSCORED_PROMPT,
    **dict.fromkeys(CONTINUED, UNCONTINUED),
    "logprobs": UNSCORED,
}
"""Field of a request that a way of reading answers needs -> what is said of a server that rejects it."""


class Prices(NamedTuple):
    """USD per million tokens; if both are None, the recipe's price applies, or else 0."""

    usd_in: float | None = None
    usd_out: float | None = None


LISTED = Prices()


class OpenAIModel:
    """One model of one server."""

    def __init__(
        self, model: str, server: Server, scoring: Scoring = "logprobs", detail: str = "low", prices: Prices = LISTED,
        choosing: Choosing | None = None, thinking: Thinking = None,
    ) -> None:  # fmt: skip
        """`model`: recipe, or the server's name of the model; `choosing`: None for a model that does not choose;
        `thinking`: the setting of a chat. Raises UserError for a recipe that no server offers."""
        self._choosing, self._thinking = choosing, thinking
        self._model, self._served, self._server = model, recipes.server_name(model), server
        self._scoring, self._detail, self._prices = scoring, detail, prices
        self._rejected_fields: set[str] = set()
        """Request fields that this server has rejected."""
        self._tells_logprobs = False
        self._slowest = 0.0

    async def answer(self, call: Call) -> Reply:
        """Make one attempt, as `Model.answer`; raise UserError for a kind of call or scoring that the server does not
        support."""
        if isinstance(call, JudgeCall):
            return await self._judge(call)
        if isinstance(call, ChatCall):
            return await self._chat(call)
        if isinstance(call, ChoiceCall):
            return await self._choose(call)
        if isinstance(call, EmbedCall):
            return await self._embed(call)
        raise UserError(f"{self._server.name} has OpenAI's API, which has no call of kind {call.kind!r}")

    def estimate(self, call: Call) -> Usage:
        """Return an upper bound: one token per byte of text, the most tokens per image, all output tokens including
        repairs, and the seconds of the slowest request so far."""
        if isinstance(call, JudgeCall) and self._scoring == "choice":
            return self.estimate(choice_of(call))
        if isinstance(call, ChoiceCall) and self._choosing is not None and self._choosing.by == "enum":
            return self.estimate(choosing.enum_question(call))
        recipe = recipes.recipe(self._model)
        images = len(call.images())
        tokens_in = images * ((recipe.tokens_per_image if recipe else 0) or IMAGE_TOKENS) + _bytes(call)
        requests, tokens_out = 1, 1 if self._scoring == "prefill" else SPOKEN
        if isinstance(call, ChatCall):
            requests, tokens_out = (1 + REPAIRS if call.schema is not None else 1), self._most_written(call)
        elif isinstance(call, ChoiceCall) and self._choosing is not None:
            requests, tokens_out = self._choosing.requests(len(call.candidates)), 1
        elif isinstance(call, EmbedCall):
            tokens_out = 0
        reread = requests * (requests - 1) // 2 * tokens_out
        usage = Usage(
            requests, requests * tokens_in + reread, requests * tokens_out, requests * images, requests * self._slowest
        )
        return usage._replace(usd=self._usd(usage))

    async def close(self) -> None:
        await self._server.close()

    async def _judge(self, call: JudgeCall) -> Reply:
        """Return P(yes), in [0, 1], read in the way that the setting `scoring` names."""
        if self._scoring == "choice":
            reply = await self._choose(choice_of(call))
            p_yes, mass = yes_share(reply.value)
            return reply._replace(value=p_yes, detail={**reply.detail, "mass": mass})
        messages = [Message("user", (call.prompt, *call.clip))]
        body: dict[str, Json] = {"max_tokens": SPOKEN}
        if self._scoring == "prefill":
            messages.append(Message("assistant", (BEGUN,)))
            body["max_tokens"] = 1
        if self._scoring != "literal":
            body |= {"logprobs": True, "top_logprobs": LIKELIEST}
        extra = CONTINUED if self._scoring == "prefill" else None
        completion, usage = await self._complete(messages, body | {"temperature": 0.0}, extra)
        detail = self._served_by(completion.served_by)
        try:
            if self._scoring == "literal":
                return Reply(yes_or_no(completion.text), usage, detail)
            probability, detail["mass"] = self._scored(completion)
            return Reply(probability, usage, detail)
        except Failure as failure:
            failure.usage = usage
            raise

    def _scored(self, completion: Completion) -> tuple[float, float]:
        """Return P(yes) and the total mass of yes and no, at the one token after a prefilled answer, or else at the
        first token where the model says either."""
        self._check_scored(completion.tokens, UNSCORED)
        assert completion.tokens is not None
        position = 0
        if self._scoring == "logprobs":
            texts = [*itertools.accumulate(token.text for token in completion.tokens)]
            position = answer_index(texts, [reading.reads(token.text) in ("yes", "no") for token in completion.tokens])
        scores = reading.share(completion.tokens[position]) if completion.tokens else None
        if scores is None:
            raise Failure("malformed", self._server.redacted(f"expected yes or no, got {completion.text[:80]!r}"))
        return scores

    def _check_scored(self, tokens: Sequence[Any] | None, shortcoming: str) -> None:
        """Raise UserError if a server returns no log-probabilities, and Failure if it has returned some before."""
        if tokens is None and self._tells_logprobs:
            raise Failure("malformed", "the answer holds no log-probabilities")
        if tokens is None:
            raise self._unable(shortcoming)
        self._tells_logprobs = True

    async def _choose(self, call: ChoiceCall) -> Reply:
        """Return how likely the candidates are, read in the way that the setting `choice_by` names."""
        if self._choosing is None:
            raise UserError(
                f"no way to choose through {self._server.name} is named; set {self._section}.choice_by=label or prompt"
            )
        by, rotations = self._choosing
        if by == "enum":
            written = await self._chat(choosing.enum_question(call))
            return written._replace(value=choosing.one_hot(call, written.value))
        spent, detail = Usage(), dict[str, float | str]()

        async def complete(
            messages: Sequence[Message], body: Mapping[str, Json], extra: Mapping[str, Json]
        ) -> Completion:
            nonlocal spent
            try:
                completion, usage = await self._complete(messages, body, {**extra, **(self._switched() or {})})
            except Failure as failure:
                spent = spent.plus(failure.usage)
                raise
            spent = spent.plus(usage)
            detail.update(self._served_by(completion.served_by))
            if by == "prompt":
                self._check_scored(completion.prompt, UNSCORED_PROMPT)
            else:
                self._check_scored(completion.tokens, UNSCORED)
            return completion

        try:
            if by == "prompt":
                return Reply(await choosing.by_prompt(call, complete), spent, detail)
            scores, detail["missing"] = await choosing.by_label(call, rotations, complete)
            return Reply(scores, spent, detail)
        except choosing.Unable as lacking:
            raise self._unable(str(lacking)) from None
        except Failure as failure:
            failure.usage = spent
            raise

    async def _chat(self, call: ChatCall) -> Reply:
        """Return text, or the object that fits the schema. The messages always contain the schema too: servers without
        schema support ignore its field, and their answers are repaired."""
        body: dict[str, Json] = {"max_tokens": self._most_written(call), "temperature": call.temperature}
        if call.schema is None:
            completion, usage = await self._complete(call.messages, body, self._switched())
            cut = CUT_OFF if completion.finish == "length" else {}
            text, recorded = self._without_reasoning(completion)
            if not text.strip():
                raise Failure("empty", "the model reasoned and answered nothing", usage)
            return Reply(text, usage, {**self._served_by(completion.served_by), **recorded, **cut})
        form = {"name": "answer", "schema": dict(call.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
        messages, usage = with_schema(call.messages, call.schema), Usage()
        for repairs_left in reversed(range(REPAIRS + 1)):
            try:
                completion, request_usage = await self._complete(messages, body, self._switched())
            except Failure as failure:
                failure.usage = usage.plus(failure.usage)
                raise
            usage = usage.plus(request_usage)
            text, recorded = self._without_reasoning(completion)
            try:
                details = {**self._served_by(completion.served_by), **recorded, **repaired(REPAIRS - repairs_left)}
                return Reply(in_schema(text, call.schema), usage, details)
            except Unreadable as error:
                if completion.finish == "length":
                    raise Failure("malformed", f"cut off after {call.max_tokens} tokens: {error}", usage) from None
                if not repairs_left:
                    raise Failure("malformed", f"after {REPAIRS} repairs {error}", usage) from None
                messages = with_repair(messages, text, error)
        raise AssertionError("the last attempt returns or raises")

    def _most_written(self, call: ChatCall) -> int:
        """Return the most tokens of an answer to a chat and of the reasoning before it."""
        return call.max_tokens + (self._thinking if isinstance(self._thinking, int) else 0)

    def _switched(self) -> dict[str, Json] | None:
        """Return the field of a request that has the model reason or not; None if its template decides."""
        return None if self._thinking is None else {TEMPLATE: {SWITCH: self._thinking != OFF}}

    def _without_reasoning(self, completion: Completion) -> tuple[str, dict[str, float | str]]:
        """Return an answer's text, and the details that hold the reasoning, whether the server tells it apart or writes
        it before the answer. Without the setting `thinking` all that the server writes is the answer."""
        if self._thinking is None:
            return completion.text, {}
        reasoning, text = split(completion.text)
        return text, detail(completion.reasoning or reasoning)

    async def _embed(self, call: EmbedCall) -> Reply:
        """Return the vectors of texts, float32 [n, d]."""
        texts = [text for text in call.items if isinstance(text, str)]
        if len(texts) < len(call.items):
            raise UserError(
                f"{self._server.name} embeds texts alone; embed images with a model that runs here (transformers)"
            )
        usage = Usage(calls=1)
        try:
            request_begins()
            response = await self._server.embed(self._served, texts)
            usage = usage._replace(seconds=response.seconds)
            vectors, served_by, tokens_in = reading.vectors(response.body, len(texts))
        except Failure as failure:
            failure.usage = self._billed(usage, failure)
            raise
        return Reply(vectors, self._priced(usage._replace(tokens_in=tokens_in)), self._served_by(served_by))

    async def _complete(
        self, messages: Sequence[Message], body: Mapping[str, Json], extra: Mapping[str, Json] | None = None
    ) -> tuple[Completion, Usage]:
        """Continue a chat; omit fields that the server rejects from then on."""
        body_messages = await asyncio.to_thread(self._protocol_messages, messages)
        images = sum(not isinstance(part, str) for message in messages for part in message.content)
        spent = Usage()
        while True:
            fields = {name: value for name, value in body.items() if name not in self._rejected_fields}
            if "max_tokens" in self._rejected_fields:
                fields["max_completion_tokens"] = body["max_tokens"]
            try:
                completion, request_usage = await self._request({"messages": body_messages} | fields, extra, images)
            except Failure as failure:
                failure.usage = spent = spent.plus(failure.usage)
                rejected = self._rejected_field(failure, {**fields, **(extra or {})})
                if rejected is None:
                    raise
                self._rejected_fields.add(rejected)
            else:
                return completion, spent.plus(request_usage)

    async def _request(
        self, fields: Mapping[str, Json], extra: Mapping[str, Json] | None, images: int
    ) -> tuple[Completion, Usage]:
        """Send one request; raise Failure if the answer is a refusal or empty."""
        usage = Usage(calls=1, images=images)
        try:
            request_begins()
            response = await self._server.complete({"model": self._served} | dict(fields), extra)
            usage = usage._replace(seconds=response.seconds)
            completion = reading.completion(response.body)
            usage = self._priced(usage._replace(tokens_in=completion.tokens_in, tokens_out=completion.tokens_out))
            if completion.refusal or completion.finish == "content_filter":
                raise Failure("refused", self._server.redacted(completion.refusal or "by the server's filter"))
            if not (completion.text.strip() or completion.tokens or completion.prompt):
                raise Failure("empty", "the model answered nothing")
        except Failure as failure:
            failure.usage = self._billed(usage, failure)
            raise
        return completion, usage

    def _rejected_field(self, failure: Failure, fields: Mapping[str, Json]) -> str | None:
        """Return the optional request field that caused a rejection, or None; raise UserError if the answer cannot be
        read without it."""
        if failure.kind != "rejected":
            return None
        message = str(failure)
        if TEMPLATE in fields and TEMPLATE in message:
            raise UserError(
                f"{self._server.name} rejects {TEMPLATE}, which chat.thinking={self._thinking} needs; leave it out"
            )
        needed = next((name for name in REJECTED if name in fields and name in message), None)
        if needed is not None:
            raise self._unable(REJECTED[needed])
        if "max_tokens" in fields and "max_completion_tokens" in message:
            return "max_tokens"
        if "response_format" in fields and re.search("response_format|schema|grammar", message, re.IGNORECASE):
            return "response_format"
        return None

    def _unable(self, shortcoming: str) -> UserError:
        """Return the error for a server that lacks what the way of reading its answers needs."""
        setting, instead = f"judge.scoring={self._scoring}", "literal"
        if self._choosing is not None:
            setting, instead = f"{self._section}.choice_by={self._choosing.by}", choosing.INSTEAD[self._choosing.by]
            if self._section == "judge":
                instead = "judge.scoring=literal"
        elif shortcoming == UNCONTINUED:
            instead = "logprobs or literal"
        return UserError(f"{self._server.name} {shortcoming}, which {setting} needs; use {instead}")

    @property
    def _section(self) -> str:
        """The section whose settings say how the model chooses."""
        return "judge" if self._scoring == "choice" else "chat"

    def _protocol_messages(self, messages: Sequence[Message]) -> Json:
        """Return messages in the protocol's form, images as PNG data URLs; a repeated frame is encoded once."""
        urls: dict[bytes, str] = {}

        def part(fragment: Any) -> Json:
            if isinstance(fragment, str):
                return {"type": "text", "text": fragment}
            pixels = fragment.tobytes()
            if pixels not in urls:
                urls[pixels] = "data:image/png;base64," + base64.b64encode(png(fragment)).decode()
            return {"type": "image_url", "image_url": {"url": urls[pixels], "detail": self._detail}}

        return [
            {"role": role, "content": _plain_text(content) or [part(fragment) for fragment in content]}
            for role, content in messages
        ]

    def _priced(self, usage: Usage) -> Usage:
        self._slowest = max(self._slowest, usage.seconds)
        return usage._replace(usd=self._usd(usage))

    def _usd(self, usage: Usage) -> float:
        usd_in, usd_out = self._prices
        if usd_in is None and usd_out is None:
            return recipes.price(self._model, usage)
        return (usage.tokens_in * (usd_in or 0.0) + usage.tokens_out * (usd_out or 0.0)) / MILLION

    def _served_by(self, model_name: str) -> dict[str, float | str]:
        return {"served_by": self._server.redacted(model_name)}

    @staticmethod
    def _billed(usage: Usage, failure: Failure) -> Usage:
        return usage if usage.seconds else usage._replace(seconds=failure.usage.seconds)


def _plain_text(content: Sequence[Any]) -> str:
    """Return the plain text of a message without images, the only form that some servers accept; "" otherwise."""
    return "".join(content) if all(isinstance(part, str) for part in content) else ""


def _bytes(call: Call) -> int:
    """Return the bytes of a call's texts, plus an allowance per message."""
    texts: list[str] = []
    if isinstance(call, JudgeCall):
        texts = [call.prompt, BEGUN]
    elif isinstance(call, ChatCall):
        texts = [part for message in call.messages for part in message.content if isinstance(part, str)]
        texts.append(json.dumps(call.schema, default=dict) + " " * OUR_WORDS if call.schema is not None else "")
    elif isinstance(call, ChoiceCall):  # all candidates, in a list; an answer holds one of them
        texts = [part for message in call.messages for part in message.content if isinstance(part, str)]
        texts += [call.prefix, *call.candidates, choosing.LIST]
    elif isinstance(call, EmbedCall):
        texts = [text for text in call.items if isinstance(text, str)]
    return sum(len(text.encode()) for text in texts) + 64 * (1 + len(texts))
