"""Rules of what actions need, use and give, read from the lines of a hint, and what a plan lacks by these rules.

A line of the hint is a rule if it names an action and, after a colon, what it needs at hand, what it uses up and what
it gives, each part optional:

    - make stone sword: needs crafting table; uses 1 wood, 1 stone; gives stone sword

Other lines are prose for the model alone. A state is known by its sentences, which name things without their number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guidebench.methods.dsadf.plans import MOST_TIMES, Subgoal

LINE = re.compile(r"^\s*-\s*([a-z ]+):\s*((?:needs|uses|gives)\b.*)$", re.MULTILINE)
PARTS = ("needs", "uses", "gives")
DIGITS = 4
"""Most digits of a count (choice)."""
HOLDING = re.compile(r"\b(?:you have in your inventory|you have|you hold|you carry)\b\s*(.*)")
NAMING = re.compile(r"\b(?:you see|you are targeting)\b\s*(.*)")


class Rule(NamedTuple):
    """What one action needs, uses and gives; things are named as in the sentences of a state."""

    needs: tuple[str, ...] = ()
    """Things that must be held, or stand somewhere in the world."""
    uses: Mapping[str, int] = {}
    """Thing -> how many the action uses up."""
    gives: Mapping[str, int] = {}
    """Thing -> how many the action gives."""


class Lack(NamedTuple):
    """A thing that a step of a plan needs or uses, and that neither the start nor an earlier step provides."""

    step: int
    """Index of the step in the plan, from 0."""
    thing: str


def read(hint: str) -> dict[str, Rule]:
    """Return action -> rule, for the lines of a hint that are rules. A thing whose count is below 1 is left out
    (`miscounted` names it).

    >>> read("- place crafting table: uses 2 wood; gives crafting table")["place crafting table"].uses
    {'wood': 2}
    """
    rules = {}
    for action, parts in LINE.findall(hint):
        clauses: dict[str, dict[str, int]] = {part: {} for part in PARTS}
        for part in parts.rstrip(" .").split(";"):
            word, _, things = part.strip().partition(" ")
            if word in clauses:
                clauses[word] |= {name: number for name, number in map(_counted, things.split(",")) if number >= 1}
        rules[action.strip()] = Rule(tuple(clauses["needs"]), clauses["uses"], clauses["gives"])
    return rules


def _counted(thing: str) -> tuple[str, int]:
    """Return a thing and its count, 1 without any; 0 for a count that is no whole number of 1 to `DIGITS` digits."""
    number, _, name = thing.strip().partition(" ")
    if not any(map(str.isnumeric, number)):
        return thing.strip(), 1
    return name.strip(), int(number) if number.isdecimal() and len(number) <= DIGITS else 0


def miscounted(hint: str) -> str:
    """Return the first thing, as it is written, in the rules of a hint whose count is no whole number from 1 to 9999;
    "" without any.

    >>> miscounted("- chop tree: gives 0 wood"), miscounted("- chop tree: gives 1 wood")
    ('0 wood', '')
    """
    clauses = (part.strip().partition(" ") for _, parts in LINE.findall(hint) for part in parts.rstrip(" .").split(";"))
    things = (thing.strip() for word, _, listed in clauses if word in PARTS for thing in listed.split(","))
    return next((thing for thing in things if _counted(thing)[1] < 1), "")


def held(text: str) -> set[str]:
    """Return the things that the agent holds according to a state's sentences.

    >>> sorted(held("you see wood. you have in your inventory wood pickaxe and sapling."))
    ['sapling', 'wood pickaxe']
    """
    return _things(text, HOLDING)


def present(text: str) -> set[str]:
    """Return the things that the agent holds, sees or faces according to a state's sentences."""
    return held(text) | _things(text, NAMING)


def _things(text: str, pattern: re.Pattern[str]) -> set[str]:
    phrases = (match[1] for sentence in text.split(".") if (match := pattern.search(sentence)))
    return {thing.strip() for listed in phrases for thing in re.split(r",? and |,", listed)} - {"", "nothing"}


def lacks(plan: Sequence[Subgoal], rules: Mapping[str, Rule], text: str) -> list[Lack]:
    """Return, in the order of the plan, the things that its steps lack by the rules. `text`: sentences of the state in
    which the plan begins. Amounts are ignored here (`supplied` sees to them): a thing that an earlier step gives is not
    lacking."""
    holdings, at_hand = held(text), present(text)
    gaps = []
    for step, subgoal in enumerate(plan):
        rule = rules.get(subgoal.name, Rule())
        gaps += [Lack(step, thing) for thing in rule.needs if thing not in at_hand]
        gaps += [Lack(step, thing) for thing in rule.uses if thing not in holdings]
        at_hand |= {*rule.gives}
        holdings |= {*rule.gives}
    return gaps


def supplied(plan: Sequence[Subgoal], rules: Mapping[str, Rule], text: str) -> tuple[Subgoal, ...]:
    """Return the plan with steps repeated often enough to provide what later steps use: where a step would find too
    little of a thing, the latest earlier step that gives it is repeated (DSADF, app. A.1.1: one "chop trees" stands for
    as many as are needed). A thing held at the start counts as enough, since sentences give no number."""
    holdings, steps = held(text), [*plan]
    for at in range(len(steps)):
        for thing, count in rules.get(steps[at].name, Rule()).uses.items():
            givers = [step for step in range(at) if thing in rules.get(steps[step].name, Rule()).gives]
            if thing in holdings or not givers:
                continue
            short = -_stock(steps[:at], rules)[thing] + count * steps[at].times
            if short > 0:
                giver = steps[givers[-1]]
                more = -(-short // rules[giver.name].gives[thing])
                steps[givers[-1]] = giver._replace(times=min(giver.times + more, MOST_TIMES))
    return tuple(steps)


def _stock(steps: Sequence[Subgoal], rules: Mapping[str, Rule]) -> Counter[str]:
    """Return how many of each thing remain after these steps, counting from 0; negative if more is used than given."""
    stock: Counter[str] = Counter()
    for name, times in steps:
        rule = rules.get(name, Rule())
        for sign, things in ((-1, rule.uses), (1, rule.gives)):
            for thing, count in things.items():
                stock[thing] += sign * count * times
    return stock
