"""Feedback is embedded by the real GPT-2 architecture, whose tokenizer has no padding token."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import EmbedCall
from guidebench.harness.models.embedders.transformers_text_embedder import TextTransformers

TEXTS = ("The gripper slipped off the puck.", "It fell.")


@pytest.fixture
def gpt2(tiny: Callable[..., Path]) -> Path:
    return tiny("gpt2")


def vectors(model: Path, *texts: str, **settings: Any) -> Array:
    loaded = TextTransformers(model=str(model), **settings).spawn_model("cpu")

    async def run() -> Any:
        try:
            return (await loaded.answer(EmbedCall(texts))).value
        finally:
            await loaded.close()

    return np.asarray(asyncio.run(run()))


def states(model: Path, text: str) -> Array:
    """Last hidden states of one text alone, [tokens, 32]."""
    import torch
    from transformers import AutoTokenizer, GPT2LMHeadModel

    words = AutoTokenizer.from_pretrained(model)
    assert words.pad_token is None
    with torch.no_grad():
        body = GPT2LMHeadModel.from_pretrained(model).transformer
        return np.asarray(body(**words(text, return_tensors="pt")).last_hidden_state[0].numpy())


def test_the_vector_is_the_mean_of_a_texts_own_last_states_or_half_that_and_half_the_last(gpt2: Path) -> None:
    alone = [states(gpt2, text) for text in TEXTS]
    means = [each.mean(0) for each in alone]
    assert np.allclose(vectors(gpt2, *TEXTS), means, atol=1e-5)
    assert np.allclose(vectors(gpt2, *TEXTS, pool="mean"), means, atol=1e-5)
    halves = [0.5 * each[-1] + 0.5 * each.mean(0) for each in alone]
    assert np.allclose(vectors(gpt2, *TEXTS, pool="last_and_mean"), halves, atol=1e-5)


def test_a_text_is_cut_after_the_tokens_that_were_asked_for(gpt2: Path) -> None:
    whole = states(gpt2, TEXTS[0])
    assert len(whole) > 6
    assert np.allclose(vectors(gpt2, TEXTS[0], text_tokens=6), whole[:6].mean(0), atol=1e-5), (
        "later ones change nothing"
    )
    assert not np.allclose(vectors(gpt2, TEXTS[0]), whole[:6].mean(0), atol=1e-5)
    last = 0.5 * whole[5] + 0.5 * whole[:6].mean(0)
    assert np.allclose(vectors(gpt2, TEXTS[0], text_tokens=6, pool="last_and_mean"), last, atol=1e-5)


def test_pool_and_length_are_part_of_what_identifies_a_recorded_call(gpt2: Path) -> None:
    known = [
        study_models.identity(TextTransformers(model=str(gpt2), **more)) for more in ({}, {"pool": "last_and_mean"})
    ]
    assert known[0] != known[1] and known[0]["text_tokens"] is None


def test_clip_has_its_own_vectors_of_texts(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="has its own vectors of texts, so its pool must be auto"):
        vectors(tiny("clip"), "a key", pool="mean")


def test_it_is_what_transformers_means_in_that_role_alone() -> None:
    assert registry.meant("embedder", "transformers", "text_embedder") == "transformers_text_embedder"
    assert registry.meant("embedder", "transformers", "embedder") == "transformers"
    assert registry.meant("embedder", "scripted", "text_embedder") == "scripted"
    assert registry.meant("chat", "scripted", "feedback") == "scripted_feedback"
    assert registry.meant("chat", "oracle", "feedback") == "oracle_feedback"
    assert registry.meant("chat", "openai", "feedback") == "openai"
    assert (TextTransformers().dimensions(), TextTransformers(model="gpt2").dimensions()) == (384, 768)


def test_the_width_of_a_local_model_is_in_its_configuration(gpt2: Path, tiny: Callable[..., Path]) -> None:
    assert TextTransformers(model=str(gpt2)).dimensions() == 32 == len(vectors(gpt2, "a key")[0])
    bert = tiny("sentence_bert")
    assert TextTransformers(model=str(bert)).dimensions() == 32 == len(vectors(bert, "a key")[0])


def test_the_width_is_unknown_where_the_configuration_does_not_tell_it(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    assert TextTransformers(model=str(tiny("clip"))).dimensions() is None, "its texts' is 16"
    for content in ("[]", "{", '{"hidden_size": "32"}', '{"hidden_size": true}'):
        (tmp_path / "config.json").write_text(content)
        assert TextTransformers(model=str(tmp_path)).dimensions() is None
