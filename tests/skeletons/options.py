"""Options: as an episode begins a planner names a sub-goal; at every step a performer acts, or has the learner act."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Experience, Uneven
from guidebench.harness.interfaces import Observations, Place, Question
from guidebench.harness.logs import Log, count
from guidebench.harness.models.calls import ChatCall, Message
from guidebench.harness.parts import AgentPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register

GOALS = 3
NOTHING = np.zeros((1, 0), bool)


@register.agent("options")
@dataclass(frozen=True)
class Options(AgentPart):
    """The learner observes the sub-goal. Transitions in which it acted itself are also stored in a replay of their
    own."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    needs: ClassVar[Mapping[str, str]] = {
        "learner": "learner", "replay": "replay", "planner": "chat", "performer": "chat",
    }  # fmt: skip
    consults: ClassVar[tuple[str, ...]] = ("planner", "performer")
    logs: ClassVar[Mapping[str, Log]] = {"subgoals_named": Log("a plan", {"goal": count("of the sub-goal")})}

    def spawn(self, build):
        sees = build.observations.joined(goal=Observations((GOALS,), "float32"))
        return Agent(sees, replace(build, observations=sees))

    def dialogue(self, suite, task, role):
        return Number()


class Number:
    calls = 1

    async def __call__(self, content, frames, ask):
        call_result = await ask(ChatCall((Message("user", (content,)),)))
        return None if call_result.failure else int(call_result.value)


class Agent(BaseAgent):
    deterministic = False

    def __init__(self, sees, build):
        learner, replay = build.parts["learner"].spawn(build), build.parts["replay"]
        self.every, self.acted_experience = Experience(build, replay), Uneven(build, replay, name="own")
        super().__init__(build, {"": learner}, {"every": self.every, "own": self.acted_experience})
        self.sees, self.learner, self.choices = sees, learner, build.actions.count
        self.goals = np.zeros(build.rows, np.int64)
        self.acted_itself = np.zeros(build.rows, bool)

    def begin(self, rows, observation, ctx):
        self.goals[rows] = plans([Place(int(row), 0) for row in rows], ctx)

    def act(self, observation, ctx):
        places = [Place(int(row), 0) for row in ctx.rows]
        action, self.acted_itself = self.route(observation, self.goals, places, ctx)
        return action

    def route(self, observation, goals, places, ctx):
        """Return the actions, and which of them the learner chose: the performer's action, or the learner's where the
        performer names none."""
        words = np.array([GOALS if word is None else word for word in consult("performer", places, ctx)])
        learner_actions = self.acted(self.learner, self.with_goal(observation, goals), ctx)
        return np.where(words < self.choices, words, learner_actions), words >= self.choices

    def with_goal(self, observation, goals):
        return self.sees.join(observation, goal=np.eye(GOALS, dtype=np.float32)[goals])

    def actor(self, places):
        return Actor(self, places)

    def observe(self, transition, ctx):
        before, after = (
            self.with_goal(observation, self.goals)
            for observation in (transition.observation, transition.next_observation)
        )
        transition = transition._replace(observation=before, next_observation=after)
        self.every.add(transition, ctx)
        self.acted_experience.add(transition, np.flatnonzero(self.acted_itself), ctx)

    def update(self, ctx):
        metrics = {}
        for name, experience in self.experiences.items() if self.learner.updates_due(ctx.step) else ():
            _, update = self.learn(
                self.learner, experience, ctx, observation=self.with_goal(ctx.observation, self.goals)
            )
            metrics |= {f"{name}/{key}": values for key, values in update.metrics.items()} | experience.metrics(
                ctx.step
            )
        return metrics

    def value(self, observation, rows):
        return self.learner.value(self.with_goal(observation, self.goals[rows]), rows)

    def state(self, row):
        return super().state(row) | {"goal": int(self.goals[row])}

    def load_state(self, row, state):
        super().load_state(row, state)
        self.goals[row] = state["goal"]


class Actor:
    """The agent in an evaluation, with the sub-goal of each episode."""

    def __init__(self, agent, places):
        self.agent, self.places = agent, places

    def begin(self, observation, ctx):
        self.goals = plans(self.places, ctx)
        for place, goal in zip(self.places, self.goals.tolist(), strict=True):
            ctx.note("subgoals_named", place.row, {"goal": goal})

    def act(self, observation, numbers, ctx):
        places = [self.places[number] for number in numbers]
        return self.agent.route(observation, self.goals[numbers], places, ctx)[0]

    def end(self, numbers, ctx):
        self.goals[numbers] = 0


def plans(places, ctx):
    return np.array([(word or 0) % GOALS for word in consult("planner", places, ctx)])


def consult(role, places, ctx):
    asks = [
        Question(place.row, np.array([0]), None, NOTHING, f'"{role}, step {ctx.step}"', role, place.episode)
        for place in places
    ]
    return ctx.consult(asks)


register.method("options")(Method(summary="plans and routes", agent="options", citation="% a test"))
