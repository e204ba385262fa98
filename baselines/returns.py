"""Monte-Carlo returns: the discounted sum of the rewards that followed a transition in its episode.

A learner that wants them beside its transitions has `columns = (RETURN,)` and writes them as an episode ends:

    def ended(self, row: int, slots: Array, store: Store) -> None:
        rewards = store.read("reward", row, slots)
        store.write(RETURN.name, row, slots, returns_to_go(rewards, self.config.discount))
"""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array, TransitionColumn

RETURN = TransitionColumn("return", "late", initial=float("-inf"))
"""The return from a transition on. Until its episode has ended it is not known and reads as −∞: as a bound from below,
which is what it is used for (Nakamoto et al. 2023, Cal-QL), it then bounds nothing."""


def returns_to_go(rewards: Array, discount: float, after: float = 0.0) -> Array:
    """G_t = r_t + γ·G_{t+1} of the rewards [T] of an episode, or of its last T transitions, float32 [T].

    `after` is G_T, what follows the last transition: 0 after an episode that terminated. One that was cut off by a time
    limit goes on in principle; with 0 its returns count what was seen, and with the value of its last observation, such
    as max_a Q(s_T, a), they are bootstrapped."""
    found = np.empty(len(rewards), np.float32)
    following = float(after)
    for step in range(len(rewards) - 1, -1, -1):  # in float64, and rounded once
        following = float(rewards[step]) + discount * following
        found[step] = following
    return found
