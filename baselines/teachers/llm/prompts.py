"""Prompts for a language model: which of two trajectories serves a task better, and a request for a better one.

The questions and the answer format are RL-SaLLM-F's (app. C.1: chain of thought, two questions, a single 0, 1 or 2), in
our words. Both prompts are settings; names in braces are placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from guidebench.baselines.conversing import NOTHING, filled
from guidebench.baselines.teachers.llm import trajectories
from guidebench.harness.interfaces import Array, Coordinates, Surroundings
from guidebench.harness.models.calls import Message

if TYPE_CHECKING:
    from guidebench.baselines.teachers.llm import Llm

PROMPT = """\
You assess how well attempts at a task are going. All you have are coordinates; lengths are in metres.

The task: {goal}

Below are two trajectories of {steps} consecutive steps each, from different attempts. Each is a JSON object:
{meanings}

{surroundings}Trajectory 1:
{trajectory_1}

Trajectory 2:
{trajectory_2}

{example}Work through two questions, one after the other.
1. Do the two trajectories differ in how far they further the task, and how? Write your analysis down.
2. Which of the two furthers the task more?
End with a line that holds one digit and nothing else: 1 for Trajectory 1, 2 for Trajectory 2, or 0 where you cannot \
tell or see no difference that matters.
"""
"""Placeholders: see `PROMPT_NEEDS` and `PROMPT_MAY`."""
CHOICE_PROMPT = """\
You assess how well attempts at a task are going. All you have are coordinates; lengths are in metres. Say which of \
two trajectories furthers the task more: the first, the second, or equal where there is no difference that matters.

The task: {goal}

Each trajectory has {steps} consecutive steps, from different attempts, and is a JSON object:
{meanings}

{surroundings}First trajectory:
{trajectory_1}

Second trajectory:
{trajectory_2}
"""
"""The prompt after which one of `VERDICTS` is chosen; placeholders as of `PROMPT`."""
PREFIX, VERDICTS = "More helpful:", ("equal", "first", "second")
"""Beginning of an answer that is chosen, and the answers that mean 0, 1 and 2."""
IMAGINE_PROMPT = """\
You preferred Trajectory {preferred}. With your analysis in mind, write down a trajectory that furthers the task still \
more, from the same first step as Trajectory {preferred}.

- {way}
- It has {steps} steps, the first of which is given here, and the form of the trajectories above:
{start}

Reply with that JSON object alone: every number written out, no remarks, nothing left out.
"""
EXAMPLE = """\
A good answer to such a question, about two other trajectories, reads:
{answer}

"""
VERDICT_REMINDER = (
    "I cannot read a verdict in this reply: {fault}. Reply with one line that holds a single digit: 1 if Trajectory 1 "
    "furthers the task more, 2 if Trajectory 2 does, 0 if you cannot tell."
)
TRAJECTORY_REMINDER = (
    "I cannot use this trajectory: {fault}. Write it again as one JSON object of {steps} steps in the given form, with "
    "the given first step, and nothing else."
)
PROMPT_NEEDS, PROMPT_MAY = ("trajectory_1", "trajectory_2"), ("goal", "steps", "meanings", "surroundings", "example")
IMAGINE_NEEDS, IMAGINE_MAY = ("steps", "start"), ("preferred", "goal", "way")
AXES = "xyz"


class Parts(NamedTuple):
    """The objects of a task by their role in it."""

    moves: str
    """The object controlled by the agent: the first one that is not constant."""
    moved: str
    """The object that it acts on, the next one that is not constant; "" if there is none."""
    target: str
    """The target position: the first constant object; "" if there is none."""


def parts(things: Sequence[Coordinates]) -> Parts:
    """Return the roles of a task's objects, at least one of which moves."""
    moving = [thing.name for thing in things if not thing.constant]
    constant = [thing.name for thing in things if thing.constant]
    return Parts(moving[0], moving[1] if len(moving) > 1 else "", constant[0] if constant else "")


def pair(
    settings: Llm, things: Sequence[Coordinates], goal: str, around: Surroundings | None, one: Array, other: Array
) -> Message:
    """Return the message that asks which of two segments [H, D] is better."""
    blanks = {
        "goal": goal,
        "steps": len(one),
        "meanings": meanings(things),
        "surroundings": surroundings(around),
        "trajectory_1": trajectories.text(trajectories.named_points(things, one), settings.decimals),
        "trajectory_2": trajectories.text(trajectories.named_points(things, other), settings.decimals),
        "example": example(things) if settings.shots else "",
    }
    return Message("user", (filled(settings.prompt or PROMPT, blanks),))


def choosing(
    things: Sequence[Coordinates], goal: str, around: Surroundings | None, pair: Sequence[Array], decimals: int
) -> tuple[Message, Message]:
    """Return the message after which one of `VERDICTS` is chosen about two segments [H, D], and the same without
    content, which has `NOTHING` in place of the trajectories."""
    blanks = {"goal": goal, "steps": len(pair[0]), "meanings": meanings(things), "surroundings": surroundings(around)}
    texts = [trajectories.text(trajectories.named_points(things, segment), decimals) for segment in pair]
    first, second = (
        Message("user", (filled(CHOICE_PROMPT, {**blanks, "trajectory_1": one, "trajectory_2": other}),))
        for one, other in (texts, (NOTHING, NOTHING))
    )
    return first, second


def better(
    settings: Llm, things: Sequence[Coordinates], goal: str, around: Surroundings | None,
    start: trajectories.NamedPoints, length: int, preferred: int,
) -> Message:  # fmt: skip
    """Return the message that asks for a segment of `length` steps that begins as `start` and is better than the
    `preferred` one, 1 or 2."""
    blanks = {
        "preferred": preferred,
        "goal": goal,
        "way": way(things, around),
        "steps": length,
        "start": trajectories.text(start, settings.decimals),
    }
    return Message("user", (filled(settings.imagine_prompt or IMAGINE_PROMPT, blanks),))


def meanings(things: Sequence[Coordinates]) -> str:
    """Return one line per object: its name, its meaning, and the format of its position."""
    return "\n".join(f'- "{thing.name}": {thing.meaning}, as {_written(thing)};' for thing in things)[:-1] + "."


def surroundings(around: Surroundings | None) -> str:
    """Return the paragraph about the task's surroundings; "" without any."""
    return f"{around.description}\n\n" if around else ""


def way(things: Sequence[Coordinates], around: Surroundings | None = None) -> str:
    """Return the description of a good trajectory, for the prompt that asks for one (the demands of app. C.1)."""
    return f"{_way(things)} {around.demand}" if around else _way(things)


def _way(things: Sequence[Coordinates]) -> str:
    moves, moved, target = parts(things)
    if moved:
        goal = f" until {moved} is at {target}" if target else ", as the task wants it"
        return (
            f"{moves} goes smoothly and without detour to {moved}. Once the two are at about the same place, {moves} "
            f"takes {moved} along, without leaps and as things move in the world,{goal}."
        )
    return f"{moves} moves smoothly and without detour{f' to {target}' if target else ', as the task wants it'}."


def example(things: Sequence[Coordinates]) -> str:
    """Return the one-shot prompt's example answer (RL-SaLLM-F, app. C.3) for a task with these objects."""
    moves, moved, target = parts(things)
    near, rest = moved or target or "the goal", f" {moved} stays where it is in both." if moved else ""
    answer = (
        f"1. In Trajectory 1 {moves} begins 0.21 away from {near} and wanders off to 0.26. In Trajectory 2 it begins "
        f"0.24 away and comes as close as 0.15.{rest} So Trajectory 2 approaches what matters for the task, and "
        f"Trajectory 1 leaves it.\n2. Trajectory 2 furthers the task more.\n2"
    )
    return filled(EXAMPLE, {"answer": answer})


def verdict_reminder(fault: Exception) -> str:
    return filled(VERDICT_REMINDER, {"fault": fault})


def trajectory_reminder(fault: Exception, length: int) -> str:
    return filled(TRAJECTORY_REMINDER, {"fault": fault, "steps": length})


def _written(thing: Coordinates) -> str:
    axes = f"[{', '.join(AXES[: len(thing.entries)])}]"
    return f"{axes}, the same at all steps" if thing.constant else f"{axes} for each step"
