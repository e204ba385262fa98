"""Vectors of texts, of which each seed asks a text embedder once, and the call that makes a text a vector."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec, Context, Place, Question, State
from guidebench.harness.models.calls import Call, CallResult, EmbedCall

ROLE = "text_embedder"
"""The role that is asked."""
FILE = Path("replay", "text_vectors.bin")
"""The file in a run's directory that holds its texts and vectors; it is deleted with the stored transitions."""
HEAD = Struct("<I?")
"""The bytes before a text in the file: its length, and whether a vector follows it."""
NOTHING = np.zeros((1, 0), bool)


class TextVector:
    """Turns a text into its vector (a Dialogue)."""

    calls = 1

    async def __call__(
        self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]
    ) -> Array | None:
        """Return the vector of the text `content`, float32 [1, d]; None if the model gave none."""
        found = await ask(EmbedCall((content,)))
        return None if found.failure else np.asarray(found.value)


def spec(width: int) -> ArraySpec:
    """Return what the answers to `TextVectors` are: float32 [1, width]."""
    return ArraySpec("text_vector", (width,))


class TextVectors:
    """The vectors of the texts that the seeds of a worker have met, in training and in evaluation.

    Each seed asks about each distinct text once, whatever the others have asked, so that its results, failures and
    costs do not depend on the seeds beside it; the model process answers the same text of another seed from its
    cassette. The empty text is a zero vector and never asked about. The text of a failed call keeps a zero vector for
    the rest of the run; such a run cannot be replayed by `bench verify`, which asks for the text anew.
    """

    def __init__(self, width: int, directories: Sequence[Path], file: Path = FILE) -> None:
        """`directories`: the run directory of each seed, in which checkpoints keep texts and vectors in `file`."""
        self._seeds = [Memory(width, directory / file) for directory in directories]

    def of(self, texts: Sequence[bytes], places: Sequence[Place], active: Array, ctx: Context) -> Array:
        """Return the vectors, float32 [n, width], of texts in UTF-8, each read at a place, and ask about the new ones
        in one batch. A seed that is not `active` [S] asks nothing, and gets zeros for what it does not know."""
        new: dict[tuple[int, bytes], Place] = {}
        for text, place in zip(texts, places, strict=True):
            if active[place.row] and text not in self._seeds[place.row]:
                new.setdefault((place.row, text), place)
        if new:
            questions = [_question(text, place) for (_, text), place in new.items()]
            for (row, text), answer in zip(new, ctx.consult(questions), strict=True):
                self._seeds[row].add(text, None if answer is None else answer[0])
        return self.known(texts, [place.row for place in places])[0]

    def known(self, texts: Sequence[bytes], rows: Sequence[int]) -> tuple[Array, Array]:
        """Return the vectors of texts that seeds have met, float32 [n, width], zeros for others, and which they have
        met, bool [n]."""
        told = [self._seeds[row].vector(text) for text, row in zip(texts, rows, strict=True)]
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
    """The texts of one seed and their vectors.

    A checkpoint appends the new ones to a file and holds its length and checksum, so that its size does not grow with
    the texts; what the file holds beyond an older checkpoint is overwritten after a resume.
    """

    def __init__(self, width: int, file: Path) -> None:
        self._width, self._file = width, file
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[bytes, int] = {}
        """Text -> its row of the vectors."""
        self._vectors = np.zeros((64, self._width), np.float32)
        """The vectors, with room for more."""
        self._answered: list[bool] = []
        self._stored, self._size, self._sum = 0, 0, 0
        """Texts in the file, its length in bytes, and their CRC-32."""

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, text: bytes) -> bool:
        return not text or text in self._numbers

    @property
    def failed(self) -> int:
        return len(self._answered) - sum(self._answered)

    def vector(self, text: bytes) -> Array:
        """Return the vector of a text, float32 [width]; zeros for an unknown one."""
        number = self._numbers.get(text)
        return np.zeros(self._width, np.float32) if number is None else self._vectors[number]

    def add(self, text: bytes, vector: Array | None) -> None:
        """Keep the vector of a new text; None for one that could not be embedded."""
        number = len(self._numbers)
        if number == len(self._vectors):
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
        if vector is not None:
            self._vectors[number] = vector
        self._numbers[text] = number
        self._answered.append(vector is not None)

    def state(self) -> State:
        """Write what is new to the file and return where it ends."""
        new = b"".join(
            HEAD.pack(len(text), self._answered[number])
            + text
            + (self._vectors[number].tobytes() if self._answered[number] else b"")
            for text, number in list(self._numbers.items())[self._stored :]
        )
        if new:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with open(self._file, "r+b" if self._file.exists() else "w+b") as file:
                file.truncate(self._size)
                file.seek(self._size)
                file.write(new)
                file.flush()
                os.fsync(file.fileno())
        self._stored, self._size = len(self), self._size + len(new)
        self._sum = zlib.crc32(new, self._sum)
        return {"texts": self._stored, "bytes": self._size, "checksum": self._sum}

    def load_state(self, state: State) -> None:
        """Read the texts of a checkpoint; UserError if the file does not hold them any more."""
        self._clear()
        size = int(state["bytes"])
        content = b""
        if size and self._file.exists():
            with open(self._file, "rb") as file:
                content = file.read(size)
        if len(content) != size or zlib.crc32(content) != state["checksum"]:
            raise UserError(
                f"{self._file} does not hold the texts and vectors that were written to it; restore the file, or "
                f"delete {self._file.parent.parent} to train the run anew"
            )
        at, vector = 0, 4 * self._width
        while at < size:
            length, answered = HEAD.unpack_from(content, at)
            text = content[at + HEAD.size : at + HEAD.size + length]
            at += HEAD.size + length
            self.add(text, np.frombuffer(content, np.float32, self._width, at) if answered else None)
            at += vector if answered else 0
        self._stored, self._size, self._sum = len(self), size, int(state["checksum"])


def _question(text: bytes, place: Place) -> Question:
    """Return the question for the vector of a text, which concerns no transition."""
    content = json.dumps(text.decode("utf-8", "replace"))
    return Question(place.row, np.full(1, -1, np.int64), None, NOTHING, content, ROLE, place.episode)
