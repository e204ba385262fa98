"""Stored transitions of all seeds: a disk-backed ring per seed, with more slots than its capacity.

Each observation is stored once: the next observation of slot i is the observation of slot i + 1. Where an episode
ended, its last observation is stored in a second, sparse file at the same slot. Of a stack of frames only the newest is
stored; the others are those of the slots before. Spare slots protect what a checkpoint refers to from being overwritten
before the next checkpoint, so the ring itself is never copied.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.checksums import Checksums, LateChecksums
from guidebench.baselines.frames import Frames
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Batch, Build, Span, State, Transition, TransitionColumn
from guidebench.harness.loop import checkpoints


class Storage:
    """Transitions of S seeds that share the write pointer: each call stores one transition of every seed.

    Consecutive transitions in the store belong to the same episode, unless an episode ended between them. A store that
    skips transitions must be created with `broken` and notified of each gap by `cut`.
    """

    def __init__(
        self,
        build: Build,
        guided: Sequence[TransitionColumn] = (),
        extra: Sequence[TransitionColumn] = (),
        folder: str = "replay",
        broken: bool = False,
    ) -> None:
        """Create columns for the build's spaces, for the guide (`guided`: they are in every batch if `batched`) and for
        others (`extra`), in `folder` of each seed's directory."""
        own = (*guided, *extra)
        self.capacity = build.capacity
        self.size = build.slots
        self.written = 0
        self._folder, self._broken = folder, broken
        self._frames = Frames(build.observations)
        self._stacked = bool(self._frames)
        discrete = build.actions.discrete
        action_shape: tuple[int, ...] = () if discrete else build.actions.shape
        whole = (build.observations.shape, build.observations.numpy)
        columns: dict[str, tuple[tuple[int, ...], str | np.dtype[Any]]] = {
            # first, since they determine which values of the sparse columns are valid
            "ended": ((), "bool"),
            **({"opens": ((), "bool"), "opening": whole} if self._stacked else {}),
            **({"breaks": ((), "bool"), "before": self._frames.newest} if broken else {}),
            "observation": self._frames.newest,
            "final_observation": self._frames.newest,
            "action": (action_shape, "int16" if discrete else "float32"),
            "reward": ((), "float32"),
            "terminated": ((), "bool"),
            "success": ((), "bool"),
        }
        self._own = {column.name: column for column in own}
        for column in own:
            if column.name in columns or self._own[column.name] != column:
                raise UserError(f"two columns of stored transitions are called {column.name!r}; rename that of a part")
        columns |= {column.name: (column.shape, column.dtype) for column in own if column.kind != "mutable"}
        self._batched = tuple(column.name for column in guided if column.batched)
        self._mutable = {
            column.name: np.full((build.rows, self.size, *column.shape), column.initial, column.dtype)
            for column in own
            if column.kind == "mutable"
        }
        # Which late values are valid: the file may be newer than the checkpoint, this mask never is.
        self._applied = {
            column.name: np.zeros((build.rows, self.size), bool) for column in own if column.kind == "late"
        }
        # Which transitions already have a value in the fixed columns that others write later.
        self._given = {column.name: np.zeros((build.rows, self.size), bool) for column in own if column.kind == "fixed"}
        layout = {name: ((self.size, *shape), dtype) for name, (shape, dtype) in columns.items()}
        self._places = list(build.directories)
        self._amiss = [_amiss(directory, folder, layout) for directory in build.directories]
        for directory, problem in zip(self._places, self._amiss, strict=True):
            if problem and checkpoints.existing(directory):  # before anything is overwritten that could be restored
                raise _lost(directory, problem)
        self._checksums = [
            {name: Checksums(self.capacity, self.size) for name in columns if name not in self._applied}
            for _ in build.directories
        ]
        self._late = [{name: LateChecksums(self.size) for name in self._applied} for _ in build.directories]
        self._files = {
            name: [_open(_path(directory, folder, name), (self.size, *shape), dtype) for directory in build.directories]
            for name, (shape, dtype) in columns.items()
        }
        # Plain arrays over the same memory: indexing a memmap costs several times as much.
        self._columns = {name: [np.asarray(file) for file in files] for name, files in self._files.items()}
        self._newest: Array | None = None
        self._cut = False
        """Whether the next transition does not follow the newest one."""
        self._opens = np.ones(build.rows, bool)
        """[S], whether the next transition's stack of frames does not continue the frames before it."""

    @property
    def live(self) -> Span:
        """Slots whose transitions may be drawn."""
        count = min(self.written, self.capacity)
        return Span((self.written - count) % self.size, count, self.size)

    def append(self, transition: Transition) -> int:
        """Store one transition of every seed; return its slot."""
        slot = self.written % self.size
        columns = self._columns
        ended = transition.terminated | transition.truncated
        seen = self._frames.of(transition.observation)
        for row in range(len(ended)):
            columns["observation"][row][slot] = seen[row]
            columns["action"][row][slot] = transition.action[row]
            columns["reward"][row][slot] = transition.reward[row]
            columns["terminated"][row][slot] = transition.terminated[row]
            columns["success"][row][slot] = transition.success[row]
            columns["ended"][row][slot] = ended[row]
            if ended[row]:
                columns["final_observation"][row][slot] = self._frames.of(transition.next_observation[row])
            for name, column in self._mutable.items():
                column[row, slot] = self._own[name].initial
            for mask in self._applied.values():
                mask[row, slot] = False
            for mask in self._given.values():
                mask[row, slot] = False
            if self._broken:
                columns["breaks"][row][slot] = self._cut
                if self._cut:
                    assert self._newest is not None, "what was cut off has been stored"
                    columns["before"][row][slot] = self._frames.of(self._newest[row])
            if self._stacked:
                columns["opens"][row][slot] = self._opens[row]
                if self._opens[row]:
                    columns["opening"][row][slot] = transition.observation[row]
        # The newest transition's next observation is stored with the next step; until then it is kept here.
        self._newest = transition.next_observation
        self._cut, self._opens = False, ended
        self.written += 1
        return slot

    def cut(self) -> None:
        """Mark that the next transition does not follow the newest one, although no episode ended: some were not stored
        here."""
        assert self._broken, "a store that may be cut is made so"
        newest = self._take("ended", np.full((len(self._places), 1), (self.written - 1) % self.size))
        if self.written and not newest.all():
            self._cut = True
            self._opens = np.ones_like(self._opens)

    def gather(self, index: Array) -> Batch:
        """Return the transitions at slots `index` [S, B] as arrays [S, B, …]; weight is None."""
        newest = (self.written - 1) % self.size
        following = self._take("observation", (index + 1) % self.size)
        ended = self._take("ended", index)
        broken = self._take("breaks", (index + 1) % self.size) if self._broken else None
        for row, after in enumerate(following):
            if broken is not None:
                last = np.flatnonzero(broken[row] & ~ended[row])
                after[last] = self._columns["before"][row][(index[row, last] + 1) % self.size]
            last = np.flatnonzero(ended[row])
            if len(last):
                after[last] = self._columns["final_observation"][row][index[row, last]]
            last = np.flatnonzero(index[row] == newest)
            if len(last) and self._newest is not None:
                after[last] = self._frames.of(self._newest[row])
        observation, reward = self._observation(index), self._take("reward", index)
        return Batch(
            observation=observation,
            action=self._take("action", index),
            reward=reward,
            next_observation=self._frames.moved(observation, following),
            terminated=self._take("terminated", index),
            weight=None,
            columns={name: self.column(name, index) for name in self._batched},
            success=self._take("success", index),
            task_reward=reward,
            number=self.written - 1 - (newest - index) % self.size,
        )

    def _observation(self, index: Array) -> Array:
        """Return the observations at slots `index` [S, B], with all frames of a stack."""
        newest = self._take("observation", index)
        if not self._stacked:
            return newest
        earlier = (index[..., None] - np.arange(self._frames.most)) % self.size  # [S, B, k], the newest first
        opens = self._take("opens", earlier.reshape(len(index), -1)).reshape(earlier.shape)
        # Number of steps before a slot for which single frames are stored; older frames are in the opening's stack.
        since = np.where(opens.any(-1), opens.argmax(-1), self._frames.most)
        whole = np.empty(index.shape + self._frames.whole[0], self._frames.whole[1])
        for row, stacks in enumerate(whole):
            self._frames.fill(
                stacks, self._columns["observation"][row], self._columns["opening"][row], earlier[row], since[row]
            )
        return whole

    def column(self, name: str, index: Array) -> Array:
        """Return the values of a column at slots `index` [S, B]; a missing late value reads as its initial value. The
        column `ended` states whether the next transition does not follow."""
        if name == "observation":
            return self._observation(index)
        if name in self._mutable:
            return np.stack([column[slots] for column, slots in zip(self._mutable[name], index, strict=True)])
        values = self._take(name, index)
        if name in self._applied:
            applied = np.stack([mask[slots] for mask, slots in zip(self._applied[name], index, strict=True)])
            values[~applied] = self._own[name].initial
        if name == "ended" and self._broken:
            follows = index != (self.written - 1) % self.size
            values |= self._take("breaks", (index + 1) % self.size) & follows
        return values

    def read(self, column: str, row: int, slots: Array) -> Array:
        """Return the values of a column at slots [n] of one seed."""
        index = np.zeros((len(self._places), len(slots)), np.int64)
        index[row] = slots
        return np.asarray(self.column(column, index)[row])

    def write(self, column: str, row: int, slots: Array, value: Array) -> None:
        """Rewrite a mutable column, or fill in a late one, at slots of one seed."""
        if column in self._mutable:
            self._mutable[column][row, slots] = value
        else:
            self._columns[column][row][slots] = value
            if column in self._applied:
                self._applied[column][row, slots] = True
                self._late[row][column].wrote(slots)
            elif column in self._given:
                self._given[column][row, slots] = True

    def apply(self, column: str, row: int, numbers: Array, values: Array) -> None:
        """Set values of a late or mutable column by transition number (`harness.interfaces.Store`)."""
        own = self._own.get(column)
        if own is None or own.kind == "fixed":
            known = ", ".join(name for name, each in self._own.items() if each.kind != "fixed") or "none"
            raise UserError(f"no late or mutable column is called {column!r} (those of this run: {known})")
        numbers, values = np.asarray(numbers), np.asarray(values)
        if values.dtype != own.dtype or values.shape != (*numbers.shape, *own.shape):
            raise UserError(
                f"the column {column!r} takes {own.dtype} {[*numbers.shape, *own.shape]} for {numbers.size} "
                f"transitions, and was given {values.dtype} {[*values.shape]}"
            )
        if numbers.dtype != np.int64 or numbers.ndim != 1 or ((numbers < 0) | (numbers >= self.written)).any():
            raise UserError(
                f"the column {column!r} was given values for transitions {numbers.tolist()!s:.80} ({numbers.dtype} "
                f"{[*numbers.shape]}); expected int64 [n], from 0 to {self.written - 1}, the last that was stored"
            )
        held = self.holds(numbers)
        self.write(column, row, self.slot(numbers[held]), values[held])

    def holds(self, number: Array) -> Array:
        """Return which transitions, numbered in the order of storage from 0, may still be drawn."""
        return np.asarray((number >= self.written - self.live.count) & (number < self.written))

    def slot(self, number: Array) -> Array:
        """Return the slot of a transition, numbered in the order of storage."""
        return np.asarray(number % self.size)

    def state(self, row: int) -> State:
        """Return the write pointer and checksums of the ring's files, which are flushed and stay in place."""
        for files in self._files.values():
            files[row].flush()
        begin = self.written - self.live.count
        for name, sums in self._checksums[row].items():
            sums.extend(begin, self._known_up_to(name, row), functools.partial(self._stored, name, row))
        for name, late in self._late[row].items():
            late.renew(begin, self.written, self._counts(name, row), self._columns[name][row])
        return {
            "written": self.written,
            "size": self.size,
            "newest": None if self._newest is None else np.array(self._newest[row]),
            "cut": self._cut,
            "opens": bool(self._opens[row]),
            "mutable": {name: column[row].copy() for name, column in self._mutable.items()},
            "applied": {name: mask[row].copy() for name, mask in self._applied.items()},
            "checksums": {name: sums.state() for name, sums in self._checksums[row].items()},
            "late": {name: sums.state() for name, sums in self._late[row].items()},
        }

    def load_state(self, row: int, state: State) -> None:
        """Restore the state; UserError for a ring of another size, or one whose files differ from what was written."""
        if state["size"] != self.size:
            raise UserError(
                f"the stored ring has {state['size']} slots, this run {self.size}: delete the run's directory"
            )
        if state["written"] and self._amiss[row]:
            raise _lost(self._places[row], self._amiss[row])
        self.written = int(state["written"])
        self._cut, self._opens[row] = bool(state["cut"]), state["opens"]
        for name, column in self._mutable.items():
            column[row] = state["mutable"][name]
        for name, mask in self._applied.items():
            mask[row] = state["applied"][name]
            self._late[row][name].load_state(state["late"][name])
            if self._late[row][name].altered(self._counts(name, row), self._columns[name][row]):
                raise _lost(
                    self._places[row], f"{_path(Path(), self._folder, name)} does not hold what was written to it"
                )
        for name, sums in self._checksums[row].items():
            sums.load_state(state["checksums"][name])
            altered = sums.altered(functools.partial(self._stored, name, row))
            if altered is not None:
                raise _lost(
                    self._places[row],
                    f"{_path(Path(), self._folder, name)} does not hold what was written to it, as transitions "
                    f"{altered[0]:,} to {altered[1] - 1:,} show",
                )
        if state["newest"] is not None:
            rows = len(self._columns["observation"])
            if self._newest is None:
                self._newest = np.zeros((rows, *state["newest"].shape), state["newest"].dtype)
            self._newest[row] = state["newest"]

    def _known_up_to(self, name: str, row: int) -> int:
        """Return the first transition whose value of a fixed column is still to be written."""
        if name not in self._given:
            return self.written
        start = max(self._checksums[row][name].upto, self.written - self.live.count)
        given = self._given[name][row][np.arange(start, self.written) % self.size]
        return start + (len(given) if given.all() else int(given.argmin()))

    def _stored(self, name: str, row: int, start: int, end: int) -> Array:
        """Return a column's values of adjacent transitions; for a sparse column, only the values present."""
        slots = slice(start % self.size, start % self.size + end - start)
        values = self._columns[name][row][slots]
        return values[self._columns[FILLED[name]][row][slots]] if name in FILLED else values

    def _counts(self, name: str, row: int) -> Array:
        """Return which late values are valid, bool [slots]: those present, of transitions that may be drawn."""
        counts = np.zeros(self.size, bool)
        slots = self.live.slots(np.arange(self.live.count))
        counts[slots] = self._applied[name][row, slots]
        return counts

    def _take(self, name: str, index: Array) -> Array:
        columns = self._columns[name]
        taken = np.empty((*index.shape, *columns[0].shape[1:]), columns[0].dtype)
        for out, column, slots in zip(taken, columns, index, strict=True):
            column.take(slots, axis=0, out=out, mode="clip")  # under "raise" it would fill a copy of `out` first
        return taken


FILLED = {"final_observation": "ended", "opening": "opens", "before": "breaks"}
"""Sparse column -> the boolean column that marks the slots with a value."""


def _path(directory: Path, folder: str, column: str) -> Path:
    return directory / folder / f"{column}.bin"


def _amiss(directory: Path, folder: str, layout: Mapping[str, tuple[tuple[int, ...], str | np.dtype[Any]]]) -> str:
    """Return what is missing or of the wrong size in a run's ring, or ""."""
    for name, (shape, dtype) in layout.items():
        path, wanted = _path(directory, folder, name), _bytes(shape, dtype)
        if not path.exists():
            return f"{_path(Path(), folder, name)} is not there"
        if (size := path.stat().st_size) != wanted:
            return f"{_path(Path(), folder, name)} has {size:,} bytes and not {wanted:,}"
    return ""


def _lost(directory: Path, problem: str) -> UserError:
    return UserError(
        f"the stored transitions of this run are lost or damaged: {problem}; restore the file, or delete {directory} "
        f"to train the run anew"
    )


def _bytes(shape: Sequence[int], dtype: str | np.dtype[Any]) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _open(path: Path, shape: Sequence[int], dtype: str | np.dtype[Any]) -> np.memmap:
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = _bytes(shape, dtype)
    if not path.exists() or path.stat().st_size != wanted:
        with open(path, "wb") as file:
            file.truncate(wanted)  # sparse: only touched pages take room
    return np.memmap(path, dtype=np.dtype(dtype), mode="r+", shape=tuple(shape))
