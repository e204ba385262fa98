"""The steps of `python -m benchmarks.gpu`, most valuable first, and the share of the time that each gets."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.figures import Row

MARGIN, MOST_MARGIN = 0.1, 12.0
"""Share of a step's time, and most seconds, that it leaves, so that it ends before it is cut off."""
LEAST, FLOOR = 5.0, 25.0
"""Seconds below which no step is begun, and that a step is given however small its share is, where they are left."""


class Step(NamedTuple):
    """A step, which a process of its own carries out."""

    name: str
    module: str
    """Module of this package whose `measure(ask, tell)` it is."""
    share: float
    """Its share of the time."""
    words: str
    needs: tuple[str, ...] = ()
    """Modules without which it is skipped, beside torch and NumPy."""
    settings: Mapping[str, str] = {}


MUJOCO = ("mujoco", "gymnasium")
TRAINING = ("gymnasium", "pyarrow", "safetensors")
DOORKEY = ("minigrid", "pygame")
MODELS = ("transformers", "tokenizers", "torchvision", "PIL", *DOORKEY)
SCENE = {"suite": "ogbench_scene", "task": "task3"}
METAWORLD = {"suite": "metaworld_pbrl", "task": "button-press"}
STEPS = (
    Step("machine", "machine", 0.03, "the card's rates of arithmetic and copying"),
    Step("tests", "tests", 0.10, "the tests marked `gpu`", ("pytest", *TRAINING)),
    Step("seeds", "seeds", 0.09, "updates of five seeds against one, captured and eager",
         (*TRAINING, *MUJOCO, "ogbench")),
    Step("perception_lm", "judging", 0.13, "clips judged by Perception-LM 1B's architecture", (*MODELS, "timm"),
         {"model": "perception_lm"}),
    Step("dqn_doorkey", "training", 0.07, "DQN on DoorKey 16x16 beside plain loops", (*TRAINING, *DOORKEY),
         {"learner": "dqn", "suite": "minigrid_doorkey", "task": "16x16"}),
    Step("sac_scene", "training", 0.08, "SAC on Scene beside plain loops", (*TRAINING, *MUJOCO, "ogbench"),
         {"learner": "sac", **SCENE}),
    Step("qwen_vl", "judging", 0.13, "clips judged by Qwen2.5-VL 3B's architecture", MODELS, {"model": "qwen_vl"}),
    Step("frames", "frames", 0.03, "frames of Scene drawn per second", (*MUJOCO, "ogbench")),
    Step("td3_scene", "training", 0.06, "TD3 on Scene beside plain loops", (*TRAINING, *MUJOCO, "ogbench"),
         {"learner": "td3", **SCENE}),
    Step("sac_metaworld", "training", 0.06, "SAC on MetaWorld beside plain loops", (*TRAINING, *MUJOCO, "metaworld"),
         {"learner": "sac", **METAWORLD}),
    Step("td3_metaworld", "training", 0.06, "TD3 on MetaWorld beside plain loops", (*TRAINING, *MUJOCO, "metaworld"),
         {"learner": "td3", **METAWORLD}),
    Step("doorkey", "doorkey", 0.16, "training of DoorKey 8x8 at the paper profile, with all time that is left",
         (*TRAINING, *DOORKEY, "hydra", "omegaconf")),
)  # fmt: skip
NAMES = tuple(step.name for step in STEPS)


EXIT_UNAVAILABLE = 3
"""Exit code of a step that cannot be measured here."""


class Unavailable(Exception):
    """A step cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Ask:
    """Options of a step."""

    device: str
    deadline: float
    """When it has to be done, by `time.monotonic`."""
    study: Path
    """Directory of the study of the step `doorkey`."""
    output: Path
    """Directory of the JSON, the table and the archive of that study."""
    settings: Mapping[str, str]
    """Of its entry in STEPS."""

    @property
    def full(self) -> bool:
        """Whether sizes are those of the real thing; on a CPU they shrink, and the figures say nothing."""
        return self.device != "cpu"

    def rounds(self, most: int) -> int:
        """Return the largest number of rounds: `most`, or two in a rehearsal."""
        return most if self.full else 2

    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        return self.deadline - time.monotonic()


Tell = Callable[[Sequence[Row]], None]
"""Stores all rows that a step has measured so far, so that they survive if the step is cut off."""


def step(name: str) -> Step:
    return STEPS[NAMES.index(name)]


def limit(name: str, to_do: Sequence[str], seconds_left: float) -> float:
    """Return the time limit of a step in seconds: its share of `seconds_left` among the steps to do; the last gets all.

    >>> limit("machine", ["machine", "seeds"], 600), limit("machine", ["machine", "seeds"], 40)
    (150.0, 25.0)
    >>> limit("seeds", ["seeds"], 90), limit("seeds", ["seeds", "doorkey"], 9)
    (90.0, 9.0)
    """
    shares = sum(step(other).share for other in to_do)
    return round(float(min(seconds_left, max(FLOOR, seconds_left * step(name).share / shares))), 3)


def missing(name: str) -> list[str]:
    """Return the modules that a step needs and that are not installed here."""
    return [module for module in ("torch", "numpy", *step(name).needs) if importlib.util.find_spec(module) is None]
