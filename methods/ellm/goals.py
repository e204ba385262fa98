"""Goals in words: the possible goals of a task, how an answer is read, and the state's text in a question."""

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
    """The words of a task's goals, each of which is a verb and a noun, or a verb alone."""

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
        verbs, nouns = (tuple(dict.fromkeys(words)) for words in zip(*pairs, strict=True)) if pairs else ((), ())
        return cls(verbs, nouns, tuple(deed for deed in deeds if " " not in deed))

    def form(self, goal: str) -> bool:
        """Return whether a goal is one of the verbs with one of the nouns, or a verb that stands alone."""
        verb, _, noun = goal.partition(" ")
        return goal in self.alone or (verb in self.verbs and noun in self.nouns)


class Suggested(NamedTuple):
    """The goals that are kept of an answer, and counts of the goals that are left out or that no step can achieve."""

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
    """Return the goals of an answer, a list of texts. `deeds`: what steps can achieve; `words`: the words of `deeds`;
    `most`: most goals that are kept; `formed`: whether goals of other words are left out."""
    goals = [*dict.fromkeys(filter(None, map(plain, answer)))]
    formed_goals = [goal for goal in goals if words.form(goal)]
    valid = formed_goals if formed else goals
    return Suggested(
        tuple(valid[:most]),
        len(goals),
        len(goals) - len(formed_goals) if formed else 0,
        sum(goal not in deeds for goal in formed_goals),
        max(len(valid) - most, 0),
    )


def plain(goal: str) -> str:
    """Return a goal in small letters without articles, marks and underscores; "" for none.

    >>> plain("- Chop a tree."), plain("place_the  crafting table")
    ('chop tree', 'place crafting table')
    """
    letters = "".join(letter if letter.isalnum() or letter == "'" else " " for letter in goal[: 4 * LONGEST].casefold())
    words = " ".join(word for word in letters.split() if word not in ARTICLES)
    return words if len(words) <= LONGEST else ""


def question_state(text: str, omit: Sequence[str], brief: bool) -> str:
    """Return the text of a state for a question about it: its sentences without those that begin with one of `omit`,
    and, if `brief`, without what is in brackets.

    >>> question_state("you see tree (1.3 m left). you feel hurt.", ("you feel",), True)
    'you see tree.'
    """
    if brief:
        text = BRACKETS.sub("", text)
    if omit:
        text = " ".join(sentence for sentence in BETWEEN_SENTENCES.split(text) if not sentence.startswith(tuple(omit)))
    return text
