"""A chat that reasons before it answers: the switch of its template, the limit, and what is recorded."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import ChatCall, ChoiceCall, Message, Reply
from tests.harness.models.tiny_models import CHAT_TEXT

TEMPLATE = CHAT_TEXT.replace(
    "<|im_start|>assistant\n{% endif %}",
    "<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}",
)
"""A template with Qwen3's switch."""
CALL = ChatCall((Message("user", ("What now?",)),), max_tokens=6)
TURN = "<|im_start|>user\nWhat now?<|im_end|>\n<|im_start|>assistant\n"


def load(directory: Path, thinking: Any, template: str = TEMPLATE) -> TransformersModel:
    model = TransformersModel(Source(str(directory), dtype="float32"), thinking=thinking)
    model._loaded.tokenizer.chat_template = template
    return model


def script(model: TransformersModel, monkeypatch: pytest.MonkeyPatch, *texts: str) -> list[tuple[str, dict[str, Any]]]:
    """Let the model generate these texts; return the prompt and the settings of each generation."""
    import torch

    replies, generations, tokenizer = list(texts), [], model._loaded.tokenizer

    def generate(input_ids: Any, **settings: Any) -> Any:
        generations.append((tokenizer.decode(input_ids[0]), settings))
        words = tokenizer(replies.pop(0), add_special_tokens=False, return_tensors="pt")["input_ids"]
        return torch.cat([input_ids, words], 1)

    monkeypatch.setattr(model._loaded.model, "generate", generate)
    return generations


def answer(model: TransformersModel, call: Any = CALL) -> Reply:
    return asyncio.run(model.answer(call))


def test_the_reasoning_is_recorded_and_no_part_of_the_answer(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny("llama"), 12)
    generations = script(model, monkeypatch, "It is dark.\n</think>\n\nIgnored", "sleep<|im_end|>")
    reply = answer(model)
    assert (reply.value, reply.detail) == ("sleep", {"reasoning": "It is dark."})
    (begun, reasoning), (closed, answering) = generations
    assert begun == f"{TURN}<think>\n" and closed == f"{TURN}<think>\nIt is dark.\n</think>\n\n"
    assert (reasoning["max_new_tokens"], answering["max_new_tokens"]) == (12, 6)
    assert reply.usage.tokens_out == 12 + len("sleep") + 1, "a token for each letter, and the end of the turn"


def test_a_model_that_does_not_stop_reasoning_is_made_to_answer(tiny: Callable[..., Path]) -> None:
    """A random model never writes the mark; both parts are as long as allowed."""
    model = load(tiny("llama"), 5)
    model._loaded.model.generation_config.eos_token_id = None
    reply = answer(model)
    assert reply.usage.tokens_out == 5 + 6 and reply.detail["reasoning"] and reply.detail["cut_off"] == 1.0


def test_near_the_end_of_the_context_the_reasoning_is_cut_so_that_an_answer_fits(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny("llama"), 500)
    model._loaded.model.generation_config.eos_token_id = None
    monkeypatch.setattr(type(model._loaded), "context", property(lambda loaded: 120))
    reply = answer(model)
    assert reply.value and reply.detail["reasoning"]


def test_off_tells_the_template_for_chats_and_choices(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = ChoiceCall(CALL.messages, "Action:", (" sleep", " go"))
    for thinking, prompt in (("off", f"{TURN}<think>\n\n</think>\n\n"), (None, TURN)):
        model = load(tiny("llama"), thinking)
        inputs = model._choosing.choice(choice).inputs["input_ids"][0]
        assert model._loaded.tokenizer.decode(inputs) == f"{prompt}Action:"
        generations = script(model, monkeypatch, "<think>so</think>sleep<|im_end|>")
        reply = answer(model)
        assert [text for text, _ in generations] == [prompt]
        assert (reply.value, reply.detail) == ("<think>so</think>sleep", {}), "without reasoning all is the answer"


@pytest.mark.parametrize(
    ("template", "thinking", "message"),
    [
        (CHAT_TEXT, 8, "thinking=8: the chat template .* has no enable_thinking"),
        (f"{CHAT_TEXT}<think>", "off", "thinking=off: the chat template .* has it always reason"),
        (TEMPLATE.replace("</think>", ""), 8, "has no enable_thinking with|has it always reason"),
    ],
)
def test_a_template_that_cannot_is_refused(
    tiny: Callable[..., Path], template: str, thinking: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        answer(load(tiny("llama"), thinking, template))


def test_off_suits_a_model_that_never_reasons(tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(tiny("llama"), "off", CHAT_TEXT)
    script(model, monkeypatch, "sleep<|im_end|>")
    assert answer(model).value == "sleep"
