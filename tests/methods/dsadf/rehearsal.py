"""A dual system of one seed, step by step, whose models' answers a test gives."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Episode, Question, StepWords, Transition
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import EvaluationContext
from guidebench.harness.plan import matrix
from tests.methods.dsadf.worlds import inheriting


class Rehearsal:
    """The agent of a cell, stepped by a test that also answers its models; each text gets a vector of its own."""

    def __init__(self, directory: Path, words: Sequence[str], elsewhere: str, count: int = 1) -> None:
        (cell,) = matrix.plan(inheriting(words, elsewhere)).cells
        self.build = make_build(cell, [0], "cpu", [directory])
        self.agent: Any = self.build.parts["agent"].spawn(self.build)
        self.count, self.calls, self.text_numbers = count, list[tuple[str, Any]](), dict[str, int]()
        self.vectors: dict[str, Any] = {}
        """Vectors of texts that are not orthogonal to all others."""
        self.ctx: Any = EvaluationContext(100, self.build.streams, np.zeros(1, np.int64), answer=self.answers)

    def at(self, step: int) -> Any:
        """Return a training context at this step, which the agent uses from now on."""

        class Training(EvaluationContext):
            phase, active = self.agent.phases()[0], np.ones(1, bool)

        self.ctx = Training(step, self.build.streams, np.zeros(1, np.int64), answer=self.answers)
        return self.ctx

    def answers(self, questions: Sequence[Question]) -> list[Any]:
        return [self.answer(question.to, json.loads(question.content)) for question in questions]

    def answer(self, role: str, content: Any) -> Any:
        self.calls.append((role, content))
        return getattr(self, role)(content)

    def text_embedder(self, text: str) -> Any:
        vector = np.zeros((1, 16), np.float32)
        if text in self.vectors:
            vector[0, :2] = self.vectors[text]
        else:
            vector[0, 2 + self.text_numbers.setdefault(text, len(self.text_numbers))] = 1
        return vector

    def questions(self, role: str) -> list[Any]:
        return [content for to, content in self.calls if to == role]

    def log_rows(self, log: str, *names: str) -> list[Any]:
        """Return the rows of a log as dicts, or as tuples of the named columns."""
        rows = [dict(note.values) for note in self.ctx.notes if note.log == log]
        return [tuple(row.get(name) for name in names) for row in rows] if names else rows

    def blank_observations(self, text: str) -> Any:
        """Return observations [count] that are zero except for their text."""
        observations = np.zeros(self.count, self.build.observations.numpy)
        observations["text"][:, : len(text)] = np.frombuffer(text.encode(), np.uint8)
        return observations

    def observe_step(
        self, before: Any, action: str, after: Any, texts: StepWords, reward: float, success: Any = None,
        truncated: bool = False,
    ) -> float:  # fmt: skip
        """Let the agent observe a step, and return the reward that it stores."""
        no = np.zeros(1, bool)
        self.agent.observe(
            Transition(
                before, np.array([self.agent.names.index(action)]), np.array([reward], np.float32), no,
                np.array([truncated]), after, np.zeros((1, len(self.build.events)), bool), None,
                no if success is None else np.array([success]), None, texts,
            ),
            self.ctx,
        )  # fmt: skip
        store = self.agent.experience.store
        return float(store.column("reward", np.array([[store.written - 1]]))[0, 0])

    def end_episode(self, length: int, success: bool = False) -> None:
        self.agent.end([Episode(0, 0.0, length, success)], self.ctx)
