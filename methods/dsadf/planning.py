"""The dialogues of the slow system's plans: a first plan, a reflection on it, and the final plan (DSADF, §4.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import LONGEST, AskModel, Misread, converse
from guidebench.harness import texts
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import ChatCall
from guidebench.methods.dsadf import plans, prompts
from guidebench.methods.dsadf.plans import Subgoal, Vocabulary

LOGGED = 2_000
"""Characters of a model's text that are kept for the logs and for later prompts (choice: a page)."""
PARTS = re.compile(r"^[ \t*#>-]*(strengths|weaknesses|revised plan)\b[^:\n]*:?[* ]*", re.IGNORECASE | re.MULTILINE)
NONE = ("", "none", "no weaknesses", "n/a")


def one_line(text: str) -> str:
    """Return a model's text on one line, of bounded length, for a log or a prompt."""
    return texts.one_line(" ".join(text[: 4 * LOGGED].split()))[:LOGGED]


def stored(plan: Sequence[Subgoal]) -> list[list[Any]]:
    """Return a plan as JSON: name and times of each sub-goal."""
    return [[name, times] for name, times in plan]


class PlannerDialogue:
    """Asks for a plan until one can be read, a bounded number of times (a Dialogue)."""

    def __init__(self, goal: str, actions: Sequence[str], hint: str, longest: int, retries: int) -> None:
        """`longest`: most steps of a plan; `retries`: further attempts after a reply without a usable plan."""
        self._goal, self._actions, self._hint, self._longest = goal, tuple(actions), hint, longest
        self._retries = retries
        self.calls = 1 + retries

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
        """Return {"plan": [[name, times]], "thoughts", "fault", "retries"}; the plan is empty and `fault` says why if
        no reply had a usable one. None without any reply.

        `content`: {"text": sentences of the state}; for the final plan also "plan", the first one as a numbered list,
        and "reflection".
        """
        given = (self._goal, content["text"], self._actions, self._hint, self._longest)
        asked = (
            prompts.regenerating(*given, content["plan"], content["reflection"])
            if "plan" in content
            else prompts.planning(*given)
        )
        vocabulary = Vocabulary(self._actions, (self._goal, self._hint, content["text"]))
        said = await converse(
            ask, (asked,), lambda reply: (plans.read(reply, vocabulary, self._longest), one_line(reply)),
            prompts.plan_reminder, self._retries,
        )  # fmt: skip
        if said.fault == "failed":
            return None
        plan, thoughts = said.value or ((), "")
        return {"plan": stored(plan), "thoughts": thoughts, "fault": said.fault, "retries": said.retries}


class ReflectorDialogue:
    """Asks once for strengths and weaknesses of a plan, and for a better one if it needs to change (a Dialogue)."""

    calls = 1

    def __init__(self, goal: str, actions: Sequence[str], hint: str, longest: int) -> None:
        self._goal, self._actions, self._hint, self._longest = goal, tuple(actions), hint, longest

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
        """Return {"strengths", "weaknesses", "plan": [[name, times]], "fault"}; the plan is the revised one, empty if
        there is none or, with a `fault`, if it cannot be used. None if the call was not answered.

        `content`: {"text": sentences of the state, "plan": the first plan as a numbered list}.
        """
        given = (self._goal, content["text"], self._actions, self._hint, self._longest)
        told = await ask(ChatCall((prompts.reflecting(*given, content["plan"]),)))
        if told.failure:
            return None
        return reflection(str(told.value), Vocabulary(self._actions, (*given[:2], self._hint)), self._longest)


def reflection(reply: str, vocabulary: Vocabulary, longest: int) -> dict[str, Any]:
    """Return what a reflector's reply says, as `ReflectorDialogue` does. A reply without headings is all weaknesses."""
    parts = PARTS.split(reply[:LONGEST])
    told = {name.casefold(): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    revised, fault = told.get("revised plan", ""), ""
    plan: tuple[Subgoal, ...] = ()
    if revised.strip(" .*\n").casefold() not in NONE or (not told and "plan" in reply):
        try:
            plan = plans.read(revised or reply, vocabulary, longest)
        except Misread as misread:
            fault = misread.fault if told else ""
    weaknesses = told.get("weaknesses", "" if told else reply)
    return {
        "strengths": one_line(told.get("strengths", "")),
        "weaknesses": "" if weaknesses.strip(" .*\n").casefold() in NONE else one_line(weaknesses),
        "plan": stored(plan),
        "fault": fault,
    }


def instruction(told: Mapping[str, Any]) -> str:
    """Return a reflection as the instruction e_d from which the final plan is made (eq. 4); "" if it asks for no
    change."""
    revised = [Subgoal(*step) for step in told["plan"]]
    if not (told["weaknesses"] or revised):
        return ""
    parts = [f"Weaknesses: {told['weaknesses']}"] if told["weaknesses"] else []
    return "\n".join([*parts, "Suggested plan:", plans.listed(revised)] if revised else parts)
