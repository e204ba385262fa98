"""A local diffusion model's answers: how well it predicts the noise in frames; waiting frames are computed in
batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.diffusers_.loading import load
from guidebench.harness.models.backends.transformers_.batching import Batcher
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.calls import Call, DenoiseCall, Reply, Usage


class NoisedFrame(NamedTuple):
    """A frame to denoise."""

    frame: Array
    """uint8 [height, width, 3]."""
    text: str
    level: int
    seed: int


class DiffusersModel:
    """A `Model` that denoises. Errors depend on the call and the batch size alone, not on what waits together."""

    def __init__(self, source: Source, batch_size: int | None = None) -> None:
        """Load the weights, which blocks; raise UserError as `load` does. `batch_size`: frames computed together, as
        `Batcher` reads it."""
        self._pipeline = load(source)
        self._batcher = Batcher(batch_size, self._pipeline.device)
        self._states: dict[str, Tensor] = {}
        """Text -> the text encoder's states; a run has one text and the empty one."""
        self._slowest = 0.0

    async def answer(self, call: Call) -> Reply:
        """Make one attempt, as `Model.answer`; raise UserError for an unsupported call or noise level."""
        if not isinstance(call, DenoiseCall):
            raise UserError(f"{self._pipeline.name} is a diffusion model, which answers no call of kind {call.kind!r}")
        if call.level >= (levels := len(self._pipeline.schedule)):
            raise UserError(
                f"{self._pipeline.name} has the noise levels 0 to {levels - 1}, and {call.level} is asked for; lower "
                f"the noise levels of the part that asks (guide.least_noise, guide.noise_levels)"
            )
        frames = [
            NoisedFrame(frame, call.text, call.level, seed) for frame, seed in zip(call.frames, call.seeds, strict=True)
        ]
        kind = ("denoise", call.frames[0].shape)
        outputs = await asyncio.gather(
            *(self._batcher.put(kind, self._errors, noised_frame) for noised_frame in frames)
        )
        seconds = sum(output.seconds for output in outputs)
        self._slowest = max(self._slowest, seconds)
        return Reply(np.stack([output.value for output in outputs]), Usage(1, images=len(frames), seconds=seconds))

    def estimate(self, call: Call) -> Usage:
        """Return the images, and the seconds of the slowest call so far; the cost in USD is 0."""
        return Usage(1, images=len(call.images()), seconds=self._slowest)

    async def close(self) -> None:
        self._batcher.close()

    def _errors(self, batch: Sequence[NoisedFrame]) -> list[Array]:
        """Return mean (ε_c - ε_u)², (ε_u - ε)² and (ε_c - ε)² of each frame, float32 [3] (TADPoLe, released code)."""
        pipeline = self._pipeline
        latents, noise = self._latents(batch)
        levels = torch.tensor([frame.level for frame in batch])
        alpha_bar = pipeline.schedule[levels].to(pipeline.device)[:, None, None, None]
        noised = (alpha_bar.sqrt() * latents + (1 - alpha_bar).sqrt() * noise).to(pipeline.network.dtype)
        states = torch.stack([self._state("") for _ in batch] + [self._state(frame.text) for frame in batch])
        predicted = pipeline.network(
            torch.cat([noised, noised]), levels.repeat(2).to(pipeline.device), encoder_hidden_states=states
        ).sample.float()
        unconditional, conditional = predicted.chunk(2)
        pairs = ((conditional, unconditional), (unconditional, noise), (conditional, noise))
        errors = torch.stack([(first - second).square().mean((1, 2, 3)) for first, second in pairs], 1)
        return [*errors.cpu().numpy()]

    def _latents(self, batch: Sequence[NoisedFrame]) -> tuple[Tensor, Tensor]:
        """Return the scaled latents of the frames and the noise to add, float32 [n, channels, h, w].

        Noise is drawn on the CPU by a generator of the item's seed: first that of the latent's sample, then ε.
        """
        pipeline = self._pipeline
        side = (pipeline.side, pipeline.side)
        frames = torch.from_numpy(np.stack([noised_frame.frame for noised_frame in batch])).permute(0, 3, 1, 2)
        pixels = F.interpolate(frames.to(pipeline.device).float() / 255, side, mode="bilinear", align_corners=False)
        coded = pipeline.autoencoder.encode((2 * pixels - 1).to(pipeline.autoencoder.dtype)).latent_dist
        normals = []
        for noised_frame in batch:
            generator = torch.Generator().manual_seed(noised_frame.seed)
            normals.append(torch.randn((2, *coded.mean.shape[1:]), generator=generator))
        sampled, noise = torch.stack(normals, 1).to(pipeline.device)
        latents = coded.mean.float() + coded.std.float() * sampled
        return latents * pipeline.autoencoder.config.scaling_factor, noise

    def _state(self, text: str) -> Tensor:
        """Return the last hidden states of a text, padded to the encoder's length, [tokens, d]."""
        if text not in self._states:
            pipeline = self._pipeline
            length = pipeline.tokenizer.model_max_length
            words = pipeline.tokenizer(
                [text], padding="max_length", max_length=length, truncation=True, return_tensors="pt"
            )
            self._states[text] = pipeline.text_encoder(words.input_ids.to(pipeline.device))[0][0]
        return self._states[text]
