"""When noise levels and seeds are drawn, where rewards go, and the bonus of success."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.frame_vectors import about
from guidebench.baselines.storage import Storage
from guidebench.harness.models.calls import Answer
from guidebench.harness.streams import Streams
from guidebench.methods.tadpole import Tadpole
from guidebench.methods.tadpole.guide import STREAM, DenoisingGuide
from tests.baselines.test_experience import build, ctx, happened

SEEDS = (3, 5)


class Played:
    """A guide beside a store; the second seed succeeds at every third step."""

    def __init__(self, path: Path, config: Tadpole) -> None:
        self.build = build(path, seeds=SEEDS)
        self.guide: Any = config.spawn(self.build)
        self.store = Storage(self.build, self.guide.columns)
        self.ctx: Any = ctx(2)

    def play(self, steps: int, end: bool = True) -> None:
        for at in range(steps):
            number = self.store.written
            transition = happened(number, end and at == steps - 1, SEEDS)
            transition = transition._replace(success=np.array([False, number % 3 == 2]))
            self.guide.observed(self.store.append(transition), transition, self.store, self.ctx)

    def inquiries(self, row: int) -> list[Any]:
        return [json.loads(question.content) for question in self.ctx.questions if question.row == row]

    def answer(self, row: int, numbers: list[int], rewards: list[float] | None) -> None:
        value = None if rewards is None else np.array(rewards, np.float32)
        question = about(row, "")._replace(key=np.array(numbers))
        self.guide.answered([(question, Answer(value))], self.store, self.ctx)

    def shaped(self, numbers: list[int]) -> Any:
        return self.guide.shape(self.store.gather(np.array([numbers, numbers]))).reward


def test_a_level_is_drawn_for_each_episode_and_a_seed_for_each_frame(tmp_path: Path) -> None:
    played = Played(tmp_path, Tadpole(stretch=4))
    assert isinstance(played.guide, DenoisingGuide)
    for _ in range(3):
        played.play(6)
    for row, seed in enumerate(SEEDS):
        inquiries, stream = played.inquiries(row), Streams(seed).named(STREAM)
        assert [len(inquiry["seeds"]) for inquiry in inquiries] == [4, 2] * 3
        for first, second in zip(inquiries[::2], inquiries[1::2], strict=True):
            assert first["level"] == second["level"] == int(stream.integers(500, 600))
            assert first["seeds"] + second["seeds"] == [int(stream.integers(2**32)) for _ in range(6)]
        assert len({inquiry["level"] for inquiry in inquiries}) == 3
    assert played.inquiries(0) != played.inquiries(1), "each seed has a stream of its own"
    played = Played(tmp_path / "few", Tadpole(least_noise=7, noise_levels=3, stretch=1))
    for _ in range(40):
        played.play(1)
    assert {inquiry["level"] for inquiry in played.inquiries(0)} == {7, 8, 9}, "levels span what is set"


def test_success_is_paid_beside_the_models_reward_and_beside_the_mean(tmp_path: Path) -> None:
    played = Played(tmp_path, Tadpole(stretch=4))
    played.play(8)
    assert played.shaped([1, 2, 5]).tolist() == [[0, 0, 0], [0, 2, 2]], (
        "no model's reward is known; the task's counts not"
    )
    played.answer(1, [0, 1, 2, 3], [0.5, -1.0, 3.0, 1.5])
    assert played.shaped([1, 2, 3, 5, 6]).tolist()[1] == [-1.0, 5.0, 1.5, 3.0, 1.0], "5 and 6 have the mean of 1"
    played.answer(0, [0, 1, 2, 3], None)
    metrics = played.guide.metrics()
    assert metrics["guide/reward"].tolist() == [0, 1.0] and metrics["guide/failed"].tolist() == [4, 0]
    without = Played(tmp_path / "without", Tadpole(stretch=4, success=0.0))
    without.play(3, end=False)
    assert without.shaped([2]).tolist() == [[0], [0]]
