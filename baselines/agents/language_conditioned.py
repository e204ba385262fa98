"""The standard agent for tasks that tell their state in sentences: it reads vectors of the sentences and of the goal.

ELLM's agent (Du et al. 2023) reads the picture, the sentences and a goal so, by Sentence-BERT.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from guidebench.baselines.agents.standard import Standard, StandardAgent
from guidebench.baselines.text_vectors import ROLE, TextVector, TextVectors, spec
from guidebench.harness.interfaces import (
    Actor,
    Agent,
    Array,
    ArraySpec,
    Build,
    Context,
    Dialogue,
    Guide,
    Learner,
    Metrics,
    Observations,
    Place,
    State,
    Suite,
    Transition,
    Update,
)
from guidebench.harness.parts import AgentPart, There
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience, Uneven

TEXT, GOAL = "text", "goal"
"""Names of the parts of an observation that hold the vectors of its sentences and of the goal."""


@register.agent("language_conditioned")
@dataclass(frozen=True)
class LanguageConditioned(Standard):
    """The standard agent, which reads the sentences of an observation as their vector, and the goal as another.

    The part `text` of the task's observations, UTF-8 filled up with zeros, becomes float32 [width], the vector that the
    text embedder gives for it; the part `goal` is added, the vector of the task's instruction.
    """

    width: Annotated[int, Bounds(1), Unit("numbers")] = 384
    """Numbers in a vector of the text embedder (ELLM, released code: Sentence-BERT paraphrase-MiniLM-L3)."""
    goal: bool = True
    """Whether observations also hold the vector of the task's instruction (ELLM, §3: a goal-conditioned policy; its
    goals come from a language model)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("language_conditioned.bib")
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({**AgentPart.needs, ROLE: "embedder"})
    shares: ClassVar[Mapping[str, type]] = {ROLE: TextVector}
    consults: ClassVar[tuple[str, ...]] = (ROLE,)

    def observes(self, observations: Observations) -> Observations:
        """Return the task's observations with vectors in place of sentences, and with the goal's; unchanged if they
        hold no sentences, which `fits` refuses."""
        if not _tells(observations):
            return observations
        vector = Observations((self.width,), "float32")
        return observations.joined(**{TEXT: vector, **({GOAL: vector} if self.goal else {})})

    def spawn(self, build: Build) -> Agent:
        seen = dataclasses.replace(build, observations=self.observes(build.observations))
        return LanguageAgent(self, seen, *self.built(seen))

    def fits(self, there: There) -> str:
        """Return why this agent cannot work there, or ""."""
        told = there.suite.spaces(there.task)[0]
        if not _tells(told):
            has = ", ".join(told.parts) or f"one array, {told.dtype} {list(told.shape)}"
            return (
                f"it reads the sentences in the part 'text' of the observations, and these are {has}; choose "
                f"observations with sentences, as suite.observation=text makes those of crafter and crafter_ood, or "
                f"agent=standard"
            )
        if self.goal and GOAL in told.parts:
            return "the task's observations have a part 'goal' of their own; set agent.goal=false"
        known = there[ROLE].dimensions()
        if known is not None and known != self.width:
            return (
                f"its text_embedder's vectors have {known} numbers, and agent.width={self.width}; set "
                f"agent.width={known}, or choose a text embedder of {self.width} numbers"
            )
        return super().fits(there)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the call that makes a text a vector."""
        return TextVector()

    def array(self, there: There, role: str) -> ArraySpec | None:
        """Return the declaration of a vector."""
        return spec(self.width)


def _tells(observations: Observations) -> bool:
    """Return whether observations hold sentences: a part `text` of bytes."""
    part = observations.parts.get(TEXT)
    return part is not None and part.dtype == "uint8" and len(part.shape) == 1 and part.categories is None


class LanguageAgent(StandardAgent):
    """The standard agent whose learner, replay and guide get observations with vectors of sentences, for S seeds."""

    def __init__(
        self,
        config: LanguageConditioned,
        build: Build,
        learner: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`build.observations` are those with vectors; the others as of StandardAgent."""
        super().__init__(build, learner, experience, guide, adds)
        self._sees, self._goal = build.observations, config.goal
        self.vectors = TextVectors(config.width, build.directories)
        tasks = (build.suite(row).make(build.task) for row in range(build.rows) if config.goal)
        self._instructions = [task.instruction.encode() for task in tasks]

    def read(self, observation: Array, places: Sequence[Place], ctx: Context) -> Array:
        """Return the task's observations [n, …], made at these places, with vectors; ask about new texts."""
        rows = [place.row for place in places]
        texts = self._texts(observation, rows)
        asked = [*places, *places] if self._goal else places
        return self._with(observation, self.vectors.of(texts, asked, self.active, ctx))

    def recall(self, observation: Array, rows: Array) -> tuple[Array, Array]:
        """Return the task's observations [n, …] of seed rows `rows` [n] with vectors, without asking, and of which of
        them the texts are known, bool [n]."""
        found, known = self.vectors.known(self._texts(observation, rows.tolist()), [*rows.tolist()] * (1 + self._goal))
        return self._with(observation, found), np.asarray(known.reshape(1 + self._goal, -1).all(0))

    def _texts(self, observation: Array, rows: Sequence[int]) -> list[bytes]:
        """Return the sentences of observations [n, …], and after all of them the instruction of each seed row."""
        told = [item.tobytes().rstrip(b"\0") for item in observation[TEXT]]
        return [*told, *(self._instructions[row] for row in rows)] if self._goal else told

    def _with(self, observation: Array, vectors: Array) -> Array:
        """Return observations [n, …] with the vectors, [n, width] of sentences and then [n, width] of goals."""
        n = len(observation)
        return self._sees.join(observation, **{TEXT: vectors[:n], **({GOAL: vectors[n:]} if self._goal else {})})

    def act(self, observation: Array, ctx: Context) -> Array:
        return self.act_on(self.read(observation, _training(ctx.rows), ctx), ctx)

    def act_on(self, seen: Array, ctx: Context) -> Array:
        """Return the standard agent's actions for observations with vectors."""
        return super().act(seen, ctx)

    def actor(self, places: Sequence[Place]) -> Actor:
        """Return an actor that reads the sentences of these episodes."""
        return Reader(self, places)

    def observe(self, transition: Transition, ctx: Context) -> None:
        places = _training(np.arange(len(self.active)))
        before, after = (self.read(each, places, ctx) for each in (transition.observation, transition.next_observation))
        super().observe(transition._replace(observation=before, next_observation=after), ctx)

    def learn(
        self, learner: Learner, experience: Experience | Uneven, ctx: Context, **given: Any
    ) -> tuple[Drawn, Update]:
        here = self.read(ctx.observation, _training(np.arange(len(self.active))), ctx)
        return super().learn(learner, experience, ctx, **{"observation": here, **given})

    def update(self, ctx: Context) -> Metrics:
        told = super().update(ctx)
        return {**told, "texts/distinct": self.vectors.met, "texts/failed": self.vectors.failed} if told else told

    def value(self, observation: Array, rows: Array) -> Array | None:
        """Return value estimates [n]; NaN for observations whose texts the seed has not met, since nothing is asked."""
        seen, known = self.recall(observation, rows)
        found = super().value(seen, rows)
        return None if found is None else np.where(known, found, np.nan)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return the learnt rewards [n], as `value` does; None without any."""
        seen, known = self.recall(observation, rows)
        found = super().reward(seen, rows)
        return None if found is None else np.where(known, found, np.nan)

    def state(self, row: int) -> State:
        return {**super().state(row), "texts": self.vectors.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.vectors.load_state(row, state["texts"])


class Reader:
    """The agent in an evaluation. The vectors that it asks for stay known in training; they change no action there,
    since a text has one vector wherever it is read."""

    def __init__(self, agent: LanguageAgent, places: Sequence[Place]) -> None:
        self._agent, self._places = agent, places

    def begin(self, observation: Array, ctx: Context) -> None:
        """Do nothing."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        places = [self._places[number] for number in numbers.tolist()]
        return self._agent.act_on(self._agent.read(observation, places, ctx), ctx)

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


def _training(rows: Array) -> list[Place]:
    """Return the places of questions that training asks for these seed rows."""
    return [Place(row, 0) for row in rows.tolist()]
