"""The call `choice`: how likely a chat would answer with each of some candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import Call, CallSections, Json
from guidebench.harness.models.calls.chat import Message, images_of, message_forms, messages_of
from guidebench.harness.models.choice_scores import shares, turns
from guidebench.harness.registry import register
from guidebench.harness.types import Array

MOST_CANDIDATES = 512
"""Candidates of a call at most (choice: more than the actions, goals or scores of any method here)."""


LEAST = 1e-6
"""Least share of the probability that hand-written code gives a candidate, since log 0 is not finite."""


UNLIKELY = " qzv7 Jkx%"
"""Candidate of the small call that no model finds likelier than yes and no."""


@register.call("choice")
@dataclass(frozen=True, eq=False)
class ChoiceCall(Call):
    """Asks how likely each candidate is as the rest of the model's answer, which begins with the prefix.

    The answer is float32 [candidates, 3]: the sum of log p over the candidate's tokens, log p of the end of the turn
    after it, both in nats, and the number of its tokens. Raises ValueError for no candidates, for more than
    `MOST_CANDIDATES`, and for one that is empty, doubled, or no text in Unicode.
    """

    messages: tuple[Message, ...]
    prefix: str
    """Beginning of the answer, such as "Action:"."""
    candidates: tuple[str, ...]
    """The ways to go on after the prefix, such as " move left". Most tokenizers join a space with the word after it, so
    a candidate that is a word begins with the space."""
    aim: str = ""
    """Its `purpose`."""

    kind: ClassVar[str] = "choice"
    tolerance: ClassVar[float] = 0.05
    measure: ClassVar[str] = "share of probability that differs"
    array: ClassVar[Form | None] = Form("float32", 2)

    def __post_init__(self) -> None:
        count = len(self.candidates)
        if not 1 <= count <= MOST_CANDIDATES:
            raise ValueError(f"a choice is among 1 to {MOST_CANDIDATES} candidates, and this one has {count:,}")
        if "" in self.candidates:
            number = self.candidates.index("") + 1
            raise ValueError(f"candidate {number} of {count} is empty; leave it out, or give it a text")
        for candidate in self.candidates:
            if any("\ud800" <= letter <= "\udfff" for letter in candidate):
                raise ValueError(
                    f"the candidate {candidate[:80]!r} holds half of a surrogate pair, which no model reads"
                )
        doubled, times = Counter(self.candidates).most_common(1)[0]
        if times > 1:
            raise ValueError(f"the candidate {doubled[:80]!r} is there {times} times; give each candidate once")

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {
            "messages": message_forms(self.messages, named),
            "prefix": self.prefix,
            "candidates": [*self.candidates],
        }

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"messages": list(messages), "prefix": str(prefix), "candidates": list(candidates)}:
                if all(isinstance(candidate, str) for candidate in candidates):
                    return cls(messages_of(messages, image), prefix, tuple(candidates))
        raise ValueError("a choice has messages, a prefix and candidates, which are texts")

    @classmethod
    def small(cls) -> Self:
        return cls((Message("user", ("Is the sky blue? Say yes or no.",)),), "Answer:", (" yes", " no", UNLIKELY))

    @classmethod
    def small_fault(cls, answer: Any) -> str:
        """Return why an answer to `small()` holds no likelihoods: no candidate is likelier than the nonsense."""
        *likely, unlikely = turns(answer)
        if max(likely) > unlikely:
            return ""
        return f"the nonsense {UNLIKELY!r} is as likely as yes or no ({unlikely:.4g} and {max(likely):.4g} nats)"

    @property
    def purpose(self) -> str:
        return self.aim

    @property
    def options(self) -> tuple[str, ...]:
        return self.candidates

    def fitted(self, answer: Any, options: Sequence[str]) -> Any:
        """Return the rows of another choice's answer for the candidates of this one, matched by their texts; None if it
        lacks one of them.

        The candidates of most dialogues are what is possible now, so that few questions have equal lists of them. A
        row depends on its own candidate, not on the others, and the order of candidates is that of the rows.
        """
        rows = {candidate: row for row, candidate in enumerate(options)}
        if not (isinstance(answer, np.ndarray) and len(answer) == len(rows) and rows.keys() >= {*self.candidates}):
            return None
        return super().fitted(answer[[rows[candidate] for candidate in self.candidates]], options)

    def images(self) -> Sequence[Array]:
        return images_of(self.messages)

    def fault(self, value: Any) -> str:
        shape = (len(self.candidates), 3)
        if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == shape):
            return f"expected float32 {[*shape]}, got {getattr(value, 'shape', type(value).__name__)}"
        if not np.isfinite(value).all():
            return "a number is not finite"
        if (value[:, :2] > 0).any():
            return "a log-probability is above 0"
        tokens = value[:, 2]
        return "" if ((tokens >= 1) & (tokens == np.rint(tokens))).all() else "a number of tokens is no count from 1 on"

    def distance(self, recorded: Any, now: Any) -> float:
        """Return the total variation between the probabilities of the candidates, the end of the turn included, each
        scaled to the sum 1; infinite if their numbers or their numbers of tokens differ."""
        if np.shape(recorded) != np.shape(now) or not np.array_equal(recorded[:, 2], now[:, 2]):
            return math.inf
        return float(np.abs(shares(turns(recorded)) - shares(turns(now))).sum() / 2)

    def answered_by(self, code: Any) -> Any:
        """Return the answer that follows from the weights of hand-written code, `code.weigh(messages, candidates)`, of
        which at least one is above 0: log p of each candidate by its share of their sum, at least `LEAST`, as one token
        after which the turn ends."""
        weights = np.array(code.weigh(self.messages, self.candidates), np.float64)
        log_p = np.log(np.maximum(weights / weights.sum(), LEAST))
        return np.stack([log_p, np.zeros_like(log_p), np.ones_like(log_p)], axis=1).astype(np.float32)

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        messages: CallSections = [(str(message["role"]), message["content"]) for message in form["messages"]]
        return [*messages, ("beginning of the answer", [form["prefix"]]), ("candidates", form["candidates"])]

    @classmethod
    def words(cls, value: Any) -> str:
        """Return the number of the likeliest candidate, counted from 1, and the log-probability of its turn."""
        log_p = turns(value)
        return f"candidate {int(log_p.argmax()) + 1} of {len(log_p)}, with log p {float(log_p.max()):.2f}"
