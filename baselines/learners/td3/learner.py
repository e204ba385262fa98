"""The actor and the smoothed target of TD3."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from guidebench.baselines.learners.actor_critic.learner import ActorCriticLearner, ActorTerms, Sample
from guidebench.baselines.learners.td3 import Td3
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Build


class Td3Learner(ActorCriticLearner):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018, algorithm 1), for S seeds at once."""

    config: Td3
    delays_targets = True

    def __init__(self, config: Td3, build: Build) -> None:
        super().__init__(config, build)
        self.target_actor = self.actor.empty_like()
        self.target_actor.flat.copy_(self.actor.flat)

    def policy(self, actor: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """π(s) in (-1, 1): [S, B, D] -> [S, B, A]."""
        return self.actor_network(actor, features).tanh()

    def greedy(self, part: int, features: Tensor) -> Tensor:
        """π(s)."""
        return self.policy(self.actor.parts[part].views, features)

    def explore(self, part: int, features: Tensor, noise: Tensor) -> Tensor:
        """π(s) + σ·ε, cut off at ±1."""
        return (self.greedy(part, features) + self.config.exploration_noise * noise).clamp(-1, 1)

    def next_value(self, part: int, sample: Sample) -> Tensor:
        """Q̄(s′, a′) of the smoothed action a′ = π̄(s′) + clip(σ̃·ε, ±c), cut off at ±1 (Fujimoto et al. 2018, eq. 14)."""
        config = self.config
        noise = (config.target_noise * sample.next_noise).clamp(-config.noise_clip, config.noise_clip)
        features = self.target_features(part, sample.next_observation)
        action = self.policy(self.target_actor.parts[part].views, features) + noise
        return self.target_q(part, sample, features, action.clamp(-1, 1))

    def actor_terms(self, part: int, sample: Sample) -> ActorTerms:
        """Mean of −Q(s, π(s))."""
        with torch.no_grad():
            features = self.features(part, sample.observation)
        return ActorTerms(-self.actor_q(part, features, self.greedy(part, features)).mean(1), None)

    def targets(self) -> list[tuple[Parameters, Parameters]]:
        """The critics', and the actor's, which is moved with them."""
        return [*super().targets(), (self.target_actor, self.actor)]

    def networks(self) -> dict[str, Parameters]:
        return {**super().networks(), "target_actor": self.target_actor}
