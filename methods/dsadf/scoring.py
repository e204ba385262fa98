"""The dialogue with the scorer, which rates System 1's proficiency at a sub-goal from its attempts (DSADF, §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guidebench.baselines.conversing import NOTHING, Misread, ObjectDialogue, converse, first_object
from guidebench.harness.interfaces import Array, Choose
from guidebench.harness.models.calls import AskModel, Message
from guidebench.methods.dsadf import prompts
from guidebench.methods.dsadf.memory import Skill
from guidebench.methods.dsadf.planning import one_line

FIELD = "proficiency"
SCHEMA: Mapping[str, Any] = {
    "type": "object", "properties": {FIELD: {"enum": [*map(float, prompts.SCORES)]}}, "required": [FIELD],
    "additionalProperties": False,
}  # fmt: skip
"""JSON schema of the object that `proficiency` reads, in the steps of a choice: a number may have any digits, and a
model might go on with them."""


def behaviour(skill: Skill) -> str:
    """Return h_d, the scorer's description of the attempts at a sub-goal, in sentences.

    >>> behaviour(Skill(attempts=3, completed=1, recent=[(40, False), (7, True)]))
    'It was attempted 3 times and reached 1 time. The last attempts: not reached in 40 steps; reached after 7 steps.'
    """
    outcomes = [
        f"{'reached after' if done else 'not reached in'} {_many(steps, 'step')}" for steps, done in skill.recent
    ]
    attempts = f"It was attempted {_many(skill.attempts, 'time')} and reached {_many(skill.completed, 'time')}."
    return f"{attempts} The last attempts: {'; '.join(outcomes)}." if outcomes else attempts


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


class ScorerDialogue(ObjectDialogue):
    """A dialogue that asks for a proficiency until one can be read, at most 1 + `retries` times, or for a choice among
    tenths."""

    choices = 1
    schemas = (SCHEMA,)

    def __init__(self, goal: str, retries: int) -> None:
        """`retries`: further attempts after a reply without a usable number."""
        self._goal, self._retries = goal, retries
        self.calls = 1 + retries

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
        """Return {"proficiency", "said": the last reply}; None if no reply had a number in [0, 1].

        `content`: {"subgoal": name, "behaviour": what was observed, in sentences}, and "goal", the target that was
        inferred, if any.
        """
        goal = content.get("goal", self._goal)
        message = prompts.scoring(goal, content["subgoal"], content["behaviour"])
        outcome = await converse(
            ask, (message,), proficiency, prompts.score_reminder, self._retries,
            schema=SCHEMA if self.by_schema else None,
        )  # fmt: skip
        if outcome.value is None:
            return None
        return {FIELD: outcome.value, "said": one_line(str(outcome.messages[-1].content[0]))}

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> dict[str, Any] | None:
        """Return the chosen proficiency as the dialogue does, and say how likely it is; None without an answer."""

        def message(behaviour: str) -> Message:
            return prompts.choosing_score(question.get("goal", self._goal), question["subgoal"], behaviour)

        choice = await choose(message(question["behaviour"]), prompts.SCORE_PREFIX, prompts.SCORES, message(NOTHING))
        return None if choice is None else {FIELD: float(prompts.SCORES[choice.number]), "said": choice.words}


def proficiency(reply: str) -> float:
    """Return the field `proficiency` of the JSON object in a reply. Raise Misread without a number in [0, 1]."""
    score = first_object(reply, (FIELD,)).get(FIELD)
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise Misread("unreadable", f"its {FIELD} is {str(score)[:40]}, and a number from 0 to 1 is needed")
    return float(score)
