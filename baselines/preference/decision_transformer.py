"""A Decision Transformer (Chen et al. 2021) that continues a state as an expert would: imagined segments without a
language model (RL-SaLLM-F, app. B.7).

It reads (return-to-go, state) pairs and predicts the next state; actions are left out, since an imagined segment has
none [choice]. It is trained on an expert's episodes with its own generator, so that a resumed run obtains the same
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from guidebench.harness.interfaces import Array

WIDTH, LAYERS, HEADS = 128, 3, 1
"""Chen et al. 2021, table 9 (OpenAI Gym)."""
RATE, WEIGHT_DECAY, BATCH, CLIP = 1e-4, 1e-4, 64, 0.25
"""Settings of AdamW and the largest gradient norm (Chen et al. 2021, table 9)."""
SEED = 0


class ExpertTrajectory(NamedTuple):
    """An expert's trajectory of T steps."""

    observations: Array  # float32 [T, D], states in which each action was taken
    rewards: Array  # float [T]


class DecisionTransformer(nn.Module):
    """Imagines segments of `length` states from a given first state, conditioned on the highest return of the
    expert."""

    def __init__(self, episodes: Sequence[ExpertTrajectory], length: int, updates: int) -> None:
        """Train for `updates` gradient steps, 3 ms each on one core for ten steps and 17 numbers."""
        super().__init__()
        self.length = length
        returns = [np.cumsum(episode.rewards[::-1])[::-1] for episode in episodes]
        self._scale = max(1e-6, max(float(np.abs(togo).max()) for togo in returns))
        self._goal = max(float(togo.max()) for togo in returns) / self._scale
        states = np.concatenate([episode.observations for episode in episodes])
        self._mean, self._std = states.mean(0), states.std(0) + 1e-6
        size = states.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            self.of_return, self.of_state = nn.Linear(1, WIDTH), nn.Linear(size, WIDTH)
            self.of_place = nn.Parameter(0.02 * torch.randn(length, WIDTH))
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
            self.step = nn.Linear(WIDTH, size)
        self._train(episodes, returns, updates)

    def forward(self, togo: Tensor, states: Tensor) -> Tensor:
        """Predict the state after each of the normalised states [B, t, D] with returns-to-go [B, t], [B, t, D]. The
        network outputs the change from the state before."""
        batch, steps = togo.shape
        place = self.of_place[:steps]
        tokens = torch.stack([self.of_return(togo.unsqueeze(2)) + place, self.of_state(states) + place], 2)
        mask = nn.Transformer.generate_square_subsequent_mask(2 * steps)
        outputs = self.body(tokens.view(batch, 2 * steps, WIDTH), mask=mask, is_causal=True)
        moved: Tensor = states + self.step(outputs.view(batch, steps, 2, WIDTH)[:, :, 1])
        return moved

    def _train(self, episodes: Sequence[ExpertTrajectory], returns: Sequence[Array], updates: int) -> None:
        """Minimise the mean squared error of next states in stretches drawn uniformly from all episodes that are long
        enough."""
        normal = [self._normal(episode.observations) for episode in episodes]
        starts = [(number, start) for number, states in enumerate(normal) for start in range(len(states) - self.length)]
        rng = np.random.default_rng(SEED)
        optimiser = torch.optim.AdamW(self.parameters(), RATE, weight_decay=WEIGHT_DECAY)
        for _ in range(updates):
            chosen = [starts[place] for place in rng.integers(len(starts), size=BATCH)]
            stretch = np.stack([normal[number][start : start + self.length + 1] for number, start in chosen])
            togo = np.stack([returns[number][start : start + self.length] for number, start in chosen]) / self._scale
            states = torch.from_numpy(stretch)
            loss = F.mse_loss(self(torch.from_numpy(togo.astype(np.float32)), states[:, :-1]), states[:, 1:])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.parameters(), CLIP)
            optimiser.step()
        self.loss = float(loss.detach()) if updates else float("nan")

    def _normal(self, states: Array) -> Array:
        return np.asarray((states - self._mean) / self._std, np.float32)

    @torch.no_grad()
    def imagine(self, start: Array) -> Array:
        """Return an imagined segment, float32 [length, D], whose first state is `start` [D]."""
        states = torch.from_numpy(self._normal(start[None]))[None]
        for step in range(1, self.length):
            following = self(torch.full((1, step), self._goal), states)[:, -1:]
            states = torch.cat([states, following], 1)
        segment = states[0].numpy() * self._std + self._mean
        segment[0] = start
        return np.asarray(segment, np.float32)
