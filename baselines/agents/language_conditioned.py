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

from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.conversing import longest_instruction
from guidebench.baselines.instructions import Instructions, unshown
from guidebench.baselines.text_acting import TEXT, TextAgent, readings, room, tells, untold
from guidebench.baselines.text_vectors import ROLE, TextVector, TextVectors, spec
from guidebench.harness.interfaces import (
    Actions,
    Agent,
    Array,
    ArraySpec,
    Build,
    Dialogue,
    Guide,
    Learner,
    Observations,
    Suite,
)
from guidebench.harness.parts import AgentPart, CellView, Most
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.experience import Experience

GOAL = "goal"
"""Name of the part of an observation that holds the vector of the goal."""


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
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {ROLE: "scripted"}}
    widths: ClassVar[Mapping[str, str]] = {"width": ROLE}
    each_goal: ClassVar[bool] = True
    shares: ClassVar[Mapping[str, type]] = {ROLE: TextVector}
    consults: ClassVar[tuple[str, ...]] = (ROLE,)

    def observes(self, observations: Observations, actions: Actions) -> Observations:
        """Return the task's observations with vectors in place of sentences, and with the goal's; unchanged if they
        hold no sentences, which `fits` refuses."""
        if not tells(observations):
            return observations
        vector = Observations((self.width,), "float32")
        return observations.joined(**{TEXT: vector, **({GOAL: vector} if self.goal else {})})

    def spawn(self, build: Build) -> Agent:
        vector_build = dataclasses.replace(build, observations=self.observes(build.observations, build.actions))
        return LanguageAgent(self, vector_build, *self.built(vector_build))

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot work there, or ""."""
        observations = view.suite.spaces(view.task)[0]
        if reason := untold(observations):
            return reason
        if self.goal and GOAL in observations.parts:
            return "the task's observations have a part 'goal' of their own; set agent.goal=false"
        return unshown(view) or super().fits(view)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the call that makes a text a vector."""
        return TextVector()

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return a bound: the vector of each text is asked for once, and that of the goal."""
        observations = view.suite.spaces(view.task)[0]
        texts, goals = readings(view), int(self.goal)
        if view.task in view.suite.by_turns:
            goals *= texts
        goal = len(longest_instruction(view.suite, view.task).encode()) if self.goal else 0
        return [Most(texts, prompt=room(observations)), Most(goals, prompt=goal)]

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the declaration of a vector."""
        return spec(self.width)


class LanguageAgent(TextAgent):
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
        super().__init__(TextVectors(config.width, build.directories), build, learner, experience, guide, adds)
        self._goal, self._instructions = config.goal, Instructions(build)

    def texts(self, observation: Array, rows: Sequence[int]) -> list[bytes]:
        """Return the sentences of observations [n, …], and after all of them the instruction of each one's episode."""
        sentences = super().texts(observation, rows)
        if not self._goal:
            return sentences
        return [*sentences, *(instruction.encode() for instruction in self._instructions.of(observation, rows))]

    def join_arrays(self, observation: Array, arrays: Array) -> Array:
        """Return observations [n, …] with the vectors, [n, width] of sentences and then [n, width] of goals."""
        n = len(observation)
        return self._sees.join(observation, **{TEXT: arrays[:n], **({GOAL: arrays[n:]} if self._goal else {})})
