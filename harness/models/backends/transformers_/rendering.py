"""Conversion of messages and clips to model inputs: chat template to text, text to tokens, frames to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.templates import template_of
from guidebench.harness.models.calls import Message
from guidebench.harness.models.calls.chat import images_of

FRAMES_PER_SECOND = 2.0
"""Frame rate reported to models that use the time between frames: the rate at which Qwen2.5-VL samples videos, since an
environment step has no duration (choice)."""


def render(loaded: LoadedModel, conversation: Sequence[Any], **variables: bool) -> str:
    """Return a conversation as text up to the model's turn; without a template, its texts separated by blank lines.
    `variables`: further ones of the template."""
    if template_of(loaded) is None:
        texts = [part["text"] for message in conversation for part in message["content"] if part["type"] == "text"]
        return "\n\n".join(texts) + "\n\n"
    if loaded.kind == "text":
        conversation = [
            {"role": message["role"], "content": "".join(part["text"] for part in message["content"])}
            for message in conversation
        ]
    return str(
        loaded.processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True, **variables)
    )


def parts_of(message: Message) -> dict[str, Any]:
    """Return a message as `render` takes it, each image replaced by its place."""
    parts = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in message.content]
    return {"role": message.role, "content": parts}


def readable_images(loaded: LoadedModel, messages: Sequence[Message]) -> list[Array]:
    """Return the images of messages, in order; raise UserError if there are some and the model reads text alone."""
    images = images_of(messages)
    if images and loaded.kind != "vision":
        raise UserError(f"model {loaded.name!r} reads text alone, and was sent an image")
    return images


def tokens_of(loaded: LoadedModel, texts: Sequence[str], images: Sequence[Sequence[Array]] = ()) -> dict[str, Any]:
    """Return the inputs of rendered texts, padded on the left, and the images uint8 [height, width, 3] of each."""
    media = {"images": [[_pixels(image, loaded) for image in row] for row in images]} if any(images) else {}
    return _prepared(loaded, texts, padding=True, **media)


def frames_of(loaded: LoadedModel, texts: Sequence[str], clips: Sequence[Array], as_video: bool) -> dict[str, Any]:
    """Return the inputs of rendered texts with one clip uint8 [L, height, width, 3] each."""
    if not as_video:
        return tokens_of(loaded, texts, [list(clip) for clip in clips])
    metadata = [
        {"fps": FRAMES_PER_SECOND, "total_num_frames": len(clip), "frames_indices": list(range(len(clip)))}
        for clip in clips
    ]
    videos = [_pixels(clip, loaded) for clip in clips]
    return _prepared(loaded, texts, videos=videos, video_metadata=metadata, do_sample_frames=False)


def decode_generated(loaded: LoadedModel, words: torch.Tensor) -> list[tuple[str, int, bool]]:
    """Return each row of generated tokens [n, m] as its text, its length in tokens including the end token, and whether
    there is an end token."""
    ended = torch.isin(words.cpu(), torch.tensor(end_tokens(loaded)))
    generations = []
    for row, ending in zip(words, ended, strict=True):
        ends_here = bool(ending.any())
        count = int(ending.nonzero()[0]) + 1 if ends_here else len(row)
        generations.append((loaded.tokenizer.decode(row[:count], skip_special_tokens=True), count, ends_here))
    return generations


def end_tokens(loaded: LoadedModel) -> list[int]:
    """Return the tokens that end the model's turn; [] if its configuration names none."""
    ends = loaded.model.generation_config.eos_token_id
    return [end for end in (ends if isinstance(ends, list) else [ends]) if end is not None]


def _prepared(loaded: LoadedModel, texts: Sequence[str], **media: Any) -> dict[str, Any]:
    begins = loaded.tokenizer.bos_token
    twice = begins is not None and texts[0].startswith(begins)  # the template writes it already
    prepared = loaded.processor(text=list(texts), return_tensors="pt", add_special_tokens=not twice, **media)
    inputs = {}
    for name, value in prepared.items():
        if isinstance(value, torch.Tensor):
            pixels = name.startswith("pixel_values")
            value = value.to(loaded.device, loaded.model.dtype) if pixels else value.to(loaded.device)
        inputs[name] = value
    return inputs


def _pixels(frames: Array, loaded: LoadedModel) -> torch.Tensor:
    """Return uint8 [..., height, width, 3] as [..., 3, height, width] on the model's device, where it is resized
    later."""
    return torch.from_numpy(frames).movedim(-1, -3).to(loaded.device)
