"""Makes the records of answers that a run keeps in its `answers.parquet`, and the digests of questions and calls.

A digest holds what is asked and nothing of who answers: no model, no sampling settings, no prompt of a judge. So a
question has the same digest whichever model fills the role.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import Call, Form, arrays, image_digest
from guidebench.harness.models.calls.base import CANONICAL
from guidebench.harness.models.cassette_file import dumps, encoded
from guidebench.harness.records.answers import QUESTION, AnswerRecord
from guidebench.harness.texts import JSON

OPTIONS = "options"
"""Name, in the header of an array that a record keeps, of the texts that its rows are about (`Call.options`)."""


def question_digest(question: Question) -> str:
    """Return the SHA-256 of a question's content and snapshots; what only an oracle may read is not part of it."""
    hashed = hashlib.sha256(question.content.encode(errors="surrogatepass"))
    if question.snapshots is not None:
        snapshots = np.ascontiguousarray(question.snapshots)
        hashed.update(f"\0{snapshots.dtype}{snapshots.shape}".encode())
        hashed.update(snapshots.data)
    return hashed.hexdigest()


def call_digest(call: Call) -> str:
    """Return the SHA-256 of a call as a dialogue makes it, before the model's sampling settings are set."""
    form = {**call.form(lambda image: {"image": image_digest(image)}), "kind": call.kind}
    return hashlib.sha256(CANONICAL.encode(form).encode()).hexdigest()


def of_call(role: str, question: str, call: Call, answer: Any) -> AnswerRecord:
    """Return the record of a call's answer. `question`: digest of the question that the dialogue answers."""
    text, data = encoded(type(call), answer)
    if call.options:
        text = f'{text[:-1]},"{OPTIONS}":{json.dumps(call.options, separators=(",", ":"))}}}'
    return AnswerRecord(role, question, call_digest(call), kind_of(call), text, data)


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a record's array without its options, and these, () if it has none. Raise ValueError for
    options that are no list of distinct texts, one for each row.

    >>> split('{"array":"float32","shape":[1,3],"options":[" up"]}')
    ('{"array":"float32","shape":[1,3]}', (' up',))
    """
    match JSON.decode(text):
        case {"array": array, "shape": [rows, *_] as shape, "options": list(options), **rest} if not rest:
            if not all(isinstance(option, str) for option in options) or len({*options}) != len(options) or (
                len(options) != rows
            ):  # fmt: skip
                raise ValueError(f"{text[:80]!r} does not name each of its rows once")
            return json.dumps({"array": array, "shape": shape}, separators=(",", ":")), tuple(options)
    return text, ()


def kind_of(call: Call) -> str:
    """Return the kind under which a call's answer is kept: that of the call, with its purpose after a colon."""
    return f"{call.kind}:{call.purpose}" if call.purpose else call.kind


def of_question(question: Question, answer: Any, kind: str = QUESTION) -> AnswerRecord:
    """Return the record of the answer to a question as its part gets it: an array of floats, or a JSON value. `kind`:
    `judge` for a clip. Raise UserError for a value that JSON cannot hold."""
    digest = question_digest(question)
    if isinstance(answer, np.ndarray):
        return AnswerRecord(
            question.to, digest, digest, kind, *arrays.encode(answer, Form(answer.dtype.name, answer.ndim))
        )
    try:
        return AnswerRecord(question.to, digest, digest, kind, dumps(answer))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the model in the role {question.to!r} answered {str(answer)[:80]!r}, which is no JSON value ({error}), "
            f"so it cannot be kept; let it return numbers, texts, lists and objects, or leave out answers=true"
        ) from None
