"""Guides that train networks of their own: a seed has the same bits alone, beside another and after a restart."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench import testing
from guidebench.baselines.guides.apt import Apt
from guidebench.baselines.guides.rnd import Rnd
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Observations, RunPhase
from tests.baselines.guides.conftest import VECTOR, build, step
from tests.baselines.learners.conftest import GRID, RECORD, observed

SMALL: dict[str, Any] = {"hidden": (8,), "out": 4, "channels": 4, "features": 6, "batch_size": 8}
CASES: dict[str, tuple[Any, Observations]] = {
    "apt, grid": (Apt(**SMALL, k=2), GRID),
    "apt, vector, sampled": (Apt(**SMALL, k=2, sample=9), VECTOR),
    "apt, record, sampled": (Apt(**SMALL, k=2, sample=9), RECORD),
    "rnd, grid": (Rnd(**SMALL, every=4), GRID),
    "rnd, vector": (Rnd(**SMALL, every=4), VECTOR),
    "rnd, record": (Rnd(**SMALL, every=4), RECORD),
}
LEARNER: Any = SimpleNamespace(updates_due=lambda step, phase_updates=None: 1)
CTX: Any = SimpleNamespace(step=1, phase=RunPhase("train", 100))


def trained(case: str, path: Path, seeds: tuple[int, ...], restart: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rewards [S, 4] of the last shaped batch and the trained networks [S, P]; with `restart`, another guide continues
    from the state after step 7."""
    config, space = CASES[case]
    made = build(path, seeds, space)
    guide, store = config.spawn(made), Storage(made)
    sources = [np.random.default_rng(seed) for seed in seeds]
    for number in range(13):
        seen, following = (np.concatenate([observed(space, rng, 1) for rng in sources]) for _ in range(2))
        one = step(seen, following)
        guide.observed(store.append(one), one, store, CTX)
        guide.before_update(store, LEARNER, CTX)
        shaped = guide.shape(store.gather(np.array([[0, number, number // 2, 0]] * len(seeds)))).reward
        if restart and number == 7:
            states = [testing._stored({"guide": guide.state(row)})["guide"] for row in range(len(seeds))]
            guide = config.spawn(made)  # the streams go on: they are in the checkpoint
            for row, state in enumerate(states):
                guide.load_state(row, state)
    return shaped, (guide.networks if isinstance(config, Apt) else guide.predictor).flat.numpy(force=True)


@pytest.mark.parametrize("case", CASES)
def test_a_seed_has_the_same_bits_alone_and_beside_another_and_after_a_restart(case: str, tmp_path: Path) -> None:
    rewards, networks = trained(case, tmp_path / "both", (3, 7))
    for place, restart in (("alone", False), ("again", True)):
        own, weights = trained(case, tmp_path / place, (7,), restart)
        np.testing.assert_array_equal(own[0], rewards[1])
        np.testing.assert_array_equal(weights[0], networks[1])
    assert not np.array_equal(networks[0], networks[1])
