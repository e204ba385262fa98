"""The placebo: answers that were given to other questions, drawn at random, so that they hold no information.

Which answer a question gets follows from the digest of the question, or of the dialogue's call, and the run's seed.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import ChecksAnswers, Dialogue, Question
from guidebench.harness.models import answer_files
from guidebench.harness.models.answer_records import call_digest, kind_of, question_digest, split
from guidebench.harness.models.calls import Answer, Call, ChatCall, Ticket, Usage
from guidebench.harness.models.calls.base import CANONICAL
from guidebench.harness.records.answers import QUESTION, AnswerRecord

PLACEBO = "placebo"
"""The backend's name."""
REMEMBERED = 64
"""Most schemas for which the fit of answers is remembered."""


class Pool:
    """The answers that a placebo may give in one role."""

    def __init__(self, records: Iterable[AnswerRecord]) -> None:
        self._by_kind: dict[str, list[PooledAnswer]] = {}
        options: dict[str, tuple[str, ...]] = {}
        for record in records:
            if record.data is not None and record.answer not in options:
                options[record.answer] = split(record.answer)[1]
            pooled = PooledAnswer(record, answer_files.value_of(record), options.get(record.answer, ()))
            self._by_kind.setdefault(record.kind, []).append(pooled)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._by_kind)

    def draw(self, kind: str, query: Query, fitted: Callable[[PooledAnswer], Any]) -> Any:
        """Return an answer of a kind that fits, drawn uniformly from those that were given to other questions; of those
        to the same question only if no other fits; None if none does. `fitted`: returns an answer as it is given to
        this question, None if it does not fit."""
        pool = self._by_kind.get(kind, [])
        same_question = []
        for index in shuffled(len(pool), query.key(kind)):
            record = pool[index].record
            if record.question == query.question or record.call == query.call:
                same_question.append(pool[index])
            elif (answer := fitted(pool[index])) is not None:
                return answer
        return next((answer for answer in map(fitted, same_question) if answer is not None), None)


class PooledAnswer(NamedTuple):
    """An answer that a placebo may give."""

    record: AnswerRecord
    answer: Any
    options: tuple[str, ...]
    """The texts that the rows of an array are about (`Call.options`)."""


class Query(NamedTuple):
    """What a placebo is asked, and in which run."""

    seed: str
    role: str
    question: str
    """Digest of the question."""
    call: str
    """Digest of the dialogue's call, or of the question where no dialogue runs."""

    def key(self, kind: str) -> bytes:
        """Return the bytes from which the draw follows. Equal calls of a run have equal ones, also in two questions."""
        return json.dumps([self.seed, self.role, kind, self.call]).encode()


def shuffled(count: int, key: bytes) -> Iterator[int]:
    """Yield the numbers below `count` in an order drawn uniformly by SHA-256 of the key (Fisher and Yates), which needs
    one hash for each that is taken."""
    moved: dict[int, int] = {}
    for number in range(count):
        last = count - 1 - number
        hashed = hashlib.sha256(key + number.to_bytes(4, "big")).digest()
        pick = int.from_bytes(hashed[:16], "big") % (last + 1)
        yield moved.get(pick, pick)
        moved[pick] = moved.get(last, last)


class PlaceboModels:
    """Answers the calls of dialogues, and questions without calls, in several roles; an Answerer."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        """`pools`: role -> its answers."""
        self._pools = pools
        self._fits: dict[str, dict[int, bool]] = {}
        """JSON schema -> identity of an answer -> whether it fits; pools hold the answers, so identities last."""
        self.waits: Callable[[], None] = lambda: None

    def answers_whole(self, role: str, kind: str) -> bool:
        """Return whether questions in a role are answered without a dialogue: those about clips, and those in a role
        whose answers were given to whole questions alone. `kind`: `judge` for clips, else `QUESTION`."""
        return kind != QUESTION or self._pools[role].kinds == {QUESTION}

    def answer_question(
        self, question: Question, kind: str, ticket: Ticket, dialogue: Dialogue | None, shape: tuple[int, ...] | None
    ) -> Answer:
        """Return an answer to a whole question. `dialogue`: what else would answer it, which may know what fits;
        `shape`: that of the array that the asking part expects, None for a JSON value."""
        digest = question_digest(question)
        content = json.loads(question.content or "null")
        frames = 0 if question.snapshots is None else len(question.snapshots)

        def fitted(pooled: PooledAnswer) -> Any:
            answer = pooled.answer
            if isinstance(answer, np.ndarray) or shape is not None:
                fits = isinstance(answer, np.ndarray) and answer.shape == shape
            else:
                fits = not (isinstance(dialogue, ChecksAnswers) and dialogue.misfit(content, frames, answer))
            return answer if fits else None

        return self._drawn(kind, _query(ticket, digest, digest), fitted, 0)

    def about(self, question: Question) -> CallsOf:
        """Return what answers the calls of a dialogue about a question."""
        return CallsOf(self, question_digest(question))

    async def answer(self, call: Call, ticket: Ticket, question: str = "") -> Answer:
        """Return an answer to a call. `question`: digest of the question that it belongs to."""
        remembered = self._remembered(call)

        def fitted(pooled: PooledAnswer) -> Any:
            if remembered is None:
                return call.fitted(pooled.answer, pooled.options)
            if (number := id(pooled.answer)) not in remembered:
                remembered[number] = not call.fault(pooled.answer)
            return pooled.answer if remembered[number] else None

        return self._drawn(kind_of(call), _query(ticket, question, call_digest(call)), fitted, len(call.images()))

    def _remembered(self, call: Call) -> dict[int, bool] | None:
        """Return what is remembered of the answers that fit a chat's schema; None for other calls."""
        if not isinstance(call, ChatCall) or call.schema is None:
            return None
        schema = CANONICAL.encode(call.schema)
        if schema not in self._fits and len(self._fits) >= REMEMBERED:
            self._fits.clear()
        return self._fits.setdefault(schema, {})

    def _drawn(self, kind: str, query: Query, fitted: Callable[[PooledAnswer], Any], images: int) -> Answer:
        value, usage = self._pools[query.role].draw(kind, query, fitted), Usage(calls=1, images=images)
        if value is None:
            message = f"no answer of kind {kind!r} in the role {query.role!r} fits this question"
            return Answer(None, "empty", usage, usage, {"message": message})
        return Answer(copy.deepcopy(value), usage=usage, billed=usage)  # a dialogue may change what it gets

    def publish(self, followers: Iterable[Path]) -> None:
        """Do nothing, because nothing is recorded."""

    def bill(self) -> None:
        """Do nothing, because nothing is spent."""

    async def close(self, grace: float, last: Callable[[], None]) -> None:
        """Do nothing, because there is nothing to release."""


class CallsOf:
    """Answers the calls that a dialogue makes about one question."""

    def __init__(self, models: PlaceboModels, question: str) -> None:
        self._models, self._question = models, question

    async def answer(self, call: Call, ticket: Ticket) -> Answer:
        return await self._models.answer(call, ticket, self._question)


def _query(ticket: Ticket, question: str, call: str) -> Query:
    return Query(ticket.run.rpartition("/")[2], ticket.role, question, call)


def read_pool(source: str, role: str, digest: str | None) -> Pool:
    """Return the answers of a role at a place. `digest`: that of the cell's placebo. Raise UserError if they are others
    by now."""
    try:
        records: Sequence[AnswerRecord] = answer_files.records(source, role)
    finally:
        reader_process.close()
    present = answer_files.digest(records)
    if digest is not None and present != digest:
        raise UserError(
            f"{role}.source={source}: its answers have the digest {present}, and those of the cell have {digest}; "
            f"restore the files, or run the study anew with these in another output=…"
        )
    return Pool(records)
