"""What LaGEA remembers of episodes: by the numbers of their transitions, as long as these are stored."""

import numpy as np

from guidebench.methods.lagea.episodes import Episodes


def test_transitions_belong_to_the_episode_that_began_before_them() -> None:
    found = Episodes(2, 3)
    assert found.of(np.array([0, 5])).tolist() == [-1, -1] and found.place(0) is None
    found.open(4, 0)
    found.open(9, 0)
    assert found.of(np.array([3, 4, 8, 9, 30])).tolist() == [-1, 0, 0, 1, 1]
    assert (found.place(9), found.place(5)) == (1, None)
    assert np.isnan(found.openings).all() and found.openings.shape == (2, 2) and found.feedback.shape == (2, 3)


def test_episodes_that_are_no_longer_stored_are_forgotten() -> None:
    found = Episodes(1, 1)
    for first in (0, 10, 20):
        found.open(first, 0)
    found.feedback[1] = 7
    found.open(30, 12)  # transition 12 of the second episode is the oldest that is stored
    assert found.firsts.tolist() == [10, 20, 30] and found.feedback[0, 0] == 7 and found.place(0) is None
