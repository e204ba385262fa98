"""What goes in comes out: successors across episode ends, the ring's edge and a restart."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Build, Observations, State, Transition, TransitionColumn
from guidebench.harness.loop import checkpoints
from guidebench.harness.streams import Streams
from tests.refusals import check_refused


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
                success=ended,
            )
        )


def restored(run_build: Build, states: list[State], columns: tuple[TransitionColumn, ...] = ()) -> Storage:
    """Return a store that continues from these states of its rows."""
    storage = Storage(run_build, columns)
    for row, state in enumerate(states):
        storage.load_state(row, state)
    return storage


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
    assert batch.number is not None and batch.number.tolist() == [list(range(14, 20))] * 2
    np.testing.assert_array_equal(storage.slot(batch.number), np.stack([slots, slots]))
    assert storage.holds(np.array([13, 14, 19, 20])).tolist() == [False, True, True, False]


LATE = (
    TransitionColumn("vector", "late", (2,), "float16", float("nan")),
    TransitionColumn("fixed", "fixed"),
    TransitionColumn("new", "mutable"),
)


def test_late_values_find_their_transitions_by_number_and_those_gone_are_skipped(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), LATE)
    fill(storage, range(20))  # 14 to 19 are live, in slots 6, 7, 0, 1, 2, 3
    values = np.array([[3, -3], [13, -13], [14, -14], [17, -17]], np.float16)
    storage.apply("vector", 1, np.array([3, 13, 14, 17]), values)
    vectors = storage.column("vector", np.array([[6, 7, 0, 1]] * 2))
    assert vectors.dtype == np.float16 and np.isnan(vectors[0]).all()
    assert vectors[1, [0, 3]].tolist() == [[14, -14], [17, -17]] and np.isnan(vectors[1, 1:3]).all(), "3 shared slot 3"
    assert np.isnan(storage.column("vector", np.array([[3, 5]] * 2))).all(), "3 and 13 had these slots once"
    storage.apply("new", 0, np.array([15]), np.array([0.5], np.float32))
    assert storage.column("new", np.array([[7, 0]] * 2)).tolist() == [[0.5, 0], [0, 0]]
    storage.apply("vector", 0, np.array([], np.int64), np.zeros((0, 2), np.float16))


@pytest.mark.parametrize(
    ("column", "numbers", "values", "says"),
    [
        ("vector", [3, 4], np.zeros((1, 2), "f2"), r"'vector' takes float16 \[2, 2\] for 2 .*given float16 \[1, 2\]"),
        ("vector", [3, 4], np.zeros((2, 1), "f2"), r"takes float16 \[2, 2\].*given float16 \[2, 1\]"),
        ("vector", [3, 4], np.zeros(2, "f2"), r"takes float16 \[2, 2\].*given float16 \[2\]"),
        ("vector", [3, 4], np.zeros((2, 2), "f4"), r"takes float16 \[2, 2\].*given float32 \[2, 2\]"),
        ("vector", [3, 5], np.zeros((2, 2), "f2"), r"transitions \[3, 5\] .*from 0 to 4, the last that was stored"),
        ("vector", [-1, 3], np.zeros((2, 2), "f2"), r"transitions \[-1, 3\] .*expected int64"),
        ("vector", [3.0, 4.0], np.zeros((2, 2), "f2"), r"\(float64 \[2\]\); expected int64 \[n\]"),
        ("fixed", [3], np.zeros(1, "f4"), r"no late or mutable column is called 'fixed' .*: vector, new\)"),
        ("reward", [3], np.zeros(1, "f4"), "no late or mutable column is called 'reward'"),
    ],
)
def test_values_of_another_shape_or_dtype_and_unknown_transitions_are_refused(
    tmp_path: Path, column: str, numbers: list[int], values: np.ndarray, says: str
) -> None:
    storage = Storage(build(tmp_path), LATE)
    fill(storage, range(5))
    check_refused(says, storage.apply, column, 0, np.array(numbers), values)
    assert np.isnan(storage.column("vector", np.array([[3, 4]] * 2))).all()


@pytest.mark.parametrize("kind", ["fixed", "mutable", "late"])
def test_columns_have_names_of_their_own(tmp_path: Path, kind: Literal["fixed", "mutable", "late"]) -> None:
    Storage(
        build(tmp_path), (TransitionColumn("return", kind),), (TransitionColumn("return", kind),)
    )  # of two parts, and the same
    check_refused(
        "two columns of stored transitions are called 'success'",
        Storage,
        build(tmp_path),
        (TransitionColumn("success", kind),),
    )
    check_refused(
        "are called 'return'",
        Storage,
        build(tmp_path),
        (TransitionColumn("return", kind),),
        (TransitionColumn("return", kind, (2,)),),
    )


def test_a_checkpoint_holds_which_late_values_are_there_and_none_of_them(tmp_path: Path) -> None:
    """Its size does not depend on the width of vectors; once some have arrived, their checksum is added."""
    sizes: dict[int, list[int]] = {1: [], 1024: []}
    for width in sizes:
        storage = Storage(build(tmp_path / str(width)), (TransitionColumn("vector", "late", (width,), "float16"),))
        fill(storage, range(5))
        for number in range(6):
            path = checkpoints.save(tmp_path / f"saved-{width}", number, storage.state(1))
            sizes[width].append((path / "arrays.safetensors").stat().st_size)
            if number < 5:
                storage.apply("vector", 1, np.array([number]), np.ones((1, width), np.float16))
    assert sizes[1] == sizes[1024] == [sizes[1][0]] + [sizes[1][0] + 8 + 4] * 5
    assert storage.state(1)["applied"]["vector"].tolist() == [True] * 5 + [False] * 3


def test_a_restart_at_a_checkpoint_forgets_what_came_after_it(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(10))
    states = [storage.state(row) for row in range(2)]
    before = storage.gather(np.array([[5, 1], [5, 1]]))
    fill(storage, range(10, 12))  # lost by the crash; two slots of slack keep the ring intact
    again = restored(build(tmp_path), states)
    after = again.gather(np.array([[5, 1], [5, 1]]))
    for field in ("observation", "next_observation", "reward", "terminated"):
        np.testing.assert_array_equal(getattr(before, field), getattr(after, field))
    fill(again, range(10, 13))
    np.testing.assert_array_equal(again.gather(np.array([[2], [2]])).observation[:, 0], [[10, 0], [10, 1]])


def test_a_ring_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    state = storage.state(0)
    (tmp_path / "seed-0" / "replay" / "reward.bin").unlink()
    check_refused(
        r"replay/reward\.bin is not there; restore the file, or delete .*seed-0 to train",
        Storage(build(tmp_path)).load_state,
        0,
        state,
    )


def test_a_ring_of_another_size_is_refused(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    check_refused("8 slots, this run 9", Storage(build(tmp_path / "other", slots=9)).load_state, 0, storage.state(0))


def test_a_ring_that_changed_its_size_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    checkpoints.save(tmp_path / "seed-1", 3, {"storage": storage.state(1)})
    path = tmp_path / "seed-1" / "replay" / "reward.bin"
    for size in (0, 31, 33):
        before = path.read_bytes()[:size].ljust(size, b"\1")
        path.write_bytes(before)
        check_refused(rf"replay/reward\.bin has {size} bytes and not 32; .*seed-1", Storage, build(tmp_path))
        assert path.read_bytes() == before
    path.unlink()
    check_refused(r"replay/reward\.bin is not there", Storage, build(tmp_path))
    assert not path.exists()


def test_a_ring_without_a_checkpoint_is_begun_anew(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path))
    fill(storage, range(3))
    path = tmp_path / "seed-1" / "replay" / "reward.bin"
    path.write_bytes(b"")
    assert not Storage(build(tmp_path)).written and path.stat().st_size == 32


SIDE = (TransitionColumn("snapshot", "fixed", (3,), "uint8"), TransitionColumn("score", "late", initial=-1.0))


@pytest.mark.parametrize("name", ["observation", "final_observation", "action", "reward", "terminated", "ended"])
@pytest.mark.parametrize("stored", [5, 257])
def test_a_byte_that_is_not_what_was_stored_is_noticed(tmp_path: Path, name: str, stored: int) -> None:
    """Every transition that may still be drawn is checked, except those that share a segment with overwritten ones."""
    run_build = build(tmp_path, capacity=64, slots=80)
    storage = Storage(run_build)
    states = []
    for start in range(0, stored, 9):
        fill(storage, range(start, min(start + 9, stored)))
        states = [storage.state(row) for row in range(2)]
    path = tmp_path / "seed-1" / "replay" / f"{name}.bin"
    stored_bytes = path.read_bytes()
    restored(run_build, states)
    path.write_bytes(bytes(len(stored_bytes)))
    check_refused(
        rf"replay/{name}\.bin does not hold what was written to it, as transitions",
        Storage(run_build).load_state,
        1,
        states[1],
    )
    number = stored - 3  # row 1 ends an episode at every third step
    number -= (number - 2) % 3
    at = number % 80 * (len(stored_bytes) // 80)
    path.write_bytes(stored_bytes[:at] + bytes([stored_bytes[at] ^ 1]) + stored_bytes[at + 1 :])
    check_refused(
        rf"replay/{name}\.bin does not hold what was written to it", Storage(run_build).load_state, 1, states[1]
    )
    path.write_bytes(stored_bytes)
    Storage(run_build).load_state(1, states[1])


def test_what_is_stored_after_a_checkpoint_is_no_damage_to_it(tmp_path: Path) -> None:
    run_build = build(tmp_path, capacity=64, slots=80)
    storage, states = Storage(run_build, SIDE), []
    for start in range(0, 200, 8):
        fill(storage, range(start, start + 8))
        states.append([storage.state(row) for row in range(2)])
        for before in states[-3:-1]:  # the older of two checkpoints, and the one before the newest
            again = restored(run_build, before, SIDE)
            newest = np.full((2, 1), (again.written - 1) % again.size)
            assert again.written == before[0]["written"] < storage.written
            assert again.gather(newest).reward[:, 0].tolist() == [again.written - 1, 1 - again.written]


def test_columns_that_are_written_later_are_checked_as_far_as_they_were(tmp_path: Path) -> None:
    run_build = build(tmp_path, capacity=64, slots=80)
    storage = Storage(run_build, SIDE)
    for number in range(20):
        fill(storage, range(number, number + 1))
        if number < 15:
            storage.write("snapshot", 0, np.array([number]), np.full((1, 3), number + 1, np.uint8))
        if number % 2:
            storage.write("score", 0, np.array([number]), np.array([number + 0.5]))
    state = storage.state(0)
    # Both are written between the checkpoint and the crash: the first is written again, the second does not count.
    storage.write("snapshot", 0, np.arange(15, 20), np.ones((5, 3), np.uint8))
    storage.write("score", 0, np.array([4]), np.array([9.5]))
    again = Storage(run_build, SIDE)
    again.load_state(0, state)
    again.write("snapshot", 0, np.arange(15, 20), np.full((5, 3), 7, np.uint8))
    state = again.state(0)
    assert state["checksums"]["snapshot"]["upto"] == 20
    for name, slot, size in (("snapshot", 3, 3), ("snapshot", 17, 3), ("score", 7, 4)):
        path = tmp_path / "seed-0" / "replay" / f"{name}.bin"
        stored_bytes = path.read_bytes()
        path.write_bytes(stored_bytes[: slot * size] + bytes(size) + stored_bytes[(slot + 1) * size :])
        check_refused(
            rf"replay/{name}\.bin does not hold what was written to it", Storage(run_build, SIDE).load_state, 0, state
        )
        path.write_bytes(stored_bytes)
    Storage(run_build, SIDE).load_state(0, state)


COLUMNS = (TransitionColumn("relabelled", "mutable", initial=7.0), TransitionColumn("score", "late", initial=-1.0))


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
    again = restored(build(tmp_path), states, COLUMNS)
    assert again.column("score", np.array([[1, 2], [1, 2]])).tolist() == [[0.25, -1], [-1, -1]]


def test_a_reused_slot_starts_anew(tmp_path: Path) -> None:
    storage = Storage(build(tmp_path), COLUMNS)
    fill(storage, range(1))
    storage.write("score", 0, np.array([0]), np.array([0.25]))
    storage.write("relabelled", 0, np.array([0]), np.array([1.0]))
    fill(storage, range(1, 9))
    assert storage.gather(np.array([[0], [0]])).columns["score"].tolist() == [[-1], [-1]]
    assert storage.gather(np.array([[0], [0]])).columns["relabelled"].tolist() == [[7], [7]]
