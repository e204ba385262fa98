"""An episode's states are kept until they are asked about, and in checkpoints."""

from __future__ import annotations

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
    asked: Any = film.question(1)
    assert (asked.row, asked.key.tolist(), asked.to, asked.content) == (1, [5], "tracker", "{}")
    assert asked.snapshots.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert not film.snapshots and film.length == 2, "every state is in its question, and forgotten then"


def test_a_checkpoint_holds_all_of_it() -> None:
    film = Film(5, [shot(0)], grasp=np.array([[0.1, 0.2]]), waypoints=np.ones((2, 3)), content="{}")
    film.step(shot(1), False)
    kept = film.state()
    film.step(shot(2), True)
    again = Film.restored(kept)
    again.step(shot(2), True)
    assert np.array_equal(again.question(0).snapshots, film.question(0).snapshots)
    assert (again.first, again.length, again.ended, again.content) == (5, 2, True, "{}")
    assert again.grasp.tolist() == [[0.1, 0.2]] and again.waypoints is not None and again.waypoints.shape == (2, 3)
    assert not Film.restored(again.state()).snapshots, "it was asked about"
