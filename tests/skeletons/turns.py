"""Turns: two learners act in turn within an episode and learn from one replay, paid by what an embedder sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Clip, Experience
from guidebench.harness.interfaces import ArraySpec
from guidebench.harness.models.calls import EmbedCall
from guidebench.harness.parts import AgentPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register

PERIOD, STRETCH = 5, 4
VISION = ArraySpec("vision", (16,), "float16")


@register.agent("turns")
@dataclass(frozen=True)
class Turns(AgentPart):
    """Every PERIOD steps of an episode the other learner acts; frames are embedded STRETCH at a time."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    needs: ClassVar[Mapping[str, str]] = {
        "learner": "learner", "second": "learner", "replay": "replay", "embedder": "embedder",
    }  # fmt: skip
    shows_frames: ClassVar[bool] = True

    def spawn(self, build):
        return Agent(build)

    def dialogue(self, suite, task, role):
        return See()

    def array(self, cell, role):
        return VISION


class See:
    calls = 1

    async def __call__(self, content, frames, ask):
        answer = await ask(EmbedCall(tuple(frames)))
        return None if answer.failure else answer.value


class Agent(BaseAgent):
    deterministic = False

    def __init__(self, build):
        learners = {role: build.parts[role].spawn(build) for role in ("learner", "second")}
        self.experience = Experience(build, build.parts["replay"], guided=(VISION.column(),))
        super().__init__(build, learners, {"": self.experience})
        self.wants_snapshots = True
        self.clock, self.open = np.zeros(build.rows, np.int64), [Clip() for _ in range(build.rows)]

    def begin(self, rows, observation, ctx):
        self.clock[rows] = 0

    def act(self, observation, ctx):
        return self.in_turn(observation, self.clock, ctx)

    def in_turn(self, observation, clock, ctx):
        first, second = (self.acted(learner, observation, ctx) for learner in self.learners.values())
        return np.where(clock // PERIOD % 2, second, first)

    def actor(self, places):
        return Actor(self, places)

    def observe(self, transition, ctx):
        number = self.experience.store.written
        self.experience.add(transition, ctx)
        self.clock += 1
        ended = transition.terminated | transition.truncated
        for row, clip in enumerate(self.open):
            clip.add(number, transition.snapshot[row], transition.events[row, :0])
            if len(clip.numbers) == STRETCH or ended[row]:
                ctx.ask(clip.close(row)._replace(to="embedder"))

    def answered(self, answers, ctx):
        for question, answer in answers:
            if answer.value is not None:
                self.experience.store.apply(VISION.name, question.row, question.key, answer.value)

    def update(self, ctx):
        metrics = {}
        for name, learner in self.learners.items():
            if learner.updates_due(ctx.step):
                _, update = self.learn(learner, self.experience, ctx, shape=paid)
                metrics |= {f"{name}/{key}": values for key, values in update.metrics.items()}
        return metrics

    def state(self, row):
        return super().state(row) | {"clock": int(self.clock[row]), "open": self.open[row].state()}

    def load_state(self, row, state):
        super().load_state(row, state)
        self.clock[row] = state["clock"]
        self.open[row].load_state(state["open"])


class Actor:
    """The agent in an evaluation, with the number of steps of each episode."""

    def __init__(self, agent, places):
        self.agent, self.clock = agent, np.zeros(len(places), np.int64)

    def begin(self, observation, ctx):
        """Set the clocks of all episodes to 0."""

    def act(self, observation, numbers, ctx):
        action = self.agent.in_turn(observation, self.clock[numbers], ctx)
        self.clock[numbers] += 1
        return action

    def end(self, numbers, ctx):
        """Do nothing: an ended episode needs no clock."""


def paid(batch):
    """Return the batch with the first number of each transition's vector added to its reward, 0 where the vector is
    missing."""
    return batch._replace(reward=batch.reward + np.nan_to_num(batch.columns["vision"][..., 0]).astype(np.float32))


register.method("turns")(Method(summary="takes turns", agent="turns", roles={"second": "dqn"}, citation="% a test"))
