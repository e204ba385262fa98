"""ERO's replay policy: which candidates it keeps, and how it learns from evaluation returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.networks import MLP
from guidebench.baselines.parameters import Adam, Parameters
from guidebench.baselines.sampling import BaseSampler
from guidebench.harness.interfaces import Array, Build, Draw, Metrics, Moment, Span, State, Transition, Update

if TYPE_CHECKING:
    from guidebench.baselines.replay.ero import Ero

FEATURES = 3
"""Number of features: reward, |TD error|, and time in the episode divided by the horizon (VLM-RB, app. E)."""


class EroSampler(BaseSampler):
    """Keeps candidate i with probability p_i = φ(r_i, |δ_i|, t_i / T) and learns φ by REINFORCE (VLM-RB, app. E).

    The policy's reward is the change of the moving average of evaluation returns, credited to the latest batch before
    the evaluation [choice]. It runs on the CPU, since its batches are a few thousand numbers.
    """

    def __init__(self, config: Ero, build: Build) -> None:
        self.config = config
        self._horizon = build.horizon
        self._policy = MLP(FEATURES, config.hidden, 1, "policy")
        self.parameters = Parameters(self._policy.specs(), build.rows)
        self.parameters.initialise([streams.initial for streams in build.streams])
        self._gradient = self.parameters.empty_like()
        self._optimiser = Adam(self.parameters, config.lr)
        self._features = np.zeros((build.rows, build.slots, FEATURES), np.float32)
        self._time = np.zeros(build.rows, np.int64)
        self._batch: Array | None = None
        """Features of the latest batch when it was chosen, [S, B, 3]."""
        self.mean_return = np.full(build.rows, np.nan)
        """Moving average of evaluation returns, [S]; NaN before the first."""
        self._kept_share = np.zeros(build.rows)

    def added(self, index: int, live: Span, transition: Transition) -> None:
        self._time += 1
        self._features[:, index, 0] = transition.reward
        self._features[:, index, 1] = self.config.new_error
        self._features[:, index, 2] = self._time / self._horizon
        self._time[transition.terminated | transition.truncated] = 0

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B], without weights: of 4B uniform candidates the first B kept [choice]; if fewer are
        kept, also the most likely of the others."""
        live, size = moment.live, self.config.candidates * count
        candidates, coins = np.empty((len(moment.rngs), size), np.int64), np.empty((len(moment.rngs), size))
        for row, rng in enumerate(moment.rngs):
            candidates[row] = live.slots(rng.integers(live.count, size=size))
            rng.random(out=coins[row])
        features = np.take_along_axis(self._features, candidates[:, :, None], axis=1)
        probability = self.retention(features)
        is_kept = coins < probability
        self._kept_share = is_kept.mean(axis=1)
        preference = np.where(is_kept, np.arange(size) / size, 2.0 - probability)
        chosen = np.argsort(preference, axis=1, kind="stable")[:, :count]
        self._batch = np.take_along_axis(features, chosen[:, :, None], axis=1)
        return Draw(np.take_along_axis(candidates, chosen, axis=1), None)

    def feedback(self, index: Array, update: Update) -> None:
        """Store |TD errors| [S, B]; a value that is not finite is ignored."""
        row = np.arange(len(index))[:, None]
        error = np.abs(update.td_error)
        self._features[row, index, 1] = np.where(np.isfinite(error), error, self._features[row, index, 1])

    def evaluated(self, returns: Array) -> None:
        """Take one step of the replay policy, with the change that these returns [S] make to their moving average as
        reward."""
        has_mean = np.isfinite(self.mean_return)
        weight = self.config.averaging
        average = np.where(has_mean, (1 - weight) * self.mean_return + weight * returns, returns)
        reward = average - self.mean_return
        learning = np.isfinite(reward)
        self.mean_return = np.where(np.isfinite(average), average, self.mean_return)
        if self._batch is None or not learning.any():
            return
        gradient = self.policy_gradient(np.where(learning, reward, 0.0), self._batch)
        self._optimiser.step(gradient, learning)

    def policy_gradient(self, reward: Array, features: Array) -> Tensor:
        """Return the gradient [S, P] of L = −r Σ_i log p_i, for reward r [S] and features [S, B, 3] (VLM-RB, app. E:
        L_ERO)."""
        losses = []
        for block in self.parameters.blocks:
            logits = self._policy(block.views, torch.tensor(features[block.rows])).squeeze(2)
            gain = torch.tensor(reward[block.rows], dtype=torch.float32)
            losses.append(-gain * F.logsigmoid(logits).sum(1))
        return self.parameters.gradient(losses, self._gradient)

    def retention(self, features: Array) -> Array:
        """Return p of features [S, N, 3], [S, N]."""
        with torch.no_grad():
            logits = [self._policy(block.views, torch.tensor(features[block.rows])) for block in self.parameters.blocks]
        return np.asarray(torch.cat(logits).squeeze(2).sigmoid().numpy())

    def metrics(self, step: int) -> Metrics:
        """Return the share of the latest candidates that the policy kept, and the moving average of evaluation
        returns."""
        return {"replay/kept_share": self._kept_share.copy(), "replay/mean_return": self.mean_return.copy()}

    def state(self, row: int) -> State:
        return {
            "parameters": self.parameters.arrays(row),
            "optimiser": self._optimiser.state(row),
            "features": self._features[row].copy(),
            "time": int(self._time[row]),
            "batch": None if self._batch is None else self._batch[row].copy(),
            "mean_return": float(self.mean_return[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        self.parameters.load(row, state["parameters"])
        self._optimiser.load_state(row, state["optimiser"])
        self._features[row] = state["features"]
        self._time[row] = state["time"]
        self.mean_return[row] = state["mean_return"]
        if state["batch"] is not None:
            if self._batch is None:
                self._batch = np.zeros((len(self._time), *state["batch"].shape), np.float32)
            self._batch[row] = state["batch"]
