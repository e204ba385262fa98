"""What goes in comes out: successors across episode ends, the ring's edge and a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baselines.storage import Storage
from harness.errors import UserError
from harness.interfaces import Actions, Build, Column, Observations, Transition
from harness.streams import Streams


def build(path: Path, rows: int = 2, capacity: int = 6, slots: int = 8) -> Build:
    return Build(
        seeds=tuple(range(rows)),
        observations=Observations((2,), "float32"),
        actions=Actions(count=3),
        horizon=100,
        events=(),
        steps=100,
        device="cpu",
        streams=[Streams(seed) for seed in range(rows)],
        directories=tuple(path / f"seed-{row}" for row in range(rows)),
        capacity=capacity,
        slots=slots,
    )


def fill(storage: Storage, numbers: range, rows: int = 2) -> None:
    """Transition t of row r: observation [t, r], next [t+1, r], but row 1 ends episodes at every third step with a
    last observation of [-t, 1]."""
    for t in numbers:
        ended = np.array([False, t % 3 == 2][:rows])
        following = np.array([[t + 1, 0], [-t if ended[-1] else t + 1, 1]][:rows], np.float32)
        storage.append(
            Transition(
                observation=np.array([[t, row] for row in range(rows)], np.float32),
                action=np.array([t % 3] * rows),
                reward=np.array([t, -t][:rows], np.float32),
                terminated=ended,
                truncated=np.zeros(rows, bool),
                next_observation=following,
                events=np.zeros((rows, 0), bool),
                snapshot=None,
            )
        )


def test_the_successor_of_a_step_is_the_next_observation_or_the_episode_s_last(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(5))
    batch = storage.gather(np.array([[0, 2, 4], [0, 2, 4]]))
    assert batch.next_observation[0, :, 0].tolist() == [1, 3, 5]  # 4 is the newest: its successor is not stored yet
    assert batch.next_observation[1, :, 0].tolist() == [1, -2, 5]
    assert batch.terminated.tolist() == [[False] * 3, [False, True, False]]
    assert batch.reward.tolist() == [[0, 2, 4], [0, -2, -4]]
    assert batch.action.tolist() == [[0, 2, 1]] * 2


def test_the_ring_wraps_and_only_its_capacity_is_live(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(20))
    live = storage.live
    slots = live.slots(np.arange(live.count))
    batch = storage.gather(np.stack([slots, slots]))
    assert batch.observation[0, :, 0].tolist() == list(range(14, 20))
    assert batch.next_observation[1, :, 0].tolist() == [-14, 16, 17, -17, 19, 20]
    assert storage.holds(np.array([13, 14, 19, 20])).tolist() == [False, True, True, False]


def test_a_restart_at_a_checkpoint_forgets_what_came_after_it(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(10))
    states = [storage.state(row) for row in range(2)]
    before = storage.gather(np.array([[5, 1], [5, 1]]))
    fill(storage, range(10, 12))  # lost by the crash; two slots of slack keep the ring intact
    again = Storage(build(tmp_path))
    for row, state in enumerate(states):
        again.load_state(row, state)
    after = again.gather(np.array([[5, 1], [5, 1]]))
    for field in ("observation", "next_observation", "reward", "terminated"):
        np.testing.assert_array_equal(getattr(before, field), getattr(after, field))
    fill(again, range(10, 13))
    np.testing.assert_array_equal(again.gather(np.array([[2], [2]])).observation[:, 0], [[10, 0], [10, 1]])


def test_a_seed_stored_beside_others_goes_on_alone(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(5))
    state = storage.state(1)
    alone = build(tmp_path, rows=1)
    alone = Build(**{**alone.__dict__, "directories": (tmp_path / "seed-1",)})
    single = Storage(alone)
    single.load_state(0, state)
    beside = storage.gather(np.array([[1, 4]] * 2)).next_observation[1]
    np.testing.assert_array_equal(single.gather(np.array([[1, 4]])).next_observation[0], beside)


def test_a_ring_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    state = storage.state(0)
    (tmp_path / "seed-0" / "replay" / "reward.bin").unlink()
    with pytest.raises(UserError, match="stored transitions of this run are gone"):
        Storage(build(tmp_path)).load_state(0, state)


def test_a_ring_of_another_size_is_refused(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    with pytest.raises(UserError, match="8 slots, this run 9"):
        Storage(build(tmp_path / "other", slots=9)).load_state(0, storage.state(0))


COLUMNS = (Column("relabelled", "mutable", initial=7.0), Column("score", "late", initial=-1.0))


def test_late_values_count_once_applied_and_mutable_ones_may_change(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), COLUMNS)
    fill(storage, range(4))
    storage.write("score", 1, np.array([2]), np.array([0.5]))
    storage.write("relabelled", 0, np.array([1, 2]), np.array([3.0, 4.0]))
    columns = storage.gather(np.array([[1, 2], [1, 2]])).columns
    assert columns["score"].tolist() == [[-1, -1], [-1, 0.5]]
    assert columns["relabelled"].tolist() == [[3, 4], [7, 7]]


def test_a_score_that_came_after_the_checkpoint_does_not_survive_it(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), COLUMNS)
    fill(storage, range(4))
    storage.write("score", 0, np.array([1]), np.array([0.25]))
    states = [storage.state(row) for row in range(2)]
    storage.write("score", 0, np.array([2]), np.array([0.75]))
    again = Storage(build(tmp_path), COLUMNS)
    for row, state in enumerate(states):
        again.load_state(row, state)
    assert again.column("score", np.array([[1, 2], [1, 2]])).tolist() == [[0.25, -1], [-1, -1]]


def test_a_reused_slot_starts_anew(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), COLUMNS)
    fill(storage, range(1))
    storage.write("score", 0, np.array([0]), np.array([0.25]))
    storage.write("relabelled", 0, np.array([0]), np.array([1.0]))
    fill(storage, range(1, 9))
    assert storage.gather(np.array([[0], [0]])).columns["score"].tolist() == [[-1], [-1]]
    assert storage.gather(np.array([[0], [0]])).columns["relabelled"].tolist() == [[7], [7]]
