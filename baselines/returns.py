"""Monte-Carlo returns: the discounted sum of rewards from a transition to the end of its episode.

A learner that stores them with its transitions sets `columns = (RETURN,)` and writes them when an episode ends:

    def ended(self, row: int, slots: Array, store: Store) -> None:
        rewards = store.read("reward", row, slots)
        store.write(RETURN.name, row, slots, returns_to_go(rewards, self.config.discount))
"""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array, TransitionColumn

RETURN = TransitionColumn("return", "late", initial=float("-inf"))
"""The return from a transition on. It is unknown until the episode ends and then reads as −∞. As a lower bound, its use
in Cal-QL (Nakamoto et al. 2023), −∞ has no effect."""


def returns_to_go(rewards: Array, discount: float, after: float = 0.0) -> Array:
    """Return G_t = r_t + γ·G_{t+1} for the rewards [T] of an episode, or of its last T transitions, float32 [T].

    `after` is G_T, the return after the last transition: 0 after an episode that terminated. For an episode truncated
    by a time limit, 0 counts only the observed rewards, and the value of the last observation, such as max_a Q(s_T, a),
    bootstraps the returns.
    """
    returns = np.empty(len(rewards), np.float32)
    following = float(after)
    for step in range(len(rewards) - 1, -1, -1):  # in float64, and rounded once
        following = float(rewards[step]) + discount * following
        returns[step] = following
    return returns
