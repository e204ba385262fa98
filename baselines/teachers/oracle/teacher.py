"""The labels of B-Pref's scripted teachers."""

from __future__ import annotations

import math

import numpy as np

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.oracle import Oracle


class ScriptedTeacher:
    """Labels a pair immediately by the task's own reward (Lee et al. 2021, B-Pref, algorithm 2)."""

    to: None = None
    wants_snapshots = False

    def __init__(self, config: Oracle) -> None:
        self.config = config

    def label(self, pair: Pair, scale: float, rng: np.random.Generator) -> Verdict:
        """Return the verdict: skipped, else equal, else a preference that may be reversed. `scale` is the mean return
        of a segment; if it is 0 or less, no pair is skipped and only identical returns count as equal."""
        config = self.config
        returns = pair.rewards.sum(1, dtype=np.float64)
        scale = max(scale, 0.0)
        if config.skip * scale > 0 and returns.max() <= config.skip * scale:
            return Verdict("skipped")
        apart = abs(float(returns[1] - returns[0]))
        if apart == 0 or apart < config.equal * scale:
            return Verdict("equal", 0.5, is_used=True)
        remembered = config.gamma ** np.arange(pair.rewards.shape[1])[::-1]
        first, second = pair.rewards @ remembered
        prefers_second = bool(second > first)
        if config.beta is not None:
            prefers_second = rng.random() < preference(float(second - first), config.beta)
        if rng.random() < config.mistake:
            prefers_second = not prefers_second
        return Verdict("labelled", float(prefers_second), is_used=True)


def preference(more: float, beta: float) -> float:
    """Return the probability that a segment is preferred whose return exceeds the other's by `more`: 1 / (1 +
    exp(−β·more))."""
    return 0.5 * (1 + math.tanh(0.5 * beta * more))
