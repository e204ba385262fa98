"""What LaGEA remembers about episodes while their transitions are stored."""

import json
from pathlib import Path

import numpy as np

from guidebench.harness.loop import checkpoints
from guidebench.methods.lagea.episodes import Episodes, Recording


def test_transitions_belong_to_the_episode_that_began_before_them() -> None:
    episodes = Episodes(2, 3)
    assert episodes.of(np.array([0, 5])).tolist() == [-1, -1] and episodes.place(0) is None
    episodes.open(4, 0)
    episodes.open(9, 0)
    assert episodes.of(np.array([3, 4, 8, 9, 30])).tolist() == [-1, 0, 0, 1, 1]
    assert (episodes.place(9), episodes.place(5)) == (1, None)
    assert np.isnan(episodes.openings).all() and episodes.openings.shape == (2, 2) and episodes.feedback.shape == (2, 3)


def test_episodes_that_are_no_longer_stored_are_forgotten() -> None:
    episodes = Episodes(1, 1)
    for first in (0, 10, 20):
        episodes.open(first, 0)
    episodes.feedback[1] = 7
    episodes.open(30, 12)  # transition 12 of the second episode is the oldest that is stored
    assert episodes.firsts.tolist() == [10, 20, 30] and episodes.feedback[0, 0] == 7 and episodes.place(0) is None


def test_a_recording_and_the_episodes_survive_a_checkpoint(tmp_path: Path) -> None:
    recording = Recording(3, 40, np.array([1, 2], np.uint8))
    for shot, success, measure in (([3, 4], False, 0.5), ([5, 6], True, 0.25)):
        recording.step(np.array(shot, np.uint8), success, np.array([measure], np.float32))
    episodes = Episodes(1, 1)
    episodes.open(40, 0)
    saved = checkpoints.save(tmp_path, 1, {"recording": recording.state(), "episodes": episodes.state()})
    latest = checkpoints.load(saved)
    again = Recording.of_state(latest.state["recording"])
    assert (again.number, again.first, again.length, again.last) == (3, 40, 2, 41)
    assert json.dumps(again.successes) == "[false, true]"
    np.testing.assert_array_equal(again.snapshots, recording.snapshots)
    np.testing.assert_array_equal(again.measures, recording.measures)
    other = Episodes(1, 1)
    other.load_state(latest.state["episodes"])
    other.open(50, 0)
    assert other.firsts.tolist() == [40, 50] and np.isnan(other.openings).all()
