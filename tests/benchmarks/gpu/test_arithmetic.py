"""Operations counted from a configuration are those that PyTorch counts while the model computes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu import arithmetic, models


def test_a_language_model_by_hand() -> None:
    """One layer of width 4, two heads and one key-value head of 2 features, an MLP of 3, 5 words, 3 tokens of which 1
    is known: a token's products take 2·(4·4 + 2·4·2 + 4·4 + 3·4·3) = 168; the 2 others attend to 2 and 3 keys, which
    takes 4·4·5 = 80; the logits take 2·4·5 = 40."""
    config = SimpleNamespace(
        hidden_size=4, num_attention_heads=2, num_key_value_heads=1, intermediate_size=3, num_hidden_layers=1,
        vocab_size=5,
    )  # fmt: skip
    assert arithmetic.language(config, tokens=3, cached=1) == 2 * 168 + 80 + 40
    assert arithmetic.language(config, tokens=3, cached=1, causal=False) == 2 * 168 + 4 * 4 * 6 + 40


def count_operations(call: Any) -> int:
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        call()
    return int(counter.get_total_flops())


def network(name: str) -> Any:
    """Return the small architecture of a model; its attention uses matrix products, which PyTorch counts."""
    model = models.network(models.made(name, full=False).config, "cpu", torch.float32).eval()
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("name", models.MAKERS)
def test_the_language_models_are_counted_as_pytorch_counts(name: str) -> None:
    """PyTorch also counts the pairs that the causal mask leaves out, so the expected count does too."""
    model, tokens = network(name), 48
    text = model.config.text_config
    operations = count_operations(
        lambda: model(input_ids=torch.full((1, tokens), 5), use_cache=False, logits_to_keep=1)
    )
    assert operations == arithmetic.language(text, tokens, causal=False)


def test_a_frame_of_perception_lm_is_counted_as_pytorch_counts() -> None:
    model = network("perception_lm")
    for block in model.model.vision_tower.timm_model.blocks:
        block.attn.fused_attn = False
    side = model.config.vision_config.model_args["img_size"][0]
    operations = count_operations(lambda: model.model.get_image_features(pixel_values=torch.zeros(1, 1, 3, side, side)))
    assert operations == arithmetic.perception_frame(model.config)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (8, 16), (18, 10)])
def test_a_pair_of_frames_of_qwen_is_counted_as_pytorch_counts(height: int, width: int) -> None:
    model = network("qwen_vl")
    pixels = torch.zeros(height * width, 3 * 2 * 14 * 14)
    grid = torch.tensor([[1, height, width]])
    operations = count_operations(lambda: model.model.get_video_features(pixels, video_grid_thw=grid))
    assert operations == arithmetic.qwen_frames(model.config, height, width)
