"""The prompts of planner, reflector, performer and scorer, in our words (DSADF, app. B, eq. 3, 4 and 6; §4.2.2).

Every prompt consists of sections with a heading, so that hand-written models can read it by the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from guidebench.baselines.conversing import Misread
from guidebench.harness.models.calls import Message

GOAL, STATE, ACTIONS, HINTS = "Goal", "What is observed", "Actions", "Hints"
EXAMPLE, PLAN, REFLECTION, REQUEST = "Example", "Plan", "Reflection", "Your answer"
SUBGOAL, RECENT, BEHAVIOUR = "Present sub-goal", "Last actions", "What was observed"
EFFECTS, HISTORY = "What an action would do now", "What was tried"
LONGEST_TARGET = 1_000
"""Most characters of a target (choice: a paragraph)."""
DONE = "done"
"""The performer's answer, in place of an action, once the present sub-goal is reached."""
PLANNER = "You plan for an agent that carries out one step at a time."
REFLECTOR = "You check a plan that was just written for an agent that carries out one step at a time."
PERFORMER = "You act for an agent, one action at a time."
INFERRER = "You find out what an agent is to achieve, from what it saw, did and was rewarded for while it tried things."
SCORER = "You rate how well an agent has learnt a step of its task, from what was observed of its attempts."
SAMPLE = """\
Goal: boil an egg. Actions: fill pot, light stove, place egg.
Thoughts: the egg needs hot water, so the pot must be filled and the stove lit before.
Plan:
1. find tap - go to the water
2. fill pot (2 times) - two cups are enough
3. light stove - the water gets hot
4. place egg - the goal"""
"""An example plan from a world that no suite has (app. B.1 gives one)."""
FORM = """\
each step on a line of its own with its number, as in the example. A step is one of the actions above, by its exact \
name, or `find` and the thing to go to. Where an action is to be repeated, write how often, such as (3 times). Write \
at most {longest} steps, and end with the one that reaches the goal."""
PLAN_REQUEST = "Think step by step first, in a few sentences. Then write the plan: " + FORM
REFLECT_REQUEST = (
    """\
Think about these questions: Are steps missing, or in an impossible order? Are all materials and tools there before \
they are used? Can every step be carried out with the actions above? Is there a shorter way?
Then answer in three parts. "Strengths:" and what is good. "Weaknesses:" and what is wrong, or "none". \
"Revised plan:", only if the plan needs to change, """
    + FORM
)
AGAIN_REQUEST = "Write the final plan, which takes the reflection into account: " + FORM
OBJECT_SAMPLE = """\
Goal: boil an egg. Actions: fill pot, light stove, place egg.
{"thoughts": "The egg needs hot water, so the pot must be filled and the stove lit before.", "plan": \
[{"subgoal": "find tap", "times": 1}, {"subgoal": "fill pot", "times": 2}, {"subgoal": "light stove", "times": 1}, \
{"subgoal": "place egg", "times": 1}]}"""
"""`SAMPLE` as an object."""
OBJECT_FORM = """\
steps such as {{"subgoal": name, "times": number}}. A name is one of the actions above, as it stands there, or `find` \
and the thing to go to; the number says how often the action is to be done. Write at most {longest} steps, and end \
with the one that reaches the goal."""
OBJECT_PLAN_REQUEST = (
    'Answer with a JSON object alone, as in the example: "thoughts", a few sentences, step by step, and "plan", a list '
    + "of "
    + OBJECT_FORM
)
OBJECT_REFLECT_REQUEST = (
    """\
Think about these questions: Are steps missing, or in an impossible order? Are all materials and tools there before \
they are used? Can every step be carried out with the actions above? Is there a shorter way?
Then answer with a JSON object alone: "strengths", what is good; "weaknesses", what is wrong, or "none"; and "plan", \
which is [] unless the plan needs to change, and else a list of """
    + OBJECT_FORM
)
OBJECT_AGAIN_REQUEST = "Write the final plan, which takes the reflection into account. " + OBJECT_PLAN_REQUEST
CHOOSE_REQUEST = "Name the action of the list that helps most now."
OR_CHOOSE_DONE = ' The name "{done}" says that the present sub-goal is reached already.'
ACTION_PREFIX, SCORE_PREFIX = "Action:", "Proficiency:"
"""Beginnings of answers that are chosen among candidates."""
SCORES = tuple(f"{tenths / 10:.1f}" for tenths in range(11))
"""Proficiencies among which a scorer chooses (choice: steps of a tenth)."""
ACT_REQUEST = "Answer with the name of one of the actions above, alone on a line, and nothing else."
OR_DONE = ' If the present sub-goal is reached already, answer "{done}" instead.'
CHOOSE_SCORE_REQUEST = """\
Can the agent be trusted to do this step by itself? Say it by a number from 0.0, it cannot do it, to 1.0, it always \
does it quickly."""
SCORE_REQUEST = """\
Can the agent be trusted to do this step by itself? Answer with a JSON object alone, {"proficiency": p}, where p is a \
number from 0, it cannot do it, to 1, it always does it quickly."""
INFER_REQUEST = f"""\
What should the agent achieve, as precisely as these steps and your knowledge of the world tell? Name the things that \
it concerns. Others will plan by your answer, who do not see these steps. Answer with a JSON object alone, \
{{"target": text}}, whose text is one paragraph of at most {LONGEST_TARGET} characters."""


class Wording(NamedTuple):
    """What asks for plans in one form."""

    sample: str
    plan: str
    reflect: str
    again: str
    again_after_fault: str


AS_TEXT = Wording(
    SAMPLE, PLAN_REQUEST, REFLECT_REQUEST, AGAIN_REQUEST,
    "Write the whole plan again, as a numbered list in the form of the example.",
)  # fmt: skip
AS_OBJECTS = Wording(
    OBJECT_SAMPLE, OBJECT_PLAN_REQUEST, OBJECT_REFLECT_REQUEST, OBJECT_AGAIN_REQUEST,
    "Write the whole JSON object again.",
)  # fmt: skip
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def sections(prompt: str) -> dict[str, str]:
    """Return heading -> text of the sections of a prompt; the text above the first heading is under ""."""
    parts = HEADING.split(prompt)
    return {"": parts[0].strip(), **{name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}}


def _message(opening: str, parts: Mapping[str, str]) -> Message:
    """Return a prompt; a section without content is left out."""
    sections = (f"## {name}\n{text}" for name, text in parts.items() if text)
    return Message("user", ("\n\n".join((opening, *sections)),))


def _list(names: Iterable[str]) -> str:
    return "\n".join(f"- {name}" for name in names)


def planning(
    goal: str, text: str, actions: Sequence[str], hint: str, longest: int, wording: Wording = AS_TEXT
) -> Message:
    """Return the message that asks for the first plan (eq. 3)."""
    parts = {GOAL: goal, STATE: text, ACTIONS: _list(actions), HINTS: hint, EXAMPLE: wording.sample}
    return _message(PLANNER, {**parts, REQUEST: wording.plan.format(longest=longest)})


def reflecting(
    goal: str, text: str, actions: Sequence[str], hint: str, longest: int, plan: str, wording: Wording = AS_TEXT
) -> Message:
    """Return the message that asks for a reflection on a plan (eq. 6)."""
    parts = {GOAL: goal, STATE: text, ACTIONS: _list(actions), HINTS: hint, PLAN: plan}
    return _message(REFLECTOR, {**parts, REQUEST: wording.reflect.format(longest=longest)})


def regenerating(
    goal: str, text: str, actions: Sequence[str], hint: str, longest: int, plan: str, reflection: str,
    wording: Wording = AS_TEXT,
) -> Message:  # fmt: skip
    """Return the message that asks for the final plan, given the first one and the reflection (eq. 4)."""
    parts = {GOAL: goal, STATE: text, ACTIONS: _list(actions), HINTS: hint, EXAMPLE: wording.sample, PLAN: plan}
    return _message(PLANNER, {**parts, REFLECTION: reflection, REQUEST: wording.again.format(longest=longest)})


def performing(
    goal: str,
    text: str,
    possible: Sequence[str],
    subgoal: str,
    recent: Sequence[str],
    may_end: bool,
    effects: Mapping[str, str] = MappingProxyType({}),
) -> Message:
    """Return the message that asks for an action (§4.2.2: t_VLM = VLM(O_text, g)). `possible`: actions that are
    possible now; `subgoal`: the present one, or "" if the goal itself is; `recent`: the last actions, oldest first;
    `may_end`: whether the performer may say that the sub-goal is reached; `effects`: action -> what it would do now,
    where that is not its name."""
    parts = {GOAL: goal, SUBGOAL: subgoal, STATE: text, RECENT: ", ".join(recent), ACTIONS: _list(possible)}
    parts[EFFECTS] = _list(f"{action}: {deed}" for action, deed in effects.items())
    request = ACT_REQUEST + (OR_DONE.format(done=DONE) if may_end else "")
    return _message(PERFORMER, {**parts, REQUEST: request})


def choosing_action(
    goal: str,
    text: str,
    names: Sequence[str],
    subgoal: str,
    recent: Sequence[str],
    effects: Mapping[str, str] = MappingProxyType({}),
) -> Message:
    """Return the message after which one of `names` is chosen, with the state last, since all else changes more rarely.
    `names`: the actions that are possible now, and `done` if it may be chosen; the others as of `performing`."""
    request = CHOOSE_REQUEST + (OR_CHOOSE_DONE.format(done=DONE) if DONE in names else "")
    parts = {GOAL: goal, SUBGOAL: subgoal, ACTIONS: _list(name for name in names if name != DONE)}
    parts[EFFECTS] = _list(f"{action}: {deed}" for action, deed in effects.items())
    return _message(f"{PERFORMER} {request}", {**parts, RECENT: ", ".join(recent), STATE: text})


def choosing_score(goal: str, subgoal: str, behaviour: str) -> Message:
    """Return the message after which one of `SCORES` is chosen, with what was observed last."""
    parts = {GOAL: goal, SUBGOAL: subgoal, BEHAVIOUR: behaviour}
    return _message(f"{SCORER} {CHOOSE_SCORE_REQUEST}", parts)


def inferring(goal: str, history: str, hint: str) -> Message:
    """Return the message that asks for the target T, given sampled steps (s, a, r) of the agent (§5.4)."""
    return _message(INFERRER, {GOAL: goal, HISTORY: history, HINTS: hint, REQUEST: INFER_REQUEST})


def target_reminder(fault: Misread) -> str:
    """Return the reminder that follows a reply without a usable target."""
    return f"I cannot use this reply: {fault}. Answer with the JSON object alone."


def scoring(goal: str, subgoal: str, behaviour: str) -> Message:
    """Return the message that asks for the proficiency of a sub-goal (§4.1: p = VLM(u, h_d)). `behaviour`: the attempts
    at it, in sentences."""
    return _message(SCORER, {GOAL: goal, SUBGOAL: subgoal, BEHAVIOUR: behaviour, REQUEST: SCORE_REQUEST})


def score_reminder(fault: Misread) -> str:
    """Return the reminder that follows a reply without a usable proficiency."""
    return f"I cannot use this reply: {fault}. Answer with the JSON object alone."


def plan_reminder(fault: Misread, wording: Wording = AS_TEXT) -> str:
    """Return the reminder that follows a reply without a usable plan."""
    return f"I cannot use this reply: {fault}. {wording.again_after_fault}"


def action_reminder(fault: Misread) -> str:
    """Return the reminder that follows a reply that names no possible action."""
    return f"I cannot use this reply: {fault}. Answer with the exact name of one action of the list, alone on a line."
