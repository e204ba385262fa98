"""A learner with a column of its own: what it writes as episodes end is in its batches."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.baselines.datasets.fed_guide import GUIDE

LEARNER = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.learners.dqn import Dqn
    from guidebench.baselines.learners.dqn.learner import DqnLearner
    from guidebench.baselines.returns import RETURN, returns_to_go
    from guidebench.harness.registry import register

    SEEN = []


    class Bounded(DqnLearner):
        columns = (RETURN,)

        def ended(self, row, slots, store):
            rewards = store.read("reward", row, slots)
            store.write(RETURN.name, row, slots, returns_to_go(rewards, self.config.discount))

        def update(self, batch, *more):
            SEEN.append(batch.columns["return"].copy())
            known = np.isfinite(batch.columns["return"])
            return super().update(batch._replace(reward=np.where(known, batch.columns["return"], batch.reward)), *more)


    @register.learner("bounded")
    @dataclass(frozen=True)
    class BoundedPart(Dqn):
        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"

        def spawn(self, build):
            return Bounded(self, build)
"""
TINY = (
    "suite=classic", "task=CartPole-v1", "method=uer", "learner=bounded", "training.steps=300", "evaluation.every=300",
    "evaluation.episodes=1", "learner.hidden=[8]", "learner.learning_starts=100", "learner.batch_size=64",
    "learner.discount=0.5", "learner.train_every=4",
)  # fmt: skip


@pytest.fixture
def bounded(plugin: Callable[..., Path]) -> None:
    plugin("bounded_module", LEARNER, {"learner": "bounded"})


def test_returns_are_in_batches_once_their_episode_has_ended(bounded: None, train: Callable[..., Path]) -> None:
    """Every reward is 1, and γ = ½: a transition that is followed by k − 1 others has the return 2(1 − ½^k). Of the
    episode that is under way none is known."""
    train(*TINY, "seeds=[0,1]", packs=[(0, 1)])
    returns = np.concatenate([batch.ravel() for batch in sys.modules["bounded_module"].SEEN])
    finite = returns[np.isfinite(returns)]
    assert {round(float(value), 6) for value in finite} <= {round(2 - 2 * 0.5**k, 6) for k in range(1, 60)}
    assert 1.0 in finite and (finite > 1.9).any()
    unknown = returns[~np.isfinite(returns)]
    assert (unknown == -np.inf).all() and 0 < len(unknown) < len(finite)


def test_returns_of_a_dataset_are_known_before_the_first_update(
    bounded: None, plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    plugin("feeding_module", GUIDE, {"guide": "feeding", "method": "feeding"})
    train(
        "method=feeding", "task=5x5", "learner=bounded", "offline.episodes=3", "training.steps=100",
        "evaluation.every=100", "evaluation.episodes=1", "learner.channels=4", "learner.features=8",
        "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=90", "seeds=[0]", packs=[(0,)],
    )  # fmt: skip
    first = sys.modules["bounded_module"].SEEN[:60]
    assert len(first) == 60 and all(np.isfinite(batch).all() for batch in first)
