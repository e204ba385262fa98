"""Which frames are asked about and when, where rewards go, and what counts until they are there."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from guidebench.baselines.frame_vectors import about
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
from guidebench.methods.roboclip.guide import VideoRewardGuide


class World:
    """Two seeds on a ring of 16 slots, 12 of them live; episodes of the first end after 5 steps, of the second after
    3."""

    def __init__(self, path: Path, every: int = 2) -> None:
        self.guide = VideoRewardGuide(2, every)
        build = Build(
            seeds=(0, 1), observations=Observations((1,), "float32"), actions=Actions(count=2), horizon=100,
            events=("x",), steps=100, device="cpu", streams=[Streams(0), Streams(1)],
            directories=(path / "0", path / "1"), capacity=12, slots=16,
        )  # fmt: skip
        self.storage = Storage(build, self.guide.columns)
        self.questions: list[Question] = []
        self.number = 0

    def play(self, steps: int) -> None:
        for t in range(self.number, self.number + steps):
            observed, none = np.full((2, 1), t, np.float32), np.zeros(2, bool)
            # The first seed's episodes end by termination, the second's by truncation.
            transition = Transition(
                observed, np.zeros(2, np.int16), np.full(2, 9, np.float32), np.array([t % 5 == 4, False]),
                np.array([False, t % 3 == 2]), observed, np.ones((2, 1), bool), np.full((2, 5), t, np.uint8), none,
            )  # fmt: skip
            slot = self.storage.append(transition)
            self.guide.observed(slot, transition, self.storage, SimpleNamespace(ask=self.questions.append))
        self.number += steps

    def answer(self, row: int, number: int, reward: float | None) -> None:
        value = None if reward is None else np.array([reward], np.float32)
        question = about(row, "")._replace(key=np.array([number]))
        self.guide.answered([(question, Answer(value))], self.storage, SimpleNamespace())

    def shaped(self, numbers: list[int]) -> list[list[float]]:
        index = np.array(numbers) % 16
        return self.guide.shape(self.storage.gather(np.stack([index, index]))).reward.tolist()


def test_an_episodes_end_asks_about_every_kth_frame_from_the_first_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(9)
    frames = [(ask.row, ask.key.tolist(), ask.snapshots[:, 0].tolist()) for ask in world.questions]
    assert frames == [(1, [2], [0, 2]), (0, [4], [0, 2, 4]), (1, [5], [3, 5]), (1, [8], [6, 8])]
    assert all(ask.to == "embedder" and ask.events.shape == (1, 0) for ask in world.questions), (
        "events are no model's to see"
    )
    sparse = World(tmp_path / "sparse", every=4)
    sparse.play(5)
    assert [ask.snapshots[:, 0].tolist() for ask in sparse.questions] == [[0], [0, 4]]


def test_only_the_last_step_is_paid_and_never_by_the_task(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(6)
    assert world.shaped([0, 1, 2, 3, 4, 5]) == [[0] * 6, [0] * 6], "none is known yet; the task pays 9"
    world.answer(0, 4, 7.5)
    world.answer(1, 2, -2.0)
    assert world.shaped([3, 4, 5]) == [[0, 7.5, 0], [0, 0, -2.0]], "5 ends an episode of the second: the mean so far"
    world.answer(1, 5, 4.0)
    assert world.shaped([2, 5]) == [[0, 0], [-2.0, 4.0]]
    assert world.guide.metrics()["guide/reward"].tolist() == [7.5, 1.0]
    world.play(3)
    world.answer(1, 8, None)
    assert world.shaped([8]) == [[0], [1.0]], "a failure leaves its episode to the mean and is counted"
    assert world.guide.metrics()["guide/failed"].tolist() == [0, 1]
