"""A clip has the same score from a model loaded in this process and from a real server with the same weights."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.openai_.choosing import Choosing
from guidebench.harness.models.backends.openai_.model import OpenAIModel
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.backends.recipes import Scoring
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import ChatCall, ChoiceCall, JudgeCall, Message, Model, Reply
from tests.harness.models.backends.openai_.conftest import ModelServer

pytestmark = [pytest.mark.waits, pytest.mark.release]
CLIPS = np.random.default_rng(0).integers(0, 256, (6, 4, 56, 56, 3), dtype=np.uint8)
PROMPT = 'Is a key taken in these frames? Reply with exactly "Answer: Yes" or "Answer: No".'


def local_model(directory: Path, scoring: Scoring) -> Model:
    return TransformersModel(Source(str(directory), dtype="float32"), scoring, "images", 4)


def served_model(server: ModelServer, scoring: Scoring) -> Model:
    return OpenAIModel(server.name, Server(server.url, "SOME_KEY", 300.0), scoring)


def judge_clips(model: Model) -> list[Reply]:
    async def judge_all() -> Any:
        try:
            return await asyncio.gather(*(model.answer(JudgeCall(clip, PROMPT)) for clip in CLIPS))
        finally:
            await model.close()

    return list(asyncio.run(judge_all()))


def test_transformers_serve_says_what_the_model_says(transformers_serve) -> None:
    local, remote = (
        judge_clips(local_model(transformers_serve.directory, "literal")),
        judge_clips(served_model(transformers_serve, "literal")),
    )
    assert [reply.value for reply in remote] == [reply.value for reply in local]
    assert {reply.value for reply in local} == {0.0, 1.0}, "the clips have different answers"
    assert [reply.usage.tokens_in for reply in remote] == [reply.usage.tokens_in for reply in local]


@pytest.mark.parametrize("scoring", ["prefill", "logprobs"])
def test_transformers_serve_is_told_apart_from_servers_that_score(transformers_serve, scoring: Scoring) -> None:
    with pytest.raises(UserError, match="literal"):
        judge_clips(served_model(transformers_serve, scoring))


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["prefill", "logprobs", "literal"])
def test_vllm_scores_what_the_model_scores(vllm, scoring: Scoring) -> None:
    local, remote = judge_clips(local_model(vllm.directory, scoring)), judge_clips(served_model(vllm, scoring))
    # A server returns only the 20 likeliest tokens; variants of yes and no beyond them hold at most this much.
    np.testing.assert_allclose([reply.value for reply in remote], [reply.value for reply in local], atol=5e-3)
    assert [reply.usage.tokens_in for reply in remote] == [reply.usage.tokens_in for reply in local]
    if scoring != "literal":
        masses = [[float(reply.detail["mass"]) for reply in replies] for replies in (local, remote)]
        np.testing.assert_allclose(*masses, atol=1e-2)


@pytest.mark.slow
def test_vllm_scores_candidates_as_the_model_does(vllm) -> None:
    """With what vLLM has cached from the calls before, so a wider margin than in one process."""
    call = ChoiceCall((Message("user", ("Is the door open?",)),), "Answer:", (" yes", " no", " a door"))

    async def ask(model: Model) -> Reply:
        try:
            return await model.answer(call)
        finally:
            await model.close()

    server = Server(vllm.url, "SOME_KEY", 300.0)
    remote = asyncio.run(ask(OpenAIModel(vllm.name, server, choosing=Choosing("prompt"))))
    np.testing.assert_allclose(remote.value, asyncio.run(ask(local_model(vllm.directory, "logprobs"))).value, atol=1e-2)


@pytest.mark.slow
def test_vllm_fits_an_object_to_its_schema(vllm) -> None:
    schema = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    schema["additionalProperties"] = False

    async def ask() -> Reply:
        model = served_model(vllm, "logprobs")
        try:
            return await model.answer(ChatCall((Message("user", ("Done?", CLIPS[0][0])),), schema, max_tokens=200))
        finally:
            await model.close()

    assert isinstance(asyncio.run(ask()).value["done"], bool)
