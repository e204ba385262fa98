"""Perception-LM 1B and Qwen2.5-VL 3B with random weights: the published configurations, made on the device.

Nothing is downloaded or written but a configuration and a processor, whose tokenizer is that of the tests: it has a
token for each byte, so a prompt has about four times as many tokens as with the published one. Everything but the
reading of weights is the loader's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.gpu import arithmetic
from guidebench.harness.models.backends.transformers_ import loading
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "perception_lm": {
        "text": {
            "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
            "num_key_value_heads": 8, "vocab_size": 128_256, "max_position_embeddings": 11_520, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            },
        },
        "vision": {
            "depth": 23, "embed_dim": 1024, "num_heads": 16, "img_size": [448, 448], "init_values": 0.1,
            "global_pool": "", "ref_feat_shape": [32, 32], "use_post_transformer_norm": False,
        },
    },
    "qwen_vl": {
        "text": {
            "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36, "num_attention_heads": 16,
            "num_key_value_heads": 2, "vocab_size": 151_936, "max_position_embeddings": 128_000, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        "vision": {
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048,
            "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112, "patch_size": 14, "tokens_per_second": 2,
        },
    },
}  # fmt: skip
"""Values of config.json of facebook/Perception-LM-1B and Qwen/Qwen2.5-VL-3B-Instruct."""
TITLES = {"perception_lm": "Perception-LM 1B", "qwen_vl": "Qwen2.5-VL 3B"}
_SMALL_TEXT = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 16_384,
}  # fmt: skip
SMALL: Mapping[str, Mapping[str, Any]] = {
    "perception_lm": {
        "text": {**PUBLISHED["perception_lm"]["text"], **_SMALL_TEXT},
        "vision": {**PUBLISHED["perception_lm"]["vision"], "depth": 2, "embed_dim": 64, "num_heads": 2,
                   "img_size": [56, 56], "ref_feat_shape": [4, 4]},
    },
    "qwen_vl": {
        "text": {**PUBLISHED["qwen_vl"]["text"], **_SMALL_TEXT,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}},
        "vision": {**PUBLISHED["qwen_vl"]["vision"], "depth": 2, "hidden_size": 32, "intermediate_size": 64,
                   "num_heads": 2, "out_hidden_size": 64, "fullatt_block_indexes": [1]},
    },
}  # fmt: skip
"""The same architectures for a rehearsal."""
PIXELS = {
    True: {"shortest_edge": 3136, "longest_edge": 12_845_056},
    False: {"shortest_edge": 784, "longest_edge": 3136},
}
"""Bounds of a frame's pixels in Qwen2.5-VL: as published, and in a rehearsal."""


class Made(NamedTuple):
    """Configuration and processor of a model."""

    config: Any
    processor: Any


def perception_lm(sizes: Mapping[str, Any], full: bool) -> Made:
    """Return Perception-LM's; its frames are squares of `img_size` pixels."""
    from transformers import (
        PerceptionLMConfig,
        PerceptionLMImageProcessor,
        PerceptionLMProcessor,
        PerceptionLMVideoProcessor,
    )

    from tests.harness.models import tiny_models

    special = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|image|>", "<|video|>"]
    extra = {"image_token": "<|image|>", "video_token": "<|video|>"}
    words = tiny_models.tokenizer(special, eos="<|eot_id|>", pad="<|eot_id|>", bos="<|begin_of_text|>", extra=extra)
    side = sizes["vision"]["img_size"][0]
    size = {"height": side, "width": side}
    processor = PerceptionLMProcessor(
        image_processor=PerceptionLMImageProcessor(vision_input_type="vanilla", tile_size=side, size=size),
        video_processor=PerceptionLMVideoProcessor(size=size),
        tokenizer=words, patch_size=14, pooling_ratio=2, chat_template=tiny_models.CHAT_FRAMES_FIRST,
    )  # fmt: skip
    config = PerceptionLMConfig(
        text_config={"model_type": "llama", **sizes["text"], **_ends(words)},
        vision_config={
            "model_type": "timm_wrapper", "architecture": "vit_pe_lang_large_patch14_448", "do_pooling": False,
            "num_classes": 0, "model_args": dict(sizes["vision"]),
        },
        vision_use_cls_token=True, projector_pooling_ratio=2, tie_word_embeddings=True,
        image_token_id=words.convert_tokens_to_ids("<|image|>"),
        video_token_id=words.convert_tokens_to_ids("<|video|>"),
    )  # fmt: skip
    return Made(config, processor)


def qwen_vl(sizes: Mapping[str, Any], full: bool) -> Made:
    """Return Qwen2.5-VL's; a frame has as many patches as it has pixels for, within bounds."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    from tests.harness.models import tiny_models

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    all_special = [*special, "<|image_pad|>", "<|video_pad|>"]
    words = tiny_models.tokenizer(all_special, eos="<|im_end|>", pad="<|endoftext|>")
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=PIXELS[full]),
        video_processor=Qwen2VLVideoProcessor(size=PIXELS[full], cap_pixels_per_frame=False),
        tokenizer=words, chat_template=tiny_models.CHAT,
    )  # fmt: skip
    identifier = words.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={**sizes["text"], **_ends(words)}, vision_config=dict(sizes["vision"]), tie_word_embeddings=True,
        image_token_id=identifier("<|image_pad|>"), video_token_id=identifier("<|video_pad|>"),
        vision_start_token_id=identifier("<|vision_start|>"), vision_end_token_id=identifier("<|vision_end|>"),
    )  # fmt: skip
    return Made(config, processor)


def _ends(words: Any) -> dict[str, Any]:
    return {name: getattr(words, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}


MAKERS = {"perception_lm": perception_lm, "qwen_vl": qwen_vl}


def made(name: str, full: bool) -> Made:
    """Return configuration and processor in the published sizes, or in small ones."""
    return MAKERS[name]((PUBLISHED if full else SMALL)[name], full)


def network(config: Any, device: str, dtype: torch.dtype) -> Any:
    """Return the architecture of a configuration with random weights, made on the device."""
    from transformers import AutoModelForImageTextToText

    with torch.device(device):
        return AutoModelForImageTextToText.from_config(config, dtype=dtype)


def load(name: str, directory: Path, full: bool, device: str, dtype: torch.dtype) -> LoadedModel:
    """Return a model as `loading.load` returns one from a directory with weights."""
    transformers: Any = loading._transformers()
    config, processor = made(name, full)
    config.save_pretrained(directory)
    processor.save_pretrained(directory)
    config = transformers.AutoConfig.from_pretrained(directory)
    kind, _ = loading.architecture_of(transformers, config)
    torch.manual_seed(0)
    model = network(config, device, dtype).eval().requires_grad_(False)
    return LoadedModel(TITLES[name], kind, model, loading._processor(transformers, str(directory), kind, {}))


def operations(name: str, config: Any, grid: tuple[int, int], encoded: int, tokens: int, cached: int) -> int:
    """Return the operations of a clip: `encoded` frames, or pairs of frames of `grid` patches with Qwen2.5-VL, and
    `tokens` tokens of which the first `cached` are computed already."""
    frame = arithmetic.perception_frame(config) if name == "perception_lm" else arithmetic.qwen_frames(config, *grid)
    return encoded * frame + arithmetic.language(config.text_config, tokens, cached)
