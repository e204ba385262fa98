"""A local model's kinds of call; calls that wait at the same time are computed in batches."""

from __future__ import annotations

import asyncio
import functools
import math

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.answers import REPAIRS
from guidebench.harness.models.backends.recipes import Scoring
from guidebench.harness.models.backends.transformers_.batching import Batcher
from guidebench.harness.models.backends.transformers_.chatting import Chatting
from guidebench.harness.models.backends.transformers_.choosing import Choosing
from guidebench.harness.models.backends.transformers_.embedding import Embedding
from guidebench.harness.models.backends.transformers_.judging import Clips, Judging, Verdict
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from guidebench.harness.models.backends.transformers_.open_clip_ import OpenClipEmbedding
from guidebench.harness.models.backends.transformers_.s3d import S3DEmbedding
from guidebench.harness.models.calls import Call, ChatCall, ChoiceCall, EmbedCall, JudgeCall, Reply, Usage, VideoCall
from guidebench.harness.models.reasoning import Thinking


class TransformersModel:
    """A `Model` of the transformers library. Scores and vectors depend on their call and the batch size alone, not on
    what waits together."""

    def __init__(
        self, source: Source, scoring: Scoring = "prefill", clips: Clips = "video", batch_size: int | None = None,
        thinking: Thinking = None,
    ) -> None:  # fmt: skip
        """Load the weights, which blocks; raise UserError as `load` does. `batch_size`: as `Batcher` reads it;
        `thinking`: the setting of a chat."""
        self._source, self._scoring, self._clips, self._thinking = source, scoring, clips, thinking
        self._loaded = load(source)
        self._batcher = Batcher(batch_size, self._loaded.device)
        self._slowest = 0.0

    async def answer(self, call: Call) -> Reply:
        """Make one attempt, as `Model.answer`; raise UserError for an unsupported call or one beyond the context
        length."""
        if isinstance(call, JudgeCall):
            reply = await self._judge(call)
        elif isinstance(call, ChatCall):
            reply = await self._chatting.answer(call)
        elif isinstance(call, ChoiceCall):
            reply = await self._choosing.answer(call)
        elif isinstance(call, EmbedCall):
            reply = await self._embed(call)
        elif isinstance(call, VideoCall):
            reply = await self._watch(call)
        else:
            raise UserError(f"{self._source.model} runs in transformers, which answers no call of kind {call.kind!r}")
        self._slowest = max(self._slowest, reply.usage.seconds)
        return reply

    def estimate(self, call: Call) -> Usage:
        """Return the most output tokens, the images, and the seconds of the slowest call so far; the cost in USD is
        0."""
        reasoning = self._thinking if isinstance(self._thinking, int) else 0
        times = 1 + REPAIRS if isinstance(call, ChatCall) and not call.constrained else 1
        written = times * (call.max_tokens + reasoning) if isinstance(call, ChatCall) else 0
        return Usage(1, tokens_out=written, images=len(call.images()), seconds=self._slowest)

    async def close(self) -> None:
        self._batcher.close()

    async def _judge(self, call: JudgeCall) -> Reply:
        if self._scoring == "choice":
            return await self._choosing.judge(call)
        output = await self._batcher.put(self._judging.kind(call), self._judging, call)
        verdict: Verdict = output.value
        usage = Usage(1, verdict.tokens_in, verdict.tokens_out, len(call.clip), output.seconds)
        return Reply(verdict.yes, usage, {} if math.isnan(verdict.mass) else {"mass": verdict.mass})

    async def _embed(self, call: EmbedCall) -> Reply:
        embedding = self._embedding
        outputs = await asyncio.gather(
            *(self._batcher.put(embedding.kind(item), embedding, item) for item in call.items)
        )
        images = sum(not isinstance(item, str) for item in call.items)
        tokens = sum(output.value.tokens for output in outputs)
        usage = Usage(1, tokens, images=images, seconds=sum(output.seconds for output in outputs))
        return Reply(np.stack([output.value.value for output in outputs]), usage)

    async def _watch(self, call: VideoCall) -> Reply:
        embedding = self._embedding
        output = await self._batcher.put(embedding.kind(call.frames), embedding, call.frames)
        return Reply(output.value.value, Usage(1, images=len(call.frames), seconds=output.seconds))

    @functools.cached_property
    def _judging(self) -> Judging:
        return Judging(self._loaded, self._scoring, self._clips)

    @functools.cached_property
    def _chatting(self) -> Chatting:
        return Chatting(self._loaded, self._batcher, self._thinking)

    @functools.cached_property
    def _choosing(self) -> Choosing:
        return Choosing(self._loaded, self._batcher, self._clips, self._thinking)

    @functools.cached_property
    def _embedding(self) -> Embedding | OpenClipEmbedding | S3DEmbedding:
        model = self._loaded.model
        return model if isinstance(model, (OpenClipEmbedding, S3DEmbedding)) else Embedding(self._loaded, self._source)
