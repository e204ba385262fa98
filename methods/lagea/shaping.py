"""LaGEA's dense reward of transitions between projected frames, and its weight ρ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.harness.interfaces import Array, State
from guidebench.methods.lagea import Lagea, rewards


class Points(NamedTuple):
    """Unit vectors of transitions in the common space, for s seeds and B transitions."""

    before: Tensor
    """z_t, [s, B, d]."""
    after: Tensor
    """z_{t+1}, [s, B, d]."""
    goal: Tensor
    """z_g, [s, 1, d]."""
    instruction: Tensor
    """z_y, [s, 1, d]."""
    feedback: Tensor
    """z_f of the transitions' episodes, [s, B, d] or [s, 1, d]."""


class TransitionFacts(NamedTuple):
    """Which vectors a transition has, and the weight of its frame, [s, B] each."""

    weight: Tensor
    """ŵ_t of the frame before the transition; any finite number where `spoken` is false."""
    framed: Tensor
    """Whether both frames have vectors, bool."""
    spoken: Tensor
    """Whether its episode also has feedback, bool."""


class Terms(NamedTuple):
    """The terms of the dense reward, [s, B] each; 0 where vectors are missing."""

    goal: Tensor
    """r^goal."""
    feedback: Tensor
    """r^fb."""
    share: Tensor
    """α."""
    fused: Tensor
    """r̃."""


def fuse(config: Lagea, points: Points, facts: TransitionFacts) -> Terms:
    """Return r̃ = (1 − α)·r^goal + α·r^fb of transitions, and its terms (LaGEA, §3.2)."""
    phi = [
        rewards.goal_potential(
            (image * points.instruction).sum(2), (image * points.goal).sum(2), config.goal_temperature
        )
        for image in points[:2]
    ]
    psi = [(image * points.feedback).sum(2) for image in points[:2]]
    if config.differenced:
        goal = rewards.slope(rewards.difference(phi[1], phi[0], config.discount), config.goal_temperature)
        feedback = rewards.slope(rewards.difference(psi[1], psi[0], config.discount), config.feedback_temperature)
    else:
        goal, feedback = phi[1], psi[1]
    agreed = (points.instruction * points.feedback).sum(2).expand_as(facts.weight)
    if config.agreement == "released":  # one α for a batch
        agreed = (agreed * facts.spoken).sum(1, keepdim=True) / facts.spoken.sum(1, keepdim=True).clamp(min=1)
    share = config.alpha_base * rewards.AGREEMENTS[config.agreement](agreed)
    share = share.clamp(config.alpha_min, config.alpha_max) * facts.spoken
    goal, feedback = goal * facts.framed, facts.weight * feedback * facts.spoken
    fused = rewards.mixture(config.goal_delta * goal, config.feedback_delta * feedback, share)
    return Terms(goal, feedback, share, fused)


class Strength:
    """The weight ρ of each seed's dense reward (LaGEA, §3.3).

    It follows ρ_min + (ρ_max − ρ_min)·(1 − P), where P is the larger of a moving average of the episodes' successes and
    of the squared share of a batch in which r^goal is positive.
    """

    def __init__(self, config: Lagea, rows: int) -> None:
        self._config = config
        self.rho = np.full(rows, config.rho)
        """[S]."""
        self.success_rate = np.zeros(rows)
        """s̄, [S]."""
        self.progress = np.full(rows, np.nan)
        """P in the last batch, [S]."""

    def episode(self, row: int, success: bool) -> None:
        """Update the moving average s̄ of a seed by the outcome of an episode."""
        self.success_rate[row] += self._config.success_rate * (success - self.success_rate[row])

    def batch(self, goal: Tensor, framed: Tensor) -> Array:
        """Update and return ρ of each seed [S], given r^goal of a batch [S, B] and where it is known, `framed` [S,
        B]."""
        config = self._config
        if config.adaptive:
            reached = rewards.progress(torch.from_numpy(self.success_rate).float(), goal, framed)
            self.progress[:] = reached.numpy()
            target = rewards.strength(reached, config.rho_min, config.rho_max).numpy()
            self.rho += config.rho_rate * (target - self.rho)
        return self.rho

    def state(self, row: int) -> State:
        return {
            "rho": float(self.rho[row]), "success_rate": float(self.success_rate[row]),
            "progress": float(self.progress[row]),
        }  # fmt: skip

    def load_state(self, row: int, state: State) -> None:
        self.rho[row], self.success_rate[row] = state["rho"], state["success_rate"]
        self.progress[row] = state["progress"]
