"""The dialogues of the slow system's plans: a first plan, a reflection on it, and the final plan (DSADF, §4.2.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from guidebench.baselines.conversing import LONGEST, AskModel, Misread, converse, first_object
from guidebench.harness import texts
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import ChatCall, Message
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


class Steps(Protocol):
    """What the steps of a plan can be (`guidebench.methods.dsadf.deeds.Deeds`)."""

    @property
    def names(self) -> Sequence[str]:
        """Return the names of deeds."""

    @property
    def things(self) -> Collection[str]:
        """Return what can be found; nothing where any word may be."""

    @property
    def listed(self) -> Sequence[str]:
        """Return how a prompt lists the names."""


class PlannerDialogue:
    """Asks for a plan until one can be read, a bounded number of times (a Dialogue)."""

    def __init__(self, goal: str, deeds: Steps, hint: str, longest: int, retries: int) -> None:
        """`longest`: most steps of a plan; `retries`: further attempts after a reply without a usable plan."""
        self._goal, self._deeds, self._hint, self._longest = goal, deeds, hint, longest
        self._retries = retries
        self.calls = 1 + retries

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return {"plan": [[name, times]], "thoughts", "fault", "retries"}; `Unusable` with an empty plan, and a
        `fault` that says why, if no reply had a usable one. None without any reply.

        `content`: {"text": sentences of the state}; for the final plan also "plan", the first one as a numbered list,
        and "reflection". Or {"history": sampled steps} alone, which asks for the target and returns {"target", "fault",
        "retries"}; `Unusable` with the target "" and a `fault` if no reply had a usable one. Both may have "goal", the
        target that was inferred.
        """
        goal = content.get("goal", self._goal)
        if "history" in content:
            return await self._inferred(prompts.inferring(goal, content["history"], self._hint), ask)
        given = (goal, content["text"], self._deeds.listed, self._hint, self._longest)
        asked = (
            prompts.regenerating(*given, content["plan"], content["reflection"])
            if "plan" in content
            else prompts.planning(*given)
        )
        vocabulary = Vocabulary(self._deeds.names, (goal, self._hint, content["text"]), self._deeds.things)
        said = await converse(
            ask, (asked,), lambda reply: (plans.read(reply, vocabulary, self._longest), one_line(reply)),
            prompts.plan_reminder, self._retries,
        )  # fmt: skip
        if said.fault == "failed":
            return None
        plan, thoughts = said.value or ((), "")
        told = {"plan": stored(plan), "thoughts": thoughts, "fault": said.fault, "retries": said.retries}
        return Unusable(told) if said.fault else told

    async def _inferred(self, asked: Message, ask: AskModel) -> dict[str, Any] | Unusable | None:
        said = await converse(ask, (asked,), target, prompts.target_reminder, self._retries)
        if said.fault == "failed":
            return None
        told = {"target": said.value or "", "fault": said.fault, "retries": said.retries}
        return Unusable(told) if said.fault else told


class ReflectorDialogue:
    """Asks once for strengths and weaknesses of a plan, and for a better one if it needs to change (a Dialogue)."""

    calls = 1

    def __init__(self, goal: str, deeds: Steps, hint: str, longest: int, revised: bool = False) -> None:
        """`revised`: whether the revised plan is followed, so that a reflection whose plan cannot be read is
        unusable."""
        self._goal, self._deeds, self._hint, self._longest = goal, deeds, hint, longest
        self._revised = revised

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return {"strengths", "weaknesses", "plan": [[name, times]], "fault"}; the plan is the revised one, empty if
        there is none or, with a `fault`, if it cannot be used. `Unusable` if it was to be followed and cannot be used,
        or if the reply is blank. None if the call was not answered.

        `content`: {"text": sentences of the state, "plan": the first plan as a numbered list}, and "goal" as of
        `PlannerDialogue`.
        """
        goal, text = content.get("goal", self._goal), content["text"]
        given = (goal, text, self._deeds.listed, self._hint, self._longest)
        told = await ask(ChatCall((prompts.reflecting(*given, content["plan"]),)))
        if told.failure:
            return None
        vocabulary = Vocabulary(self._deeds.names, (goal, text, self._hint), self._deeds.things)
        found = reflection(str(told.value), vocabulary, self._longest)
        blank = not str(told.value).strip()
        return Unusable(found) if blank or (self._revised and found["fault"]) else found


def target(reply: str) -> str:
    """Return the field `target` of the JSON object in a reply, on one line. Raise Misread without a text there, for an
    empty one and for one that is too long."""
    found = first_object(reply, ("target",)).get("target")
    if not isinstance(found, str):
        raise Misread("unreadable", f"its target is {str(found)[:40]}, and a text is needed")
    told = one_line(found).strip()
    if not told:
        raise Misread("empty", "its target is empty")
    if (size := max(len(found), len(told))) > prompts.LONGEST_TARGET:
        raise Misread("long", f"its target has {size:,} characters; write at most {prompts.LONGEST_TARGET:,}")
    return told


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
