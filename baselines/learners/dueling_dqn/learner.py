"""Dueling DQN: DQN's update, for a dueling network and n-step returns."""

from __future__ import annotations

from guidebench.baselines.learners.dqn.learner import DqnLearner
from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.harness.interfaces import Build, NStep


class DuelingDqnLearner(DqnLearner):
    """DQN's loss towards y = Σ_{k<m} γ^k·r_{t+k} + γ^m(1 − terminated)·Q̄(s_{t+m}, argmax_a Q(s_{t+m}, a)), where m is n
    or the number of steps that are left of the episode (Hessel et al. 2018, §3: multi-step learning, dueling networks).

    The n-step returns come with the batch (`baselines/n_step.py`), so replays may draw single transitions as for DQN,
    and the TD error that they receive is that of the n-step return.
    """

    config: DuelingDqn

    def __init__(self, config: DuelingDqn, build: Build) -> None:
        super().__init__(config, build)
        self.n_step = NStep(config.n_step, config.discount)
