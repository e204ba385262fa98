"""Questions to a person about pairs of segments, and the answers, as files in a run's directory.

| in the run's directory | |
| --- | --- |
| questions/ORDINAL.json | `step` of the question, `content`, digest of the `snapshots` or "", `digest` of all three |
| questions/ORDINAL.npy | the snapshots, uint8 [L, n], of what can be drawn |
| answers.jsonl | one line per answer: `ordinal`, the question's `digest`, `label` |

These files may have been edited: every field is validated, and an error names the file and the line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.records.files import write_bytes, write_json

ANSWERS, QUESTIONS = "answers.jsonl", "questions"
LABELS = (0, 0.5, 1)
"""Labels: probability that the second segment is preferred: 0 the first is better, 0.5 equal, 1 the second is better.
None: cannot be judged."""


class PendingQuestion(NamedTuple):
    """A question of one run."""

    run: Path
    ordinal: int
    """Number of the question in its run, from 0."""
    step: int
    content: Any
    """A JSON value."""
    drawn: str
    """Digest of its snapshots; "" if it has none."""

    @property
    def digest(self) -> str:
        """Digest of step, content and snapshots, so that an answer to another question is detected."""
        told = json.dumps([self.step, self.content, self.drawn], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def file(self) -> Path:
        return file_of(self.run, self.ordinal)

    def snapshots(self) -> Array | None:
        """Return its snapshots, uint8 [L, n], or None if it has none; UserError if they differ from what the run
        wrote."""
        if not self.drawn:
            return None
        path = self.file.with_suffix(".npy")
        try:
            found = reader_process.read(f"{path}: reading it", path, outside.npy, path)
        except (OSError, UserError) as error:
            _damaged(path, str(error))
        if found.dtype != np.uint8 or found.ndim != 2 or _digest(found) != self.drawn:
            _damaged(path, "other bytes")
        return np.asarray(found)


class AnswerLine(NamedTuple):
    """A line of a run's answers."""

    line: int
    ordinal: int
    digest: str
    label: float | None


def pose(run: Path, ordinal: int, step: int, content: str, snapshots: Array | None) -> PendingQuestion:
    """Write a question, with its content as JSON, to the place where `bench label` looks for it."""
    question = PendingQuestion(run, ordinal, step, json.loads(content), "" if snapshots is None else _digest(snapshots))
    if snapshots is not None:
        held = io.BytesIO()
        np.save(held, snapshots, allow_pickle=False)
        write_bytes(question.file.with_suffix(".npy"), held.getvalue())
    told = {"step": step, "digest": question.digest, "snapshots": question.drawn, "content": question.content}
    write_json(question.file, told)
    return question


def file_of(run: Path, ordinal: int) -> Path:
    return run / QUESTIONS / f"{ordinal}.json"


def read(run: Path, ordinal: int) -> PendingQuestion:
    """Read a question; UserError if its file differs from what the run wrote."""
    path = file_of(run, ordinal)
    try:
        told = outside.read_document(path)
    except UserError as error:
        _damaged(path, str(error))
    if not isinstance(told, dict) or told.keys() != {"step", "digest", "snapshots", "content"}:
        _damaged(path, "other entries")
    question = PendingQuestion(run, ordinal, told["step"], told["content"], told["snapshots"])
    if not (type(question.step) is int and isinstance(question.drawn, str) and question.digest == told["digest"]):
        _damaged(path, "it does not match its digest")
    return question


def _damaged(path: Path, how: str) -> NoReturn:
    raise UserError(
        f"{path} is not what the run wrote ({how}); the command that began the study writes it anew if it is run again"
    )


def _digest(snapshots: Array) -> str:
    shape = str(snapshots.shape).encode()
    return hashlib.sha256(shape + np.ascontiguousarray(snapshots, np.uint8).tobytes()).hexdigest()[:16]


def is_label(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and value in LABELS)


def answers(run: Path) -> Iterator[AnswerLine]:
    """Yield every line of a run's answers, in order; UserError for the first invalid line."""
    path = run / ANSWERS
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or row.keys() != {"ordinal", "digest", "label"} or not _fits(row):
            raise UserError(
                f'{path}, line {number}: expected {{"ordinal": a whole number, "digest": text, "label": 0, 0.5, 1 or '
                f"null}}, got {line[:120]!r}; mend the line, or remove it and answer anew with bench label"
            )
        yield AnswerLine(number, **row)


def _fits(row: dict[str, Any]) -> bool:
    ordinal, digest, label = row["ordinal"], row["digest"], row["label"]
    return type(ordinal) is int and ordinal >= 0 and isinstance(digest, str) and is_label(label)


def latest(run: Path) -> dict[tuple[int, str], AnswerLine]:
    """Return answers by ordinal and digest, the last one if a question was answered more than once; UserError as in
    `answers`."""
    return {(each.ordinal, each.digest): each for each in answers(run)}


def answer(question: PendingQuestion, label: float | None) -> None:
    """Append an answer to those of the question's run: flushed to disk on return, as a whole line or not at all."""
    row = {"ordinal": question.ordinal, "digest": question.digest, "label": label}
    with open(question.run / ANSWERS, "a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        separator = b"" if file.read(1) in (b"", b"\n") else b"\n"  # an editor may have removed the final newline
        line = separator + json.dumps(row).encode() + b"\n"
        try:
            written = file.write(line)
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise
        if written != len(line):
            file.truncate(size)
            raise OSError(f"{file.name}: only {written} of {len(line)} bytes could be written")
