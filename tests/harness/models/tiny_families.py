"""The architectures of recent open models with tiny random weights, saved as `tiny_models` saves its own.

Each function writes one model into a directory and returns it. Chat templates are plain, and keep the order of texts
and pictures; tokens and sizes are chosen so that a frame takes few tokens.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.harness.models.tiny_models import CHAT, CHAT_TEXT, _language, _save, tokenizer

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def words(*special: str, **named: str) -> Any:
    """Return a tokenizer with further special tokens; `named`: attributes that processors read from it, such as
    `image_token`."""
    return tokenizer([*SPECIAL, *special], eos="<|im_end|>", pad="<|endoftext|>", bos="<|endoftext|>", extra=named)


def template(image: str, video: str = "") -> str:
    """Return a chat template that writes these texts where a message has a picture or a video."""
    return CHAT.replace("<|vision_start|><|image_pad|><|vision_end|>", image).replace(
        "<|vision_start|><|video_pad|><|vision_end|>", video
    )


def qwen3(directory: Path) -> Path:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokens = words()
    tokens.chat_template = CHAT_TEXT
    return _save(Qwen3ForCausalLM, Qwen3Config(**_language(tokens, 32, 2), head_dim=8), tokens, directory)


def qwen3_vl(directory: Path) -> Path:
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokens = words("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    size = {"shortest_edge": 32 * 32, "longest_edge": 64 * 64}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size, patch_size=16),
        video_processor=Qwen3VLVideoProcessor(size={"shortest_edge": 32 * 32 * 2, "longest_edge": 32 * 32 * 64}),
        tokenizer=tokens, chat_template=CHAT,
    )  # fmt: skip
    identifier = tokens.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config=_language(tokens, 32, 2) | {
            "head_dim": 8,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1],
                                "mrope_interleaved": True},
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        },
        image_token_id=identifier("<|image_pad|>"), video_token_id=identifier("<|video_pad|>"),
        vision_start_token_id=identifier("<|vision_start|>"), vision_end_token_id=identifier("<|vision_end|>"),
    )  # fmt: skip
    return _save(Qwen3VLForConditionalGeneration, config, processor, directory)


def smolvlm(directory: Path) -> Path:
    from transformers import (
        SmolVLMConfig,
        SmolVLMForConditionalGeneration,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    tokens = words("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<video>")
    edge = {"longest_edge": 32}
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size=edge, max_image_size=edge, do_image_splitting=False),
        video_processor=SmolVLMVideoProcessor(size=edge, max_image_size=edge, num_frames=8, fps=1),
        tokenizer=tokens, image_seq_len=1, chat_template=template("<image>", "<video>"),
    )  # fmt: skip
    config = SmolVLMConfig(
        text_config={"model_type": "llama"} | _language(tokens, 32, 2),
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 32, "patch_size": 16,
        },
        image_token_id=tokens.convert_tokens_to_ids("<image>"), scale_factor=2,
    )  # fmt: skip
    return _save(SmolVLMForConditionalGeneration, config, processor, directory)


def internvl(directory: Path) -> Path:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    named = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
             "video_token": "<video>"}  # fmt: skip
    tokens, side = words(*named.values(), **named), {"height": 28, "width": 28}
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(size=side, crop_to_patches=False),
        video_processor=InternVLVideoProcessor(size=side), tokenizer=tokens, image_seq_length=1,
        chat_template=template("<IMG_CONTEXT>", "<video>"),
    )  # fmt: skip
    config = InternVLConfig(
        text_config={"model_type": "qwen3", "head_dim": 8} | _language(tokens, 32, 2),
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": [28, 28], "patch_size": [14, 14],
        },
        image_token_id=tokens.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=1,
    )  # fmt: skip
    return _save(InternVLForConditionalGeneration, config, processor, directory)


def molmo2(directory: Path) -> Path:
    from transformers import (
        Molmo2Config,
        Molmo2ForConditionalGeneration,
        Molmo2ImageProcessor,
        Molmo2Processor,
        Molmo2VideoProcessor,
    )

    around = ("<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>", "<frame_start>", "<im_end>", "<frame_end>",
              "<im_low>", "<|image|>", "<|video|>")  # fmt: skip
    tokens, side = words(*around), {"height": 28, "width": 28}
    processor = Molmo2Processor(
        image_processor=Molmo2ImageProcessor(size=side, max_crops=1, overlap_margins=[0, 0]),
        video_processor=Molmo2VideoProcessor(size=side), tokenizer=tokens,
        chat_template=template("<|image|>", "<|video|>"),
    )  # fmt: skip
    identifier, heads = (
        tokens.convert_tokens_to_ids,
        {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16},
    )
    config = Molmo2Config(
        text_config=_language(tokens, 32, 2) | {"head_dim": 8, "additional_vocab_size": 8},
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "image_size": [28, 28], **heads,
        },
        adapter_config={
            "hidden_size": 32, "intermediate_size": 64, "text_hidden_size": 32, "vision_feature_layer": [0, 1], **heads,
        },
        image_start_token_id=identifier("<im_start>"), low_res_image_start_token_id=identifier("<low_res_im_start>"),
        image_end_token_id=identifier("<im_end>"), image_patch_id=identifier("<im_patch>"),
        frame_start_token_id=identifier("<frame_start>"), frame_end_token_id=identifier("<frame_end>"),
    )  # fmt: skip
    return _save(Molmo2ForConditionalGeneration, config, processor, directory)


def gemma3(directory: Path) -> Path:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    tokens = words(*named.values(), **named)
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": 56, "width": 56}), tokenizer=tokens, image_seq_length=4,
        chat_template=template("<start_of_image>"),
    )  # fmt: skip
    identifier = tokens.convert_tokens_to_ids
    config = Gemma3Config(
        text_config=_language(tokens, 32, 2) | {
            "head_dim": 8, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 56, "patch_size": 14,
        },
        mm_tokens_per_image=4, tie_word_embeddings=False, boi_token_index=identifier("<start_of_image>"),
        eoi_token_index=identifier("<end_of_image>"), image_token_index=identifier("<image_soft_token>"),
    )  # fmt: skip
    return _save(Gemma3ForConditionalGeneration, config, processor, directory)


def gemma4(directory: Path) -> Path:
    from transformers import (
        Gemma4AudioFeatureExtractor,
        Gemma4Config,
        Gemma4ForConditionalGeneration,
        Gemma4ImageProcessor,
        Gemma4Processor,
        Gemma4VideoProcessor,
    )

    named = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
             "boa_token": "<|audio>", "eoa_token": "<audio|>"}  # fmt: skip
    tokens = words(*named.values(), "<|video|>", **named)
    processor = Gemma4Processor(
        feature_extractor=Gemma4AudioFeatureExtractor(), image_processor=Gemma4ImageProcessor(max_soft_tokens=70),
        video_processor=Gemma4VideoProcessor(), tokenizer=tokens, chat_template=template("<|image|>", "<|video|>"),
    )  # fmt: skip
    identifier = tokens.convert_tokens_to_ids
    config = Gemma4Config(
        text_config=_language(tokens, 32, 2) | {
            "head_dim": 8, "global_head_dim": 8, "sliding_window": 16, "num_kv_shared_layers": 0,
            "layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": len(tokens),
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "head_dim": 16, "position_embedding_size": 256,
        },
        audio_config=None, tie_word_embeddings=False,
        image_token_id=identifier("<|image|>"), video_token_id=identifier("<|video|>"),
        audio_token_id=identifier("<|audio|>"), boi_token_id=identifier("<|image>"),
        eoi_token_id=identifier("<image|>"), boa_token_id=identifier("<|audio>"),
        eoa_token_index=identifier("<audio|>"),
    )  # fmt: skip
    return _save(Gemma4ForConditionalGeneration, config, processor, directory)


def lfm2_vl(directory: Path) -> Path:
    from transformers import Lfm2VlConfig, Lfm2VlForConditionalGeneration, Lfm2VlImageProcessor, Lfm2VlProcessor

    tokens = words("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
    processor = Lfm2VlProcessor(
        image_processor=Lfm2VlImageProcessor(do_image_splitting=False, min_image_tokens=1, max_image_tokens=4),
        tokenizer=tokens, chat_template=template("<image>"),
    )  # fmt: skip
    config = Lfm2VlConfig(
        text_config={"model_type": "lfm2", "layer_types": ["conv", "full_attention"]} | _language(tokens, 32, 2),
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_patches": 16, "vision_use_head": False,
        },
        image_token_id=tokens.convert_tokens_to_ids("<image>"), projector_hidden_size=32,
    )  # fmt: skip
    return _save(Lfm2VlForConditionalGeneration, config, processor, directory)


FAMILIES: Mapping[str, Callable[[Path], Path]] = MappingProxyType({
    "qwen3": qwen3, "qwen3_vl": qwen3_vl, "smolvlm2": smolvlm, "internvl3_5": internvl, "molmo2": molmo2,
    "gemma3": gemma3, "gemma4": gemma4, "lfm2_vl": lfm2_vl,
})  # fmt: skip
"""Beginning of the names of recipes -> the function that writes a tiny model of their architecture."""
