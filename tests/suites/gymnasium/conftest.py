"""A package of a stranger, which registers an environment with faults to choose from."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness import consent
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell

STRANGER = '''
import os, re, time
import gymnasium
import numpy as np
from gymnasium import spaces

made = 0

class Walk(gymnasium.Env):
    """A walk on a line from a random place; at 3 it ends, and the reward is 1."""

    metadata = {"render_modes": ["rgb_array"]}
    action_space = spaces.Discrete(3, start=-1)

    def __init__(self, fault="", render_mode=None):
        global made
        made += 1
        self.fault, self.render_mode = fault, render_mode
        size = 3 if fault == "spaces" and made > 2 else 2
        self.observation_space = spaces.Box(-99, 99, (size,), np.float32)
        if fault == "dict":
            part = spaces.Box(-9, 9, (2,), np.float64)
            self.observation_space = spaces.Dict({"place": part, "goal": part, "code": spaces.Discrete(4)})
        if fault == "text":
            self.observation_space = spaces.Text(5)
        if fault == "unbounded":
            self.action_space = spaces.Box(-np.inf, np.inf, (2,))
        if fault == "frameless":
            self.metadata = {"render_modes": ["human"]}

    def _observation(self):
        place = np.array([self.place, self.steps / 30], np.float32)
        if self.fault == "dict":
            return {"place": place.astype(float), "goal": np.ones(2), "code": 2}
        return place + (200 if self.fault == "outside" and self.steps == 2 else 0)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if self.fault == "sleep":
            time.sleep(60)
        self.place, self.steps = self.np_random.uniform(-1, 1), 0
        if self.fault == "random":
            self.place = np.random.default_rng().uniform(-1, 1)
        return self._observation(), {}

    def step(self, action):
        assert action in (-1, 0, 1), action
        self.steps += 1
        self.place += action + self.np_random.normal(0, 0.1)
        if self.steps == 2 and self.fault == "hold":
            re.match("(a+)+$", "a" * 60 + "b")
        if self.steps == 2 and self.fault == "abort":
            os.abort()
        if self.steps == 2 and self.fault.startswith("once "):  # a file says that it has happened
            if not os.path.exists(self.fault[5:]):
                open(self.fault[5:], "w").close()
                os.abort()
        if self.steps == 2 and self.fault == "memory":
            self.held = [b"x" * 2**24 for _ in range(40)]
            time.sleep(60)
        if self.fault == "print":
            print("text on standard output" * 100, flush=True)
        if self.steps == 2 and self.fault == "raise":
            raise ValueError("a wheel is lost")
        reward = float(self.place > 3) if self.fault != "nan" or self.steps < 2 else float("nan")
        info = {"reached": self.place > 3, "words": "none"}
        return self._observation(), reward, bool(self.place > 3 or self.place < -8), False, info

    def render(self):
        frame = np.zeros((8, 24, 3), np.uint8)
        frame[:, int(np.clip(self.place + 8, 0, 23))] = 255
        return frame

class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward

gymnasium.register("Strange/Walk-v0", Walk, max_episode_steps=30)
gymnasium.register("Strange/Endless-v0", Walk)
'''


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the package `strange_walk`, which separate processes can import and this one cannot."""
    folder = tmp_path / "packages"
    (folder / "strange_walk").mkdir(parents=True)
    (folder / "strange_walk" / "__init__.py").write_text(STRANGER)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv(consent.VARIABLE, "[]")
    yield folder
    assert "strange_walk" not in sys.modules, "code of others runs in separate processes alone"
    shutil.rmtree(folder)


WORDS = (
    "suite=gymnasium", "task=Strange/Walk-v0", "suite.module=strange_walk", "suite.episodes=reproducible",
    "training.steps=600", "evaluation.every=200", "seeds=1",
)  # fmt: skip


@pytest.fixture
def planned(stranger: Path) -> Callable[..., Cell]:
    """`planned("suite.max_steps=9")` plans the stranger's environment with these words and returns the cell."""

    def plan(*words: str) -> Cell:
        keys = {word.partition("=")[0] for word in words}
        every = [*(word for word in WORDS if word.partition("=")[0] not in keys), *words]
        consent.grant(every)
        (cell,) = matrix.plan(every).cells
        return cell

    return plan
