"""LaGEA's dense reward: potentials of goal and feedback, their differences along a transition, and their mixture.

All functions work element by element on tensors [S, B] of cosines between projected unit vectors. Only γφ′ − φ before
the tanh telescopes along an episode; a sum of r^goal or r^fb, which are tanh of it, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def goal_potential(instruction: Tensor, image: Tensor, temperature: float) -> Tensor:
    """Return φ = ½·[tanh((½(c_y + 1) − ½) / τ) + tanh((½(c_g + 1) − ½) / τ)] in (-1, 1) (LaGEA, §3.2).

    `instruction`: c_y = ⟨z, z_y⟩; `image`: c_g = ⟨z, z_g⟩; `temperature`: τ_goal."""
    return (torch.tanh(instruction / (2 * temperature)) + torch.tanh(image / (2 * temperature))) / 2


def difference(after: Tensor, before: Tensor, discount: float) -> Tensor:
    """Return γ·φ_{t+1} − φ_t, the potential-based shaping term (LaGEA, §3.2)."""
    return discount * after - before


def slope(term: Tensor, temperature: float) -> Tensor:
    """Return tanh(term / τ), which is r^goal of a difference of goal potentials, and r^fb / ŵ_t of one of feedback
    potentials (LaGEA, §3.2)."""
    return torch.tanh(term / temperature)


def agreement(cosine: Tensor) -> Tensor:
    """Return a = ½·(1 + ⟨z_y, z_f⟩) in [0, 1] (LaGEA, §3.2)."""
    return (1 + cosine.clamp(-1, 1)) / 2


def released_agreement(cosine: Tensor) -> Tensor:
    """Return ½ + ½·a in [¾, 1], a being the agreement with negative cosines replaced by 0 (LaGEA, released code)."""
    return 0.5 + 0.5 * agreement(cosine.clamp(min=0))


AGREEMENTS: Mapping[str, Callable[[Tensor], Tensor]] = {"paper": agreement, "released": released_agreement}
"""Setting `agreement` -> the factor of α_base, as a function of ⟨z_y, z_f⟩."""


def mixture(goal: Tensor, feedback: Tensor, share: Tensor) -> Tensor:
    """Return r̃ = (1 − α)·r^goal + α·r^fb, limited to [-1, 1] (LaGEA, §3.2; r^fb exceeds 1 where ŵ does, so only the
    limit keeps the stated range)."""
    return ((1 - share) * goal + share * feedback).clamp(-1, 1)


def progress(success_rate: Tensor, goal: Tensor, has_frames: Tensor) -> Tensor:
    """Return P = max(s̄, (share of the batch with r^goal > 0)²) in [0, 1], [S] (LaGEA, §3.3).

    `success_rate`: s̄ [S], moving average of the episodes' successes; `goal`: r^goal [S, B];
    `has_frames`: which transitions have r^goal, bool [S, B]."""
    rising = ((goal > 0) & has_frames).sum(1) / has_frames.sum(1).clamp(min=1)
    return torch.maximum(success_rate, rising.square())


def strength(progress: Tensor, low: float, high: float) -> Tensor:
    """Return ρ = ρ_min + (ρ_max − ρ_min)·(1 − P), [S] (LaGEA, §3.3)."""
    return low + (high - low) * (1 - progress)
