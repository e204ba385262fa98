"""A clip has the same score from the model loaded here and from a real server of the same weights."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.openai_.model import OpenAIModel
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.backends.recipes import Scoring
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import ChatCall, JudgeCall, Message, Model, Reply
from tests.harness.models.backends.openai_.conftest import Served

pytestmark = pytest.mark.waits
CLIPS = np.random.default_rng(0).integers(0, 256, (6, 4, 56, 56, 3), dtype=np.uint8)
PROMPT = 'Is a key taken in these frames? Reply with exactly "Answer: Yes" or "Answer: No".'


def here(directory: Path, scoring: Scoring) -> Model:
    return TransformersModel(Source(str(directory), dtype="float32"), scoring, "images", 4)


def there(served: Served, scoring: Scoring) -> Model:
    return OpenAIModel(served.name, Server(served.url, "SOME_KEY", 300.0), scoring)


def judged(model: Model) -> list[Reply]:
    async def asked() -> Any:
        try:
            return await asyncio.gather(*(model.answer(JudgeCall(clip, PROMPT)) for clip in CLIPS))
        finally:
            await model.close()

    return list(asyncio.run(asked()))


def test_transformers_serve_says_what_the_model_says(transformers_serve) -> None:
    ours, theirs = judged(here(transformers_serve.directory, "literal")), judged(there(transformers_serve, "literal"))
    assert [reply.value for reply in theirs] == [reply.value for reply in ours]
    assert {reply.value for reply in ours} == {0.0, 1.0}, "the clips tell the answers apart"
    assert [reply.usage.tokens_in for reply in theirs] == [reply.usage.tokens_in for reply in ours]


@pytest.mark.parametrize("scoring", ["prefill", "logprobs"])
def test_transformers_serve_is_told_apart_from_servers_that_score(transformers_serve, scoring: Scoring) -> None:
    with pytest.raises(UserError, match="literal"):
        judged(there(transformers_serve, scoring))


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["prefill", "logprobs", "literal"])
def test_vllm_scores_what_the_model_scores(vllm, scoring: Scoring) -> None:
    ours, theirs = judged(here(vllm.directory, scoring)), judged(there(vllm, scoring))
    # A server tells the 20 likeliest tokens alone; of our variants of yes and no, those beyond them hold this much.
    np.testing.assert_allclose([reply.value for reply in theirs], [reply.value for reply in ours], atol=5e-3)
    assert [reply.usage.tokens_in for reply in theirs] == [reply.usage.tokens_in for reply in ours]
    if scoring != "literal":
        masses = [[float(reply.detail["mass"]) for reply in replies] for replies in (ours, theirs)]
        np.testing.assert_allclose(*masses, atol=1e-2)


@pytest.mark.slow
def test_vllm_fits_an_object_to_its_schema(vllm) -> None:
    schema = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    schema["additionalProperties"] = False

    async def asked() -> Reply:
        model = there(vllm, "logprobs")
        try:
            return await model.answer(ChatCall((Message("user", ("Done?", CLIPS[0][0])),), schema, max_tokens=200))
        finally:
            await model.close()

    assert isinstance(asyncio.run(asked()).value["done"], bool)
