from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import ChatCall, Failure, Message, Reply
from tests.harness.models.backends.transformers_.asking import ask, model

SCHEMA = {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]}


def script_replies(model: TransformersModel, monkeypatch: pytest.MonkeyPatch, *texts: str) -> list[str]:
    """Let the real model generate these texts, one for each call; return the list of prompts it is given."""
    import torch

    replies, prompts, tokenizer = list(texts), [], model._loaded.tokenizer

    def generate(input_ids: Any, **settings: Any) -> Any:
        prompts.append(tokenizer.decode(input_ids[0]))
        words = tokenizer(replies.pop(0), add_special_tokens=False, return_tensors="pt")["input_ids"]
        return torch.cat([input_ids, words], 1)

    monkeypatch.setattr(model._loaded.model, "generate", generate)
    return prompts


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen_vl"])
def test_chats_of_different_lengths_are_continued_together_as_alone(tiny: Callable[..., Path], name: str) -> None:
    chat_model = model(tiny(name))
    calls = [ChatCall((Message("user", (text,)),), max_tokens=6) for text in ("Hi", "What opens a locked door?")]
    together, alone = ask(chat_model, *calls), [ask(chat_model, call)[0] for call in calls]
    assert [str(getattr(reply, "value", reply)) for reply in together] == [
        str(getattr(reply, "value", reply)) for reply in alone
    ], "a random model may well say nothing, which is a failure"
    assert together[0].usage.tokens_in < together[1].usage.tokens_in and 1 <= together[0].usage.tokens_out <= 6


def test_a_text_that_the_limit_of_tokens_ended_says_so(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_model = model(tiny("llama"))
    end = chat_model._loaded.tokenizer.eos_token
    script_replies(chat_model, monkeypatch, "Both come near", f"The second is nearer. 2{end}")
    call = ChatCall((Message("user", ("Which?",)),))
    details = [ask(chat_model, call)[0].detail for _ in range(2)]
    assert details == [{"cut_off": 1.0}, {}]


def test_an_object_that_fits_is_found_among_other_words(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_model = model(tiny("llama"))
    prompts = script_replies(chat_model, monkeypatch, 'Sure! {"step": 3} is it.')
    (reply,) = ask(chat_model, ChatCall((Message("user", ("Where?",)),), SCHEMA))
    assert isinstance(reply, Reply) and reply.value == {"step": 3}
    assert '"required": ["step"]' in prompts[0], "the schema stands in the prompt"


def test_a_model_is_shown_what_is_wrong_and_may_mend_it(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_model = model(tiny("llama"))
    prompts = script_replies(chat_model, monkeypatch, '{"step": "three"}', '{"step": 3}')
    (reply,) = ask(chat_model, ChatCall((Message("user", ("Where?",)),), SCHEMA))
    assert (reply.value, reply.detail) == ({"step": 3}, {"repairs": 1.0})
    assert '{"step": "three"}' in prompts[1] and "is not of type 'integer'" in prompts[1]
    assert reply.usage.calls == 1 and reply.usage.tokens_out == len('{"step": "three"}') + len('{"step": 3}')


@pytest.mark.parametrize(("texts", "kind"), [(["na", "{}", '{"step": 1.5}'], "malformed"), (["  "], "empty")])
def test_what_stays_wrong_is_a_failure(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, texts: Sequence[str], kind: str
) -> None:
    chat_model = model(tiny("llama"))
    script_replies(chat_model, monkeypatch, *texts)
    (failure,) = ask(chat_model, ChatCall((Message("user", ("Where?",)),), SCHEMA))
    assert isinstance(failure, Failure) and failure.kind == kind
    assert failure.usage.tokens_out == sum(map(len, texts))


def test_a_temperature_samples(tiny: Callable[..., Path]) -> None:
    chat_model = model(tiny("llama"))
    call = ChatCall((Message("user", ("Hi",)),), max_tokens=12, temperature=1.0)
    assert len({ask(chat_model, call)[0].value for _ in range(4)}) > 1
