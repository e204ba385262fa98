"""Cal-QL: what it changes of SAC, which are the critics' loss and target, and the returns that bound values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.learners.actor_critic.learner import REDUCTIONS, CriticUpdate
from guidebench.baselines.learners.actor_critic.sample import Kind, Sample
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.baselines.learners.sac.learner import SacLearner, tanh_gaussian
from guidebench.baselines.losses import Added
from guidebench.baselines.networks import ensemble_over
from guidebench.baselines.returns import returns_to_go
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Batch, Build, Store, TransitionColumn

RETURN = TransitionColumn("return", "mutable", initial=float("-inf"))
"""The return from a transition to the end of its episode. It is −∞, which bounds nothing, until the episode has ended,
and may be rewritten when rewards are relabelled."""


class Head(NamedTuple):
    """The policy in a batch of states: a Gaussian before its tanh."""

    mean: Tensor  # [S, B, A]
    log_std: Tensor  # [S, B, A]

    def actions(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return K actions in each state [S, B, K, A] and log π [S, B, K], given standard normal noise [S, B, K, A]."""
        return tanh_gaussian(self.mean.unsqueeze(2), self.log_std.unsqueeze(2), noise)


class CalQlLearner(SacLearner):
    """SAC with a conservative term, bounded below by Monte-Carlo returns, and K actions in the target (Nakamoto et al.
    2023), for S seeds at once.

    Actor and temperature are those of SAC, but for the actor's `imitation`. Critics and target differ, in
    `update_critics` and `conservative`."""

    config: CalQl

    def __init__(self, config: CalQl, build: Build) -> None:
        super().__init__(config, build)
        self.columns = (RETURN,)

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Compute the returns of an ended episode from its stored rewards, and store them."""
        self.write_returns(row, slots, store.read("reward", row, slots), store)

    def write_returns(self, row: int, slots: Array, rewards: Array, store: Store) -> None:
        """Store the returns of an ended episode of the seed in this row, at its `slots` [T] in time order, computed
        from `rewards` [T] (before the settings' scale and bias). A guide that relabels stored rewards has to call it
        again with the new ones."""
        config = self.config
        rewards = self.scaled(rewards)
        lasts = config.tail == "last_reward" and not store.read("terminated", row, slots[-1:])[0]
        after = float(rewards[-1]) / (1 - config.discount) if lasts else 0.0
        store.write(RETURN.name, row, slots, returns_to_go(rewards, config.discount, after))

    def scaled(self, rewards: Array) -> Array:
        """Return rewards after the settings' scale and bias, float32."""
        scaled = np.float32(self.config.reward_scale) * rewards + np.float32(self.config.reward_bias)
        return np.asarray(scaled, np.float32)

    def sample(self, batch: Batch, rows: slice, acts: bool) -> Sample:
        """Return a block's share of the batch as SAC does, with scaled rewards and, in `more`, the returns and what
        draws the actions [S, B, K, A]: uniform in [−1, 1] (`random`), or standard normal."""
        config = self.config
        shape = (*batch.reward.shape[1:], config.cql_actions, self.actions)
        names = (*(("backup",) if config.max_backup else ()), *(("next", "current") if config.cql_weight else ()))
        more = {
            name: self._tensor(
                np.stack([generator.standard_normal(shape, np.float32) for generator in self.noise[rows]])
            )
            for name in names
        }
        if config.cql_weight:
            uniform = np.stack([generator.random(shape, np.float32) for generator in self.noise[rows]])
            more["random"] = self._tensor(2 * uniform - 1)
            more["return"] = self._tensor(batch.columns[RETURN.name][rows])
        if acts and config.bc_weight:
            if batch.from_dataset is None:
                raise UserError(
                    "learner.bc_weight clones the transitions of a dataset, which this agent does not tell from those "
                    "that the run collects; choose agent=offline_online, or set learner.bc_weight=0"
                )
            more["from_dataset"] = self._tensor(batch.from_dataset[rows].astype(np.float32))
        scaled = batch._replace(reward=self.scaled(batch.reward))
        return super().sample(scaled, rows, acts)._replace(more=more)

    def update_critics(self, sample: Sample, kind: Kind, added: Added | None = None) -> CriticUpdate:
        """Descend Σ_i mean of w·(Q_i(s, a) − y)² + `cql_weight` · `conservative`_i, where y = r + γ(1 − terminated)·
        max_k min_i Q̄_i(s′, a′_k), a′_k drawn from π(·|s′), without an entropy bonus (Cal-QL's code, td_target)."""
        block = kind.block
        with torch.no_grad():
            following = Head(*self.gaussian(block, self.features(block, sample.next_observation)))
            value = self.backup(block, sample, following)
            td_target = sample.reward + sample.continues * value
        if not self.config.cql_weight:
            return self.fit_critics(sample, td_target, kind, added)

        def penalty(features: Tensor, values: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
            gap, bounded = self.conservative(block, sample, features, values, following)
            metrics = {"cql": gap.detach().mean((1, 2)), "bounded": bounded}
            return self.config.cql_weight * gap.sum(1).mean(1), metrics

        return self.fit_critics(sample, td_target, kind, added, penalty)

    def imitation(
        self, sample: Sample, mean: Tensor, action_value: Tensor
    ) -> tuple[Tensor | None, Mapping[str, Tensor]]:
        """Return w·q̄·mean of ‖tanh μ(s) − a‖²/A over the dataset's transitions in the batch, [S], where w is
        `bc_weight` and q̄ the batch's mean of |Q(s, ã)|, ã drawn from π(·|s), without gradient; and the mean alone."""
        if not self.config.bc_weight:
            return None, {}
        counts = sample.more["from_dataset"]
        errors = (mean.tanh() - sample.action).square().mean(2)
        error = (errors * counts).sum(1) / counts.sum(1).clamp(min=1)
        return self.config.bc_weight * action_value.abs().mean(1) * error, {"cloning": error.detach()}

    def backup(self, block: int, sample: Sample, following: Head) -> Tensor:
        """Return the value of s′ in the target, [S, B]: the minimum over the target critics, and of K actions the
        largest of these; with `max_backup` off, that of one action."""
        features = self.target_features(block, sample.next_observation)
        if not self.config.max_backup:
            return self.target_q(block, sample, features, tanh_gaussian(*following, sample.next_noise)[0])
        actions, _ = following.actions(sample.more["backup"])
        values = self.q_of_each(self.target_critics(block, sample), features, actions)
        return REDUCTIONS[self.config.target_reduction](values).amax(2)

    def conservative(
        self, block: int, sample: Sample, features: Tensor, values: Tensor, following: Head
    ) -> tuple[Tensor, Tensor]:
        """Return log Σ_j exp(Q_i(s, a_j) − log μ_j) − Q_i(s, a), [S, N, B], and the share of bounded values, [S]
        (Nakamoto et al. 2023, eq. 5.1; Kumar et al. 2020, app. F).

        Of the 3K actions a_j, K each are uniform, drawn from π(·|s′) and drawn from π(·|s); log μ_j is their
        log-density, A·log ½ or log π. The values of the policy's actions are at least the return from s, and have no
        gradient where they are less. `features` [S, B, D] and `values` [S, N, B] are those of s and of (s, a).
        """
        more, count = sample.more, self.config.cql_actions
        with torch.no_grad():
            next_actions, next_log = following.actions(more["next"])
            actions, own_log = Head(*self.gaussian(block, features)).actions(more["current"])
            log_density = torch.cat([next_log, own_log], 2).unsqueeze(1)
        every = torch.cat([more["random"], next_actions, actions], 2)
        action_values = self.q_of_each(self.critic.blocks[block].views, features, every)
        random, policy = action_values[..., :count] - self.actions * math.log(0.5), action_values[..., count:]
        returns = more["return"][:, None, :, None]
        bounded = (policy.detach() < returns).float().mean((1, 2, 3))
        if self.config.calibrated:
            policy = torch.maximum(policy, returns)
        return torch.cat([random, policy - log_density], 3).logsumexp(3) - values, bounded

    def q_of_each(self, critics: Mapping[str, Tensor], features: Tensor, actions: Tensor) -> Tensor:
        """Return Q_i(s, a_k): features [S, B, D], actions [S, B, K, A] -> [S, N, B, K]."""
        return ensemble_over(self.critic_network, critics, features, actions)
