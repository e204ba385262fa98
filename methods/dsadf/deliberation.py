"""The slow system's deliberation: many episodes at once plan, reflect and plan again (DSADF, algorithms 1 and 2)."""

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
    """What a deliberation is told by the configuration of an agent."""

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
    """What an agent's configuration says of further plans."""

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
        """Return the columns of a log that say which plan it is."""
        if self.training is not None:
            return {"trial": self.training, "training": True, "number": self.number}
        return {"trial": self.place.episode, "number": self.number}


def deliberate(moments: Sequence[Moment], settings: Settings, ctx: Context) -> list[tuple[Subgoal, ...]]:
    """Return a plan for each episode, () where no plan could be used, and log how it came about. All first plans are
    asked for in one batch, then all reflections, then all final plans.

    A planner that fails, or whose replies hold no usable plan, leaves the episode without a plan. Where reflector or
    second reply of the planner fail, or hold no usable plan, the first plan stands. A reflection that asks for no
    change ends the deliberation. A plan that lacks prerequisites is followed all the same, and counted.
    """
    known = rules.read(settings.hint)
    first = _consult(PLANNER, [(moment, {}) for moment in moments], ctx)
    firsts = [_plan(answer) for answer in first]
    plans, again = [*firsts], [""] * len(moments)
    reflected = [number for number, plan in enumerate(firsts) if plan] if settings.reflect else []
    told = _consult(REFLECTOR, [(moments[number], {"plan": listed(firsts[number])}) for number in reflected], ctx)
    wanted: dict[int, str] = {}
    for number, answer in zip(reflected, told, strict=True):
        _note_reflection(moments[number], answer, ctx)
        if answer and settings.again == "revised":
            plans[number] = _plan(answer) or plans[number]
        elif answer and (instruction := planning.instruction(answer)):
            wanted[number] = instruction
    asked = [(moments[n], {"plan": listed(firsts[n]), "reflection": said}) for n, said in wanted.items()]
    for number, answer in zip(wanted, _consult(PLANNER, asked, ctx), strict=True):
        plans[number] = _plan(answer) or plans[number]
        again[number] = "failed" if answer is None else answer["fault"]
    plans = [rules.supplied(plan, known, moment.text) for plan, moment in zip(plans, moments, strict=True)]
    for moment, answer, begun, plan, fault in zip(moments, first, firsts, plans, again, strict=True):
        said = answer or {"thoughts": "", "fault": "failed", "retries": 0}
        ctx.note(
            "plans", moment.place.row,
            {
                **moment.logged, "first": _line(begun), "final": _line(plan), "thoughts": said["thoughts"],
                "fault": said["fault"], "retries": said["retries"],
                "lacking": len(rules.lacks(begun, known, moment.text)),
                "still_lacking": len(rules.lacks(plan, known, moment.text)), "again": fault,
            },
        )  # fmt: skip
    return plans


def _consult(role: str, asked: Sequence[tuple[Moment, Mapping[str, str]]], ctx: Context) -> list[Any]:
    """Return the answers of a role about each moment, given more than its text."""
    contents = [{"text": moment.text, **more, **towards(moment.target)} for moment, more in asked]
    places = [moment.place for moment, _ in asked]
    return ctx.consult([question(role, place, content) for place, content in zip(places, contents, strict=True)])


def towards(target: str) -> dict[str, str]:
    """Return what the content of a question holds of a goal that was inferred; {} for ""."""
    return {"goal": target} if target else {}


def replans(course: Course, plans: int, config: Replans) -> bool:
    """Return whether an episode that has had so many `plans` needs another: its partial plan is over, or a sub-goal has
    taken too long."""
    return plans <= config.replans and (course.over or course.steps >= config.patience)


def question(role: str, place: Place, content: Mapping[str, Any]) -> Question:
    """Return a question to a chat that concerns no transition."""
    return by_text.question(json.dumps(content, sort_keys=True), place, role)


def _plan(answer: Mapping[str, Any] | None) -> tuple[Subgoal, ...]:
    return tuple(Subgoal(name, times) for name, times in answer["plan"]) if answer else ()


def _line(plan: Sequence[Subgoal]) -> str:
    return "; ".join(map(str, plan))


def _note_reflection(moment: Moment, answer: Mapping[str, Any] | None, ctx: Context) -> None:
    said = answer or {"strengths": "", "weaknesses": "", "fault": "failed"}
    told = {name: said[name] for name in ("strengths", "weaknesses", "fault")}
    ctx.note(
        "reflections", moment.place.row,
        {**moment.logged, "plan": _line(_plan(answer)), **told},
    )  # fmt: skip
