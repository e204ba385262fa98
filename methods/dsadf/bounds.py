"""Upper bounds of the calls and tokens of a run of both systems, whatever the models answer (`bench run --dry-run`).

Prompts are made as in a run, from the longest contents that they can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guidebench.baselines.conversing import FAULT, Misread, longest_instruction, size
from guidebench.baselines.text_acting import room
from guidebench.harness.models.calls import Message
from guidebench.harness.parts import Most
from guidebench.methods.dsadf import prompts, scoring
from guidebench.methods.dsadf.deeds import Deeds
from guidebench.methods.dsadf.looking import classified
from guidebench.methods.dsadf.memory import RECENT, Skill
from guidebench.methods.dsadf.planning import LOGGED
from guidebench.methods.dsadf.plans import LONGEST_PHRASE, MOST_TIMES, Subgoal, listed

SUBGOAL = LONGEST_PHRASE + 50
"""Most bytes of a sub-goal with its repetitions, of an emergency's instruction, and of a caption."""
REWARD = 30
"""Most bytes of a reward in the history of steps."""
SKILL = 20
"""Fewest bytes of a sub-goal in the memory's file."""
STEPS = 10**9
"""A count of steps or attempts with as many digits as any can have."""


class Longest:
    """The longest prompts about a task of a suite that names actions. Makes the task."""

    def __init__(self, suite: Any, task: str, inferred: bool, hint: str = "", longest: int = 0) -> None:
        """`inferred`: whether a planner infers the goal; `hint`: for planner and reflector; `longest`: most steps of a
        plan."""
        self._names, self._deeds = suite.action_names(task), Deeds(suite, task)
        self._instruction = longest_instruction(suite, task)
        goal = max(len(self._instruction.encode()), 4 * prompts.LONGEST_TARGET * inferred)
        self._goal, self._text = "x" * goal, "x" * room(suite.spaces(task)[0])
        self._hint, self._longest = hint, longest
        name = max((*self._names, *self._deeds.names, "x" * LONGEST_PHRASE), key=lambda phrase: len(phrase.encode()))
        self._plan = listed([Subgoal(name, MOST_TIMES)] * longest)

    def performing(self, questions: int, calls: int, recent: int) -> Most:
        """Return the bound of so many questions to the performer, each of at most `calls` calls, whose prompt repeats
        the last `recent` actions."""
        longest = max((*self._names, *self._deeds.names), key=len)
        effects = dict.fromkeys(self._names, longest) if self._deeds.others else {}
        message = prompts.performing(
            self._goal, self._text, self._names, "x" * SUBGOAL, [longest] * recent, True, effects
        )
        reminder = prompts.action_reminder(Misread("impossible", ", ".join(self._names)))
        return _most(questions, calls, message, reminder)

    def planning(self, plans: int, calls: int) -> Most:
        """Return the bound of so many first plans, each of at most `calls` calls."""
        return _most(plans, calls, prompts.planning(*self._planner_arguments), prompts.plan_reminder(Misread("", "")))

    def planning_again(self, plans: int, calls: int, weaknesses: int | None) -> Most:
        """Return the bound of so many final plans, each of at most `calls` calls. `weaknesses`: most tokens of a
        reflector's reply; None if unlimited, so that the length of its quotation bounds it."""
        quoted = 4 * LOGGED if weaknesses is None else min(weaknesses, 4 * LOGGED)
        reflection = f"Weaknesses: {'x' * quoted}\nSuggested plan:\n{self._plan}"
        message = prompts.regenerating(*self._planner_arguments, self._plan, reflection)
        return _most(plans, calls, message, prompts.plan_reminder(Misread("", "")))

    def reflecting(self, plans: int) -> Most:
        """Return the bound of reflections on so many plans, of one call each."""
        return _most(plans, 1, prompts.reflecting(*self._planner_arguments, self._plan), "")

    def inferring(self, questions: int, calls: int, steps: int) -> Most:
        """Return the bound of so many questions for the target, whose prompt lists `steps` sampled steps."""
        step = f"Step {STEPS}. Seen: {self._text} Action: {max(self._names, key=len)} ({'x' * SUBGOAL}). Reward: "
        history = "\n".join([step + "x" * REWARD] * steps)
        message = prompts.inferring(self._instruction, history, self._hint)
        return _most(questions, calls, message, prompts.target_reminder(Misread("", "")))

    def scoring(self, questions: int, calls: int) -> Most:
        """Return the bound of so many questions to the scorer, each of at most `calls` calls."""
        behaviour = scoring.behaviour(Skill(STEPS, STEPS, [(STEPS, False)] * RECENT))
        message = prompts.scoring(self._goal, "x" * SUBGOAL, behaviour)
        return _most(questions, calls, message, prompts.score_reminder(Misread("", "")))

    def embedding(self, texts: int) -> Most:
        """Return the bound of embedding so many texts: captions, sub-goals and goals."""
        return Most(texts, prompt=max(SUBGOAL, len(self._goal)))

    @property
    def vocabulary(self) -> int | None:
        """Number of possible sub-goals; None where a sub-goal to find something may name any word."""
        return len(self._deeds.names) + len(self._deeds.things) if self._deeds.things else None

    @property
    def _planner_arguments(self) -> tuple[str, str, Sequence[str], str, int]:
        return self._goal, self._text, self._deeds.listed, self._hint, self._longest


def captions(steps: int, deeds: Sequence[str]) -> list[Most]:
    """Return the bounds of captioning so many steps: a call for the vectors of all classes (repeated until one
    succeeds) and a call for the vectors of two frames."""
    texts = classified(deeds)
    return [Most(steps, prompt=sum(len(text.encode()) + 64 for text in texts)), Most(steps, images=2)]


def _most(questions: int, calls: int, message: Message, reminder: str) -> Most:
    return Most(questions, calls, size(message.content), len(reminder.encode()) + FAULT)
