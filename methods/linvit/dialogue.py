"""The dialogue in which a chat weighs the actions of a state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import NOTHING, Misread, ObjectDialogue, converse, filled, first_object, unlike
from guidebench.harness.interfaces import Array, Choose
from guidebench.harness.models.calls import AskModel, Message

STATED = """\
An agent acts in a simulated world, one action at a time. Say which actions a sensible player would take next.

The goal: {instruction}
The state: {state}
The actions:
{actions}

"""
"""Beginning of the prompts for weights."""
PROMPT = (
    STATED
    + """\
Give each action that helps now a weight above 0, the larger the more it helps. An action that you leave out has the \
weight 0. Reply with a single JSON object and no other text, with names from the list:
{"weights": {"<action>": <number>, "<action>": <number>}}"""
)
"""The prompt, in our words; the paper gives none for a table of probabilities."""
SCHEMA_PROMPT = (
    STATED
    + """\
Give each action a weight from 1 to {most}, the larger the more it helps now, and 1 if it does not help. Reply with a \
single JSON object and no other text, with all names of the list in its order:
{"weights": {"<action>": <number>, "<action>": <number>}}"""
)
"""The prompt for an object under a schema, which cannot say that one of the weights has to be above 0, and so has each
of them above 0 (choice)."""
MOST = 1_000
"""Largest weight in an object under the schema (choice: a hopeless action keeps a thousandth of the best one's)."""
CHOICE_PROMPT = """\
An agent acts in a simulated world, one action at a time. Name the action that a sensible player would take next.

The goal: {instruction}
The actions:
{actions}

The state: {state}"""
"""The prompt after which an action is chosen, with the state last, since all else is the same in each question."""
PREFIX = "Action:"
"""Beginning of an answer that is chosen."""
REMINDER = """\
I cannot use this reply: {fault}. Reply again with the whole JSON object, corrected, and no other text:
{"weights": {"<action>": <number>, "<action>": <number>}}"""


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the object in a reply, which `weights` reads."""
    number = {"type": "integer", "minimum": 1, "maximum": MOST}
    action_weights = {
        "type": "object", "properties": dict.fromkeys(names, number), "required": [*names],
        "additionalProperties": False,
    }  # fmt: skip
    return {
        "type": "object", "properties": {"weights": action_weights}, "required": ["weights"],
        "additionalProperties": False,
    }  # fmt: skip


class PriorDialogue(ObjectDialogue):
    """A dialogue that asks for the weights of the actions in a state until a reply can be read, at most 1 + `retries`
    times, or takes the probabilities with which a model chooses among the actions."""

    choices = 1

    def __init__(self, names: Sequence[str], retries: int) -> None:
        """`names`: the actions in words, in order; `retries`: further attempts after a reply that cannot be read."""
        self._names, self._retries = names, retries
        self.calls = 1 + retries

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        return (schema(self._names),)

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
        """Return {"weights": A numbers of sum 1, in the order of the actions, "unknown": names in the reply that are no
        action}; None if no reply could be read.

        `content`: {"instruction": the task in words, "state": what the agent sees, holds and feels, in sentences}.
        """
        prompt = message({**content, "most": str(MOST)}, self._names, SCHEMA_PROMPT if self.by_schema else PROMPT)

        def read(reply: str) -> tuple[list[float], int]:
            return weights(reply, self._names)

        written = schema(self._names) if self.by_schema else None
        outcome = await converse(ask, (prompt,), read, reminder, self._retries, schema=written)
        return None if outcome.value is None else {"weights": outcome.value[0], "unknown": outcome.value[1]}

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> dict[str, Any] | None:
        """Return the probabilities of the actions as the dialogue does its weights; None without an answer."""
        stated, neutral = (
            message({**question, "state": state}, self._names, CHOICE_PROMPT) for state in (question["state"], NOTHING)
        )
        choice = await choose(stated, PREFIX, self._names, neutral)
        return None if choice is None else {"weights": choice.probabilities.tolist(), "unknown": 0}

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it weighs other actions."""
        count = len(self._names)
        numbers = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": count, "maxItems": count}
        form = {"type": "object", "properties": {"weights": numbers, "unknown": {"type": "integer"}}}
        return unlike(answer, form) or ("" if sum(answer["weights"]) > 0 else "all of its weights are 0")


def message(content: Mapping[str, str], names: Sequence[str], prompt: str = PROMPT) -> Message:
    """Return the message that asks for weights, or for another answer by its `prompt`. `content`: instruction and
    state; `names`: the actions in words."""
    listed = "\n".join(f"- {name}" for name in names)
    return Message("user", (filled(prompt, {**content, "actions": listed}),))


def reminder(misread: Misread) -> str:
    """Return the reminder that follows a reply that cannot be read."""
    return filled(REMINDER, {"fault": misread})


def weights(reply: str, names: Sequence[str]) -> tuple[list[float], int]:
    """Return the weights of a reply, of sum 1 and in the order of `names`, and how many of its names are no action.

    Capitals, underscores and white space around a name do not count; weights under the same name are added. Raise
    Misread, whose message is for the model, for a reply without such an object, for a weight that is no number, below 0
    or not finite, and where no action has a weight above 0.
    """
    reply_weights = first_object(reply, ("weights",)).get("weights")
    if not isinstance(reply_weights, Mapping):
        raise Misread("unreadable", "its JSON object has no object under the name weights")
    action_weights, unknown = dict.fromkeys(map(_plain, names), 0.0), 0
    for name, weight in reply_weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
            raise Misread("weight", f"the weight of {name[:60]!r} is {str(weight)[:40]}, and not a number from 0 on")
        if _plain(name) in action_weights:
            action_weights[_plain(name)] += float(weight)
        else:
            unknown += 1
    largest = max(action_weights.values())
    if not 0 < largest < math.inf:
        raise Misread("weight", "it gives no action of the list a weight above 0, or their sum is too large")
    scaled = [weight / largest for weight in action_weights.values()]
    return [weight / sum(scaled) for weight in scaled], unknown


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())
