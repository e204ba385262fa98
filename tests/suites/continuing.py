"""Tasks restored from a state on disk and played on, in a test's process and in another one."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from guidebench import testing
from guidebench.harness import registry
from guidebench.harness.capabilities import HasExpert
from guidebench.harness.loop import checkpoints

CASES: list[tuple[str, dict[str, Any], str, int]] = [
    ("bin_sorting", {"observation": "state"}, "backward", 11),
    ("bin_sorting", {"observation": "state", "displaced": 0.03}, "forward", 0),
    *(("classic", {}, task, 7) for task in ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")),
    *(("classic", {}, task, 40) for task in ("HalfCheetah-v5", "Hopper-v5")),
    ("crafter", {"observation": "semantic", "area": 32}, "game", 40),
    ("crafter_ood", {"area": 32, "death": "restart"}, "wood_sword", 30),
    ("housekeep", {"observation": "text"}, "adjustment_3", 60),
    ("metaworld", {}, "door-unlock", 35),
    *(("minigrid_doorkey", {}, "8x8", steps) for steps in (0, 9, 16, 20, 24)),
    ("ogbench_scene", {}, "task4", 20),
    ("point_maze", {"steps": None}, "medium", 40),
]
"""Suite, its settings, task, and the number of solver or random steps after which the state is saved."""
AHEAD = 20
"""Number of steps that are compared after the state was loaded."""


def make(number: int) -> tuple[Any, Any]:
    """Return the task of a case and the space of its actions."""
    name, settings, task, _ = CASES[number]
    suite = registry.get("suite", name)(**settings)
    return suite.make(task), suite.spaces(task)[1]


def play(task: Any, actions: Any, steps: int, clumsy: float = 0.0) -> str:
    """Play for `steps` steps and one reset; return a digest of everything observed, and check that later steps leave
    earlier observations unchanged. Actions are the solver's, except a share `clumsy` of random ones."""
    digest, rng, observations = hashlib.sha256(), np.random.default_rng(steps), []
    for _ in range(steps):
        skilled = rng.random() >= clumsy and isinstance(task, HasExpert)
        step = task.step(task.expert() if skilled else testing._action(actions, rng))
        observations.append((step.observation, step.observation.tobytes()))
        digest.update(observations[-1][1] + repr([float(step.reward), *map(bool, step[2:])]).encode())
        digest.update(task.events().tobytes() + task.snapshot().tobytes())
        if step.terminated or step.truncated:
            digest.update(task.reset().tobytes())
    assert all(observation.tobytes() == copy for observation, copy in observations), (
        "a later step changed an observation"
    )
    return digest.hexdigest()


def main(directory: str) -> None:
    """Print the digests of all cases, each continued from its state in this directory."""
    digests = []
    for number in range(len(CASES)):
        task, actions = make(number)
        (saved,) = (Path(directory) / str(number)).iterdir()
        task.load_state(checkpoints.load(saved).state)
        digests.append(play(task, actions, AHEAD, 0.5) + task.reset().tobytes().hex()[:32])
    print(json.dumps(digests))
