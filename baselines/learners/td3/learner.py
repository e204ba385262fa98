"""TD3: its two updates (critics, actor), and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from guidebench.baselines.captured import UpdateStatistics
from guidebench.baselines.learners.actor_critic.learner import ActorCriticLearner, CriticUpdate
from guidebench.baselines.learners.actor_critic.sample import Kind, Sample
from guidebench.baselines.learners.td3 import Td3
from guidebench.baselines.losses import Added
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Build


class Td3Learner(ActorCriticLearner):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018, algorithm 1), for S seeds at once.

    One gradient step is `learn`."""

    config: Td3
    delays_targets = True

    def __init__(self, config: Td3, build: Build) -> None:
        super().__init__(config, build)
        self.target_actor = self.actor.empty_like()
        self.target_actor.flat.copy_(self.actor.flat)

    def learn(self, sample: Sample, kind: Kind, added: Mapping[str, Added] = MappingProxyType({})) -> UpdateStatistics:
        """Take one gradient step (algorithm 1): the critics; on delayed updates also the actor, then all target
        networks."""
        critics = self.update_critics(sample, kind, added.get("critic"))
        metrics = self.update_actor(sample, kind, added.get("actor")) if kind.acts else {}
        self.move_targets(kind)
        return self.update_statistics(critics, metrics, added)

    def update_critics(self, sample: Sample, kind: Kind, added: Added | None = None) -> CriticUpdate:
        """Descend Σ_i mean of w·(Q_i(s, a) − y)², y = r + γ(1 − terminated)·R_{i in M} Q̄_i(s′, a′), where a′ = π̄(s′)
        + clip(σ̃·ε, ±c), clipped to ±1 (Fujimoto et al. 2018, eq. 14; VLM-RB, app. E.1)."""
        block, config = kind.block, self.config
        with torch.no_grad():
            noise = (config.target_noise * sample.next_noise).clamp(-config.noise_clip, config.noise_clip)
            features = self.target_features(block, sample.next_observation)
            action = (self.policy(self.target_actor.blocks[block].views, features) + noise).clamp(-1, 1)
            wanted = sample.reward + sample.continues * self.target_q(block, sample, features, action)
        return self.fit_critics(sample, wanted, kind, added)

    def update_actor(self, sample: Sample, kind: Kind, added: Added | None = None) -> dict[str, Tensor]:
        """Descend the mean of −R_i Q_i(s, π(s)) (algorithm 1: the deterministic policy gradient, with Q_1 there);
        return metrics, name -> [S]."""
        block = kind.block
        with torch.no_grad():
            features = self.features(block, sample.observation)
        loss = -self.actor_q(block, features, self.greedy(block, features)).mean(1)
        return self.fit_actor(loss, kind, added)

    def policy(self, actor: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """Return π(s) in (-1, 1): [S, B, D] -> [S, B, A]."""
        return self.actor_network(actor, features).tanh()

    def greedy(self, block: int, features: Tensor) -> Tensor:
        """Return π(s)."""
        return self.policy(self.actor.blocks[block].views, features)

    def explore(self, block: int, features: Tensor, noise: Tensor) -> Tensor:
        """Return π(s) + σ·ε, clipped to ±1."""
        return (self.greedy(block, features) + self.config.exploration_noise * noise).clamp(-1, 1)

    def targets(self) -> list[tuple[Parameters, Parameters]]:
        """Return the targets of the critics and of the actor, which are updated together."""
        return [*super().targets(), (self.target_actor, self.actor)]

    def networks(self) -> dict[str, Parameters]:
        return {**super().networks(), "target_actor": self.target_actor}
