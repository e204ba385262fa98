"""The sparse reward of a classifier: which states are judged, what counts until it answers, and its errors."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import (
    Actions,
    Build,
    Observations,
    Question,
    Transition,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.streams import Streams
from guidebench.methods.robofume.guide import SparseGuide


class World:
    """Two seeds whose episodes have four steps, the last a success of the second seed."""

    def __init__(self, path: Path, every: int = 1, step: int = 1) -> None:
        self.guide = SparseGuide(2, lambda row, shot: "put it there", every, 0.5)
        build = Build(
            seeds=(0, 1), observations=Observations((1,), "float32"), actions=Actions(count=2), horizon=100,
            events=("x",), steps=100, device="cpu", streams=[Streams(0), Streams(1)],
            directories=(path / "0", path / "1"), capacity=12, slots=16,
        )  # fmt: skip
        self.store = Storage(build, self.guide.columns)
        self.questions: list[Question] = []
        self.notes: list[dict[str, Any]] = []
        self.renewed: list[tuple[int, list[int]]] = []
        self.guide.connect({"": self.store}, lambda name, row, slots: self.renewed.append((row, slots.tolist())))
        self.step = step

    @property
    def ctx(self) -> Any:
        return SimpleNamespace(
            ask=self.questions.append, step=self.step, note=lambda log, row, values: self.notes.append(dict(values))
        )

    def play(self, steps: int) -> None:
        for _ in range(steps):
            ended, observation = self.store.written % 4 == 3, np.full((2, 1), self.store.written, np.float32)
            transition = Transition(
                observation, np.zeros(2, np.int16), np.full(2, 9, np.float32), np.zeros(2, bool), np.full(2, ended),
                observation, np.zeros((2, 1), bool), np.full((2, 3), self.store.written, np.uint8),
                np.array([False, ended]),
            )  # fmt: skip
            self.guide.observed(self.store.append(transition), transition, self.store, self.ctx)

    def rewards(self, count: int = 4) -> list[list[float]]:
        return self.guide.shape(self.store.gather(np.stack([np.arange(count)] * 2))).reward.tolist()

    def answer(self, question: Question, value: list[float] | None) -> None:
        probabilities = None if value is None else np.array(value, np.float32)
        self.guide.answered([(question, Answer(probabilities))], self.store, self.ctx)


def test_every_state_is_judged_at_the_episodes_end_and_pays_from_the_threshold_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(6)
    assert [(question.row, question.key.tolist(), question.to) for question in world.questions] == [
        (0, [0, 1, 2, 3], "classifier"), (1, [0, 1, 2, 3], "classifier"),
    ]  # fmt: skip
    assert json.loads(world.questions[1].content) == {"instruction": "put it there"}
    assert world.questions[1].measures is not None and world.questions[1].measures[:, 0].tolist() == [0, 0, 0, 1]
    assert world.rewards() == [[0] * 4, [0] * 4], "nothing is known yet, and the task's 9 never counts"
    world.renewed.clear()
    world.answer(world.questions[0], [0.2, 0.5, 0.9, -1.0])
    assert world.rewards() == [[0, 1, 1, 0], [0] * 4] and world.renewed == [(0, [0, 1, 2, 3])]
    world.answer(world.questions[1], [0.1, 0.1, 0.1, 0.4])
    assert world.rewards()[1] == [0] * 4
    metrics = world.guide.metrics()
    assert {name.removeprefix("guide/"): counts.tolist() for name, counts in metrics.items()} == {
        "positives": [2, 0], "false_positives": [2, 0], "false_negatives": [0, 1], "unanswered": [1, 0],
    }  # fmt: skip
    assert world.notes[1] == {
        "states": 4, "successes": 1, "positives": 0, "false_positives": 0, "false_negatives": 1, "unanswered": 0,
    }  # fmt: skip


def test_between_judged_states_nothing_is_paid_and_the_last_is_always_judged(tmp_path: Path) -> None:
    world = World(tmp_path, every=3)
    world.play(4)
    assert world.questions[0].key.tolist() == [2, 3]
    assert world.questions[0].snapshots is not None and world.questions[0].snapshots[:, 0].tolist() == [2, 3]
    world.answer(world.questions[0], [1.0, 1.0])
    assert world.rewards()[0] == [0, 0, 1, 1]


def test_a_failed_answer_pays_nothing_and_demonstrations_pay_their_successes(tmp_path: Path) -> None:
    world = World(tmp_path, step=0)
    world.play(4)  # before the first step
    assert not world.questions and world.rewards() == [[0] * 4, [0, 0, 0, 1]]
    world.step = 1
    world.play(4)
    world.answer(world.questions[1], None)
    assert world.rewards(8)[1] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert world.guide.metrics()["guide/unanswered"].tolist() == [0, 4]
