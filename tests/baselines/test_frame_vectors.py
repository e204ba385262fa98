"""Vectors of frames: which frames are asked about, where vectors are stored, and how others are interpolated."""

from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.frame_vectors import FRAME, FrameVectors
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import (
    Question,
)
from guidebench.harness.models.calls import Answer
from tests.baselines.test_experience import build, ctx, happened


class FrameQuestions:
    """Two seeds that store frames and ask for vectors; the vector of frame k is (2k, k)."""

    def __init__(self, path: Path, every: int, stretch: int, capacity: int = 50) -> None:
        self.vectors = FrameVectors(2, 2, every, stretch)
        self.store = Storage(build(path, capacity=capacity), (self.vectors.column,))
        self.ctx: Any = ctx()

    def step(self, *ended: bool) -> None:
        for end in ended:
            transition = happened(self.store.written, end)
            self.store.append(transition)
            self.vectors.observed(transition, self.store, self.ctx)

    def answer(self, question: Question, failed: bool = False) -> None:
        value = None if failed else np.stack([2.0 * question.key, question.key], 1).astype(np.float16)
        self.vectors.answered(question, Answer(value), self.store)

    def stored(self, row: int = 0) -> list[float]:
        """Return the first number of each stored vector."""
        numbers = np.arange(self.store.written - self.store.live.count, self.store.written)
        return self.store.read(FRAME, row, self.store.slot(numbers))[:, 0].tolist()


def test_each_frame_is_asked_about_once_in_stretches_that_end_with_the_episode(tmp_path: Path) -> None:
    world = FrameQuestions(tmp_path, every=1, stretch=3)
    world.step(False, False, False, False, True, False)
    stretches = [(question.row, question.key.tolist()) for question in world.ctx.questions]
    assert stretches == [(0, [0, 1, 2]), (1, [0, 1, 2]), (0, [3, 4]), (1, [3, 4])]
    assert [len(question.snapshots) for question in world.ctx.questions] == [3, 3, 2, 2]
    for question in world.ctx.questions:
        world.answer(question)
    assert world.stored(0)[:5] == world.stored(1)[:5] == [0, 2, 4, 6, 8] and np.isnan(world.stored()[5])


def test_frames_between_embedded_ones_are_interpolated_within_their_episode(tmp_path: Path) -> None:
    world = FrameQuestions(tmp_path, every=3, stretch=1)
    world.step(*[False] * 7, True, False, False, False)
    keys = [question.key.tolist() for question in world.ctx.questions if question.row == 0]
    assert keys == [[2], [5], [7], [10]], "each third step of an episode, and its last one"
    for question in world.ctx.questions:
        if question.row == 0:
            world.answer(question)
    # 0 and 1 lie before the first embedded frame; 8 and 9 before the first one of the second episode.
    assert world.stored() == [4, 4, 4, 6, 8, 10, 12, 14, 20, 20, 20]
    assert np.isnan(world.stored(1)).all(), "the other seed has no answers yet"


def test_a_frame_that_could_not_be_embedded_is_counted_and_filled_by_the_next_one(tmp_path: Path) -> None:
    world = FrameQuestions(tmp_path, every=2, stretch=1)
    world.step(*[False] * 6)
    first, second, third = (question for question in world.ctx.questions if question.row == 0)
    world.answer(first)
    world.answer(second, failed=True)
    assert world.vectors.failed.tolist() == [1, 0]
    world.answer(third)
    assert world.stored()[:2] == [2, 2] and np.isnan(world.stored()[2])
    assert world.stored()[3:] == [10, 10, 10], "at most two steps before the next one are filled"


def test_a_checkpoint_holds_what_is_not_asked_yet_and_overwritten_transitions_are_left_alone(tmp_path: Path) -> None:
    world = FrameQuestions(tmp_path, every=2, stretch=2, capacity=4)
    world.step(False, False, False)
    other = FrameVectors(2, 2, 2, 2)
    for row in range(2):
        other.load_state(row, world.vectors.state(row))
    world.vectors = other
    world.step(*[False] * 5)
    keys = [question.key.tolist() for question in world.ctx.questions if question.row == 0]
    assert keys == [[1, 3], [5, 7]]
    for question in world.ctx.questions:
        world.answer(question)
    assert world.stored() == [10, 10, 12, 14], "4 to 7 are stored; what 4 would lie between is not"
