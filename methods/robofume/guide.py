"""A sparse reward from a classifier: 1 in states in which it sees the instruction carried out, else 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from guidebench.baselines.experience import Clip
from guidebench.baselines.guiding import BaseGuide
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Context,
    Metrics,
    Question,
    Rewarded,
    State,
    Store,
    Transition,
)
from guidebench.harness.models.calls import Answer
from guidebench.methods.robofume.dialogue import CLASSIFIED, ROLE, UNANSWERED, question

JUDGED = CLASSIFIED.column(initial=UNANSWERED)
"""P(success) of the state after a transition; `UNANSWERED` while it is unknown."""
LOG = "classified"
Source = Literal["classifier", "task", "none"]
"""What decides which states are successes: the classifier, the task itself, or nothing, so that only demonstrations and
datasets have a sparse reward."""
COUNTED = ("positives", "false_positives", "false_negatives", "unanswered")


class SparseGuide(BaseGuide):
    """Replaces the task's reward by 1 where P(success) reaches the threshold, else 0.

    Every k-th state of an episode and its last one are judged; the others, and those without an answer yet, earn 0.
    Transitions of demonstrations and datasets have the task's own success.
    """

    def __init__(
        self,
        rows: int,
        instruction: Callable[[int, Array], str],
        every: int,
        threshold: float,
        source: Source = "classifier",
    ) -> None:
        """`instruction(row, snapshot)`: returns the instruction of a seed's episode, given the snapshot of one of its
        states; `every`: steps between judged states; `threshold`: least P(success) of a success."""
        self._instruction, self._every, self._threshold = instruction, every, threshold
        self._asks, self._truth = source == "classifier", source == "task"
        self.columns = () if self._truth else (JUDGED,)
        self.wants_snapshots = self._asks
        self._clips = [Clip() for _ in range(rows)]
        self._success: list[list[bool]] = [[] for _ in range(rows)]
        """Whether the task counts as solved in each state of the open clip."""
        self._clock = np.zeros(rows, np.int64)
        """[S], steps of the episode so far."""
        self._waiting: list[dict[int, int]] = [{} for _ in range(rows)]
        """Number of an ended episode's last transition -> that of its first, while its answer is awaited."""
        self._counts = np.zeros((len(COUNTED), rows), np.int64)
        self._stores: Mapping[str, Store] = {}
        self._rewarded: Rewarded = lambda name, row, slots: None

    def connect(self, stores: Mapping[str, Store], rewarded: Rewarded) -> None:
        self._stores, self._rewarded = stores, rewarded

    def observed_dataset(self, slot: int, transition: Transition, name: str, ctx: Context) -> None:
        """Store the task's own success of a dataset's transition in place of the classifier's answer, and have an ended
        episode's returns computed."""
        self._store_success(slot, transition, self._stores[name])
        ended = transition.terminated | transition.truncated
        for row in np.flatnonzero(ended).tolist():
            last = self._stores[name].written - 1
            self.renewed(name, row, last - int(self._clock[row]), last)
        self._clock = np.where(ended, 0, self._clock + 1)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Record the states to be judged, and send the question about them at the episode's end."""
        ended = transition.terminated | transition.truncated
        if ctx.step == 0:  # demonstrations
            self._store_success(slot, transition, store)
        elif self._asks:
            self._keep(store.written - 1, transition, ended, ctx)
        for row in np.flatnonzero(ended).tolist():
            self.renewed("", row, store.written - 1 - int(self._clock[row]), store.written - 1)
        self._clock = np.where(ended, 0, self._clock + 1)

    def _store_success(self, slot: int, transition: Transition, store: Store) -> None:
        if not self._truth:
            for row, success in enumerate(transition.success):
                store.write(JUDGED.name, row, np.array([slot]), np.array([success], np.float32))

    def _keep(self, number: int, transition: Transition, ended: Array, ctx: Context) -> None:
        assert transition.snapshot is not None, "snapshots were wanted"
        for row, clip in enumerate(self._clips):
            if ended[row] or (self._clock[row] + 1) % self._every == 0:
                clip.add(number, transition.snapshot[row], transition.events[row])
                self._success[row].append(bool(transition.success[row]))
            if ended[row]:
                recorded = clip.close(row)
                assert recorded.snapshots is not None, "a clip has snapshots"
                instruction = self._instruction(row, recorded.snapshots[0])
                success = np.array(self._success[row])
                self._success[row] = []
                self._waiting[row][number] = number - int(self._clock[row])
                ctx.ask(question(row, recorded.key, recorded.snapshots, recorded.events, success, instruction))

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Store the classifier's answers about ended episodes, and have their returns computed anew."""
        for sent, answer in answers:
            if sent.to == ROLE:
                self._classified(sent.row, sent.key, answer.value, store, ctx)

    def _classified(self, row: int, key: Array, answer: Array | None, store: Store, ctx: Context) -> None:
        last = int(key[-1])
        first = self._waiting[row].pop(last)
        probabilities = np.full(len(key), UNANSWERED, np.float32) if answer is None else answer
        is_stored = store.holds(key)
        success = store.read("success", row, store.slot(key[is_stored]))
        is_positive, is_answered = probabilities[is_stored] >= self._threshold, probabilities[is_stored] != UNANSWERED
        counted = [
            int(flags.sum())
            for flags in (is_positive, is_positive & ~success, ~is_positive & success & is_answered, ~is_answered)
        ]
        self._counts[:, row] += counted
        states = {"states": len(success), "successes": int(success.sum())}
        ctx.note(LOG, row, {**states, **dict(zip(COUNTED, counted, strict=True))})
        if answer is not None:
            store.apply(JUDGED.name, row, key, probabilities)
            self.renewed("", row, first, last)

    def renewed(self, name: str, row: int, first: int, last: int) -> None:
        """Announce that an ended episode, with the transitions `first` to `last` of the store `name`, has new
        rewards."""
        numbers = np.arange(first, last + 1)
        store = self._stores[name]
        if (is_stored := store.holds(numbers)).any():
            self._rewarded(name, row, store.slot(numbers[is_stored]))

    def shape(self, batch: Batch) -> Batch:
        return batch._replace(reward=self.sparse(batch).astype(np.float32))

    def sparse(self, batch: Batch) -> Array:
        """Return whether the sparse reward of a batch's transitions is 1, bool [S, B]."""
        if self._truth:
            assert batch.success is not None, "the batch was drawn from a store"
            return np.asarray(batch.success, bool)
        return np.asarray(batch.columns[JUDGED.name] >= self._threshold)

    def metrics(self) -> Metrics:
        """Return the numbers of states that the classifier has called successes so far, `guide/positives`, and of its
        wrong and missing answers."""
        if not self._asks:
            return {}
        return {f"guide/{name}": counts.astype(float) for name, counts in zip(COUNTED, self._counts, strict=True)}

    def state(self, row: int) -> State:
        waiting = self._waiting[row]
        return {
            "clip": self._clips[row].state(),
            "success": np.array(self._success[row], bool),
            "clock": int(self._clock[row]),
            "waiting": np.array([*waiting.items()], np.int64).reshape(-1, 2),
            "counts": self._counts[:, row].copy(),
        }

    def load_state(self, row: int, state: State) -> None:
        self._clips[row].load_state(state["clip"])
        self._success[row] = [bool(success) for success in state["success"]]
        self._clock[row] = state["clock"]
        self._waiting[row] = {int(last): int(first) for last, first in state["waiting"]}
        self._counts[:, row] = state["counts"]
