"""The chats of DSADF's slow system that need no language model: hand-written ones, and privileged ones, which are given
the task's sub-goals or its solver's actions.

`planner=scripted` and `planner=oracle` name the chats `scripted_planner` and `oracle_planner`, and so for the other
roles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.capabilities import HasSubgoals, NamesActions, PlansByGoal
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Suite
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Message
    from guidebench.harness.models.oracle import Oracle

Rate = Annotated[float, Bounds(0, 1), Unit("probability")]
READS = "% hand-written: it reads the text of the prompt"


@dataclass(frozen=True)
class Scripted(ModelPart):
    """Base of the hand-written chats, each of which answers in one role only."""

    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes
    milliseconds)."""

    role: ClassVar[str] = ""
    """The role in which the chat answers."""
    citation: ClassVar[str] = READS
    backend: ClassVar[str] = "scripted"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return elsewhere(view, self, self.role)


@register.chat("scripted_planner")
@dataclass(frozen=True)
class ScriptedPlanner(Scripted):
    """Hand-written: chains the rules of the prompt's hint backwards from the goal, or in Housekeep's room carries what
    lies unusually to where it belongs, and errs at the configured rate."""

    omits: Rate = 0.3
    """Probability that a first plan leaves out one of its prerequisites, and that a target leaves out one of its
    things, each by itself (choice: often enough for a reflector to have something to find)."""
    malformed: Rate = 0.0
    """Probability that a reply holds no plan, drawn anew for each reply (choice: never)."""

    version: ClassVar[int] = 3
    role: ClassVar[str] = "planner"
    title: ClassVar[str] = "hand-written: it chains the rules of the hint"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers; it is given neither suite nor task."""
        from guidebench.methods.dsadf.scripted import PromptPlanner

        return PromptPlanner(self.omits, self.malformed)


@register.chat("scripted_reflector")
@dataclass(frozen=True)
class ScriptedReflector(Scripted):
    """Hand-written: checks a plan by the rules of the prompt's hint, and errs at the configured rate."""

    misses: Rate = 0.2
    """Probability that it does not notice what a plan lacks (choice: it notices most of it)."""

    version: ClassVar[int] = 3
    role: ClassVar[str] = "reflector"
    title: ClassVar[str] = "hand-written: it checks plans by the rules of the hint"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers; it is given neither suite nor task."""
        from guidebench.methods.dsadf.scripted import PromptReflector

        return PromptReflector(self.misses)


@register.chat("scripted_performer")
@dataclass(frozen=True)
class ScriptedPerformer(Scripted, Choosing):
    """Hand-written: looks in the prompt's list for an action that serves the sub-goal, and errs at the configured
    rates."""

    error: Rate = 0.05
    """Probability that it names another possible action (choice)."""
    impossible: Rate = 0.02
    """Probability that it names an action that is not in the list, drawn anew for each reply (choice)."""

    version: ClassVar[int] = 2
    role: ClassVar[str] = "performer"
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "hand-written: it reads sub-goal, sentences and possible actions"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers; it is given neither suite nor task."""
        from guidebench.methods.dsadf.scripted import PromptPerformer

        return PromptPerformer(self.error, self.impossible)


@register.chat("scripted_scorer")
@dataclass(frozen=True)
class ScriptedScorer(Scripted, Choosing):
    """Hand-written: the share of the attempts in the prompt that reached the sub-goal, with an error."""

    noise: Annotated[float, Bounds(0, 1)] = 0.1
    """Most by which a score differs from that share; the error is uniform (choice)."""
    malformed: Rate = 0.0
    """Probability that a reply holds no score, drawn anew for each reply (choice: never)."""

    version: ClassVar[int] = 1
    role: ClassVar[str] = "scorer"
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "hand-written: it counts the attempts in the prompt"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers; it is given neither suite nor task."""
        from guidebench.methods.dsadf.scripted import PromptScorer

        return PromptScorer(self.noise, self.malformed)


@dataclass(frozen=True)
class Privileged(ModelPart):
    """Base of the privileged chats, each of which answers in one role only."""

    role: ClassVar[str] = ""
    """The role in which the chat answers."""
    version: ClassVar[int] = 1
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return elsewhere(view, self, self.role)


@dataclass(frozen=True)
class KnowsSubgoals(Privileged):
    """Base of the chats that know the task's own sub-goals (`HasSubgoals`)."""

    citation: ClassVar[str] = "% no model, it is told the task's sub-goals"
    suites: ClassVar[tuple[str, ...]] = ("crafter_ood",)


@register.chat("oracle_planner")
@dataclass(frozen=True)
class OraclePlanner(KnowsSubgoals):
    """Privileged: answers with the task's own sub-goals, and errs at the configured rate."""

    omits: Rate = 0.0
    """Probability that a first plan leaves out one of its prerequisites (choice: never)."""

    version: ClassVar[int] = 2
    role: ClassVar[str] = "planner"
    title: ClassVar[str] = "privileged: it knows the task's sub-goals"

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that plans; UserError for a task whose sub-goals are not in the words of its actions."""
        from guidebench.methods.dsadf.oracle import KnownPlan

        return KnownPlan(known_plans(suite, task), self.omits)


@register.chat("oracle_reflector")
@dataclass(frozen=True)
class OracleReflector(KnowsSubgoals):
    """Privileged: compares a plan with the task's own sub-goals, and suggests these if they differ."""

    role: ClassVar[str] = "reflector"
    title: ClassVar[str] = "privileged: it knows the task's sub-goals"

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that reflects; UserError as of the planner."""
        from guidebench.methods.dsadf.oracle import KnownReflection

        return KnownReflection(known_plans(suite, task))


@register.chat("oracle_performer")
@dataclass(frozen=True)
class OraclePerformer(Privileged, Choosing):
    """Privileged: names the action of the suite's own solver, which acts towards the task whatever the sub-goal is, and
    errs at the configured rate."""

    error: Rate = 0.0
    """Probability that it names an action drawn uniformly from the possible ones (choice: never)."""

    citation: ClassVar[str] = "% no model, it is told the action of the suite's solver"
    role: ClassVar[str] = "performer"
    follows_solver: ClassVar[bool] = True
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "privileged: it is told the action of the suite's solver"

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that names actions."""
        from guidebench.methods.dsadf.oracle import KnownAction

        assert isinstance(suite, NamesActions), "the agent refuses other suites"
        return KnownAction(suite.action_names(task), self.error)


def check_known(view: CellView) -> None:
    """Raise UserError if the cell has a chat that needs the task's own sub-goals and the task has none in the words of
    its actions. Makes the task."""
    if any(isinstance(part, KnowsSubgoals) for part in view.parts.values()):
        known_plans(view.suite, view.task)


def known_plans(suite: Suite, task: str) -> dict[str, list[str]]:
    """Return goal -> names of its sub-goals in the words of the task's actions, with the goal "" for a task that has a
    single one. UserError as of `known_subgoals`."""
    if task in getattr(suite, "by_turns", ()) and isinstance(suite, PlansByGoal):
        return {goal: known_subgoals(suite, task, names) for goal, names in suite.subgoals_by_goal(task).items()}
    instance = suite.make(task)
    return {"": known_subgoals(suite, task, [*instance.subgoals()] if isinstance(instance, HasSubgoals) else [])}


def known_subgoals(suite: Suite, task: str, names: Sequence[str]) -> list[str]:
    """Return the `names` of a task's own sub-goals in the words of its actions. Raise UserError if there are none, or
    one that matches neither an action nor `find` and a thing."""
    from guidebench.methods.dsadf.plans import Vocabulary

    actions = suite.action_names(task) if isinstance(suite, NamesActions) else ()
    subgoals: list[Any] = [Vocabulary(actions, names).match(name.lstrip("0123456789 ")) for name in names]
    if not subgoals or None in subgoals:
        problem = f"its sub-goal {names[subgoals.index(None)]!r} is neither" if subgoals else "it has no sub-goals"
        raise UserError(
            f"planner=oracle and reflector=oracle need the sub-goals of the task {task!r} as names of actions, or as "
            f"things to find, and {problem}; choose scripted or a model"
        )
    return subgoals


def elsewhere(view: CellView, chat: ModelPart, role: str) -> str:
    """Return why a chat made for `role` cannot be used, if the cell does not have it in exactly that role; else ""."""
    is_needed = any(role in getattr(part, "needs", ()) for part in view.parts.values())
    if is_needed and [name for name, part in view.parts.items() if part == chat] == [role]:
        return ""
    return f"it answers in the role {role} of agents such as dual_system and model_as_agent; choose it as {role}=…"
