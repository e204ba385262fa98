"""The question for goals: the prompt about the game and a state, and the form of the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from guidebench.baselines.conversing import unlike
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import AskModel, ChatCall, Message
from guidebench.methods.ellm.goals import Words, read

NAMED, LONGEST = 256, 200
"""Most goals of an answer, and most characters of one; an answer beyond them is not in the schema."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["goals"],
    "properties": {
        "goals": {
            "type": "array",
            "maxItems": NAMED,
            "items": {"type": "string", "maxLength": LONGEST},
            "description": "the goals, the most useful first",
        }
    },
}
EXAMPLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("you see cow, grass, and water. you feel thirsty.", ("drink water", "attack cow", "chop grass")),
    (
        "you see coal, path, and stone. you are targeting coal. you have in your inventory stone and wood pickaxe.",
        ("mine coal", "mine stone", "place stone"),
    ),
    (
        "you see crafting table and tree. you have in your inventory wood. you feel sleepy.",
        ("make wood pickaxe", "make wood sword", "chop tree", "sleep"),
    ),
)
"""Example states and their goals; a prompt contains those examples whose goals are all deeds of the task (choice)."""
VERBS, NOUNS, ALONE, STATE = "Verbs: ", "Nouns: ", "Verbs without a noun: ", "State: "
"""Beginnings of lines of the prompt."""


def prompt(state: str, deeds: Sequence[str], words: Words, most: int) -> str:
    """Return the prompt about a state. `deeds`: what steps can achieve; `words`: the words of `deeds`; `most`: most
    goals that the answer may name."""
    lines = [
        "A player explores a game. Suggest what it could usefully do next in the state below.",
        f"Each goal is one verb and one noun of these lists{', or a verb that needs no noun' if words.alone else ''}.",
        f"{VERBS}{', '.join(words.verbs)}",
        f"{NOUNS}{', '.join(words.nouns)}",
        *([f"{ALONE}{', '.join(words.alone)}"] if words.alone else []),
        "A goal has to be possible now: the thing is in sight, or the player has what it needs for it. Leave out what "
        f"makes no sense. Name at most {most} goals, the most useful first, as a JSON object.",
        *(f"Example. {state} -> {_answer(goals)}" for state, goals in EXAMPLES if set(goals) <= set(deeds)),
        f"{STATE}{state or 'nothing is in sight.'}",
    ]
    return "\n".join(lines)


def _answer(goals: Sequence[str]) -> str:
    """Return goals as a JSON text in the form of `SCHEMA`."""
    return json.dumps({"goals": list(goals)})


class GoalsDialogue:
    """A dialogue that asks a language model for goals in a state."""

    calls = 1
    schemas = (SCHEMA,)

    def __init__(self, deeds: Sequence[str], most: int, formed: bool = True) -> None:
        """`deeds`: what steps of the task can achieve; `most`: most goals that an answer may name; `formed`: whether
        goals of other words are left out."""
        self._deeds, self._words, self._most, self._formed = deeds, Words.of(deeds), most, formed

    def with_schemas(self) -> GoalsDialogue:
        """Return this dialogue, whose calls carry the schema in any case."""
        return self

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> list[str] | Unusable | None:
        """Return the goals for the state `content`, as the model wrote them; `Unusable` if it named some and none of
        them is a goal of the task; None if it gave no valid answer."""
        message = Message("user", (prompt(content, self._deeds, self._words, self._most),))
        outcome = await ask(ChatCall((message,), SCHEMA))
        if outcome.failure:
            return None
        goals = [*outcome.value["goals"]]
        usable = not goals or read(goals, self._deeds, self._words, self._most, self._formed).goals
        return goals if usable else Unusable(goals)

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it is no list of goals."""
        return unlike(answer, SCHEMA["properties"]["goals"])
