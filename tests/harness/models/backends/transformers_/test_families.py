"""The architectures of models that have recipes: judged, chatted and chosen with as by computations without a cache."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.backends.transformers_.rendering import end_tokens, parts_of, render, tokens_of
from guidebench.harness.models.calls import ChatCall, ChoiceCall, JudgeCall, Message
from tests.conftest import require
from tests.harness.models.backends.transformers_.test_choosing import CANDIDATES, by_hand
from tests.harness.models.tiny_families import FAMILIES

require("num2words")

PROMPT = 'Is the goal reached in this clip? Reply with exactly "Answer: Yes" or "Answer: No".'
WRITTEN = 4
"""Tokens of a chat's answer."""
TEXT_ALONE = ("qwen3",)
WAYS: Mapping[str, str] = MappingProxyType({"gemma3": "continued", "gemma4": "continued", "lfm2_vl": "continued"})
"""How candidates after a text are computed, where a layer does not attend to all tokens; `branched` for the others."""
UNCACHED = ("molmo2",)
"""Families whose clips are computed whole, since frames attend to each other in both directions."""


def judged_by_hand(model: TransformersModel, clip: Any) -> float:
    """Return P(yes) from the probabilities of the next token after the whole clip."""
    loaded = model._loaded
    inputs = model._judging.inputs([JudgeCall(clip, PROMPT)])
    with torch.inference_mode():
        probabilities = loaded.model(**inputs, use_cache=False).logits[0, -1].double().softmax(-1)
    vocabulary = loaded.tokenizer.get_vocab()
    yes, no = (
        sum(float(probabilities[vocabulary[form]]) for form in forms)
        for forms in (("Yes", "yes", "YES", "ĠYes", "Ġyes", "ĠYES"), ("No", "no", "NO", "ĠNo", "Ġno", "ĠNO"))
    )
    return yes / (yes + no)


def written_by_hand(model: TransformersModel, messages: tuple[Message, ...], images: list[Any]) -> str:
    """Return the most likely tokens one after another, each from the whole text."""
    loaded = model._loaded
    inputs = tokens_of(loaded, [render(loaded, [*map(parts_of, messages)])], [images])
    length = inputs["input_ids"].shape[1]
    for _ in range(WRITTEN):
        with torch.inference_mode():
            token = loaded.model(**inputs, use_cache=False).logits[:, -1:].argmax(-1)
        for name in ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"):
            if name in inputs:
                new = {"input_ids": token, "attention_mask": torch.ones_like(token)}.get(name, torch.zeros_like(token))
                inputs[name] = torch.cat([inputs[name], new], 1)
        if int(token) in end_tokens(loaded):
            break
    return str(loaded.tokenizer.decode(inputs["input_ids"][0, length:], skip_special_tokens=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_answers_as_it_does_without_a_cache(
    family: str, clips: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_family = [recipe for name in recipes.names() if re.fullmatch(rf"{family}_e?[\d_]+[bm]", name)
                 and (recipe := recipes.recipe(name))]  # fmt: skip
    served = {call for recipe in of_family for call in recipe.calls}
    sees = family not in TEXT_ALONE
    assert served == ({"judge", "chat"} if sees else {"chat"})
    directory = FAMILIES[family](tmp_path)
    model = TransformersModel(Source(str(directory), dtype="float32"), batch_size=1)
    assert model._loaded.kind == ("vision" if sees else "text")
    for image in (False, True)[: 1 + sees]:
        images = [clips[0][0]] if image else []
        messages = (Message("user", ("Where do we go? " * 12, *images)),)
        reply = asyncio.run(model.answer(ChatCall(messages, None, WRITTEN)))
        assert reply.value == written_by_hand(model, messages, images)
        call = ChoiceCall(messages, "Action:", CANDIDATES)
        assert np.abs(asyncio.run(model.answer(call)).value - by_hand(model, call)).max() < 1e-4
        assert model._choosing._ways["images" if image else "text"] == (
            "continued" if image else WAYS.get(family, "branched")
        )
    if sees:
        verdicts = [asyncio.run(model.answer(JudgeCall(clip, PROMPT))).value for clip in clips]
        assert verdicts == pytest.approx([judged_by_hand(model, clip) for clip in clips], abs=1e-4)
        assert (family in UNCACHED) == ("computed whole for every clip" in capsys.readouterr().err)
