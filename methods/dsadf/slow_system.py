"""Base configurations of agents with a slow system: its settings, logs and dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.instructions import unshown
from guidebench.baselines.text_acting import TEXT, tells
from guidebench.harness import lengths
from guidebench.harness.capabilities import NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Dialogue, Suite
from guidebench.harness.logs import Column, Log, count
from guidebench.harness.parts import CHOICE, SCHEMA, AgentPart, CellView, Most
from guidebench.harness.settings import Bounds, Unit, cite
from guidebench.methods.dsadf import deliberation, expected, rules
from guidebench.methods.dsadf.chats import check_known
from guidebench.methods.dsadf.deeds import Deeds
from guidebench.methods.dsadf.deliberation import PLANNER, REFLECTOR, TRIAL

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.methods.dsadf.bounds import Longest

PERFORMER = "performer"


def performers(*models: str) -> Mapping[str, Mapping[str, str]]:
    """Return ablations in which another served model performs, by `performer=MODEL` (DSADF, tables 4, 5, 7 and 10)."""
    return {
        f"{PERFORMER}={model.rpartition('/')[2]}": {PERFORMER: "openai", f"{PERFORMER}.model": model}
        for model in models
    }


def planners(*models: str) -> Mapping[str, Mapping[str, str]]:
    """Return ablations in which another served model plans and reflects, by `planner=MODEL` (DSADF, table 6)."""
    return {
        f"{PLANNER}={model}": {
            PLANNER: "openai", f"{PLANNER}.model": model, REFLECTOR: "openai", f"{REFLECTOR}.model": model,
        }
        for model in models
    }  # fmt: skip


LOGS: Mapping[str, Log] = {
    "actions": Log(
        "consecutive steps of one episode with the same sub-goal, action and cause",
        {
            "trial": TRIAL,
            "first": count("number of the first of these steps in the episode, from 0"),
            "steps": count("number of these steps"),
            "subgoal": Column(str, "present sub-goal; empty if the task itself is the goal"),
            "action": Column(str, "name of the action"),
            "by": Column(
                str,
                "performer; fallback, since no usable reply came; only, since one action was possible; or learner, "
                "System 1",
            ),
            "said": Column(str, "the performer's last reply before the first of these steps"),
        },
    ),
    "trials": Log(
        "what happened in one episode of an evaluation",
        {
            "trial": TRIAL,
            "steps": count("steps of the episode"),
            "performed": count("steps whose action the performer named"),
            "fallback": count("steps that the fallback took"),
            "impossible": count("replies that named an impossible action"),
            "unknown": count("replies that named no action"),
            "failed": count("questions to the performer without an answer"),
            "reached": count("sub-goals that were reached, over all plans"),
            "declared": count("sub-goals of these that the performer declared reached"),
            "plans": count("plans that were asked for"),
        },
    ),
}


@dataclass(frozen=True)
class Performs(AgentPart):
    """Base configuration of agents whose actions a chat, the performer, names."""

    retries: Annotated[int, Bounds(0), Unit("calls")] = 2
    """Further attempts after a reply that names no possible action; then an action is drawn uniformly from the possible
    ones (choice)."""
    recent: Annotated[int, Bounds(0, 100), Unit("actions")] = 4
    """Last actions of the episode that the prompt repeats; with 0 equal sentences always lead to the same action
    (choice; DSADF, §4.2.2: none)."""
    logged: Annotated[int, Bounds(0), Unit("rows")] = 500
    """Most rows of the log `actions` per episode (choice)."""

    stochastic: ClassVar[bool] = True
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({PERFORMER: "chat"})
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {name: {PERFORMER: name} for name in ("scripted", "oracle")}
    consults: ClassVar[tuple[str, ...]] = (PERFORMER,)
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({PERFORMER: (CHOICE,)})
    max_tokens: ClassVar[Mapping[str, Any]] = MappingProxyType({
        PERFORMER: cite(32, "choice: an action has two or three words")
    })  # fmt: skip
    logs: ClassVar[Mapping[str, Log]] = LOGS
    each_goal: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("dsadf.bib")

    @property
    def learns(self) -> bool:
        return False

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot act in this cell, or ""."""
        observations = view.suite.spaces(view.task)[0]
        if view.task in view.suite.goalless:
            return f"the task {view.task!r} has no goal to plan or act for; choose another task"
        if not isinstance(view.suite, NamesActions):
            return (
                "it asks for actions by their names, and the suite has none; choose crafter, crafter_ood or housekeep"
            )
        if not tells(observations):
            return (
                f"it reads the sentences in the part {TEXT!r} of the observations, which these lack; set "
                f"suite.observation=text"
            )
        return unshown(view)

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of a run's calls in a role (`expected`): an action for each step of its evaluations."""
        return expected.calls(action=lengths.tested_steps(view))

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return an upper bound for the performer, asked in each step of an evaluation and again after each sub-goal
        that it declares reached; None for other roles."""
        if role != PERFORMER:
            return None
        questions = lengths.tested_steps(view) * (1 + getattr(self, "ends", 0))
        return [self.prompts(view).performing(questions, 1 + self.retries, self.recent)]

    def prompts(self, view: CellView) -> Longest:
        """Return the longest prompts about the cell's task, from which bounds follow."""
        from guidebench.methods.dsadf.bounds import Longest

        return Longest(view.suite, view.task, inferred=False)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue of the performer."""
        from guidebench.methods.dsadf.performing import PerformerDialogue

        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        return PerformerDialogue(suite.make(task).instruction, suite.action_names(task), self.retries)


@dataclass(frozen=True)
class Plans(Performs):
    """Base configuration of agents that act by the sub-goals of a plan, which one chat writes and another reflects
    on."""

    hint: str = ""
    """The hint instruction H for planner and reflector: prose, and lines of rules such as "- mine stone: needs wood
    pickaxe; gives stone" (DSADF, eq. 3; its text: choice)."""
    longest: Annotated[int, Bounds(1, 100), Unit("steps")] = 40
    """Most steps of a plan; a longer one is refused (choice: the longest of DSADF's tasks has 15)."""
    plan_retries: Annotated[int, Bounds(0), Unit("calls")] = 2
    """Further attempts after a reply without a usable plan; then the task itself is the only goal (choice)."""
    reflect: bool = True
    """Whether a plan is reflected on and written again (DSADF, eq. 4 and 6; false: its variation V)."""
    again: deliberation.Again = "planner"
    """Who writes the plan after a reflection: the planner, or the reflector, whose revised plan is then followed
    (DSADF, eq. 4; `revised`: app. B.2)."""
    ends: Annotated[int, Bounds(0), Unit("sub-goals")] = 3
    """Most sub-goals that the performer may declare reached in one step (choice)."""
    replans: Annotated[int, Bounds(0), Unit("plans")] = 0
    """Further plans in an episode, each after a sub-goal has taken `patience` steps, or a partial plan is over (DSADF,
    algorithm 2: none)."""
    patience: Annotated[int, Bounds(1), Unit("environment steps")] = 500
    """Steps of one sub-goal after which a further plan is made (choice)."""
    partial: bool = False
    """Whether a plan is of a part of the task alone, as where little of it is in view: its last sub-goal is then
    reached as others are, and a further plan follows (DSADF, algorithm 2: false)."""

    needs: ClassVar[Mapping[str, str]] = MappingProxyType({PLANNER: "chat", REFLECTOR: "chat", PERFORMER: "chat"})
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {PLANNER: name, REFLECTOR: name, PERFORMER: name} for name in ("scripted", "oracle")
    }
    consults: ClassVar[tuple[str, ...]] = (PLANNER, REFLECTOR, PERFORMER)
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({
        **Performs.answer_forms, PLANNER: (SCHEMA,), REFLECTOR: (SCHEMA,),
    })  # fmt: skip
    logs: ClassVar[Mapping[str, Log]] = {**deliberation.LOGS, **LOGS}

    def __post_init__(self) -> None:
        if wrong := rules.miscounted(self.hint):
            raise UserError(
                f"agent.hint has a rule with {wrong!r}; write a count as a whole number from 1 to 9999, or leave it out"
            )

    @property
    def unasked(self) -> tuple[str, ...]:
        """Return the roles that are never asked: the reflector if plans are not reflected on."""
        return () if self.reflect else (REFLECTOR,)

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of a run's calls in a role (`expected`), as if the planner wrote each plan again."""
        if role not in (PLANNER, REFLECTOR):
            return super().expected_usage(view, role)
        episodes, further = self.episodes(view), min(self.replans, expected.length(view) // self.patience)
        plans = episodes + (self.replans * episodes if self.partial else further * lengths.tested(view))
        if role == REFLECTOR:
            return expected.calls(reflection=plans)
        return expected.calls(plan=plans, final=plans * (self.reflect and self.again == "planner"))

    def episodes(self, view: CellView) -> int:
        """Return an estimate of the number of a run's episodes that begin with a plan."""
        return lengths.tested(view)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls in a role: for each plan, the planner writes a first version and a final one
        and the reflector reflects once; for the performer as in `Performs`."""
        if role not in (PLANNER, REFLECTOR):
            return super().at_most(view, role)
        longest, plans, calls = self.prompts(view), self.plans(view), 1 + self.plan_retries
        if role == REFLECTOR:
            return [longest.reflecting(plans)]
        if not self.reflect or self.again != "planner":
            return [longest.planning(plans, calls)]
        weaknesses = getattr(view[REFLECTOR], "max_tokens", None)
        return [longest.planning(plans, calls), longest.planning_again(plans, calls, weaknesses)]

    def plans(self, view: CellView) -> int:
        """Return the maximum number of plans of a run. At most one further plan follows a step."""
        return lengths.tested(view) * (1 + min(self.replans, expected.length(view)))

    def prompts(self, view: CellView) -> Longest:
        from guidebench.methods.dsadf.bounds import Longest

        return Longest(view.suite, view.task, getattr(self, "infer", False), self.hint, self.longest)

    def ready(self, view: CellView) -> None:
        """Raise UserError if a chat needs the task's own sub-goals and these are not in the words of its actions."""
        check_known(view)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue of a role."""
        from guidebench.methods.dsadf.planning import PlannerDialogue, ReflectorDialogue

        if role == PERFORMER:
            return super().dialogue(suite, task, role)
        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        arguments = (suite.make(task).instruction, Deeds(suite, task), self.hint, self.longest)
        if role == PLANNER:
            return PlannerDialogue(*arguments, self.plan_retries)
        return ReflectorDialogue(*arguments, self.again == "revised")


CRAFTER_HINT = """\
- chop tree: gives wood
- chop grass: gives plant
- mine stone: needs wood pickaxe; gives stone
- mine coal: needs wood pickaxe; gives coal
- mine iron: needs stone pickaxe; gives iron
- mine diamond: needs iron pickaxe; gives diamond
- place stone: uses 1 stone
- place plant: uses 1 plant
- place crafting table: uses 2 wood; gives crafting table
- place furnace: needs crafting table; uses 4 stone; gives furnace
- make wood pickaxe: needs crafting table; uses 1 wood; gives wood pickaxe
- make wood sword: needs crafting table; uses 1 wood; gives wood sword
- make stone pickaxe: needs crafting table; uses 1 wood, 1 stone; gives stone pickaxe
- make stone sword: needs crafting table; uses 1 wood, 1 stone; gives stone sword
- make iron pickaxe: needs crafting table, furnace; uses 1 wood, 1 coal, 1 iron; gives iron pickaxe
- make iron sword: needs crafting table, furnace; uses 1 wood, 1 coal, 1 iron; gives iron sword
Things are collected and creatures attacked by standing in front of them. What is made needs its table, and its \
furnace, nearby. A chopped tree is gone."""
"""The rules of Crafter in words: its package's table of recipes (`crafter` 1.8.3, data.yaml)."""
OF_CRAFTER = "choice: the recipes of the package crafter 1.8.3"
HOUSEKEEP_HINT = """\
Some things lie where people do not keep them; others are in their place and stay there. Common sense tells which \
receptacle a thing belongs on. The agent sees what is before it, up to 5 metres away, and into closed furniture only \
from near its front. So one plan covers what is in view and what the goal names, and more plans follow. The agent \
holds one thing at a time. Each thing takes four steps, in this order: find the thing, grab it, find the receptacle, \
put the thing on it."""
"""The rules of Housekeep in words, for planner and reflector."""
ON_HOUSEKEEP: Mapping[str, Any] = {
    "agent.hint": cite(HOUSEKEEP_HINT, "choice: the rules of the suite in words"),
    "agent.partial": cite(True, "choice: only a part of the room is in view"),
    "agent.replans": cite(10, "choice: more than there are items"),
    "agent.patience": cite(100, "choice: enough to look around and cross the room"),
}
"""Settings of planning agents on Housekeep."""
