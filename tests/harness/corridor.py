"""A suite whose observations are records of a grid, a vector, a word of codes and a stack of frames, with an expert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from guidebench.harness.episodes.demonstrations import play
from guidebench.harness.interfaces import Actions, Array, Observations, State, Step
from guidebench.harness.parts import DrawingPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.trajectories import Demonstration

LENGTH, HORIZON = 5, 12
OBSERVATIONS = Observations(
    parts={
        "map": Observations((1, LENGTH, 1), "uint8", (3,)),
        "place": Observations((2,), "float32"),
        "frames": Observations((7, 7, 2), "uint8", stack=2),
        "word": Observations((1,), "int64", (2,)),
    }
)


@dataclass(frozen=True)
class CorridorDrawing(DrawingPart):
    def spawn(self, task: str) -> Any:
        return lambda snapshots: np.repeat(snapshots[:, None, :1, None], 3, 3).repeat(4, 1).repeat(4, 2)


@register.suite("seen_corridor")
@dataclass(frozen=True)
class Corridor(SuitePart):
    """A suite: walk to a goal on five cells, by steps or by distances; the task `wide` has two rows of cells in its
    map."""

    version: ClassVar[int] = 1
    title, source, citation, method = "Corridor", "a test", "% a test", "uer"
    learner: ClassVar[str] = "dqn"
    learners: ClassVar[Mapping[str, str]] = {"slides": "sac"}
    tasks, events, drawing, defaults = ("steps", "slides", "wide", "blind"), ("there",), CorridorDrawing, {}
    profiles: ClassVar[Mapping[str, Any]] = {"smoke": {"training.steps": 120}}

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        parts = dict(OBSERVATIONS.parts)
        if task == "wide":
            parts["map"] = Observations((2, LENGTH, 1), "uint8", (3,))
        if task == "blind":
            parts["place"] = Observations((3,), "float32")
        return Observations(parts=parts), Actions(shape=(1,)) if task == "slides" else Actions(count=2)

    def horizon(self, task: str) -> int:
        return HORIZON

    def seconds_per_step(self, task: str) -> float:
        return 1e-5

    def make(self, task: str) -> Walk:
        return Walk(self.spaces(task)[0], task == "slides")

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        walk = self.make(task)
        return play(walk, seed, lambda observation: walk.expert())


class Walk:
    """The task: agent and goal each stand on a cell from 0 to 4; frames show both as bright columns."""

    instruction, max_steps = "Go to the goal.", HORIZON

    def __init__(self, space: Observations, slides: bool) -> None:
        self.space, self.slides = space, slides
        self.rng, self.at, self.goal, self.time = np.random.default_rng(0), 0.0, 0, 0
        self.former = self.frame()

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.at, self.goal = (int(cell) for cell in self.rng.permutation(LENGTH)[:2])
        self.time, self.former = 0, self.frame()
        return self.observe()

    def frame(self) -> Array:
        frame = np.zeros((7, 7), np.uint8)
        frame[:3, round(self.at)], frame[4:, self.goal] = 255, 128
        return frame

    def observe(self) -> Array:
        record = np.zeros((), self.space.numpy)
        record["map"][:, self.goal, 0] = 2
        record["map"][:, round(self.at), 0] = 1
        record["place"][:2] = self.at, self.goal
        record["frames"] = np.stack([self.former, self.frame()], axis=-1)
        record["word"] = self.goal > self.at
        return record

    def step(self, action: Any) -> Step:
        self.former = self.frame()
        change = float(action[0]) if self.slides else (-1.0, 1.0)[int(action)]
        self.at, self.time = float(np.clip(self.at + change, 0, LENGTH - 1)), self.time + 1
        is_at_goal = round(self.at) == self.goal
        return Step(self.observe(), float(is_at_goal), is_at_goal, not is_at_goal and self.time == HORIZON, is_at_goal)

    def expert(self) -> Any:
        towards = np.sign(self.goal - self.at)
        return np.array([towards], np.float32) if self.slides else int(towards > 0)

    def events(self) -> Array:
        return np.array([round(self.at) == self.goal])

    def snapshot(self) -> Array:
        return np.array([round(self.at), self.goal], np.uint8)

    def position(self) -> None:
        return None

    def state(self) -> State:
        return {
            "at": self.at, "goal": self.goal, "time": self.time, "former": self.former.copy(),
            "random": self.rng.bit_generator.state,
        }  # fmt: skip

    def load_state(self, state: State) -> None:
        self.at, self.goal, self.time = state["at"], state["goal"], state["time"]
        self.former, self.rng.bit_generator.state = state["former"], state["random"]
