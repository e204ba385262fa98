"""The actor, the target and the entropy coefficient of SAC."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.learners.actor_critic.learner import ActorCriticLearner, ActorTerms, Sample
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.parameters import Adam, Parameters, Spec
from guidebench.harness.interfaces import Array, Build, State

LOG_STD_MAX = 2.0
"""At most which the actor's log σ is [choice: VLM-RB gives none; B-Pref's and RL-SaLLM-F's code have the same]."""


def clamped(output: Tensor, least: float) -> Tensor:
    """log σ is the actor's output, cut off at both ends."""
    return output.clamp(least, LOG_STD_MAX)


def mapped(output: Tensor, least: float) -> Tensor:
    """log σ = m + (2 − m)(tanh x + 1)/2 of the actor's output x (B-Pref's code, agent/actor.py)."""
    return least + 0.5 * (LOG_STD_MAX - least) * (output.tanh() + 1)


LOG_STD: Mapping[str, Callable[[Tensor, float], Tensor]] = {"clamp": clamped, "tanh": mapped}


class SacLearner(ActorCriticLearner):
    """Soft actor-critic with a tuned entropy coefficient (Haarnoja et al. 2018), for S seeds at once."""

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

    def alpha(self, part: int) -> Tensor:
        """α of a part's seeds, [S, 1], without gradient."""
        return self.log_alpha.parts[part].views["log_alpha"].detach().exp().unsqueeze(1)

    def greedy(self, part: int, features: Tensor) -> Tensor:
        """tanh μ(s)."""
        return self.actor_network(self.actor.parts[part].views, features)[:, :, : self.actions].tanh()

    def explore(self, part: int, features: Tensor, noise: Tensor) -> Tensor:
        """An action of the policy."""
        return self.drawn(part, features, noise)[0]

    def drawn(self, part: int, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions of the policy and their log-probabilities."""
        return tanh_gaussian(*self.gaussian(part, features), noise)

    def log_probability(self, part: int, features: Tensor, action: Tensor) -> Tensor:
        """log π(a|s) of given actions, which are cut off at ±(1 − 1e-6), since tanh has no inverse at ±1 (as in rlkit,
        torch/distributions.py)."""
        mean, log_std = self.gaussian(part, features)
        raw = action.clamp(-1 + 1e-6, 1 - 1e-6).atanh()
        return tanh_gaussian(mean, log_std, (raw - mean) / log_std.exp())[1]

    def gaussian(self, part: int, features: Tensor) -> tuple[Tensor, Tensor]:
        """μ and log σ [S, B, A] of actions before their tanh."""
        mean, output = self.actor_network(self.actor.parts[part].views, features).chunk(2, 2)
        return mean, LOG_STD[self.config.log_std](output, self.config.log_std_min)

    def next_value(self, part: int, sample: Sample) -> Tensor:
        """Q̄(s′, a′) − α log π(a′|s′), a′ drawn from π(·|s′) (Haarnoja et al. 2018, eq. 3)."""
        action, log_probability = self.drawn(part, self.features(part, sample.next_observation), sample.next_noise)
        features = self.target_features(part, sample.next_observation)
        return self.target_q(part, sample, features, action) - self.alpha(part) * log_probability

    def actor_terms(self, part: int, sample: Sample) -> ActorTerms:
        """Mean of α log π(a|s) − Q(s, a), a drawn from π(·|s) (Haarnoja et al. 2018, eq. 12)."""
        assert sample.noise is not None
        with torch.no_grad():
            features = self.features(part, sample.observation)
        action, log_probability = self.drawn(part, features, sample.noise)
        loss = (self.alpha(part) * log_probability - self.actor_q(part, features, action)).mean(1)
        return ActorTerms(loss, log_probability.detach().mean(1))

    def acted(self, part: int, terms: ActorTerms, active: Array) -> dict[str, Tensor]:
        """One step of Adam on −log α · (log π + H̄), H̄ = −scale · A (Haarnoja et al. 2018b, §5; in log α [choice])."""
        assert terms.log_probability is not None
        alpha = self.alpha(part).squeeze(1)
        if self.config.tune_alpha:
            gradient = self.alpha_gradient.parts[part].views["log_alpha"]
            gradient.copy_(-(terms.log_probability + self.target_entropy))
            self.alpha_optimiser.step(self.alpha_gradient.flat, active)
        return {"alpha": alpha, "entropy": -terms.log_probability}

    def networks(self) -> dict[str, Parameters]:
        return {**super().networks(), "alpha": self.log_alpha}

    def state(self, row: int) -> State:
        return {**super().state(row), "alpha_optimiser": self.alpha_optimiser.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.alpha_optimiser.load_state(row, state["alpha_optimiser"])


def tanh_gaussian(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Means, log σ and standard normal noise [S, B, A] -> actions [S, B, A], log-probabilities [S, B].

    a = tanh u, u = μ + σ·ε; log π(a) = Σ_j log N(u_j; μ_j, σ_j) − log(1 − tanh² u_j) (Haarnoja et al. 2018, app. C)."""
    raw = mean + log_std.exp() * noise
    # log(1 − tanh² u) = 2(log 2 − u − softplus(−2u)) stays finite where tanh u rounds to 1
    log_slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    log_density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return raw.tanh(), (log_density - log_slope).sum(2)
