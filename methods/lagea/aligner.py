"""Training of LaGEA's projections: calibration, discrimination and the symmetric refinement, seed by seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.heads.projection import Heads
from guidebench.harness.interfaces import Array
from guidebench.methods.lagea import Lagea, losses
from guidebench.methods.lagea.losses import Samples, unit

LOSSES = ("bce", "nce", "contrast", "alignment", "uniformity", "success_cosine", "failure_cosine")
"""Metrics of the steps: the losses, and the mean ψ of successes and of failures."""


class AlignmentBatch(NamedTuple):
    """A batch of B transitions of each seed for the alignment, as tensors; missing vectors and weights are 0."""

    frames: Tensor
    """Vectors of the frames after the transitions, [S, B, W]."""
    feedback: Tensor
    """Vectors of their episodes' feedback, [S, B, F]."""
    weights: Tensor
    """ŵ of the frames, [S, B]."""
    success: Tensor
    """Whether the transitions are successes, float [S, B]."""
    complete: Tensor
    """Whether a transition has all vectors and its weight, bool [S, B]."""
    rivals: Tensor
    """Whether transition j is a negative of transition i, or i itself, bool [S, B, B]."""
    goals: Tensor
    """Vectors of the goal images, [S, 1, W]."""


def rivals(complete: Array, places: Array, mask_shared: bool) -> Array:
    """Return whether transition j is a negative of transition i, or i itself, bool [S, B, B].

    `complete` bool [S, B]: which transitions can be used; `places` int [S, B]: their episodes; `mask_shared`: whether
    transitions of one episode are no negatives of each other."""
    pairs: Array = complete[:, :, None] & complete[:, None, :]
    if mask_shared:
        pairs &= places[:, :, None] != places[:, None, :]
    return pairs | np.eye(complete.shape[1], dtype=bool)


class Aligner:
    """Takes steps on L_align = λ_bce·L_bce + λ_nce·L_nce, and on L_sym (LaGEA, §3.1.3)."""

    def __init__(self, config: Lagea, heads: Heads, rows: int) -> None:
        self.config, self.heads = config, heads
        self.last_metrics = {name: np.full(rows, np.nan) for name in LOSSES}
        """Name in `LOSSES` -> value in the last step, [S]; NaN where it is not defined."""
        self._active = np.zeros(rows, bool)
        """Seeds for which the present step is taken, [S]."""

    def align(self, drawn: AlignmentBatch, active: Array) -> None:
        """Take a step on L_align for the seeds `active` [S]."""
        self._active = active
        self.heads.step(lambda block, rows: self._alignment(block, rows, drawn), active)

    def refine(self, drawn: AlignmentBatch, active: Array) -> None:
        """Take a step on L_sym for the seeds `active` [S]."""
        self._active = active
        if active.any():
            self.heads.step(lambda block, rows: self._refinement(block, rows, drawn), active)

    def _samples(self, block: int, rows: slice, drawn: AlignmentBatch) -> tuple[Samples, Tensor]:
        """Return the projected samples of a block of seeds, and their images' cosine with the goal image [s, B]."""
        both = torch.cat([drawn.frames[rows], drawn.goals[rows]], 1)
        images = unit(self.heads.project(block, "image", both))
        feedback = unit(self.heads.project(block, "feedback", drawn.feedback[rows]))
        samples = Samples(images[:, :-1], feedback, drawn.success[rows], drawn.complete[rows], drawn.rivals[rows])
        return samples, (images[:, :-1] * images[:, -1:]).sum(2)

    def _alignment(self, block: int, rows: slice, drawn: AlignmentBatch) -> Tensor:
        """Return L_align, [s]."""
        config = self.config
        samples, closeness = self._samples(block, rows, drawn)
        weigh = losses.released_weights if config.alignment == "released" else losses.proximity_weights
        weights = weigh(drawn.weights[rows], closeness, samples.complete)
        bce = losses.calibration(samples, weights, config.bce_temperature)
        nce = losses.discrimination(samples, weights, config.nce_temperature)
        cosines = samples.cosines.detach()
        for name, chosen in (("success_cosine", samples.success), ("failure_cosine", 1 - samples.success)):
            counted = chosen * samples.complete
            self._see(name, rows, (cosines * counted).sum(1) / counted.sum(1))
        self._see("bce", rows, bce)
        self._see("nce", rows, nce)
        return config.bce_share * bce + config.nce_share * nce

    def _refinement(self, block: int, rows: slice, drawn: AlignmentBatch) -> Tensor:
        """Return L_sym, [s]."""
        config = self.config
        samples, closeness = self._samples(block, rows, drawn)
        saliency, complete = drawn.weights[rows], samples.complete
        if config.alignment == "released":
            weights = losses.released_contrast_weights(saliency, closeness, samples.success, complete)
            spread = losses.released_uniformity(samples)
        else:
            weights = losses.proximity_weights(saliency, closeness, complete)
            spread = losses.uniformity(samples)
        contrast = losses.contrast(samples, weights, config.nce_temperature, config.smoothing)
        near = losses.alignment(samples)
        for name, value in (("contrast", contrast), ("alignment", near), ("uniformity", spread)):
            self._see(name, rows, value)
        return contrast + config.alignment_share * near + config.uniformity_share * spread

    def _see(self, name: str, rows: slice, values: Tensor) -> None:
        last_values, active = self.last_metrics[name][rows], self._active[rows]
        last_values[active] = values.detach().cpu().numpy()[active]
