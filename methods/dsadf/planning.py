"""The dialogues with planner and reflector: a first plan, a reflection on it, and the final plan (DSADF, §4.2.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from guidebench.baselines.conversing import LONGEST, Misread, ObjectDialogue, converse, first_object, unlike
from guidebench.harness import texts
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import AskModel, ChatCall, Message
from guidebench.methods.dsadf import plans, prompts
from guidebench.methods.dsadf.plans import Subgoal, Vocabulary

LOGGED = 2_000
"""Most characters of a model's text in logs and in later prompts (choice: a page)."""
PARTS = re.compile(r"^[ \t*#>-]*(strengths|weaknesses|revised plan)\b[^:\n]*:?[* ]*", re.IGNORECASE | re.MULTILINE)
NONE = ("", "none", "no weaknesses", "n/a")
TEXT: Mapping[str, Any] = {"type": "string"}
STEPS: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "array", "prefixItems": [TEXT, {"type": "integer", "minimum": 1}], "minItems": 2, "maxItems": 2,
    },
}  # fmt: skip
"""The form of a plan in an answer (`stored`)."""


def _object(**fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "additionalProperties": False}


LONGEST_PROSE = 600
"""Most characters of a field of prose that is written under a schema (choice: a few sentences)."""
PROSE: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_PROSE}


def written(**fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object that a model writes with exactly these fields."""
    return {**_object(**fields), "required": [*fields]}


TARGET_SCHEMA = written(target={**TEXT, "minLength": 1, "maxLength": prompts.LONGEST_TARGET})
"""JSON schema of the object that `target` reads."""


def one_line(text: str) -> str:
    """Return a model's text on one line, of bounded length, for a log or a prompt."""
    return texts.one_line(" ".join(text[: 4 * LOGGED].split()))[:LOGGED]


def stored(plan: Sequence[Subgoal]) -> list[list[Any]]:
    """Return a plan as JSON: name and times of each sub-goal."""
    return [[name, times] for name, times in plan]


class Steps(Protocol):
    """The possible steps of a plan, as `guidebench.methods.dsadf.deeds.Deeds` has them."""

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the deeds that a step can be."""

    @property
    def things(self) -> Collection[str]:
        """Return the things that `find` may name; empty where it may name any word."""

    @property
    def listed(self) -> Sequence[str]:
        """Return the lines in which a prompt lists the names."""


class PlannerDialogue(ObjectDialogue):
    """A dialogue that asks for a plan until one can be read, at most 1 + `retries` times."""

    def __init__(self, goal: str, deeds: Steps, hint: str, longest: int, retries: int) -> None:
        """`longest`: most steps of a plan; `retries`: further attempts after a reply without a usable plan."""
        self._goal, self._deeds, self._hint, self._longest = goal, deeds, hint, longest
        self._retries = retries
        self.calls = 1 + retries

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        steps = plans.schema(self._deeds.names, self._deeds.things, self._longest)
        return written(thoughts=PROSE, plan=steps), TARGET_SCHEMA

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
        arguments = (goal, content["text"], self._deeds.listed, self._hint, self._longest)
        wording = prompts.AS_OBJECTS if self.by_schema else prompts.AS_TEXT
        message = (
            prompts.regenerating(*arguments, content["plan"], content["reflection"], wording)
            if "plan" in content
            else prompts.planning(*arguments, wording)
        )
        vocabulary = Vocabulary(self._deeds.names, (goal, self._hint, content["text"]), self._deeds.things)
        outcome = await converse(
            ask, (message,), lambda reply: (plans.read(reply, vocabulary, self._longest), one_line(reply)),
            lambda misread: prompts.plan_reminder(misread, wording), self._retries, "plan",
            self.schemas[0] if self.by_schema else None,
        )  # fmt: skip
        if outcome.fault == "failed":
            return None
        plan, thoughts = outcome.value or ((), "")
        plan_record = {"plan": stored(plan), "thoughts": thoughts, "fault": outcome.fault, "retries": outcome.retries}
        return Unusable(plan_record) if outcome.fault else plan_record

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": one names a target, the other a
        plan."""
        fields = {"target": TEXT} if "history" in content else {"plan": STEPS, "thoughts": TEXT}
        return unlike(answer, _object(**fields, fault=TEXT, retries={"type": "integer"}))

    async def _inferred(self, message: Message, ask: AskModel) -> dict[str, Any] | Unusable | None:
        schema = TARGET_SCHEMA if self.by_schema else None
        outcome = await converse(ask, (message,), target, prompts.target_reminder, self._retries, "target", schema)
        if outcome.fault == "failed":
            return None
        answer = {"target": outcome.value or "", "fault": outcome.fault, "retries": outcome.retries}
        return Unusable(answer) if outcome.fault else answer


class ReflectorDialogue(ObjectDialogue):
    """A dialogue that asks once for strengths and weaknesses of a plan, and for a better one if it needs to change."""

    calls = 1

    def __init__(self, goal: str, deeds: Steps, hint: str, longest: int, revised: bool = False) -> None:
        """`revised`: whether the revised plan is followed, so that a reflection whose plan cannot be read is
        unusable."""
        self._goal, self._deeds, self._hint, self._longest = goal, deeds, hint, longest
        self._revised = revised

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        steps = plans.schema(self._deeds.names, self._deeds.things, self._longest, fewest=0)
        return (written(strengths=PROSE, weaknesses=PROSE, plan=steps),)

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | Unusable | None:
        """Return {"strengths", "weaknesses", "plan": [[name, times]], "fault"}; the plan is the revised one, empty if
        there is none or, with a `fault`, if it cannot be used. `Unusable` if it was to be followed and cannot be used,
        or if the reply is blank. None if the call was not answered.

        `content`: {"text": sentences of the state, "plan": the first plan as a numbered list}, and "goal" as of
        `PlannerDialogue`.
        """
        goal, text = content.get("goal", self._goal), content["text"]
        arguments = (goal, text, self._deeds.listed, self._hint, self._longest)
        vocabulary = Vocabulary(self._deeds.names, (goal, text, self._hint), self._deeds.things)
        if self.by_schema:
            message = prompts.reflecting(*arguments, content["plan"], prompts.AS_OBJECTS)
            outcome = await ask(ChatCall((message,), self.schemas[0]))
            return None if outcome.failure else reflected(outcome.value, vocabulary, self._longest)
        outcome = await ask(ChatCall((prompts.reflecting(*arguments, content["plan"]),)))
        if outcome.failure:
            return None
        answer = reflection(str(outcome.value), vocabulary, self._longest)
        blank = not str(outcome.value).strip()
        return Unusable(answer) if blank or (self._revised and answer["fault"]) else answer

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it is no reflection."""
        return unlike(answer, _object(strengths=TEXT, weaknesses=TEXT, plan=STEPS, fault=TEXT))


def target(reply: str) -> str:
    """Return the field `target` of the JSON object in a reply, on one line. Raise Misread where it is no text, empty,
    or longer than `LONGEST_TARGET` characters."""
    text = first_object(reply, ("target",)).get("target")
    if not isinstance(text, str):
        raise Misread("unreadable", f"its target is {str(text)[:40]}, and a text is needed")
    line = one_line(text).strip()
    if not line:
        raise Misread("empty", "its target is empty")
    if (size := max(len(text), len(line))) > prompts.LONGEST_TARGET:
        raise Misread("long", f"its target has {size:,} characters; write at most {prompts.LONGEST_TARGET:,}")
    return line


def reflection(reply: str, vocabulary: Vocabulary, longest: int) -> dict[str, Any]:
    """Return strengths, weaknesses, plan and fault of a reflector's reply, in the form of `ReflectorDialogue`'s answer.
    A reply without headings counts as weaknesses. `longest`: most steps of a plan."""
    parts = PARTS.split(reply[:LONGEST])
    sections = {name.casefold(): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    revised, fault = sections.get("revised plan", ""), ""
    plan: tuple[Subgoal, ...] = ()
    if revised.strip(" .*\n").casefold() not in NONE or (not sections and "plan" in reply):
        try:
            plan = plans.read(revised or reply, vocabulary, longest)
        except Misread as misread:
            fault = misread.fault if sections else ""
    weaknesses = sections.get("weaknesses", "" if sections else reply)
    return {
        "strengths": one_line(sections.get("strengths", "")),
        "weaknesses": "" if weaknesses.strip(" .*\n").casefold() in NONE else one_line(weaknesses),
        "plan": stored(plan),
        "fault": fault,
    }


def reflected(answer: Mapping[str, Any], vocabulary: Vocabulary, longest: int) -> dict[str, Any]:
    """Return what `reflection` does, for an object of the reflector's schema."""
    plan = plans.read(json.dumps({"plan": answer["plan"]}), vocabulary, longest) if answer["plan"] else ()
    weaknesses = one_line(answer["weaknesses"])
    return {
        "strengths": one_line(answer["strengths"]),
        "weaknesses": "" if weaknesses.strip(" .*").casefold() in NONE else weaknesses,
        "plan": stored(plan),
        "fault": "",
    }


def instruction(reflection: Mapping[str, Any]) -> str:
    """Return the instruction e_d, from which the final plan is made (eq. 4), for an answer of `ReflectorDialogue`; ""
    if it asks for no change."""
    revised = [Subgoal(*step) for step in reflection["plan"]]
    if not (reflection["weaknesses"] or revised):
        return ""
    parts = [f"Weaknesses: {reflection['weaknesses']}"] if reflection["weaknesses"] else []
    return "\n".join([*parts, "Suggested plan:", plans.listed(revised)] if revised else parts)
