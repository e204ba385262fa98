import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Call, ChatCall, EmbedCall, Failure, JudgeCall, Message, Reply, Usage
from tests.harness.models.backends.transformers_.asking import ask, model

PROMPT = 'Is the goal reached in this clip? Reply with exactly "Answer: Yes" or "Answer: No".'


@pytest.mark.parametrize("name", ["qwen_vl", "perception_lm"])
def test_clips_judged_together_score_as_alone_and_say_what_they_took(
    tiny: Callable[..., Path], clips: list[Any], name: str
) -> None:
    local_model = model(tiny(name))
    calls = [JudgeCall(clip, PROMPT) for clip in clips]
    together = ask(local_model, *calls)
    alone = [ask(local_model, call)[0] for call in calls]
    assert [reply.value for reply in together] == pytest.approx([reply.value for reply in alone], abs=1e-4)
    assert all(0 < reply.value < 1 and 0 < reply.detail["mass"] <= 1 for reply in together)
    usage = together[0].usage
    assert (usage.calls, usage.images, usage.tokens_out, usage.usd) == (1, 4, 1, 0.0)
    assert usage.tokens_in > 80 and usage.seconds > 0


def test_calls_of_all_kinds_at_once_each_get_their_answer(tiny: Callable[..., Path], clips: list[Any]) -> None:
    local_model = model(tiny("qwen_vl"))
    calls: list[Call] = [
        JudgeCall(clips[0], PROMPT),
        ChatCall((Message("user", ("What is this? ", clips[0][0])),), max_tokens=4),
        JudgeCall(clips[1][:2], PROMPT),
        EmbedCall(("a key", "a door")),
        ChatCall((Message("user", ("Hello",)),), max_tokens=4),
    ]
    replies = ask(local_model, *calls)
    assert all(isinstance(reply, Reply) for reply in replies), replies
    assert isinstance(replies[1].value, str) and replies[1].usage.images == 1 and replies[3].value.shape == (2, 32)
    for call, reply in zip(calls, replies, strict=True):
        alone = ask(local_model, call)[0].value
        assert alone == reply.value if isinstance(alone, str) else np.allclose(alone, reply.value, atol=1e-4)


def test_out_of_memory_in_the_real_forward_halves_the_batch(
    tiny: Callable[..., Path], clips: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    local_model = model(tiny("perception_lm"), batch_size=5)
    calls = [JudgeCall(clip, PROMPT) for clip in clips]
    expected = [reply.value for reply in ask(model(tiny("perception_lm")), *calls)]
    real, sizes = local_model._loaded.model.model.language_model.forward, []

    def forward(*args: Any, **settings: Any) -> Any:
        sizes.append(len(settings["inputs_embeds"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(*args, **settings)

    monkeypatch.setattr(local_model._loaded.model.model.language_model, "forward", forward)
    assert [reply.value for reply in ask(local_model, *calls)] == pytest.approx(expected, abs=1e-4)
    assert sizes[0] == 5 and max(sizes[1:]) == 2


def test_a_clip_that_does_not_fit_alone_is_a_failure(
    tiny: Callable[..., Path], clips: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    local_model = model(tiny("perception_lm"))

    def forward(*args: Any, **settings: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(local_model._loaded.model.model.language_model, "forward", forward)
    outcomes = ask(local_model, *[JudgeCall(clip, PROMPT) for clip in clips])
    assert [failure.kind for failure in outcomes if isinstance(failure, Failure)] == ["memory"] * 5


def test_an_estimate_is_at_least_what_a_call_then_writes(tiny: Callable[..., Path], clips: list[Any]) -> None:
    local_model = model(tiny("llama"))
    call = ChatCall((Message("user", ("Hello",)),), {"type": "object"}, max_tokens=5)
    estimate = local_model.estimate(call)
    (failure,) = ask(local_model, call)
    assert isinstance(failure, Failure) and failure.kind == "malformed"
    assert estimate.tokens_out == 15 >= failure.usage.tokens_out > 5
    assert local_model.estimate(JudgeCall(clips[0], PROMPT)) == Usage(1, images=4)


def test_a_call_of_the_wrong_kind_is_an_error_that_names_what_is_needed(
    tiny: Callable[..., Path], clips: list[Any]
) -> None:
    for name, call, needed in (
        ("llama", JudgeCall(clips[0], PROMPT), "reads no images"),
        ("clip", ChatCall((Message("user", ("Hello",)),)), "writes no text"),
        ("gpt2", EmbedCall((clips[0][0],)), "turns no images into vectors"),
        ("llama", ChatCall((Message("user", (clips[0][0],)),)), "reads text alone"),
    ):
        (error,) = ask(model(tiny(name)), call)
        assert isinstance(error, UserError) and needed in str(error), error


def test_who_waits_when_it_closes_is_not_left_waiting(tiny: Callable[..., Path], clips: list[Any]) -> None:
    local_model = model(tiny("qwen_vl"), batch_size=1)

    async def close_early() -> list[Any]:
        tasks = [asyncio.create_task(local_model.answer(JudgeCall(clip, PROMPT))) for clip in clips]
        await asyncio.sleep(0)
        await local_model.close()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)

    errors = asyncio.run(close_early())
    assert all(isinstance(error, asyncio.CancelledError) for error in errors)
