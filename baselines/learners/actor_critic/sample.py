"""What one update of an actor and its critics reads."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from guidebench.baselines.tensors import Seen


class Sample(NamedTuple):
    """A batch of the seeds of one part as tensors, and every random number that its update takes."""

    observation: Seen  # [S, B, …]
    action: Tensor  # [S, B, A]
    reward: Tensor  # [S, B]
    continues: Tensor  # [S, B], γ(1 − terminated)
    next_observation: Seen  # [S, B, …]
    weight: Tensor | None  # [S, B]
    chosen: Tensor | None  # int64 [S, M], the target's critics; None for all
    next_noise: Tensor  # [S, B, A], standard normal, of the action in s′
    noise: Tensor | None  # [S, B, A], of the action in s, where the actor is due and draws one
