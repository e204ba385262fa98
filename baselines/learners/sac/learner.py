"""SAC: its three updates (critics, actor, temperature), and its policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.captured import UpdateStatistics
from guidebench.baselines.learners.actor_critic.learner import ActorCriticLearner, CriticUpdate
from guidebench.baselines.learners.actor_critic.sample import Kind, Sample
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.losses import Added
from guidebench.baselines.parameters import Adam, Parameters, Spec
from guidebench.harness.interfaces import Build, State


class SacLearner(ActorCriticLearner):
    """Soft actor-critic with a tuned temperature α (Haarnoja et al. 2018, 2018b), for S seeds at once.

    One gradient step is `learn`; equations are those of Haarnoja et al. (2018) where no other paper is named."""

    config: Sac
    draws_action = True

    def __init__(self, config: Sac, build: Build) -> None:
        super().__init__(config, build)
        self.target_entropy = -config.target_entropy_scale * self.actions
        specs = {"log_alpha": Spec((), "constant", math.log(config.alpha))}
        self.log_alpha = Parameters(specs, build.rows, build.device)
        self.log_alpha.initialise([streams.initial for streams in build.streams])
        self.alpha_gradient = self.log_alpha.empty_like()
        self.alpha_optimiser = Adam(self.log_alpha, config.alpha_lr)

    def learn(self, sample: Sample, kind: Kind, added: Mapping[str, Added] = MappingProxyType({})) -> UpdateStatistics:
        """Take one gradient step (algorithm 1): the critics; if due, actor and temperature; then the target
        networks."""
        critics = self.update_critics(sample, kind, added.get("critic"))
        metrics: dict[str, Tensor] = {}
        if kind.acts:
            metrics, log_probability = self.update_actor(sample, kind, added.get("actor"))
            metrics |= self.update_temperature(log_probability, kind)
        self.move_targets(kind)
        return self.update_statistics(critics, metrics, added)

    def update_critics(self, sample: Sample, kind: Kind, added: Added | None = None) -> CriticUpdate:
        """Descend Σ_i mean of w·(Q_i(s, a) − y)² (eq. 7; VLM-RB, app. E.1), where
        y = r + γ(1 − terminated)·(R_{i in M} Q̄_i(s′, a′) − α log π(a′|s′)), a′ drawn from π(·|s′) (eqs. 2 and 3)."""
        block = kind.block
        with torch.no_grad():
            action, log_probability = self.drawn(
                block, self.features(block, sample.next_observation), sample.next_noise
            )
            features = self.target_features(block, sample.next_observation)
            value = self.target_q(block, sample, features, action) - self.alpha(block) * log_probability
            td_target = sample.reward + sample.continues * value
        return self.fit_critics(sample, td_target, kind, added)

    def update_actor(self, sample: Sample, kind: Kind, added: Added | None = None) -> tuple[dict[str, Tensor], Tensor]:
        """Descend the mean of α log π(a|s) − R_i Q_i(s, a), a drawn from π(·|s) (eq. 12).

        Return the actor's metrics, name -> [S], and the mean log π(a|s) of the drawn actions, [S].
        """
        assert sample.noise is not None
        block = kind.block
        with torch.no_grad():
            features = self.features(block, sample.observation)
        mean, log_std = self.gaussian(block, features)
        action, log_probability = tanh_gaussian(mean, log_std, sample.noise)
        action_value = self.actor_q(block, features, action)
        loss = (self.alpha(block) * log_probability - action_value).mean(1)
        further, metrics = self.imitation(sample, mean, action_value.detach())
        if further is not None:
            loss = loss + further
        return {**self.fit_actor(loss, kind, added), **metrics}, log_probability.detach().mean(1)

    def imitation(
        self, sample: Sample, mean: Tensor, action_value: Tensor
    ) -> tuple[Tensor | None, Mapping[str, Tensor]]:
        """Return a further term of the actor's loss, [S], and its metrics, name -> [S], given μ(s) [S, B, A] and the
        values of the drawn actions [S, B]; here none."""
        return None, {}

    def update_temperature(self, log_probability: Tensor, kind: Kind) -> dict[str, Tensor]:
        """Descend −log α·(log π(a|s) + H̄), H̄ = −scale · A (Haarnoja et al. 2018b, §5; in log α [choice]).

        `log_probability` is the mean log π(a|s), [S]. Return metrics, name -> [S], with the α before the step:
        the entropy, its share of the entropy A log 2 of uniform actions in [-1, 1], and α times it.
        """
        block = kind.block
        alpha = self.alpha(block).squeeze(1)
        if self.config.tune_alpha:
            gradient = self.alpha_gradient.blocks[block].views["log_alpha"]
            gradient.copy_(-(log_probability + self.target_entropy))
            self.alpha_optimiser.step(self.alpha_gradient.flat, np.array(kind.active))
        entropy = -log_probability
        most = self.actions * math.log(2)
        return {"alpha": alpha, "entropy": entropy, "entropy_share": entropy / most, "entropy_bonus": alpha * entropy}

    def alpha(self, block: int) -> Tensor:
        """Return α of a block's seeds, [S, 1], without gradient."""
        return self.log_alpha.blocks[block].views["log_alpha"].detach().exp().unsqueeze(1)

    def greedy(self, block: int, features: Tensor) -> Tensor:
        """Return tanh μ(s)."""
        return self.actor_network(self.actor.blocks[block].views, features)[:, :, : self.actions].tanh()

    def explore(self, block: int, features: Tensor, noise: Tensor) -> Tensor:
        """Return an action drawn from the policy."""
        return self.drawn(block, features, noise)[0]

    def drawn(self, block: int, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions drawn from the policy and their log-probabilities."""
        return tanh_gaussian(*self.gaussian(block, features), noise)

    def log_probability(self, block: int, features: Tensor, action: Tensor) -> Tensor:
        """Return log π(a|s) of given actions."""
        return log_probability_of(*self.gaussian(block, features), action)

    def gaussian(self, block: int, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and log σ [S, B, A] of actions before their tanh."""
        mean, output = self.actor_network(self.actor.blocks[block].views, features).chunk(2, 2)
        return mean, LOG_STD[self.config.log_std](output, self.config.log_std_min)

    def networks(self) -> dict[str, Parameters]:
        return {**super().networks(), "alpha": self.log_alpha}

    def state(self, row: int) -> State:
        return {**super().state(row), "alpha_optimiser": self.alpha_optimiser.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.alpha_optimiser.load_state(row, state["alpha_optimiser"])


def tanh_gaussian(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions [S, B, A] and log-probabilities [S, B] from means, log σ and standard normal noise [S, B, A]; the
    shapes [S, B] may be any that broadcast.

    a = tanh u, u = μ + σ·ε; log π(a) = Σ_j log N(u_j; μ_j, σ_j) − log(1 − tanh² u_j) (Haarnoja et al. 2018, app. C).
    """
    raw = mean + log_std.exp() * noise
    # log(1 − tanh² u) = 2(log 2 − u − softplus(−2u)) stays finite where tanh u rounds to 1
    log_slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    log_density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return raw.tanh(), (log_density - log_slope).sum(-1)


def log_probability_of(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Return log π(a) [S, B] of given actions [S, B, A], clipped to ±(1 − 1e-6), since tanh has no inverse at ±1 (as in
    rlkit, torch/distributions.py)."""
    raw = action.clamp(-1 + 1e-6, 1 - 1e-6).atanh()
    return tanh_gaussian(mean, log_std, (raw - mean) / log_std.exp())[1]


LOG_STD_MAX = 2.0
"""Largest log σ of the actor [choice: VLM-RB gives none; B-Pref's and RL-SaLLM-F's code have the same]."""


def clamped(output: Tensor, least: float) -> Tensor:
    """Return log σ as the actor's output, clipped at both ends."""
    return output.clamp(least, LOG_STD_MAX)


def mapped(output: Tensor, least: float) -> Tensor:
    """Return log σ = m + (2 − m)(tanh x + 1)/2 of the actor's output x (B-Pref's code, agent/actor.py)."""
    return least + 0.5 * (LOG_STD_MAX - least) * (output.tanh() + 1)


def softened(output: Tensor, least: float) -> Tensor:
    """Return log σ with σ = log(1 + e^x) + .001 of the actor's output x, and log σ ≥ `least` (FuRL's code)."""
    return (F.softplus(output) + 1e-3).log().clamp(min=least)


LOG_STD: Mapping[str, Callable[[Tensor, float], Tensor]] = {"clamp": clamped, "tanh": mapped, "softplus": softened}
