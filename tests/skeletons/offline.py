"""Offline, then online: a maze seen as pictures, learnt from a dataset with failures in it, and imitated a little."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Experience
from guidebench.harness.interfaces import Loss, Observations, RunPhase
from guidebench.harness.parts import AgentPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.suites.point_maze import PointMaze

SIDE, FRAMES = 12, 2
PICTURES = Observations(
    parts={
        "picture": Observations((SIDE, SIDE, 2 * FRAMES), "uint8", stack=FRAMES),
        "speed": Observations((2,), "float32"),
    }
)


@register.suite("pictures")
@dataclass(frozen=True)
class Pictures(PointMaze):
    """The suite `point_maze` observed as pictures of ball and target, the last two frames, beside the ball's speed."""

    version: ClassVar[int] = 1

    def spaces(self, task):
        return PICTURES, super().spaces(task)[1]

    def make(self, task):
        return Picture(super().make(task))


class Picture:
    """A task that observes another task's numbers as pictures."""

    def __init__(self, task):
        self.task, self.frames = task, np.zeros((FRAMES, SIDE, SIDE, 2), np.uint8)

    def __getattr__(self, name):
        return getattr(self.task, name)

    def reset(self, seed=None):
        numbers = self.task.reset(seed)
        self.frames[:] = frame_of(numbers)
        return self.pictures(numbers)

    def step(self, action):
        step = self.task.step(action)
        self.frames[:-1], self.frames[-1] = self.frames[1:].copy(), frame_of(step.observation)
        return step._replace(observation=self.pictures(step.observation))

    def pictures(self, numbers):
        record = np.zeros((), PICTURES.numpy)
        record["picture"], record["speed"] = np.concatenate(list(self.frames), axis=-1), numbers[2:4]
        return record

    def state(self):
        return {"task": self.task.state(), "frames": self.frames.copy()}

    def load_state(self, state):
        self.task.load_state(state["task"])
        self.frames = np.array(state["frames"])


def frame_of(numbers):
    """Return a frame, uint8 [SIDE, SIDE, 2], with ball and target as a bright pixel each."""
    frame = np.zeros((SIDE, SIDE, 2), np.uint8)
    for layer, place in enumerate((numbers[:2], numbers[4:6])):
        x, y = np.clip(((place + 2) / 4 * SIDE).astype(int), 0, SIDE - 1)
        frame[x, y, layer] = 255
    return frame


@register.agent("offline")
@dataclass(frozen=True)
class Offline(AgentPart):
    """Learns from the dataset in its role `gathered` before it begins to act."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    needs: ClassVar[Mapping[str, str]] = {"learner": "learner", "replay": "replay", "gathered": "dataset"}

    def spawn(self, build):
        return Agent(build)


class Agent(BaseAgent):
    def __init__(self, build):
        learner = build.parts["learner"].spawn(build)
        self.experience = Experience(build, build.parts["replay"])
        super().__init__(build, {"": learner}, {"": self.experience})
        self.learner, self.losses = learner, (Loss("imitation", ("actor",), imitation),)

    def phases(self):
        return (RunPhase("offline", 60, source="gathered", updates=1), RunPhase("online", self._steps - 60))

    def observe(self, transition, ctx):
        self.experience.add(transition, ctx)

    def update(self, ctx):
        metrics = {}
        for _ in range(self.learner.updates_due(ctx.step, ctx.phase.updates)):
            _, update = self.learn(self.learner, self.experience, ctx, losses=self.losses)
            metrics = {**update.metrics, "stored": self.experience.stored.astype(float)}
        return metrics


def imitation(batch, networks):
    """Return a tenth of the squared distance between the policy's actions and those of the batch, per seed."""
    away = networks.policy(batch.observation) - batch.action
    return {"actor": 0.1 * away.square().sum(2).mean(1)}


register.method("offline")(
    Method(summary="offline first", agent="offline", roles={"gathered": "scripted"}, citation="% a test")
)
