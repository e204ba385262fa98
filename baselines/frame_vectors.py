"""A vector of an embedder for the frame of every stored transition, filled in late and never asked for twice; and the
crop of frames before they are embedded."""

from __future__ import annotations

import numpy as np

from guidebench.baselines.experience import Clip
from guidebench.harness.interfaces import (
    Array,
    ArraySpec,
    Context,
    Question,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.harness.models.calls import Answer

FRAME = "frame_vector"
"""The column that holds the vectors, and the name of the embedder's answers."""


def spec(width: int) -> ArraySpec:
    """Return what the answers are: float16 [frames, width]."""
    return ArraySpec(FRAME, (width,), "float16")


class FrameVectors:
    """Asks an embedder about the frames of new transitions, in stretches, and keeps the answers beside the transitions.

    With `every` = k only each k-th frame of an episode and its last one are embedded. A frame between two embedded ones
    gets the linear interpolation of their vectors, and a frame before the first one of an episode gets that one's
    vector. A frame that could not be embedded is filled in the same way by the next one, if that is at most k later.
    """

    def __init__(self, rows: int, width: int, every: int, stretch: int, role: str = "embedder") -> None:
        """`stretch`: embedded frames of one question; an episode's end sends a shorter one."""
        self.column: TransitionColumn = spec(width).column()
        self.width, self._every, self._stretch, self._role = width, every, stretch, role
        self._open = [Clip() for _ in range(rows)]
        self._clock = np.zeros(rows, np.int64)
        """[S], steps of the episode so far."""
        self.failed = np.zeros(rows, np.int64)
        """[S], embedded frames without an answer."""

    def observed(self, transition: Transition, store: Store, ctx: Context) -> None:
        """Take the transition that every seed has just stored, and send the questions that are full."""
        assert transition.snapshot is not None, "snapshots were wanted"
        ended, number = transition.terminated | transition.truncated, store.written - 1
        self._clock += 1
        for row, clip in enumerate(self._open):
            if self._clock[row] % self._every == 0 or ended[row]:
                clip.add(number, transition.snapshot[row], transition.events[row, :0])
            if clip.numbers and (len(clip.numbers) == self._stretch or ended[row]):
                ctx.ask(clip.close(row)._replace(to=self._role))
        self._clock[ended] = 0

    def answered(self, question: Question, answer: Answer, store: Store) -> None:
        """Keep the vectors of one answer, and interpolate between them."""
        if answer.value is None:
            self.failed[question.row] += len(question.key)
            return
        store.apply(FRAME, question.row, question.key, answer.value)
        if self._every > 1:
            for number, vector in zip(question.key.tolist(), answer.value, strict=True):
                self._fill(question.row, number, vector, store)

    def _fill(self, row: int, number: int, vector: Array, store: Store) -> None:
        """Fill in up to k transitions before `number`, as far as they are of its episode, that have no vector yet."""
        numbers = np.arange(max(number - self._every, 0), number)
        numbers = numbers[store.holds(numbers)]
        ended = np.flatnonzero(store.read("ended", row, store.slot(numbers)))
        numbers = numbers[ended[-1] + 1 if len(ended) else 0 :]
        vectors = store.read(FRAME, row, store.slot(numbers))
        finite = np.flatnonzero(np.isfinite(vectors[:, 0]))
        last = int(finite[-1]) if len(finite) else -1
        missing = numbers[last + 1 :]
        if not len(missing):
            return
        before = vectors[last].astype(np.float32) if last >= 0 else vector
        origin = numbers[last] if last >= 0 else number - 1 - len(missing)
        share = (missing - origin)[:, None] / np.float32(number - origin)
        values = before + share.astype(np.float32) * (vector.astype(np.float32) - before)
        store.apply(FRAME, row, missing, values.astype(vector.dtype))

    def state(self, row: int) -> State:
        return {
            "open": self._open[row].state(), "clock": int(self._clock[row]), "failed": int(self.failed[row]),
        }  # fmt: skip

    def load_state(self, row: int, state: State) -> None:
        self._open[row].load_state(state["open"])
        self._clock[row], self.failed[row] = state["clock"], state["failed"]


def about(row: int, content: str, snapshots: Array | None = None, role: str = "embedder") -> Question:
    """Return a question for one vector that belongs to no transition, such as that of an instruction. Its key is -1."""
    events = np.zeros((1, 0), bool)
    return Question(row, np.full(1, -1, np.int64), snapshots, events, content, role)


def cropped(frames: Array, share: float) -> Array:
    """Return frames [n, height, width, 3] without this share of their height and width at each edge."""
    rows, columns = (round(share * side) for side in frames.shape[1:3])
    return frames[:, rows : frames.shape[1] - rows, columns : frames.shape[2] - columns]
