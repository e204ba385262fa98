"""A hand-written substitute for a language model, which derives goals for Crafter from the prompt.

It is given only the messages, neither suite nor task. A goal is suggested if all that it needs is in the sentences of
the state, as `NEEDS` says, and if its words are in the prompt's lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.baselines.conversing import chance
from guidebench.harness.models.calls import Message
from guidebench.methods.ellm.dialogue import ALONE, NOUNS, STATE, VERBS


class Needs(NamedTuple):
    """The things that must be in sight and in the inventory, and the feelings, that a goal needs."""

    sight: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    felt: tuple[str, ...] = ()


TABLE = ("crafting table",)
SMITHY = ("crafting table", "furnace")
NEEDS: Mapping[str, Needs] = {
    "drink water": Needs(("water",), felt=("thirsty",)),
    "eat cow": Needs(("cow",)),
    "eat plant": Needs(("plant",), felt=("hungry",)),
    "sleep": Needs(felt=("sleepy",)),
    "mine diamond": Needs(("diamond",), ("iron pickaxe",)),
    "make iron pickaxe": Needs(SMITHY, ("wood", "coal", "iron")),
    "make iron sword": Needs(SMITHY, ("wood", "coal", "iron")),
    "mine iron": Needs(("iron",), ("stone pickaxe",)),
    "make stone pickaxe": Needs(TABLE, ("wood", "stone")),
    "make stone sword": Needs(TABLE, ("wood", "stone")),
    "make wood pickaxe": Needs(TABLE, ("wood",)),
    "make wood sword": Needs(TABLE, ("wood",)),
    "mine coal": Needs(("coal",), ("wood pickaxe",)),
    "mine stone": Needs(("stone",), ("wood pickaxe",)),
    "place crafting table": Needs((), ("wood",)),
    "place furnace": Needs(TABLE, ("stone",)),
    "place plant": Needs(("grass",), ("plant",)),
    "place stone": Needs((), ("stone",)),
    "chop tree": Needs(("tree",)),
    "attack zombie": Needs(("zombie",)),
    "attack skeleton": Needs(("skeleton",)),
    "attack cow": Needs(("cow",)),
    "chop grass": Needs(("grass",)),
}
"""Goal -> its preconditions by Crafter's rules that sentences can show, the most useful goal first. Sentences call a
sapling a plant. A furnace needs a table, as in the suite crafter_ood; the package (crafter 1.8.3) places one anywhere,
where nothing can be made at it."""
PARTS = {"sight": "you see ", "held": "you have in your inventory ", "felt": "you feel "}
"""Field of `Needs` -> beginning of the state's sentence that lists it."""


class PromptReader:
    """Answers the question for goals; equal prompts get equal answers."""

    def __init__(self, senseless: float) -> None:
        """`senseless`: probability that a goal is replaced by a verb with a noun to which it does not apply, by a hash
        of prompt and goal."""
        self._senseless = senseless

    def __call__(self, messages: tuple[Message, ...]) -> dict[str, Any]:
        """Return {"goals": goals} for the state of the last message."""
        prompt = "".join(part for part in messages[-1].content if isinstance(part, str))
        verbs, nouns, alone = (_listed(prompt, begin) for begin in (VERBS, NOUNS, ALONE))
        states = _lines(prompt, STATE)
        state = states[-1] if states else ""
        names_by_part = {part: _named(state, begin) for part, begin in PARTS.items()}
        wild = [f"{verb} {noun}" for verb in verbs for noun in nouns if f"{verb} {noun}" not in NEEDS]
        goals = []
        for goal, needs in NEEDS.items():
            verb, _, noun = goal.partition(" ")
            worded = (verb in verbs and noun in nouns) or goal in alone
            if worded and all(set(getattr(needs, part)) <= names_by_part[part] for part in PARTS):
                spoilt = wild and chance(state, goal) < self._senseless
                goals.append(wild[int(len(wild) * chance(state, goal, "which"))] if spoilt else goal)
        return {"goals": [*dict.fromkeys(goals)]}


def _lines(prompt: str, begin: str) -> list[str]:
    """Return the lines of a prompt that begin with `begin`, without this beginning."""
    return [line.removeprefix(begin) for line in prompt.splitlines() if line.startswith(begin)]


def _listed(prompt: str, begin: str) -> list[str]:
    return [word for line in _lines(prompt, begin)[:1] for word in line.split(", ")]


def _named(state: str, begin: str) -> set[str]:
    """Return the names that a state's sentence with the beginning `begin` lists; none without such a sentence."""
    for sentence in re.split(r"(?<=\.)\s+", state):
        if sentence.startswith(begin):
            return {*filter(None, re.split(r", and |, | and ", sentence.removeprefix(begin).rstrip(".")))}
    return set()
