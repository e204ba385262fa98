"""Which stretches are asked about, where answers go, and what counts until they are there."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from guidebench.baselines.frame_rewards import FrameRewardGuide
from guidebench.baselines.frame_vectors import about
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import (
    Question,
    Transition,
)
from guidebench.harness.models.calls import Answer
from tests.baselines.builds import build


class World:
    """Two seeds on a ring of 8 slots, 6 of them live; the second seed's episodes end at every third step."""

    def __init__(self, path: Path, stretch: int = 4) -> None:
        self.guide = FrameRewardGuide(2, stretch)
        self.storage = Storage(build(path, events=("x",), capacity=6, slots=8), self.guide.columns)
        self.questions: list[Question] = []
        self.number = 0

    def play(self, steps: int) -> None:
        for t in range(self.number, self.number + steps):
            observed = np.full((2, 1), t, np.float32)
            none = np.zeros(2, bool)
            transition = Transition(
                observed, np.zeros(2, np.int16), np.full(2, 9, np.float32), none, np.array([False, t % 3 == 2]),
                observed, np.ones((2, 1), bool), np.full((2, 5), t, np.uint8), none,
            )  # fmt: skip
            slot = self.storage.append(transition)
            self.guide.observed(slot, transition, self.storage, SimpleNamespace(ask=self.questions.append))
        self.number += steps

    def answer(self, row: int, numbers: list[int], rewards: list[float] | None) -> None:
        value = None if rewards is None else np.array(rewards, np.float32)
        question = about(row, "")._replace(key=np.array(numbers))
        self.guide.answered([(question, Answer(value))], self.storage, SimpleNamespace())

    def shaped(self, numbers: list[int]) -> list[list[float]]:
        index = np.array(numbers) % 8
        return self.guide.shape(self.storage.gather(np.stack([index, index]))).reward.tolist()


def test_a_stretch_ends_when_it_is_full_and_with_its_episode(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(8)
    keys = {row: [ask.key.tolist() for ask in world.questions if ask.row == row] for row in (0, 1)}
    assert keys == {0: [[0, 1, 2, 3], [4, 5, 6, 7]], 1: [[0, 1, 2], [3, 4, 5]]}
    for ask in world.questions:
        assert ask.to == "embedder" and ask.events.shape == (len(ask.key), 0), "events are no model's to see"
        assert ask.snapshots is not None and ask.snapshots[:, 0].tolist() == ask.key.tolist()


def test_until_a_reward_is_there_the_mean_of_those_known_counts_and_never_the_tasks(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(5)
    assert world.shaped([0, 4]) == [[0, 0], [0, 0]], "none is known yet; the task pays 9"
    world.answer(0, [0, 1, 2, 3], [0.25, 0.5, 0.75, 1.0])
    assert world.shaped([0, 3, 4]) == [[0.25, 1.0, 0.625], [0, 0, 0]], "each seed by itself"
    world.answer(1, [0, 1, 2], [-1.0, 0.0, 0.25])
    assert world.shaped([0, 3, 4]) == [[0.25, 1.0, 0.625], [-1, -0.25, -0.25]]
    assert world.guide.metrics()["guide/reward"].tolist() == [0.625, -0.25]


def test_a_failure_leaves_its_transitions_to_the_mean_and_is_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(6)
    world.answer(0, [0, 1, 2, 3], None)
    world.answer(1, [0, 1, 2], [0.5, 0.5, 0.5])
    assert world.shaped([1]) == [[0], [0.5]]
    assert world.guide.metrics()["guide/failed"].tolist() == [4, 0]


def test_an_answer_about_what_is_no_longer_stored_is_left_out_of_the_ring(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(11)  # 5 to 10 are live; slots 0 to 2 hold 8 to 10
    world.answer(0, [3, 4, 5, 6], [0.1, 0.2, 0.3, 0.4])
    assert world.shaped([5, 6])[0] == pytest.approx([0.3, 0.4])
    assert world.shaped([7, 8, 9, 10])[0] == pytest.approx([0.25] * 4), "3 and 4 count in the mean"


def test_a_slot_that_is_used_again_has_no_reward_at_first(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play(4)
    world.answer(0, [0, 1, 2, 3], [1.0, 1.0, 1.0, 5.0])
    world.play(8)
    assert world.shaped([11])[0] == [2.0], "slot 3 again: the mean, not 5"
