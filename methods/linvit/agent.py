"""The agent that asks a chat for probabilities of the actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.by_text import ArraysByText, question
from guidebench.baselines.experience import Experience
from guidebench.baselines.instructions import Instructions
from guidebench.baselines.text_acting import TEXT, TextAgent
from guidebench.harness.interfaces import Array, Build, Context, Guide, Learner, Metrics, Place, Question, State
from guidebench.methods.linvit import PRIOR, PriorGuided

BETWEEN = "\n"
"""What stands between a goal and the sentences of a state, neither of which holds it, in the text that is asked
about."""
FILE = Path("replay", "action_weights.bin")
"""The file in a run's directory that holds its texts and weights; it is deleted with the stored transitions."""


def smoothed(weights: Array, may: Array | None, share: float) -> Array:
    """Return the prior, probabilities of the actions float32 [n, A] of sum 1, for a chat's weights [n, A]: the weights
    of the allowed actions, scaled to the sum 1 − `share`, plus `share` spread evenly over these actions.

    `may`: which actions are allowed, bool [n, A], or None for all; a row that allows none allows all. Weights that are
    all 0 give the uniform prior.
    """
    allowed = np.ones(weights.shape, bool) if may is None else may | ~may.any(1, keepdims=True)
    allowed_weights = np.where(allowed, weights, 0).astype(np.float64)
    total, even = allowed_weights.sum(1, keepdims=True), allowed / allowed.sum(1, keepdims=True)
    normalised = np.divide(allowed_weights, total, out=even.copy(), where=total > 0)
    return np.asarray((1 - share) * normalised + share * even, np.float32)


class Weights(ArraysByText):
    """A chat's weights of the actions for each state's text that the seeds have encountered; 0 for all actions where
    the chat gave no answer."""

    def __init__(self, actions: int, instructions: Instructions, directories: Sequence[Path]) -> None:
        """`instructions`: those of the seeds' episodes; `directories`: the run directory of each seed."""
        super().__init__(actions, directories, FILE)
        self._instructions = instructions
        self.unknown = np.zeros(len(directories))
        """Names in each seed's answers that are no action, [S]."""

    def question(self, text: bytes, place: Place) -> Question:
        goal, _, state = text.decode("utf-8", "replace").rpartition(BETWEEN)
        content = {"instruction": goal or self._instructions.fixed[place.row], "state": state}
        return question(json.dumps(content), place, PRIOR)

    def array(self, answer: Any, row: int) -> Array:
        self.unknown[row] += answer["unknown"]
        return np.array(answer["weights"], np.float32)

    def state(self, row: int) -> State:
        return {**super().state(row), "unknown": float(self.unknown[row])}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.unknown[row] = state["unknown"]


class PriorAgent(TextAgent):
    """The standard agent whose learner, replay and guide get the prior in place of sentences, for S seeds."""

    text_arrays: Weights

    def __init__(
        self,
        config: PriorGuided,
        build: Build,
        learner: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`build.observations` are those with the prior; the others as of StandardAgent."""
        assert build.actions.count is not None
        self._instructions = Instructions(build)
        weights = Weights(build.actions.count, self._instructions, build.directories)
        super().__init__(weights, build, learner, experience, guide, adds)
        self._smoothing, self._mask = config.smoothing, build.observations.masking

    def texts(self, observation: Array, rows: Sequence[int]) -> list[bytes]:
        """Return the sentences of observations [n, …]; where the goal changes, each after that of its episode, since an
        answer for one goal serves no other."""
        sentences = super().texts(observation, rows)
        if not self._instructions.change:
            return sentences
        goals = self._instructions.changing(observation)
        return [f"{goal}{BETWEEN}".encode() + sentence for goal, sentence in zip(goals, sentences, strict=True)]

    def join_arrays(self, observation: Array, arrays: Array) -> Array:
        """Return observations [n, …] with the prior that follows from the weights [n, A], and without sentences."""
        assert observation.dtype.names is not None
        records = observation[[name for name in observation.dtype.names if name != TEXT]]
        may = observation[self._mask] != 0 if self._mask else None
        return self._sees.join(records, **{PRIOR: smoothed(arrays, may, self._smoothing)})

    def update(self, ctx: Context) -> Metrics:
        metrics = super().update(ctx)
        return {**metrics, "texts/unknown_names": self.text_arrays.unknown.copy()} if metrics else metrics
