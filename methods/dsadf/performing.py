"""The dialogue with the performer, which names the next action towards the present sub-goal (DSADF, §4.2.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from guidebench.baselines.conversing import NOTHING, Misread, converse, unlike
from guidebench.harness.interfaces import Array, Choose, Unusable
from guidebench.harness.models.calls import AskModel, Message
from guidebench.harness.texts import JSON
from guidebench.methods.dsadf import prompts
from guidebench.methods.dsadf.planning import one_line

LONGEST = 4_000
"""Most characters of a reply that are searched for an action (choice: an action has two or three words)."""


class PerformerDialogue:
    """A dialogue that asks for an action until a possible one is named, at most 1 + `retries` times, or for a choice
    among the possible ones."""

    choices = 1

    def __init__(self, goal: str, actions: Sequence[str], retries: int) -> None:
        """`retries`: further attempts after a reply that names no possible action."""
        self._goal, self._actions, self._retries = goal, tuple(actions), retries
        self.calls = 1 + retries

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return {"action": name or `done`, "faults": the fault of each refused reply, "said": the last reply};
        `Unusable` with the action "" if no reply named a possible one. None without any reply.

        `content`: {"text": sentences of the state, "possible": numbers of the actions that are possible, "subgoal": the
        present one or "", "recent": the last actions, "may_end": whether the reply may be `done`}, and optionally
        "effects", action -> the deed that it would do, and "goal", the target that was inferred.
        """
        possible = [self._actions[number] for number in content["possible"]]
        may_end, faults = content["may_end"], list[str]()

        def reminder(misread: Misread) -> str:
            faults.append(misread.fault)
            return prompts.action_reminder(misread)

        prompt = prompts.performing(
            content.get("goal", self._goal), content["text"], possible, content["subgoal"], content["recent"], may_end,
            content.get("effects", {}),
        )  # fmt: skip
        outcome = await converse(
            ask, (prompt,), lambda reply: named(reply, possible, self._actions, may_end), reminder, self._retries
        )
        if outcome.fault == "failed":
            return None
        if outcome.value is None and outcome.messages[-1].role == "assistant":
            faults.append(outcome.fault)
        reply = next(str(message.content[0]) for message in reversed(outcome.messages) if message.role == "assistant")
        answer = {"action": outcome.value or "", "faults": faults, "said": one_line(reply[:LONGEST])}
        return answer if outcome.value else Unusable(answer)

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> dict[str, Any] | None:
        """Return the chosen action as the dialogue does, and say how likely it is; None without an answer."""
        names = [self._actions[number] for number in question["possible"]]
        names += [prompts.DONE] if question["may_end"] else []

        def message(text: str) -> Message:
            return prompts.choosing_action(
                question.get("goal", self._goal), text, names, question["subgoal"], question["recent"],
                question.get("effects", {}),
            )  # fmt: skip

        choice = await choose(message(question["text"]), prompts.ACTION_PREFIX, names, message(NOTHING))
        return None if choice is None else {"action": names[choice.number], "faults": [], "said": choice.words}

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": its action is not possible now."""
        possible = [self._actions[number] for number in content["possible"]]
        possible += [prompts.DONE] if content["may_end"] else []
        texts = {"type": "array", "items": {"type": "string"}}
        fields = {"action": {"enum": possible}, "faults": texts, "said": {"type": "string"}}
        return unlike(answer, {"type": "object", "properties": fields})


def named(reply: str, possible: Sequence[str], actions: Sequence[str], may_end: bool) -> str:
    """Return the action that a reply names, or `done` if it `may_end` the sub-goal. The name may be the whole reply,
    the field `action` of a JSON object, what follows "Action:", or the last line that is nothing but a name.

    Raise Misread: `impossible` for one of `actions` that is not `possible`, `unknown` for anything else.
    """
    words = {**dict.fromkeys(actions), **({prompts.DONE: None} if may_end else {})}
    action = ""
    for phrase in _phrases(reply[:LONGEST]):
        if (name := _plain(phrase)) in words:
            action = name
    if not action:
        raise Misread("unknown", f"{one_line(reply)[:60]!r} is none of the actions")
    if action not in possible and action != prompts.DONE:
        raise Misread("impossible", f"{action!r} is not possible now; possible are {', '.join(possible)}")
    return action


def _phrases(reply: str) -> list[str]:
    """Return the parts of a reply that may be an action's name, the most reliable ones last."""
    lines = [reply, *reply.splitlines()]
    lines += [line.split(":", 1)[1] for line in lines if ":" in line and "action" in line.split(":", 1)[0].casefold()]
    if (brace := reply.find("{")) >= 0:
        try:
            name = JSON.raw_decode(reply, brace)[0].get("action")
        except (ValueError, RecursionError):
            name = None
        lines += [name] if isinstance(name, str) else []
    return lines


def _plain(phrase: str) -> str:
    """Return a phrase in lower case without number, quotes, marks and article.

    >>> _plain(" 3. **Chop the Tree**. ")
    'chop tree'
    """
    words = re.sub(r"[^a-z ]+", " ", phrase.casefold().replace("_", " ")).split()
    return " ".join(word for word in words if word not in ("a", "an", "the"))
