"""Task phases: which draws served the way to which event."""

from pathlib import Path

import numpy as np
import pytest

from guidebench.baselines.storage import Storage
from guidebench.baselines.task_phases import TaskPhases
from guidebench.harness.interfaces import Transition
from tests.baselines.builds import build


def happened(events: list[bool], ended: bool) -> Transition:
    observation = np.zeros((1, 1), np.float32)
    end = np.array([ended])
    return Transition(
        observation, np.zeros(1, int), np.zeros(1), end, ~end & False, observation, np.array([events]), None, end
    )


@pytest.fixture
def parts(tmp_path: Path) -> tuple[TaskPhases, Storage]:
    run_build = build(tmp_path, (0,), events=("key", "door"), capacity=6, slots=8)
    phases = TaskPhases(1, run_build.events)
    return phases, Storage(run_build, (), (phases.column,))


def feed(phases: TaskPhases, storage: Storage, steps: list[tuple[list[bool], bool]]) -> None:
    for events, ended in steps:
        transition = happened(events, ended)
        phases.added(storage.append(transition), storage.live, transition, storage)


NOTHING, KEY, DOOR = [False, False], [True, False], [False, True]


def test_a_transition_belongs_to_the_first_event_not_yet_seen_in_its_episode(parts: tuple) -> None:
    phases, storage = parts
    feed(phases, storage, [(NOTHING, False), (KEY, False), (KEY, False), (DOOR, False)])
    feed(phases, storage, [(NOTHING, True), (NOTHING, False)])
    # the key's own transition is on the way to the key; after both events everything is seen, until a new episode
    assert storage.column("phase", np.arange(6)[None])[0].tolist() == [0, 0, 1, 1, 2, 0]


def test_shares_of_draws_and_of_what_is_stored(parts: tuple) -> None:
    phases, storage = parts
    feed(phases, storage, [(NOTHING, False), (KEY, False), (NOTHING, False), (DOOR, False)])
    metrics = phases.metrics(np.array([[0, 2, 3, 3]]), storage)
    assert {name: value.tolist() for name, value in metrics.items()} == {
        "drawn/key": [0.25], "drawn/door": [0.75], "stored/key": [0.5], "stored/door": [0.5],
    }  # fmt: skip


def test_what_leaves_the_buffer_is_no_longer_counted(parts: tuple) -> None:
    phases, storage = parts
    feed(phases, storage, [(NOTHING, False), (KEY, False), *[(NOTHING, False)] * 5])  # seven into six
    metrics = phases.metrics(np.array([[1]]), storage)
    assert metrics["stored/key"] == pytest.approx([1 / 6]) and metrics["stored/door"] == pytest.approx([5 / 6])


def test_a_restored_tally_goes_on(parts: tuple) -> None:
    phases, storage = parts
    feed(phases, storage, [(NOTHING, False), (KEY, False), (NOTHING, False)])
    restored = TaskPhases(1, ("key", "door"))
    restored.load_state(0, phases.state(0))
    feed(restored, storage, [(DOOR, True), (NOTHING, False)])
    assert storage.column("phase", np.arange(5)[None])[0].tolist() == [0, 0, 1, 1, 0]
    assert restored.metrics(np.array([[0]]), storage)["stored/door"] == pytest.approx([0.4])
