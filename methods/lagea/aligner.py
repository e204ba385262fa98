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


class FeedbackVectors(NamedTuple):
    """Vectors of the feedback on the episodes of S × B transitions, each once."""

    vectors: Tensor
    """Vectors of the episodes of each seed, [S, E, F]; 0 where there is none."""
    places: Tensor
    """Place in `vectors` of each transition's episode, int64 [S, B]."""
    counts: Array
    """Number of episodes of each seed, [S]."""

    def projected(self, heads: Heads, block: int, rows: slice) -> Tensor:
        """Return the projected unit vectors of the transitions of a block of seeds, [s, B, d]. Each episode's is
        projected once; no more are projected than the block's seeds have, so on a CPU, where a block is one seed,
        other seeds change no bit of them."""
        episodes = unit(heads.project(block, "feedback", self.vectors[rows, : int(self.counts[rows].max())]))
        return episodes.gather(1, self.places[rows].unsqueeze(2).expand(-1, -1, episodes.shape[2]))


class AlignmentBatch(NamedTuple):
    """A batch of B transitions of each seed for the alignment, as tensors; missing vectors and weights are 0."""

    frames: Tensor
    """Vectors of the frames after the transitions, [S, B, W]."""
    feedback: FeedbackVectors
    """Vectors of their episodes' feedback."""
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
    """Takes steps on L_align + L_sym, L_align = λ_bce·L_bce + λ_nce·L_nce (LaGEA, §3.1.3; its algorithm takes a step on
    each, so one step on their sum is a choice, for speed)."""

    def __init__(self, config: Lagea, heads: Heads, rows: int) -> None:
        self.config, self.heads = config, heads
        self.last_metrics = {name: np.full(rows, np.nan) for name in LOSSES}
        """Name in `LOSSES` -> value in the last step, [S]; NaN where it is not defined."""
        self._active = np.zeros(rows, bool)
        """Seeds for which the present step is taken, [S]."""
        self._refined = np.zeros(rows, bool)
        """Seeds whose present step includes L_sym, [S]."""

    def step(self, batch: AlignmentBatch, active: Array, refined: Array) -> None:
        """Take a gradient step of the heads for the seeds `active` [S] on L_align, and on L_align + L_sym for those of
        them that are `refined` [S]. Both losses share one projection of the batch."""
        self._active, self._refined = active, refined & active
        self.heads.step(lambda block, rows: self._loss(block, rows, batch), active)

    def _loss(self, block: int, rows: slice, batch: AlignmentBatch) -> Tensor:
        """Return the loss of a block of seeds, [s], with gradients, and store its terms in `last_metrics`."""
        samples, closeness = self._samples(block, rows, batch)
        loss = self._alignment(samples, closeness, batch, rows)
        refined = self._refined[rows]
        if not refined.any():
            return loss
        return loss + self._refinement(samples, closeness, batch, rows) * torch.from_numpy(refined).to(loss)

    def _samples(self, block: int, rows: slice, batch: AlignmentBatch) -> tuple[Samples, Tensor]:
        """Return the projected samples of a block of seeds, and their images' cosine with the goal image [s, B]."""
        both = torch.cat([batch.frames[rows], batch.goals[rows]], 1)
        images = unit(self.heads.project(block, "image", both))
        feedback = batch.feedback.projected(self.heads, block, rows)
        samples = Samples(images[:, :-1], feedback, batch.success[rows], batch.complete[rows], batch.rivals[rows])
        return samples, (images[:, :-1] * images[:, -1:]).sum(2)

    def _alignment(self, samples: Samples, closeness: Tensor, batch: AlignmentBatch, rows: slice) -> Tensor:
        """Return L_align of a block of seeds, [s], with gradients, and store its terms in `last_metrics`."""
        config = self.config
        weigh = losses.released_weights if config.alignment == "released" else losses.proximity_weights
        weights = weigh(batch.weights[rows], closeness, samples.complete)
        bce = losses.calibration(samples, weights, config.bce_temperature)
        nce = losses.discrimination(samples, weights, config.nce_temperature)
        cosines = samples.cosines.detach()
        for name, of_outcome in (("success_cosine", samples.success), ("failure_cosine", 1 - samples.success)):
            counted = of_outcome * samples.complete
            self._see(name, rows, (cosines * counted).sum(1) / counted.sum(1))
        self._see("bce", rows, bce)
        self._see("nce", rows, nce)
        return config.bce_share * bce + config.nce_share * nce

    def _refinement(self, samples: Samples, closeness: Tensor, batch: AlignmentBatch, rows: slice) -> Tensor:
        """Return L_sym of a block of seeds, [s], with gradients, and store its terms in `last_metrics`."""
        config = self.config
        saliency, complete = batch.weights[rows], samples.complete
        if config.alignment == "released":
            weights = losses.released_contrast_weights(saliency, closeness, samples.success, complete)
            spread = losses.released_uniformity(samples)
        else:
            weights = losses.proximity_weights(saliency, closeness, complete)
            spread = losses.uniformity(samples)
        contrast = losses.contrast(samples, weights, config.nce_temperature, config.smoothing)
        distance = losses.alignment(samples)
        for name, loss in (("contrast", contrast), ("alignment", distance), ("uniformity", spread)):
            self._see(name, rows, loss, self._refined)
        return contrast + config.alignment_share * distance + config.uniformity_share * spread

    def _see(self, name: str, rows: slice, values: Tensor, seeds: Array | None = None) -> None:
        """Store a metric of a block of seeds, for those of `seeds` [S], by default the active ones."""
        last_values, active = self.last_metrics[name][rows], (self._active if seeds is None else seeds)[rows]
        last_values[active] = values.detach().cpu().numpy()[active]
