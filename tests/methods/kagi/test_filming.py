"""An episode's states are kept until they are asked about, and in checkpoints."""

from typing import Any

import numpy as np

from guidebench.methods.kagi.filming import Film


def shot(number: int) -> np.ndarray:
    return np.full(2, number, np.uint8)


def test_it_is_due_when_it_has_ended_and_its_waypoints_are_known() -> None:
    film = Film(5, [shot(0)], content="{}")
    film.step(shot(1), False)
    film.waypoints = np.zeros((2, 3))
    assert not film.due
    film.step(shot(2), True)
    assert film.due and film.length == 2
    film.waypoints = None
    assert not film.due
    question: Any = film.question(1)
    assert (question.row, question.key.tolist(), question.to, question.content) == (1, [5], "tracker", "{}")
    assert question.snapshots.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert not film.snapshots and film.length == 2, "every state is in its question, and forgotten then"
