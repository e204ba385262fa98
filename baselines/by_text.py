"""Arrays of texts, for each of which a seed asks a model once: a text embedder's vector, or a chat's numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from guidebench.baselines.appended import Appended
from guidebench.harness.interfaces import Array, Context, Place, Question, State

HEAD = Struct("<I?")
"""The bytes before a text in the file: its length, and whether an array follows it."""
NOTHING = np.zeros((1, 0), bool)


def question(content: str, place: Place, role: str) -> Question:
    """Return a question to a role about a text, which concerns no transition. `content`: JSON for the dialogue."""
    return Question(place.row, np.full(1, -1, np.int64), None, NOTHING, content, role, place.episode)


class ArraysByText(ABC):
    """The arrays of the texts that the seeds of a worker have met, in training and in evaluation.

    Each seed asks about each distinct text once, whatever the others have asked, so that its results, failures and
    costs do not depend on the seeds beside it; the model process answers the same text of another seed from its
    cassette. The array of the empty text is zero and never asked about. The text of a failed call keeps a zero array
    for the rest of the run; such a run cannot be replayed by `bench verify`, which asks for the text anew. Nor can one
    whose model samples its answers (a chat with `temperature` above 0), since a sampled answer belongs to the question
    that met the text first.
    """

    def __init__(self, width: int, directories: Sequence[Path], file: Path) -> None:
        """`width`: numbers in an array; `directories`: the run directory of each seed, in whose `file` checkpoints keep
        texts and arrays."""
        self._seeds = [Memory(width, directory / file) for directory in directories]

    @abstractmethod
    def question(self, text: bytes, place: Place) -> Question:
        """Return the question about a text in UTF-8 that was read at a place."""

    @abstractmethod
    def array(self, answer: Any, row: int) -> Array:
        """Return the array, float32 [width], that the answer to a question of a seed row holds."""

    def of(self, texts: Sequence[bytes], places: Sequence[Place], active: Array, ctx: Context) -> Array:
        """Return the arrays, float32 [n, width], of texts in UTF-8, each read at a place, and ask about the new ones
        in one batch. A seed that is not `active` [S] asks nothing, and gets zeros for what it does not know."""
        new: dict[tuple[int, bytes], Place] = {}
        for text, place in zip(texts, places, strict=True):
            if active[place.row] and text not in self._seeds[place.row]:
                new.setdefault((place.row, text), place)
        if new:
            questions = [self.question(text, place) for (_, text), place in new.items()]
            for (row, text), answer in zip(new, ctx.consult(questions), strict=True):
                self._seeds[row].add(text, None if answer is None else self.array(answer, row))
        return self.look_up(texts, [place.row for place in places])[0]

    def look_up(self, texts: Sequence[bytes], rows: Sequence[int]) -> tuple[Array, Array]:
        """Return the arrays of texts that seeds have met, float32 [n, width], zeros for others, and which they have
        met, bool [n]."""
        told = [self._seeds[row].array(text) for text, row in zip(texts, rows, strict=True)]
        met = [text in self._seeds[row] for text, row in zip(texts, rows, strict=True)]
        return np.stack(told), np.array(met, bool)

    @property
    def met(self) -> Array:
        """Return the number of distinct texts that each seed has asked about, float [S]."""
        return np.array([len(seed) for seed in self._seeds], np.float64)

    @property
    def failed(self) -> Array:
        """Return for how many of them there was no answer, float [S]."""
        return np.array([seed.failed for seed in self._seeds], np.float64)

    def state(self, row: int) -> State:
        return self._seeds[row].state()

    def load_state(self, row: int, state: State) -> None:
        self._seeds[row].load_state(state)


class Memory:
    """The texts of one seed and their arrays.

    A checkpoint appends the new ones to a file and holds its length and checksum, so that its size does not grow with
    the texts; what the file holds beyond an older checkpoint is overwritten after a resume.
    """

    def __init__(self, width: int, file: Path) -> None:
        self._width, self._file = width, Appended(file, "texts and vectors")
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[bytes, int] = {}
        """Text -> its row of the arrays."""
        self._arrays = np.zeros((64, self._width), np.float32)
        """The arrays, with room for more."""
        self._answered: list[bool] = []
        self._stored = 0
        """Texts in the file."""

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, text: bytes) -> bool:
        return not text or text in self._numbers

    @property
    def failed(self) -> int:
        return len(self._answered) - sum(self._answered)

    def array(self, text: bytes) -> Array:
        """Return the array of a text, float32 [width]; zeros for an unknown one."""
        number = self._numbers.get(text)
        return np.zeros(self._width, np.float32) if number is None else self._arrays[number]

    def add(self, text: bytes, array: Array | None) -> None:
        """Keep the array of a new text; None for one about which there was no answer."""
        number = len(self._numbers)
        if number == len(self._arrays):
            self._arrays = np.concatenate([self._arrays, np.zeros_like(self._arrays)])
        if array is not None:
            self._arrays[number] = array
        self._numbers[text] = number
        self._answered.append(array is not None)

    def state(self) -> State:
        """Write what is new to the file and return where it ends."""
        new = b"".join(
            HEAD.pack(len(text), self._answered[number])
            + text
            + (self._arrays[number].tobytes() if self._answered[number] else b"")
            for text, number in list(self._numbers.items())[self._stored :]
        )
        self._stored = len(self)
        return {"texts": self._stored, **self._file.append(new)}

    def load_state(self, state: State) -> None:
        """Read the texts of a checkpoint; UserError if the file does not hold them any more."""
        self._clear()
        content = self._file.restore(state)
        at, bytes_each = 0, 4 * self._width
        while at < len(content):
            length, answered = HEAD.unpack_from(content, at)
            text = content[at + HEAD.size : at + HEAD.size + length]
            at += HEAD.size + length
            self.add(text, np.frombuffer(content, np.float32, self._width, at) if answered else None)
            at += bytes_each if answered else 0
        self._stored = len(self)
