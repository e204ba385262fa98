"""Floating-point operations that judging a clip takes, counted from a model's configuration.

A product of matrices [m, k] and [k, n] takes 2·m·k·n operations; all else (norms, activations, softmax, rotations,
pooling) is left out. So a linear layer takes 2 operations per token and parameter, and attention of D features
2·2·D for each pair of a query and a key (Q·K and the sum of V). With T tokens of which the first m have been computed
before, a language model of L layers takes

    L · [ 2 (T − m) (D·H·h + 2·D·K·h + H·h·D + 3·D·I) + 4·H·h·pairs ] + 2·D·V

where H heads and K key-value heads have h features, I is the width of the gated MLP, V the vocabulary, of which only
the last token's logits are computed, and pairs = (T (T + 1) − m (m + 1)) / 2 under the causal mask. A vision tower of N
tokens has N² pairs, or the squares of its windows' sizes. Embeddings are looked up and take none.
"""

from __future__ import annotations

from typing import Any


def language(config: Any, tokens: int, cached: int = 0, causal: bool = True) -> int:
    """Return the operations of `tokens` tokens of a Llama or Qwen2 and the logits of the last one, of which the first
    `known` are computed already. Without `causal`, all pairs of queries and keys are counted, masked ones too."""
    width, heads, keys = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
    head = getattr(config, "head_dim", None) or width // heads
    linear = 2 * width * heads * head + 2 * width * keys * head + 3 * width * config.intermediate_size
    pairs = (tokens * (tokens + 1) - cached * (cached + 1)) // 2 if causal else (tokens - cached) * tokens
    layer = 2 * (tokens - cached) * linear + 4 * heads * head * pairs
    return int(config.num_hidden_layers * layer + 2 * width * config.vocab_size)


def perception_frame(config: Any) -> int:
    """Return the operations of one frame of Perception-LM: patches, layers of the tower with a class token, and the two
    linear layers of the projector, which come before its pooling."""
    tower, text = config.vision_config.model_args, config.text_config.hidden_size
    width, side = tower["embed_dim"], tower["img_size"][0]
    patches = (side // PATCH) ** 2
    tokens = patches + 1
    embedding = 2 * patches * 3 * PATCH**2 * width
    layer = 2 * tokens * (4 + 2 * MLP_RATIO) * width**2 + 4 * width * tokens**2
    projector = 2 * patches * (width * text + text**2)
    return int(embedding + tower["depth"] * layer + projector)


PATCH, MLP_RATIO = 14, 4
"""Pixels of a patch's side in both towers, and the MLP's width by the features' in Perception-LM's."""


def qwen_frames(config: Any, height: int, width: int) -> int:
    """Return the operations of one time of Qwen2.5-VL, two frames, of height × width patches: patches, layers of which
    those in `fullatt_block_indexes` attend to all patches and the others to windows, and the merger of 2 × 2."""
    tower = config.vision_config
    features, patches = tower.hidden_size, height * width
    embedding = 2 * patches * 3 * tower.temporal_patch_size * tower.patch_size**2 * features
    linear = 2 * patches * (4 * features**2 + 3 * features * tower.intermediate_size)
    side = tower.window_size // tower.patch_size
    windowed = sum(part**2 for part in _parts(height, side)) * sum(part**2 for part in _parts(width, side))
    whole = len([block for block in tower.fullatt_block_indexes if block < tower.depth])
    attention = 4 * features * (whole * patches**2 + (tower.depth - whole) * windowed)
    merged = tower.spatial_merge_size**2
    merger = 2 * (patches // merged) * ((merged * features) ** 2 + merged * features * tower.out_hidden_size)
    return int(embedding + tower.depth * linear + attention + merger)


def _parts(length: int, side: int) -> list[int]:
    """Return the lengths of windows of `side` along `length`.

    >>> _parts(18, 8)
    [8, 8, 2]
    """
    return [min(side, length - start) for start in range(0, length, side)]
