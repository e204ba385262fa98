"""A store that keeps each frame once gives back the stacks that were observed, whatever the ring and breaks did."""

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Build, Observations, Transition
from guidebench.harness.loop import build as loop_build
from guidebench.harness.streams import Streams

IMAGE = Observations((2, 3, 6), "uint8", stack=3)
SPACES = {
    "an array": Observations((2,), "float32"),
    "a stack": IMAGE,
    "a record": Observations(parts={"place": Observations((2,), "float32"), "code": Observations((3,), "int16")}),
    "a record with stacks": Observations(
        parts={"image": IMAGE, "last": Observations((4,), "float32", stack=2), "place": Observations((), "float64")}
    ),
}


def build(path: Path, observations: Observations, rows: int = 1) -> Build:
    return Build(
        seeds=tuple(range(rows)), observations=observations, actions=Actions(count=3), horizon=100, events=(),
        steps=200, device="cpu", streams=[Streams(seed) for seed in range(rows)], capacity=20, slots=28,
        directories=tuple(path / f"seed-{row}" for row in range(rows)),
    )  # fmt: skip


class World:
    """Episodes of S seeds with random observations, whose stacks move by one frame a step."""

    def __init__(self, observations: Observations, rows: int) -> None:
        self.space, self.rng = observations, np.random.default_rng(0)
        self.observations = [self._drawn(None) for _ in range(rows)]
        self.transitions: list[list[tuple]] = [[] for _ in range(rows)]
        """Per seed, its stored transitions: observation, next observation and whether the episode ended."""

    def _drawn(self, before: np.ndarray | None) -> np.ndarray:
        observation = np.empty(self.space.shape, self.space.numpy)
        for name, part in (self.space.parts or {"": self.space}).items():
            drawn = self.rng.integers(0, 200, part.shape).astype(part.dtype)
            if part.stack > 1 and before is not None:
                depth = part.shape[-1] // part.stack
                drawn[..., :-depth] = (before[name] if name else before)[..., depth:]
            if name:
                observation[name] = drawn
            else:
                observation[...] = drawn
        return observation

    def play(self, storage: Storage, steps: int, breaks: bool) -> None:
        """Store `steps` steps; with `breaks`, also play steps that are not stored."""
        no = np.zeros(len(self.observations), bool)
        for _ in range(steps):
            if breaks and self.rng.random() < 0.2:
                self.observations = [self._drawn(observation) for observation in self.observations]
                storage.cut()
            after = [self._drawn(observation) for observation in self.observations]
            ended = self.rng.random(len(self.observations)) < 0.2
            storage.append(
                Transition(
                    np.stack(self.observations),
                    no,
                    no,
                    ended,
                    no,
                    np.stack(after),
                    np.zeros((len(no), 0), bool),
                    None,
                    no,
                )
            )
            for row, transitions in enumerate(self.transitions):
                transitions.append((self.observations[row], after[row], bool(ended[row])))
            self.observations = [
                self._drawn(None) if ended[row] else observation for row, observation in enumerate(after)
            ]

    def check(self, storage: Storage) -> None:
        """Check that everything that may be drawn equals what was stored."""
        live = storage.live
        index = np.stack([live.slots(np.arange(live.count))] * len(self.observations))
        batch = storage.gather(index)
        assert batch.observation.dtype == batch.next_observation.dtype == self.space.numpy
        for row, transitions in enumerate(self.transitions):
            for at, (before, after, ended) in enumerate(transitions[-live.count :]):
                np.testing.assert_array_equal(batch.observation[row, at], before)
                np.testing.assert_array_equal(batch.next_observation[row, at], after)
                assert batch.terminated[row, at] == ended
        np.testing.assert_array_equal(storage.column("observation", index), batch.observation)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("breaks", [False, True])
def test_a_batch_holds_what_was_observed(tmp_path: Path, space: str, breaks: bool) -> None:
    rows = 1 if breaks else 2
    storage, world = Storage(build(tmp_path, SPACES[space], rows), broken=breaks), World(SPACES[space], rows)
    for steps in (1, 2, 4, 9, 30, 41):
        world.play(storage, steps, breaks)
        world.check(storage)


@pytest.mark.parametrize("steps", range(40, 50))
def test_a_checkpoint_two_back_finds_the_frames_before_its_oldest_transition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(loop_build, "SPACING", 5)
    parts = {
        "training": SimpleNamespace(capacity=20, steps=200, demonstrations=0),
        "suite": SimpleNamespace(spaces=lambda task: (IMAGE, None), horizon=lambda task: 100),
    }
    names = SimpleNamespace(task="", of=lambda *kinds: ())
    cell: Any = SimpleNamespace(section=parts.__getitem__, names=names)
    run_build = replace(build(tmp_path, IMAGE), slots=loop_build.ring_slots(cell))
    storage, world = Storage(run_build), World(IMAGE, 1)
    world.play(storage, steps, False)
    state, then = storage.state(0), copy.deepcopy(world)
    world.play(storage, 2 * loop_build.SPACING, False)
    again = Storage(run_build)
    again.load_state(0, state)
    then.check(again)


def test_a_frame_is_stored_once(tmp_path: Path) -> None:
    run_build = build(tmp_path, IMAGE)
    Storage(run_build)
    folder = tmp_path / "seed-0" / "replay"
    assert (folder / "observation.bin").stat().st_size == 28 * 2 * 3 * 2
    assert (folder / "final_observation.bin").stat().st_size == 28 * 2 * 3 * 2


def test_a_break_is_an_end_for_whoever_follows_transitions(tmp_path: Path) -> None:
    run_build = replace(build(tmp_path, SPACES["an array"]), capacity=10)
    storage, zero = Storage(run_build, broken=True), np.zeros((1, 2), np.float32)
    no = np.zeros(1, bool)
    for number in range(4):
        if number == 2:
            storage.cut()
        storage.append(Transition(zero + number, no, no, no, no, zero + number + 0.5, np.zeros((1, 0), bool), None, no))
    storage.cut()
    assert storage.column("ended", np.arange(4)[None])[0].tolist() == [False, True, False, False]
    batch = storage.gather(np.arange(4)[None])
    assert batch.next_observation[0, :, 0].tolist() == [1, 1.5, 3, 3.5]
    assert not batch.terminated.any()
    assert storage.read("observation", 0, np.array([3]))[0].tolist() == [3, 3]
