"""Log-probabilities of candidates, compared with those computed token by token."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.answers import YES_OR_NO
from guidebench.harness.models.backends.transformers_ import choosing
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import Call, ChoiceCall, JudgeCall, Message
from tests.harness.models.backends.transformers_.asking import model
from tests.refusals import check_refused

CANDIDATES = (" move left", " no", " Yes", " chop the tree", " s")
TEXT = ChoiceCall((Message("system", ("Act.",)), Message("user", ("Where to?",))), "Action:", CANDIDATES)


def answer(chat: TransformersModel, call: Call) -> Any:
    return asyncio.run(chat.answer(call))


def by_hand(chat: TransformersModel, call: ChoiceCall | JudgeCall) -> Any:
    """Return the answer computed with one call of the network for each token, prompt included."""
    import torch

    loaded, rows = chat._loaded, []
    choice = chat._choosing.choice(call)
    ends = torch.tensor([loaded.model.generation_config.eos_token_id]).flatten()
    types = {name: choice.inputs[name] for name in choosing.TYPES if name in choice.inputs}
    for candidate in call.candidates if isinstance(call, ChoiceCall) else YES_OR_NO:
        tokens = loaded.tokenizer(candidate, add_special_tokens=False)["input_ids"]
        read, log_p, inputs = choice.inputs["input_ids"], 0.0, dict(choice.inputs)
        for token in [*tokens, None]:
            more = read.shape[1] - choice.length
            padded = {name: torch.nn.functional.pad(types[name], (0, more)) for name in types}
            inputs |= {"input_ids": read, "attention_mask": torch.ones_like(read), **padded}
            with torch.inference_mode():
                chances = loaded.model(**inputs, use_cache=False).logits[0, -1].double().softmax(-1)
            if token is not None:
                log_p += float(chances[token].log())
                read = torch.cat([read, torch.tensor([[token]])], 1)
        rows.append([log_p, float(chances[ends].sum().log()), len(tokens)])
    return np.array(rows)


@pytest.mark.parametrize(("name", "image"), [("llama", False), ("gpt2", False), ("qwen_vl", False), ("qwen_vl", True)])
def test_log_probabilities_equal_those_computed_token_by_token(
    tiny: Callable[..., Path], clips: list[Any], name: str, image: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the model's own way, again with what is kept, in one part, in parts of two, and each candidate alone."""
    chat = model(tiny(name))
    further = [Message("user", (clips[0][0],))] if image else [Message("user", ("It is dark. " * 20,))]
    call = ChoiceCall((*TEXT.messages, *further), "Action:", CANDIDATES)
    expected, reply = by_hand(chat, call), answer(chat, call)
    form: choosing.Form = "images" if image else "text"
    assert chat._choosing._ways == {form: "continued" if image else "branched"}
    assert call.fault(reply.value) == "" and np.array_equal(answer(chat, call).value, reply.value)
    assert np.abs(reply.value - expected).max() < 1e-4
    assert np.array_equal(reply.value[:, 0].argsort(), expected[:, 0].argsort())
    assert reply.usage.tokens_in == chat._choosing.choice(call).length + expected[:, 2].sum()
    assert (reply.usage.tokens_out, reply.usage.images) == (0, int(image))
    for way, part in (("continued", 16), ("continued", 2), ("alone", 2)):
        monkeypatch.setattr(choosing, "PART", part)
        chat._choosing._ways[form] = way  # type: ignore[assignment]
        assert np.abs(answer(chat, call).value - expected).max() < 1e-4


@pytest.mark.parametrize(("name", "form"), [("qwen_vl", "images"), ("qwen_vl", "video"), ("perception_lm", "images")])
def test_a_clip_is_judged_by_the_likelihoods_of_yes_and_no(
    tiny: Callable[..., Path], clips: list[Any], name: str, form: Any
) -> None:
    """By the probabilities of each answer and the end of the turn, computed token by token; the same bits again."""
    judge = model(tiny(name), scoring="choice", clips=form)
    calls = [JudgeCall(clip, "Is the door open?") for clip in clips[:2]]
    replies = [answer(judge, call) for call in calls]
    assert judge._choosing._ways == {form: "continued"}
    for call, reply in zip(calls, replies, strict=True):
        yes, no = np.exp(by_hand(judge, call)[:, :2].sum(1))
        assert call.fault(reply.value) == "" and abs(reply.value - yes / (yes + no)) < 1e-4
        assert reply.detail == {"mass": pytest.approx(yes + no, abs=1e-4)}
        assert reply.usage.tokens_in == judge._choosing.choice(call).length + 2
        assert (reply.usage.tokens_out, reply.usage.images) == (0, len(call.clip))
    prompt = judge._loaded.tokenizer.decode(judge._choosing.choice(calls[0]).inputs["input_ids"][0])
    assert "Is the door open?" in prompt and prompt.endswith("Answer:")
    assert replies[0].value != replies[1].value
    again = model(tiny(name), scoring="choice", clips=form)
    assert [answer(again, call).value for call in calls[::-1]] == [reply.value for reply in replies[::-1]]


def test_a_model_without_eyes_cannot_judge_by_choice(tiny: Callable[..., Path], clips: list[Any]) -> None:
    with pytest.raises(UserError, match="reads no images, so it cannot judge clips"):
        answer(model(tiny("llama"), scoring="choice"), JudgeCall(clips[0], "Is it so?"))


def test_an_answer_is_the_same_in_each_bit_whatever_was_asked_before(tiny: Callable[..., Path]) -> None:
    """What is kept of other prompts, and what was dropped of this one, changes nothing."""
    calls = [
        ChoiceCall((Message("user", ("The same for all. " * 20 + sky * 30,)),), "Action:", CANDIDATES)
        for sky in ("rain ", "sun ", "rain ", "snow ", "rain and sun ")
    ]
    fresh = [answer(model(tiny("llama")), call).value for call in calls]
    chat = model(tiny("llama"))
    prefixes = chat._choosing._prefixes
    assert all(np.array_equal(answer(chat, call).value, fresh[n]) for n, call in enumerate(calls[:3]))
    prefixes._limit = prefixes.bytes // 2
    assert all(np.array_equal(answer(chat, call).value, fresh[n + 1]) for n, call in enumerate(calls[1:]))
    assert 0 < prefixes.bytes <= prefixes._limit
    chunks = [tensor for layers in prefixes._chunks.values() for layer in layers for tensor in layer]
    assert prefixes.bytes == sum(tensor.nbytes for tensor in chunks)


def test_an_answer_about_images_is_the_same_in_each_bit_whatever_was_asked_before(
    tiny: Callable[..., Path], clips: list[Any]
) -> None:
    calls = [
        ChoiceCall((Message("user", ("Which is open?", *pair)),), "Action:", CANDIDATES)
        for pair in (clips[0][:2], clips[0][1::-1], clips[1][:1])
    ]
    fresh = [answer(model(tiny("qwen_vl")), call).value for call in calls]
    assert len({rows.tobytes() for rows in fresh}) == 3
    chat = model(tiny("qwen_vl"))
    answer(chat, TEXT)
    assert all(np.array_equal(answer(chat, calls[number]).value, fresh[number]) for number in (2, 0, 1, 0))


def test_a_cache_that_changes_the_answer_is_not_used(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = model(tiny("llama"))
    expected = by_hand(chat, TEXT)
    for way in ("branched", "continued"):
        right = getattr(choosing.Choosing, way)
        monkeypatch.setattr(choosing.Choosing, way, lambda self, choice, right=right: right(self, choice) - 2)
    assert np.abs(answer(chat, TEXT).value - expected).max() < 1e-4
    assert "anew for every candidate (probabilities differ" in capsys.readouterr().err


def test_the_fixed_call_fits_a_tokenizer_that_joins_marks_with_line_breaks() -> None:
    """Qwen's and Llama 3's read ":" and a line break as one token, and a space with the word after it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = Tokenizer(models.BPE(vocab={**letters, ":Ċ": len(letters)}, merges=[(":", "Ċ")]))
    split = pre_tokenizers.Split(Regex(r" ?[^\s\p{L}\p{N}]+[\r\n]*|[^\r\n\p{L}\p{N}]?\p{L}+|\s+"), "isolated")
    inner.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    check_refused("has no tokens of its own", choosing.continuations, tokenizer, "Say. Answer:", ["\n yes"], "joining")
    assert len(choosing.continuations(tokenizer, "Say. Answer:", choosing.FIXED, "joining")) == 3


def test_a_network_whose_rotation_depends_on_the_length_keeps_no_beginnings(tiny: Callable[..., Path]) -> None:
    chat = model(tiny("llama"))
    expected = by_hand(chat, TEXT)
    chat._loaded.model.config.rope_parameters = {"rope_type": "longrope", "rope_theta": 10_000.0}
    assert np.abs(answer(chat, TEXT).value - expected).max() < 1e-4
    assert chat._choosing._ways == {"text": "continued"}


def test_a_candidate_without_tokens_of_its_own_is_refused_by_name(tiny: Callable[..., Path]) -> None:
    chat = model(tiny("llama"))
    joined = ChoiceCall(TEXT.messages, "Answer: ", ("maybe", "Yes"))
    check_refused(r"candidate 'Yes' has no tokens of its own after '.*Answer: '", answer, chat, joined)


def test_a_candidate_beyond_the_context_is_refused_with_both_lengths(tiny: Callable[..., Path]) -> None:
    chat = model(tiny("gpt2"))
    prompt = chat._choosing.choice(TEXT).length
    fits = ChoiceCall(TEXT.messages, TEXT.prefix, (" s", " " + "z" * (511 - prompt)))
    assert answer(chat, fits).value[1, 2] == 512 - prompt
    longer = ChoiceCall(TEXT.messages, TEXT.prefix, (" s", " " + "z" * (512 - prompt)))
    check_refused(rf"{prompt} tokens and its candidate ' zz.* of {513 - prompt} .* the 512 that", answer, chat, longer)


def test_a_model_that_reads_or_writes_no_such_thing_is_refused(tiny: Callable[..., Path], clips: list[Any]) -> None:
    check_refused("writes no text", answer, model(tiny("clip")), TEXT)
    check_refused(
        "reads text alone", answer, model(tiny("llama")), ChoiceCall((Message("user", (clips[0][0],)),), "", (" a",))
    )
