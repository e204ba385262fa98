"""What holds for every replay: a seed draws the same alone, beside others and after a restart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.replay.aer import Aer
from guidebench.baselines.replay.ero import Ero
from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.relo import Relo
from guidebench.baselines.replay.uer import Uer
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Moment, Observations, Transition, Update
from tests.baselines.builds import build

REPLAYS = {
    "aer": Aer(), "ero": Ero(lr=0.1), "per": Per(), "per, maximum": Per(new_priority="maximum"), "relo": Relo(),
    "uer": Uer(),
}  # fmt: skip


class Run:
    """A sampler and its store; observations, rewards and errors of a seed depend on the seed and the step alone."""

    def __init__(self, path: Path, replay: Any, seeds: tuple[int, ...]) -> None:
        self.build = build(
            path, seeds, Observations((2,), "float32"), horizon=10, capacity=30, slots=70,
            parts={"learner": Dqn(hidden=(8, 5))},
        )  # fmt: skip
        self.seeds, self.sampler = np.array(seeds), replay.spawn(self.build)
        self.store = Storage(self.build, (), self.sampler.columns)
        self.rngs = [np.random.default_rng(seed) for seed in seeds]

    def play(self, steps: range) -> list[np.ndarray]:
        """Store, draw and learn for these steps, and return the draws."""
        draws, no = [], np.zeros(len(self.seeds), bool)
        for step in steps:
            observation = np.stack([np.sin(self.seeds + step), np.cos(3.0 * step + self.seeds)], 1).astype(np.float32)
            reward, ended = observation[:, 0] * step, no | (step % 7 == 6)
            transition = Transition(
                observation, no.astype(int), reward, ended, no, observation, no[:, None][:, :0], None, ended
            )
            self.sampler.added(self.store.append(transition), self.store.live, transition)
            if step % 4 == 3:
                draw = self.sampler.draw(3, Moment(step, self.store.live, self.rngs, observation, self.store))
                errors = np.sin(draw.index * (self.seeds[:, None] + 2.0) + step).astype(np.float32)
                self.sampler.feedback(draw.index, Update(errors, {}, errors - 0.2))
                self.sampler.evaluated(np.cos(self.seeds + step))
                draws.append(draw.index)
        return draws


@pytest.mark.parametrize("name", REPLAYS)
def test_a_seed_draws_the_same_alone_and_beside_others_and_after_a_restart(name: str, tmp_path: Path) -> None:
    together, alone = (Run(tmp_path / f"{len(seeds)}", REPLAYS[name], seeds) for seeds in ((3, 4), (4,)))
    first = together.play(range(62))  # the ring has gone round, and two transitions were stored since the last draw
    state, storage_state, position = (
        together.sampler.state(1),
        together.store.state(1),
        together.rngs[1].bit_generator.state,
    )
    rest = together.play(range(62, 90))
    assert [index[0].tolist() for index in alone.play(range(62))] == [index[1].tolist() for index in first]
    restored = Run(tmp_path / "2", REPLAYS[name], (4,))
    restored.sampler.load_state(0, state)
    restored.store.load_state(0, storage_state)
    restored.rngs[0].bit_generator.state = position
    assert [index[0].tolist() for index in restored.play(range(62, 90))] == [index[1].tolist() for index in rest]
    assert any(not np.array_equal(*index) for index in first), "seeds draw for themselves"
