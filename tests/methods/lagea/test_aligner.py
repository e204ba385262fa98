"""Which samples the symmetric loss takes as negatives of each other, by episode."""

import numpy as np

from guidebench.methods.lagea.aligner import rivals


def test_transitions_of_one_episode_are_no_negatives_of_each_other_if_masked() -> None:
    """Of four transitions, 0 and 1 are of episode 5, 2 is of episode 6, and 3 of episode 5 has no feedback."""
    complete, places = np.array([[True, True, True, False]]), np.array([[5, 5, 6, 5]])
    masked = [[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(rivals(complete, places, True)[0], np.array(masked, bool))
    unmasked = [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(rivals(complete, places, False)[0], np.array(unmasked, bool))
