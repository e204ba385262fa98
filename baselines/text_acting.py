"""Shared by agents that read the sentences in observations through a model, which each seed asks once per text."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.baselines.agents.standard import StandardAgent
from guidebench.baselines.by_text import ArraysByText
from guidebench.harness import lengths
from guidebench.harness.interfaces import (
    Actor,
    Array,
    Build,
    Context,
    Guide,
    Learner,
    Metrics,
    Observations,
    Place,
    State,
    Transition,
    Update,
)
from guidebench.harness.parts import CellView

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience, Uneven

TEXT = "text"
"""Name of the part of an observation that holds its sentences, UTF-8 filled up with zeros."""


def tells(observations: Observations) -> bool:
    """Return whether observations hold sentences: a part `text` of bytes."""
    part = observations.parts.get(TEXT)
    return part is not None and part.dtype == "uint8" and len(part.shape) == 1 and part.categories is None


def room(observations: Observations) -> int:
    """Return the size in bytes of the sentences' part of observations that `tells` accepts."""
    return int(math.prod(observations.parts[TEXT].shape))


def readings(view: CellView) -> int:
    """Return the most texts that an agent reads in a run: one for the first state of each episode and one after each
    step, over demonstrations, training and evaluations."""
    steps = int(view["training"].steps)
    episodes = 1 + lengths.ended(view, steps) + int(view["training"].demonstrations)
    return episodes + steps + lengths.demonstrated(view) + lengths.tested_steps(view)


def sentences(observation: Array) -> list[str]:
    """Return the sentences of observations [n, …] that `tells` accepts."""
    return [sentence.tobytes().rstrip(b"\0").decode("utf-8", "replace") for sentence in observation[TEXT]]


def untold(observations: Observations) -> str:
    """Return why observations cannot be read as sentences, or ""."""
    if tells(observations):
        return ""
    has = ", ".join(observations.parts) or f"one array, {observations.dtype} {list(observations.shape)}"
    return (
        f"it reads the sentences in the part 'text' of the observations, and these are {has}; choose observations with "
        f"sentences, as suite.observation=text makes those of crafter, crafter_ood and housekeep, or agent=standard"
    )


class RecallingAgent(StandardAgent):
    """The standard agent whose learner reads arrays of texts; for diagnostics the arrays come from memory, and no model
    is asked."""

    @abstractmethod
    def recall(self, observation: Array, rows: Array) -> tuple[Array, Array]:
        """Return the learner's observations, from the task's observations [n, …] of seed rows `rows` [n], without
        asking a model; and whether the arrays of their texts are known, bool [n]."""

    def value(self, observation: Array, rows: Array) -> Array | None:
        """Return value estimates [n]; NaN for observations with texts that the seed has not yet asked about."""
        learner_observation, are_known = self.recall(observation, rows)
        estimates = super().value(learner_observation, rows)
        return None if estimates is None else np.where(are_known, estimates, np.nan)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return the learnt rewards [n], as `value` does; None without any."""
        learner_observation, are_known = self.recall(observation, rows)
        rewards = super().reward(learner_observation, rows)
        return None if rewards is None else np.where(are_known, rewards, np.nan)


class TextAgent(RecallingAgent):
    """The standard agent whose learner, replay and guide get a model's arrays in place of an observation's sentences,
    for S seeds."""

    def __init__(
        self,
        text_arrays: ArraysByText,
        build: Build,
        learner: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`text_arrays`: a model's array for each text; `build.observations`: the learner's observations; other
        arguments as for StandardAgent."""
        super().__init__(build, learner, experience, guide, adds)
        self._sees, self.text_arrays = build.observations, text_arrays

    @abstractmethod
    def join_arrays(self, observation: Array, arrays: Array) -> Array:
        """Return the learner's observations, joined from the task's, [n, …], and the arrays [k·n, width] of their
        `texts`."""

    def texts(self, observation: Array, rows: Sequence[int]) -> list[bytes]:
        """Return the texts to read for observations [n, …] of seed rows `rows`: their n sentences, then any further
        texts, n at a time."""
        return [sentence.tobytes().rstrip(b"\0") for sentence in observation[TEXT]]

    def read(self, observation: Array, places: Sequence[Place], ctx: Context) -> Array:
        """Return the learner's observations for the task's, [n, …], after asking the model about texts that are new.
        `places`: the seed and the episode in which each was made."""
        texts = self.texts(observation, [place.row for place in places])
        return self.join_arrays(
            observation, self.text_arrays.of(texts, [*places] * (len(texts) // len(places)), self.active, ctx)
        )

    def recall(self, observation: Array, rows: Array) -> tuple[Array, Array]:
        texts = self.texts(observation, rows.tolist())
        arrays, are_known = self.text_arrays.look_up(texts, [*rows.tolist()] * (len(texts) // len(rows)))
        return self.join_arrays(observation, arrays), np.asarray(are_known.reshape(-1, len(rows)).all(0))

    def act(self, observation: Array, ctx: Context) -> Array:
        return self.act_on(self.read(observation, _training(ctx.rows), ctx), ctx)

    def act_on(self, observation: Array, ctx: Context) -> Array:
        """Return the standard agent's actions for the learner's observations."""
        return super().act(observation, ctx)

    def actor(self, places: Sequence[Place]) -> Actor:
        """Return an actor that reads the sentences of these episodes."""
        return Reader(self, places)

    def observe(self, transition: Transition, ctx: Context) -> None:
        places = _training(np.arange(len(self.active)))
        before, after = (
            self.read(observation, places, ctx) for observation in (transition.observation, transition.next_observation)
        )
        super().observe(transition._replace(observation=before, next_observation=after), ctx)

    def learn(
        self, learner: Learner, experience: Experience | Uneven, ctx: Context, **arguments: Any
    ) -> tuple[Drawn, Update]:
        current = self.read(ctx.observation, _training(np.arange(len(self.active))), ctx)
        return super().learn(learner, experience, ctx, **{"observation": current, **arguments})

    def update(self, ctx: Context) -> Metrics:
        metrics = super().update(ctx)
        return (
            {**metrics, "texts/distinct": self.text_arrays.met, "texts/failed": self.text_arrays.failed}
            if metrics
            else metrics
        )

    def state(self, row: int) -> State:
        return {**super().state(row), "texts": self.text_arrays.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.text_arrays.load_state(row, state["texts"])


class Reader:
    """Acts in an evaluation. Answers that it requests stay known in training but change no action there, since a text
    has the same array wherever it is read."""

    def __init__(self, agent: TextAgent, places: Sequence[Place]) -> None:
        self._agent, self._places = agent, places

    def begin(self, observation: Array, ctx: Context) -> None:
        """Do nothing."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        places = [self._places[number] for number in numbers.tolist()]
        return self._agent.act_on(self._agent.read(observation, places, ctx), ctx)

    def end(self, numbers: Array, ctx: Context) -> None:
        """Do nothing."""


def _training(rows: Array) -> list[Place]:
    """Return the places (row, episode 0) of questions that training asks for these seed rows."""
    return [Place(row, 0) for row in rows.tolist()]
