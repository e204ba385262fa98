"""The slow system's deliberation: it plans, reflects and plans again for many episodes at once (DSADF, algorithms 1
and 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from guidebench.baselines import by_text
from guidebench.harness.interfaces import Context, Place, Question
from guidebench.harness.logs import Column, Log, count
from guidebench.methods.dsadf import planning, rules
from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.plans import Subgoal, listed

PLANNER, REFLECTOR = "planner", "reflector"
Again = Literal["planner", "revised"]
TRIAL = count("index of the episode in its evaluation, from 0")
TRAINING = Column(bool, "true where the episode is one of training; `trial` is then its index in the run", True)
NUMBER = count("index of the plan in its episode, from 0")
LOGS: Mapping[str, Log] = {
    "plans": Log(
        "a plan for one episode",
        {
            "trial": TRIAL,
            "training": TRAINING,
            "number": NUMBER,
            "first": Column(str, "the first plan, its sub-goals separated by semicolons; empty without any"),
            "final": Column(str, "the plan that is followed; empty if the task itself is the only goal"),
            "thoughts": Column(str, "the planner's reply with the first plan"),
            "fault": Column(
                str, "why there is no first plan: failed, empty, unknown, long, cycle, unreadable; or empty"
            ),
            "retries": count("unusable replies before the first plan"),
            "lacking": count("things that steps of the first plan lack, as far as the hint's rules tell"),
            "still_lacking": count("things that steps of the final plan lack"),
            "again": Column(str, "why the planner's final plan could not be used, as `fault`; or empty"),
        },
    ),
    "reflections": Log(
        "a reflection on a first plan",
        {
            "trial": TRIAL,
            "training": TRAINING,
            "number": NUMBER,
            "strengths": Column(str, "what is good about the plan"),
            "weaknesses": Column(str, "what is wrong with it; empty for nothing"),
            "plan": Column(str, "the revised plan; empty without any"),
            "fault": Column(str, "why the revised plan could not be used, or failed for no reflection; or empty"),
        },
    ),
}


class Settings(Protocol):
    """The settings of an agent that a deliberation uses."""

    @property
    def hint(self) -> str:
        """The hint instruction H."""

    @property
    def reflect(self) -> bool:
        """Whether plans are reflected on."""

    @property
    def again(self) -> Again:
        """Who writes the final plan after a reflection: `planner`, or the reflector itself (`revised`)."""


class Replans(Protocol):
    """The settings of an agent that say when an episode gets a further plan."""

    @property
    def replans(self) -> int:
        """Most further plans in an episode."""

    @property
    def patience(self) -> int:
        """Steps of one sub-goal after which one is made."""


class Moment(NamedTuple):
    """An episode that needs a plan."""

    place: Place
    text: str
    """Sentences of its present state."""
    number: int
    """Index of the plan in the episode."""
    training: int | None = None
    """Index of the episode in the run's training; None in an evaluation."""
    target: str = ""
    """The goal that its seed has inferred; "" where the task's instruction is the goal."""

    @property
    def logged(self) -> dict[str, Any]:
        """Return the log columns that identify the plan: `trial`, `training` and `number`."""
        if self.training is not None:
            return {"trial": self.training, "training": True, "number": self.number}
        return {"trial": self.place.episode, "number": self.number}


def deliberate(moments: Sequence[Moment], settings: Settings, ctx: Context) -> list[tuple[Subgoal, ...]]:
    """Return a plan for each episode, () where no plan could be used, and log how it was made. All first plans are
    asked for in one batch, then all reflections, then all final plans.

    If the planner fails, or its replies hold no usable plan, the episode has no plan. If the reflector fails, or the
    planner's second reply holds no usable plan, the first plan stands. A reflection that asks for no change ends the
    deliberation. A plan that lacks prerequisites is followed all the same; what it lacks is logged.
    """
    recipes = rules.read(settings.hint)
    first = _consult(PLANNER, [(moment, {}) for moment in moments], ctx)
    firsts = [_plan(answer) for answer in first]
    plans, again = [*firsts], [""] * len(moments)
    reflected = [number for number, plan in enumerate(firsts) if plan] if settings.reflect else []
    reflections = _consult(
        REFLECTOR, [(moments[number], {"plan": listed(firsts[number])}) for number in reflected], ctx
    )
    instructions: dict[int, str] = {}
    for number, answer in zip(reflected, reflections, strict=True):
        _note_reflection(moments[number], answer, ctx)
        if answer and settings.again == "revised":
            plans[number] = _plan(answer) or plans[number]
        elif answer and (instruction := planning.instruction(answer)):
            instructions[number] = instruction
    requests = [(moments[n], {"plan": listed(firsts[n]), "reflection": text}) for n, text in instructions.items()]
    for number, answer in zip(instructions, _consult(PLANNER, requests, ctx), strict=True):
        plans[number] = _plan(answer) or plans[number]
        again[number] = "failed" if answer is None else answer["fault"]
    plans = [rules.supplied(plan, recipes, moment.text) for plan, moment in zip(plans, moments, strict=True)]
    for moment, answer, first_plan, plan, fault in zip(moments, first, firsts, plans, again, strict=True):
        reply = answer or {"thoughts": "", "fault": "failed", "retries": 0}
        ctx.note(
            "plans", moment.place.row,
            {
                **moment.logged, "first": _line(first_plan), "final": _line(plan), "thoughts": reply["thoughts"],
                "fault": reply["fault"], "retries": reply["retries"],
                "lacking": len(rules.lacks(first_plan, recipes, moment.text)),
                "still_lacking": len(rules.lacks(plan, recipes, moment.text)), "again": fault,
            },
        )  # fmt: skip
    return plans


def _consult(role: str, requests: Sequence[tuple[Moment, Mapping[str, str]]], ctx: Context) -> list[Any]:
    """Return the answers of a role to one question about each moment. `requests`: the moments, each with what the
    question's content holds besides the state's text."""
    contents = [{"text": moment.text, **more, **towards(moment.target)} for moment, more in requests]
    places = [moment.place for moment, _ in requests]
    return ctx.consult([question(role, place, content) for place, content in zip(places, contents, strict=True)])


def towards(target: str) -> dict[str, str]:
    """Return the field `goal` of a question's content: the target that was inferred; {} for ""."""
    return {"goal": target} if target else {}


def replans(course: Course, plans: int, config: Replans) -> bool:
    """Return whether an episode needs a further plan: it has had at most `config.replans` further `plans`, and its
    partial plan is over or the present sub-goal has taken `config.patience` steps."""
    return plans <= config.replans and (course.over or course.steps >= config.patience)


def question(role: str, place: Place, content: Mapping[str, Any]) -> Question:
    """Return a question to a chat, with this content as JSON, that concerns no stored transition."""
    return by_text.question(json.dumps(content, sort_keys=True), place, role)


def _plan(answer: Mapping[str, Any] | None) -> tuple[Subgoal, ...]:
    return tuple(Subgoal(name, times) for name, times in answer["plan"]) if answer else ()


def _line(plan: Sequence[Subgoal]) -> str:
    return "; ".join(map(str, plan))


def _note_reflection(moment: Moment, answer: Mapping[str, Any] | None, ctx: Context) -> None:
    reflection = answer or {"strengths": "", "weaknesses": "", "fault": "failed"}
    columns = {name: reflection[name] for name in ("strengths", "weaknesses", "fault")}
    ctx.note(
        "reflections", moment.place.row,
        {**moment.logged, "plan": _line(_plan(answer)), **columns},
    )  # fmt: skip
