"""Real architectures with tiny random weights, saved so that the real loader can load them; nothing is downloaded.

Each function writes one model into `directory`, once, and returns the directory. Weights depend on the name alone.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

WORDS = (" Yes", " yes", " YES", " No", " no", " NO")
"""Single tokens, with and without the space, as in the tokenizers of published models."""
S3D_WORDS = ("robot", "opens", "the", "door", "a", "drawer", "it's", "push", "cut", "onion", "pan", "water")
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Keeps the order of texts and frames, as Qwen2.5-VL's own."""
CHAT_FRAMES_FIRST = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content if part.type == 'image' %}<|image|>{% endfor %}"
    "{% for part in message.content if part.type == 'video' %}<|video|>{% endfor %}"
    "{% for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}{% endif %}"
    "<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
"""Puts every frame before every text, as Perception-LM's own."""
CHAT_TEXT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _once(make: Callable[..., Path]) -> Callable[..., Path]:
    """Decorate a function that writes a model so that it returns at once if its directory holds one."""

    @functools.wraps(make)
    def once(directory: Path, *arguments: Any, **settings: Any) -> Path:
        if not any((directory / name).exists() for name in ("config.json", "model_index.json")):
            make(directory, *arguments, **settings)
        return directory

    return once


@_once
def qwen_vl(directory: Path, hidden: int = 32, layers: int = 2) -> Path:
    """Write a Qwen2.5-VL: frames of 28 x 28 pixels are 1 token for each two frames of a video, or 1 for an image."""
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    words = tokenizer([*special, "<|image_pad|>", "<|video_pad|>"], eos="<|im_end|>", pad="<|endoftext|>")
    size = {"shortest_edge": 28 * 28, "longest_edge": 56 * 56}
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        video_processor=Qwen2VLVideoProcessor(size=size, cap_pixels_per_frame=False),
        tokenizer=words,
        chat_template=CHAT,
    )
    identifier, part = words.convert_tokens_to_ids, hidden // 32
    config = Qwen2_5_VLConfig(
        text_config=_language(words, hidden, layers)
        | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [part, part, hidden // 8 - 2 * part],
            }
        },
        vision_config={
            "depth": 2,
            "hidden_size": hidden,
            "intermediate_size": 2 * hidden,
            "num_heads": 2,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
        },
        image_token_id=identifier("<|image_pad|>"),
        video_token_id=identifier("<|video_pad|>"),
        vision_start_token_id=identifier("<|vision_start|>"),
        vision_end_token_id=identifier("<|vision_end|>"),
    )
    return _save(Qwen2_5_VLForConditionalGeneration, config, processor, directory)


@_once
def perception_lm(
    directory: Path,
    hidden: int = 32,
    layers: int = 2,
    side: int = 28,
    text: Mapping[str, Any] = MappingProxyType({}),
    tower: Mapping[str, Any] | None = None,
) -> Path:
    """Write a Perception-LM: a vision tower of 28 x 28 pixels, 1 token a frame; `text` and `tower` change their
    settings."""
    from transformers import (
        PerceptionLMConfig,
        PerceptionLMForConditionalGeneration,
        PerceptionLMImageProcessor,
        PerceptionLMProcessor,
        PerceptionLMVideoProcessor,
    )

    special = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|image|>", "<|video|>"]
    extra = {"image_token": "<|image|>", "video_token": "<|video|>"}
    words = tokenizer(special, eos="<|eot_id|>", pad="<|eot_id|>", bos="<|begin_of_text|>", extra=extra)
    size = {"height": side, "width": side}
    small = {"img_size": [side, side], "depth": 1, "embed_dim": hidden, "num_heads": 2}
    processor = PerceptionLMProcessor(
        image_processor=PerceptionLMImageProcessor(vision_input_type="vanilla", tile_size=side, size=size),
        video_processor=PerceptionLMVideoProcessor(size=size),
        tokenizer=words,
        patch_size=14,
        pooling_ratio=2,
        chat_template=CHAT_FRAMES_FIRST,
    )
    config = PerceptionLMConfig(
        text_config={"model_type": "llama"} | _language(words, hidden, layers) | dict(text),
        vision_config={
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_lang_large_patch14_448",
            "do_pooling": False,
            "num_classes": 0,
            "model_args": small if tower is None else dict(tower),
        },
        vision_use_cls_token=True,
        projector_pooling_ratio=2,
        image_token_id=words.convert_tokens_to_ids("<|image|>"),
        video_token_id=words.convert_tokens_to_ids("<|video|>"),
    )
    return _save(PerceptionLMForConditionalGeneration, config, processor, directory)


def _towers() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the tokenizer of a CLIP, the settings that both of its towers have, and those of its tower of texts."""
    around = ("<|startoftext|>", "<|endoftext|>")
    words = tokenizer(list(around), eos=around[1], pad=around[1], bos=around[0], around=around)
    shared = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    return words, shared, shared | ends | {"vocab_size": len(words), "max_position_embeddings": 64}


@_once
def clip(directory: Path) -> Path:
    """Write a CLIP that embeds images of 28 x 28 pixels and texts as 16 numbers."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    (words, shared, text), side = _towers(), {"height": 28, "width": 28}
    processor = CLIPProcessor(CLIPImageProcessor(size={"shortest_edge": 28}, crop_size=side), words)
    config = CLIPConfig(
        text_config=text, vision_config=shared | {"image_size": 28, "patch_size": 14}, projection_dim=16
    )
    return _save(CLIPModel, config, processor, directory)


@_once
def xclip(directory: Path) -> Path:
    """Write an X-CLIP that embeds videos of 8 frames of 32 x 32 pixels and texts as 16 numbers."""
    from transformers import VideoMAEImageProcessor, XCLIPConfig, XCLIPModel, XCLIPProcessor

    (words, shared, text), side = _towers(), {"height": 32, "width": 32}
    processor = XCLIPProcessor(VideoMAEImageProcessor(size={"shortest_edge": 32}, crop_size=side), words)
    vision = shared | {"image_size": 32, "patch_size": 16, "num_frames": 8, "drop_path_rate": 0.0}
    vision |= {"mit_hidden_size": 16, "mit_intermediate_size": 32, "mit_num_attention_heads": 2}
    config = XCLIPConfig(text_config=text, vision_config=vision, projection_dim=16, prompt_num_attention_heads=2)
    return _save(XCLIPModel, config, processor, directory)


@_once
def diffusion(directory: Path, prediction: str = "epsilon") -> Path:
    """Write a latent diffusion pipeline with diffusers: images of 32 x 32 pixels, latents of 16 x 16, texts of at most
    12 tokens. `prediction` is what its network predicts."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    around = ("<|startoftext|>", "<|endoftext|>")
    letters = [letter + end for letter in map(chr, range(33, 127)) for end in ("", "</w>")]
    words = CLIPTokenizer(
        vocab={token: at for at, token in enumerate([*letters, *around])}, merges=[], model_max_length=12,
        pad_token=around[1],
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pipeline = StableDiffusionPipeline(
            unet=UNet2DConditionModel(
                sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
                norm_num_groups=8, cross_attention_dim=16, attention_head_dim=4,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            ),
            vae=AutoencoderKL(
                block_out_channels=(16, 16), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8,
                up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, sample_size=32,
            ),
            text_encoder=CLIPTextModel(
                CLIPTextConfig(
                    vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                    num_attention_heads=2, max_position_embeddings=12, bos_token_id=words.bos_token_id,
                    eos_token_id=words.eos_token_id, initializer_range=0.2,
                )
            ),
            tokenizer=words,
            scheduler=DDIMScheduler(
                beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type=prediction,
                clip_sample=False, steps_offset=1,
            ),
            safety_checker=None, feature_extractor=None, requires_safety_checker=False,
        )  # fmt: skip
    pipeline.save_pretrained(directory)
    return directory


@_once
def sam2(directory: Path, side: int = 64) -> Path:
    """Write a SAM 2.1 for videos: images of `side` pixels and a million parameters, the least that its fixed widths
    allow."""
    from transformers import Sam2ImageProcessor, Sam2VideoConfig, Sam2VideoModel, Sam2VideoProcessor
    from transformers import Sam2VideoVideoProcessor as Prepare

    size, cells = {"height": side, "width": side}, side // 16
    config = Sam2VideoConfig(
        image_size=side, initializer_range=0.2,
        vision_config={
            "backbone_config": {
                "model_type": "sam2_hiera_det_model", "hidden_size": 8, "image_size": [side, side],
                "blocks_per_stage": [1] * 4, "embed_dim_per_stage": [8, 16, 32, 64],
                "num_attention_heads_per_stage": [1, 1, 2, 2], "window_size_per_stage": [4] * 4,
                "global_attention_blocks": [],
            },
            "backbone_channel_list": [64, 32, 16, 8], "fpn_hidden_size": 128, "initializer_range": 0.2,
            "backbone_feature_sizes": [[4 * cells] * 2, [2 * cells] * 2, [cells] * 2],
        },
        prompt_encoder_config={"hidden_size": 128, "image_size": side, "mask_input_channels": 4},
        mask_decoder_config={
            "hidden_size": 128, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16,
        },
        memory_attention_hidden_size=128, memory_attention_num_layers=1, memory_attention_feed_forward_hidden_size=32,
        memory_attention_rope_feat_sizes=[cells] * 2, memory_encoder_hidden_size=128, mask_downsampler_embed_dim=128,
        memory_fuser_embed_dim=128, memory_fuser_intermediate_dim=32, memory_fuser_num_layers=1,
    )  # fmt: skip
    return _save(
        Sam2VideoModel, config, Sam2VideoProcessor(Sam2ImageProcessor(size=size), Prepare(size=size)), directory
    )


def s3d(directory: Path) -> Path:
    """Write S3D as published, except for a text tower of 8 and 16 features over a dozen words, and return the converted
    file; the checkpoint and its word list lie beside it."""
    file = directory / "s3d.safetensors"
    if file.exists():
        return file
    import numpy as np
    import torch

    from guidebench.harness.models.backends.transformers_.s3d import S3D
    from guidebench.harness.models.convert import convert

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = S3D(len(S3D_WORDS) + 1, word_width=8, hidden=16, width=24)
        for name, tensor in model.state_dict().items():
            if "bn" in name and tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5) if name.endswith(("weight", "var")) else tensor.uniform_(-0.1, 0.2)
            elif tensor.ndim == 5:
                tensor.mul_(3.0)  # otherwise activations vanish layer by layer
    directory.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), directory / "s3d.pth")
    np.save(directory / "words.npy", np.array(S3D_WORDS))
    convert(directory / "s3d.pth", file, words=directory / "words.npy")
    return file


@_once
def gpt2(directory: Path) -> Path:
    """Write a GPT-2 of 32 features, without a chat template, as published."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = tokenizer(["<|endoftext|>"], eos="<|endoftext|>", pad=None)
    end = words.eos_token_id
    config = GPT2Config(
        vocab_size=len(words), n_embd=32, n_layer=2, n_head=2, n_positions=512, bos_token_id=end, eos_token_id=end
    )
    return _save(GPT2LMHeadModel, config, words, directory)


@_once
def llama(directory: Path) -> Path:
    """Write a Llama of 32 features that chats in text only."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], eos="<|im_end|>", pad="<|endoftext|>")
    words.chat_template = CHAT_TEXT
    return _save(LlamaForCausalLM, LlamaConfig(**_language(words, 32, 2)), words, directory)


@_once
def gguf(directory: Path, template: bool = True) -> Path:
    """Write the Llama of `llama` as `model.gguf`, in full precision, with or without its chat template."""
    from gguf import GGUFWriter
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, LlamaConfig

    source = llama(directory / "llama")
    config, words = LlamaConfig.from_pretrained(source), AutoTokenizer.from_pretrained(source)
    writer = GGUFWriter(directory / "model.gguf", "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    model = json.loads((source / "tokenizer.json").read_text())["model"]
    tokens = words.convert_ids_to_tokens(range(config.vocab_size))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])  # control, normal
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(words.eos_token_id)
    writer.add_pad_token_id(words.pad_token_id)
    if template:
        writer.add_chat_template(CHAT_TEXT)
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    }  # fmt: skip
    heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
    for name, tensor in load_file(source / "model.safetensors").items():
        *block, part = name.removeprefix("model.").removesuffix(".weight").partition("layers.")[::2]
        layer, _, inner = part.partition(".") if part else ("", "", block[0])
        array = tensor.float().numpy()
        if inner in heads:  # llama.cpp's order of the rows, which its rotation of positions expects
            array = array.reshape(heads[inner], 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(f"blk.{layer}.{names[inner]}.weight" if layer else f"{names[inner]}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return directory


@_once
def sentence_bert(directory: Path, pooling: str = "mean", normalised: bool = False) -> Path:
    """Write a BERT of 32 features with the files in which sentence-transformers names its pooling, "mean" or "cls"."""
    from transformers import BertConfig, BertModel

    words = tokenizer(["[PAD]", "[CLS]", "[SEP]"], eos="[SEP]", pad="[PAD]", around=("[CLS]", "[SEP]"))
    words.padding_side = "right"
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    _save(BertModel, config, words, directory)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalised else [])]
    modules = [
        {
            "idx": at,
            "name": str(at),
            "path": f"{at}_{kind}" if at else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32} | modes))
    return directory


def tokenizer(
    special: list[str],
    eos: str,
    pad: str | None,
    bos: str | None = None,
    extra: dict[str, str] | None = None,
    around: tuple[str, str] | None = None,
) -> Any:
    """Return a tokenizer with a token for each byte, special token and word of WORDS; the tokens `around` enclose every
    text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        letters = word.replace(" ", "Ġ")
        for start in (1, 0):  # "Yes" first, of which "ĠYes" is then made
            joined = letters[start] if start else "Ġ"
            tail = letters[2:] if start else [letters[1:]]
            for following in tail:
                if (joined, following) not in merges:
                    merges.append((joined, following))
                    vocabulary.append(joined + following)
                joined += following
    bpe = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(vocabulary)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(special)
    if around:
        surrounding = [(token, bpe.token_to_id(token)) for token in around]
        bpe.post_processor = processors.TemplateProcessing(f"{around[0]} $A {around[1]}", special_tokens=surrounding)
    named_tokens = {"eos_token": eos, "pad_token": pad, "bos_token": bos}
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        extra_special_tokens=extra or {},
        **{name: token for name, token in named_tokens.items() if token},
    )


def _language(words: Any, hidden: int, layers: int) -> dict[str, Any]:
    return {
        "vocab_size": len(words),
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
        "initializer_range": 0.2,
    }


def _save(architecture: Any, config: Any, processor: Any, directory: Path) -> Path:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = architecture(config)
    directory.mkdir(parents=True, exist_ok=True)
    processor.save_pretrained(directory)
    model.save_pretrained(directory)  # writes config.json, which marks a complete directory
    return directory
