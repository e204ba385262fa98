"""Plans: ordered sub-goals in the vocabulary of a task's actions, and how they are read from a model's reply.

A reply is untrusted text. It may hold a JSON object `{"plan": [...]}`, whose items are texts or objects with `subgoal`
and optionally `times` and `after` (numbers of the items that must come before it), or a numbered list in prose, of
which the last one counts (DSADF, app. B: `1. Find Tree (tree.location) - Move to the nearest tree`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from guidebench.baselines.conversing import LONGEST, Misread, objects

FIND = "find"
"""The verb of a sub-goal to go to something, which is in every vocabulary."""
MOST_TIMES = 20
"""Most times that one step is repeated (choice: Crafter's tasks need at most a dozen of anything)."""
LONGEST_PHRASE = 200
"""Most characters of a step that are compared with the names, to bound the work (choice: a name has a few words)."""
NUMBERED = re.compile(r"^[\s>*#-]*(\d{1,4})[.):]\s*(.+)$")
TIMES = re.compile(r"\b(\d{1,4}) times\b|(?<![a-z])[x×] ?(\d{1,4})\b")
ARTICLES = re.compile(r"\b(?:a|an|the|some)\b ?")


class Subgoal(NamedTuple):
    """One step of a plan."""

    name: str
    """Name of an action, or `find` and a noun."""
    times: int = 1
    """How often the action is to be done."""

    def __str__(self) -> str:
        return self.name if self.times == 1 else f"{self.name} ({self.times} times)"


def listed(plan: Sequence[Subgoal]) -> str:
    """Return a plan as a numbered list, in the form in which it is asked for.

    >>> print(listed([Subgoal("find tree"), Subgoal("chop tree", 4)]))
    1. find tree
    2. chop tree (4 times)
    """
    return "\n".join(f"{number}. {subgoal}" for number, subgoal in enumerate(plan, 1))


def schema(names: Sequence[str], nouns: Collection[str], longest: int, fewest: int = 1) -> dict[str, Any]:
    """Return the JSON schema of a list of steps, which `read` reads as the field `plan` of an object. `names`:
    of actions or deeds; `nouns`: what `find` may name; if empty, what the names find, or else their last words."""
    if not nouns and not any(name.startswith(f"{FIND} ") for name in names):
        nouns = {name.split()[-1] for name in names if " " in name}
    subgoals = dict.fromkeys([*names, *(f"{FIND} {noun}" for noun in sorted(nouns))])
    step = {
        "type": "object",
        "properties": {
            "subgoal": {"enum": [*subgoals]}, "times": {"type": "integer", "minimum": 1, "maximum": MOST_TIMES},
        },
        "required": ["subgoal", "times"],
        "additionalProperties": False,
    }  # fmt: skip
    return {"type": "array", "items": step, "minItems": fewest, "maxItems": longest}


class Vocabulary:
    """The allowed names of sub-goals: the names of actions or deeds, and `find` with a noun."""

    def __init__(self, actions: Iterable[str], mentioned: Iterable[str], things: Collection[str] = ()) -> None:
        """`things`: the nouns that `find` allows; if empty, it allows the words of `actions` and of the texts
        `mentioned`, such as goal, hint and state."""
        self._actions, self._things = {_on(name): name for name in actions}, frozenset(things)
        self._words = set(re.findall(r"[a-z]+", " ".join((*self._actions.values(), *mentioned)).casefold()))

    def match(self, phrase: str) -> str | None:
        """Return the name with which a phrase begins, ignoring case, articles and plurals; None if it begins with none.
        Only the first `LONGEST_PHRASE` characters are read.

        >>> Vocabulary(["chop tree"], []).match("Chop the Trees until there is wood")
        'chop tree'
        """
        words = ARTICLES.sub("", re.sub(r"[^a-z ]+", " ", phrase[:LONGEST_PHRASE].casefold().replace("_", " "))).split()
        for length in range(len(words), 0, -1):
            for variant in _numbers(words[:length]):
                if (name := self._actions.get(_on(" ".join(variant)))) is not None:
                    return name
        if words[:1] != [FIND]:
            return None
        if self._things:
            nouns = (" ".join(variant) for at in range(len(words), 1, -1) for variant in _numbers(words[1:at]))
            return next((f"{FIND} {noun}" for noun in nouns if noun in self._things), None)
        noun = [word if word in self._words else singular(word) for word in words[1:5]]
        known_words = [*noun[: next((at for at, word in enumerate(noun) if word not in self._words), len(noun))]]
        return " ".join((FIND, *known_words)) if known_words else None


def _numbers(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return words as they are, and with the last one in the singular."""
    return words, [*words[:-1], singular(words[-1])]


def _on(name: str) -> str:
    """Return a name with `in`, `into`, `onto` and the like replaced by `on`, so that either wording matches.

    >>> _on("put mug into fridge")
    'put mug on fridge'
    """
    return re.sub(r"\b(?:in|into|inside|onto|upon)\b", "on", name)


def singular(word: str) -> str:
    """Return a noun without the s of its plural."""
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def read(reply: str, vocabulary: Vocabulary, longest: int) -> tuple[Subgoal, ...]:
    """Return the plan in a model's reply, of at most `longest` steps.

    Raise Misread, whose message is for the model: `empty` without a plan, `long` for one of too many steps, `unknown`
    for a step that is no sub-goal, `cycle` for steps that wait for each other.
    """
    plan = _object(reply[:LONGEST])
    if plan is not None:
        phrases = [(step, _times(step)) if isinstance(step, str) else _step(step) for step in plan]
        order: Sequence[Iterable[int]] = [() if isinstance(step, str) else _after(step, len(plan)) for step in plan]
    else:
        phrases = _numbered(reply[:LONGEST])
        order = [()] * len(phrases)
    if not phrases:
        raise Misread("empty", "it holds no plan; write a numbered list of steps")
    if len(phrases) > longest:
        raise Misread("long", f"its plan has {len(phrases)} steps; write at most {longest}")
    steps = []
    for number, (phrase, times) in enumerate(phrases, 1):
        name = vocabulary.match(phrase)
        if name is None:
            raise Misread(
                "unknown", f"step {number}, {phrase[:60]!r}, is neither one of the actions nor 'find' and a thing"
            )
        steps.append(Subgoal(name, min(max(times, 1), MOST_TIMES)))
    return tuple(steps[number] for number in _ordered(order))


def _object(reply: str) -> list[Any] | None:
    """Return the list in the field `plan` of the last JSON object in a reply that has one; None without such an
    object."""
    last, until = None, 0
    for begin, end, parsed in objects(reply):
        if begin < until or isinstance(parsed, Exception):
            continue
        plan, until = parsed.get("plan"), end
        if isinstance(plan, list) and all(isinstance(step, (str, dict)) for step in plan):
            last = plan
    return last


def _step(step: Mapping[str, Any]) -> tuple[str, int]:
    """Return name and repetitions of a step that is a JSON object. Raise Misread where either has another type."""
    name, times = step.get("subgoal"), step.get("times", 1)
    if not isinstance(name, str) or type(times) is not int:
        raise Misread("unknown", f"the step {str(dict(step))[:80]} has no text `subgoal`, or no whole number `times`")
    return name, times


def _after(step: Mapping[str, Any], count: int) -> list[int]:
    """Return the indices, from 0, of the steps that must come before a step, by its field `after` (numbers from 1 to
    `count`). Raise Misread for anything else there."""
    after = step.get("after", [])
    if not isinstance(after, list) or not all(type(number) is int and 1 <= number <= count for number in after):
        raise Misread("unknown", f"`after` is {str(after)[:60]}; expected numbers of steps, from 1 to {count}")
    return [number - 1 for number in after]


def _ordered(before: Sequence[Iterable[int]]) -> list[int]:
    """Return the indices of the steps in the first order, by their numbers, in which each step comes after those that
    `before` lists for it. Raise Misread for a cycle."""
    remaining, finished = [*range(len(before))], list[int]()
    while remaining:
        free = next((step for step in remaining if all(earlier in finished for earlier in before[step])), None)
        if free is None:
            raise Misread(
                "cycle", f"each of the steps {', '.join(str(step + 1) for step in remaining)} is to come after another"
            )
        remaining.remove(free)
        finished.append(free)
    return finished


def _numbered(reply: str) -> list[tuple[str, int]]:
    """Return phrase and repetitions of each step of the last numbered list in a reply; a list begins at the number
    1."""
    phrases: list[tuple[str, int]] = []
    for line in reply.splitlines():
        if match := NUMBERED.match(line[:1_000]):
            if int(match[1]) == 1:
                phrases = []
            phrase = re.split(r"[(\[:,;.]|\s[-–—]+\s", match[2].replace("*", "").replace("`", ""), maxsplit=1)[0]
            phrases.append((phrase.strip(), _times(match[2])))
    return phrases


def _times(line: str) -> int:
    """Return how often a step is to be done by its line, such as `4 times` or `x4`; 1 without such words."""
    match = TIMES.search(line.casefold())
    return int(match[1] or match[2]) if match else 1
