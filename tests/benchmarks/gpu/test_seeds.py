"""The figures of updates: rates count every seed, and the time of five is compared with that of one round by round."""

from typing import Any

import pytest

from benchmarks.gpu import seeds
from benchmarks.gpu.seeds import Rival


def rival(how: str, count: int, *seconds: float, error: str = "") -> Rival:
    def unmade() -> tuple[Any, Any]:
        raise ValueError("no learner")

    return Rival("SAC", how, count, unmade, batch=256, seconds=[*seconds], error=error)


def test_five_seeds_beside_one_and_captured_beside_eager() -> None:
    """Captured, one seed takes 1 and 2 s and five take 1.5 and 2 s: 1.5 and 1 times the time, 10/3 and 2.5 updates a
    second. Eager, one takes 4 and 4 s."""
    contenders = [
        rival("captured", 1, 1, 2),
        rival("captured", 5, 1.5, 2),
        rival("eager", 1, 4, 4),
        rival("eager", 5, 8, 8),
    ]
    single, five, time, *_ = seeds.rows(contenders, 8)
    assert (single.figure, single.seeds, single.beside) == (0.75, 1, "eager")
    assert (single.ratio_lowest, single.ratio, single.ratio_highest) == (2, 3, 4)
    assert five.lowest == 2.5 and five.highest == pytest.approx(10 / 3)
    assert (time.lowest, time.figure, time.highest, time.unit) == (1, 1.25, 1.5, "×")
    assert time.seconds == 8 * 6.5


def test_a_learner_that_cannot_be_made_is_told_and_the_others_are_measured() -> None:
    lost = rival("eager", 1)
    lost.begin("cpu")
    assert lost.error == "ValueError: no learner"
    first, second = seeds.rows([lost, rival("eager", 5, 2.0)], 8)
    assert first.figure is None and first.note == lost.error and second.figure == 2.5
