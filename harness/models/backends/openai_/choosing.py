"""Choosing among candidates through a server, in the way that the setting `choice_by` names.

| way | requests | the server has to |
| --- | --- | --- |
| prompt | one for each candidate, and two | return `prompt_logprobs` and continue a begun answer, as vLLM does |
| label | one for each order of the candidates | return `top_logprobs` |
| enum | one, and repairs | answer in JSON, best by a schema (`response_format`) |

`prompt` gives log p of each candidate's own tokens. `label` lists the candidates in the prompt under single letters and
reads log p of the letters. `enum` has the server write one candidate and tells nothing of the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.answers import REPAIRS
from guidebench.harness.models.calls import ChatCall, ChoiceCall, Failure, Json, Message
from guidebench.harness.models.calls.choice import LEAST

if TYPE_CHECKING:
    from guidebench.harness.models.backends.openai_.reading import Completion, Likely, PromptToken

    Complete = Callable[[Sequence[Message], Mapping[str, Json], Mapping[str, Json]], Awaitable[Completion]]
    """Continues messages: fields of the request, and fields that only some servers have."""

ChoiceBy = Literal["prompt", "label", "enum"]
LIKELIEST = 20
"""Top tokens per position whose log-probabilities are requested: the most that hosted servers return."""
LABELS = ascii_uppercase[:LIKELIEST]
"""Labels of candidates, each a single token of most tokenizers."""
WRITTEN = 256
"""Tokens that an answer by `enum` may take besides those of its candidate (choice: ample for an object's braces)."""
NO_MODELS = "tells no log-probabilities of a model ({:g} for each token)"
LIST = """

The answer begins with "{prefix}" and goes on in one of these ways:
{listed}
Reply with the letter of the best way and no other text."""

INSTEAD: Mapping[ChoiceBy, str] = {"prompt": "label or enum", "label": "enum", "enum": "label"}
"""Way -> what to use with a server that cannot be asked in it."""


class Unable(Exception):
    """What a server lacks for the way of choosing, in words that follow its name."""


class Choosing(NamedTuple):
    """How a chat chooses."""

    by: ChoiceBy
    rotations: int = 1
    """Orders in which the candidates are listed (`label`); at most as many as candidates."""

    def requests(self, candidates: int) -> int:
        """Return the most requests for a choice among so many candidates."""
        return {"prompt": candidates + 2, "label": min(self.rotations, candidates), "enum": 1 + REPAIRS}[self.by]


async def by_prompt(call: ChoiceCall, complete: Complete) -> Array:
    """Return the answer to a call, float32 [candidates, 3], from the log-probabilities of prompts in which the answer
    stands already.

    Three renderings of the same chat are compared by their tokens: the answer as far as the prefix, to be continued;
    the prefix as a whole answer, whose further tokens end the turn; and prefix and candidate as a whole answer. Raise
    Unable for a server whose renderings differ otherwise or whose log-probabilities are no model's, and UserError for
    a candidate whose tokens do not stand between those of the first two.
    """
    if not call.prefix.strip():
        raise UserError("choice_by=prompt needs questions whose answer has a beginning, such as 'Answer:'; use label")

    async def prompt(answer: str, continued: bool) -> Sequence[PromptToken]:
        extra = {"prompt_logprobs": 0, "continue_final_message": continued, "add_generation_prompt": False}
        messages = [*call.messages, Message("assistant", (answer,))]
        completion = await complete(messages, {"max_tokens": 1, "temperature": 0.0}, extra)
        assert completion.prompt is not None, "`complete` raises where it is missing"
        return completion.prompt

    begun = await prompt(call.prefix, True)
    end = _after(begun, await prompt(call.prefix, False))
    if not end:
        raise Unable("has a chat template that ends no turn, or begins an answer otherwise when it is to be continued")
    answer: list[tuple[float, float, int]] = []
    stated: set[float] = set()
    for candidate in call.candidates:
        rest = _after(begun, await prompt(call.prefix + candidate, False))
        scored, last = rest[: -len(end)], rest[-len(end) :]
        if not scored or _numbers(last) != _numbers(end):
            raise UserError(
                f"the candidate {candidate[:80]!r} has no tokens of its own after {call.prefix!r} at the server; let "
                f"it begin with a space and the prefix end without one, or use choice_by=label"
            )
        answer.append((math.fsum(token.logprob for token in scored), last[0].logprob, len(scored)))
        stated.update(token.logprob for token in (*scored, last[0]))
    if len(answer) > 1 and len(stated) == 1:
        raise Unable(NO_MODELS.format(stated.pop()))
    return np.array(answer, np.float32)


async def by_label(call: ChoiceCall, rotations: int, complete: Complete) -> tuple[Array, int]:
    """Return the answer to a call, float32 [candidates, 3], each candidate as one token after which the turn ends, and
    how often a label was not among the tokens that the server returned. The probability of a candidate is the mean over
    the orders in which the candidates are listed. Raise Failure("malformed") if no label was returned for an order,
    Unable for log-probabilities that are no model's, and UserError for more candidates than there are labels."""
    count = len(call.candidates)
    if count > len(LABELS):
        raise UserError(
            f"choice_by=label chooses among at most {len(LABELS)} candidates, as many tokens as servers return, and "
            f"this question has {count}; use choice_by=prompt or enum"
        )
    scores: list[Array] = []
    missing = 0
    for order in orders(count, rotations):
        body = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": LIKELIEST}
        completion = await complete(labelled(call, order), body, {})
        likeliest = completion.tokens[0].likeliest if completion.tokens else ()
        if len(likeliest) > 1 and len({likely.logprob for likely in likeliest}) == 1:
            raise Unable(NO_MODELS.format(likeliest[0].logprob))
        labels = label_scores(likeliest, count)
        returned = [score for score in labels if score is not None]
        if not returned:
            raise Failure("malformed", f"expected a letter from A to {LABELS[count - 1]}, got {completion.text[:80]!r}")
        bound = min(likely.logprob for likely in likeliest) - math.log(2)
        in_order = [bound if score is None else score for score in labels]
        scores.append(np.array(in_order)[np.argsort(order)])
        missing += count - len(returned)
    log_p = np.minimum(np.logaddexp.reduce(scores) - math.log(len(scores)), 0.0)
    return np.stack([log_p, np.zeros(count), np.ones(count)], axis=1).astype(np.float32), missing


def orders(count: int, rotations: int) -> Iterator[list[int]]:
    """Yield the orders in which so many candidates are listed: at most `rotations` of their rotations, evenly spaced.

    >>> [*orders(4, 2)], len([*orders(3, 9)])
    ([[0, 1, 2, 3], [2, 3, 0, 1]], 3)
    """
    times = min(rotations, count)
    for time in range(times):
        first = time * count // times
        yield [*range(first, count), *range(first)]


def labelled(call: ChoiceCall, order: Sequence[int]) -> list[Message]:
    """Return the messages of a call with the candidates listed in an order under labels, the first one as A."""
    names = names_of(call.candidates)
    *before, last = call.messages
    return [*before, Message(last.role, (*last.content, list_labels(call.prefix, [names[number] for number in order])))]


def list_labels(prefix: str, names: Sequence[str]) -> str:
    """Return what a question says of candidates under labels, the first one as A. `prefix`: beginning of the answer."""
    lines = "\n".join(f"{label}. {name}" for label, name in zip(LABELS, names, strict=False))
    return LIST.format(prefix=prefix, listed=lines)


def label_scores(likeliest: Sequence[Likely], count: int) -> list[float | None]:
    """Return log p of each of the first `count` labels among the likely tokens of a position, summed over tokens that
    differ in white space alone; None for a label that is not among the returned tokens."""
    log_p: dict[str, float] = {}
    for text, logprob in likeliest:
        label = text.strip()
        log_p[label] = float(np.logaddexp(log_p.get(label, -np.inf), logprob))
    return [log_p.get(label) for label in LABELS[:count]]


def enum_question(call: ChoiceCall) -> ChatCall:
    """Return the chat call whose answer is an object that names one of the candidates. Raise UserError for candidates
    that are too long for a schema."""
    names = names_of(call.candidates)
    fields = {"answer": {"type": "string", "enum": names}}
    schema = {"type": "object", "properties": fields, "required": ["answer"], "additionalProperties": False}
    longest = max(len(json.dumps(name).encode()) for name in names)
    try:
        return ChatCall(call.messages, schema, max_tokens=WRITTEN + longest, temperature=0.0)
    except ValueError as error:
        raise UserError(f"choice_by=enum cannot name these {len(names)} candidates: {error}; use prompt") from None


def one_hot(call: ChoiceCall, written: Mapping[str, Any]) -> Array:
    """Return the answer to a call whose candidate the server wrote, float32 [candidates, 3]: log p 0 for it, and
    that of `LEAST` for the others, each as one token after which the turn ends."""
    answer = np.tile(np.array([math.log(LEAST), 0, 1], np.float32), (len(call.candidates), 1))
    answer[names_of(call.candidates).index(written["answer"]), 0] = 0
    return answer


def names_of(candidates: Sequence[str]) -> list[str]:
    """Return the candidates without surrounding white space, or as they are if that makes two equal or one empty.

    >>> names_of([" yes", " no"]), names_of([" a", "a"])
    (['yes', 'no'], [' a', 'a'])
    """
    names = [candidate.strip() for candidate in candidates]
    return names if all(names) and len(set(names)) == len(names) else [*candidates]


def _after(begun: Sequence[PromptToken], prompt: Sequence[PromptToken]) -> Sequence[PromptToken]:
    """Return the tokens of a prompt after those with which another one begins; () if it does not begin with them."""
    return prompt[len(begun) :] if _numbers(prompt[: len(begun)]) == _numbers(begun) else ()


def _numbers(tokens: Sequence[PromptToken]) -> list[str]:
    return [token.number for token in tokens]
