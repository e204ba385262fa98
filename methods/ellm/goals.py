"""Goals in words: which there can be in a task, how an answer is read, and what of a state is asked about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST = 60
"""Most characters of a goal; longer ones are none (choice)."""
ARTICLES = {"a", "an", "the"}
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")
BRACKETS = re.compile(r"\s*\([^()]*\)")


class Words(NamedTuple):
    """What goals consist of: a verb and a noun, or a verb alone."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    alone: tuple[str, ...]

    @classmethod
    def of(cls, deeds: Sequence[str]) -> Words:
        """Return the words of captions such as `chop tree`, in their order.

        >>> Words.of(("chop tree", "place crafting table", "chop grass", "sleep"))
        Words(verbs=('chop', 'place'), nouns=('tree', 'crafting table', 'grass'), alone=('sleep',))
        """
        pairs = [deed.split(" ", 1) for deed in deeds if " " in deed]
        verbs, nouns = (tuple(dict.fromkeys(each)) for each in zip(*pairs, strict=True)) if pairs else ((), ())
        return cls(verbs, nouns, tuple(deed for deed in deeds if " " not in deed))

    def form(self, goal: str) -> bool:
        """Return whether a goal is one of the verbs with one of the nouns, or a verb that stands alone."""
        verb, _, noun = goal.partition(" ")
        return goal in self.alone or (verb in self.verbs and noun in self.nouns)


class Suggested(NamedTuple):
    """The goals that an answer suggests, and how many of those that it names are not among them, or to no avail."""

    goals: tuple[str, ...]
    """Distinct goals in the answer's order."""
    proposed: int
    """Distinct goals that the answer names."""
    unknown: int
    """Of these, goals that are kept out because they are no verb and noun of the task."""
    senseless: int
    """Of these, goals of the task's words that no step can achieve, such as `eat tree`; they are kept."""
    cut: int
    """Of these, goals beyond the number that is kept."""


def read(answer: Iterable[str], deeds: Sequence[str], words: Words, most: int, formed: bool) -> Suggested:
    """Read an answer's goals. `deeds`: what steps can achieve, and `words` its words; `most`: goals that are kept;
    `formed`: whether goals of other words are kept out."""
    named = [*dict.fromkeys(filter(None, map(plain, answer)))]
    known = [goal for goal in named if words.form(goal)]
    valid = known if formed else named
    return Suggested(
        tuple(valid[:most]),
        len(named),
        len(named) - len(known) if formed else 0,
        sum(goal not in deeds for goal in known),
        max(len(valid) - most, 0),
    )


def plain(goal: str) -> str:
    """Return a goal in small letters without articles, marks and underscores; "" for none.

    >>> plain("- Chop a tree."), plain("place_the  crafting table")
    ('chop tree', 'place crafting table')
    """
    letters = "".join(each if each.isalnum() or each == "'" else " " for each in goal[: 4 * LONGEST].casefold())
    kept = " ".join(word for word in letters.split() if word not in ARTICLES)
    return kept if len(kept) <= LONGEST else ""


def question_state(text: str, omit: Sequence[str], brief: bool) -> str:
    """Return what of a state's sentences a model is asked about: without those that begin with one of `omit`, and, if
    `brief`, without what stands in brackets.

    >>> asked_about("you see tree (1.3 m left). you feel hurt.", ("you feel",), True)
    'you see tree.'
    """
    if brief:
        text = BRACKETS.sub("", text)
    if omit:
        text = " ".join(told for told in BETWEEN_SENTENCES.split(text) if not told.startswith(tuple(omit)))
    return text
