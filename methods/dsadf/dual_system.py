"""The agent `dual_system`: System 1 learns by a plan's sub-goals, and in evaluations shares them with a performer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.text_acting import TEXT, tells
from guidebench.baselines.text_vectors import ROLE as TEXTS
from guidebench.baselines.text_vectors import TextVector, spec
from guidebench.harness import lengths
from guidebench.harness.capabilities import Telling
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Agent, ArraySpec, Build, Dialogue, Observations, Suite
from guidebench.harness.logs import Column, Log, amount, count, share
from guidebench.harness.parts import CHOICE, SCHEMA, AgentPart, CellView, Most
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings, cite
from guidebench.methods.dsadf import expected
from guidebench.methods.dsadf.deeds import shows
from guidebench.methods.dsadf.deliberation import NUMBER, PLANNER, REFLECTOR, TRIAL
from guidebench.methods.dsadf.routing import Router
from guidebench.methods.dsadf.slow_system import PERFORMER, Plans

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage

SCORER = "scorer"
GOAL = "goal"
"""Name of the part of an observation that holds the vector of the present sub-goal."""
LOGS: Mapping[str, Log] = {
    **Plans.logs,
    "trials": Log(
        Plans.logs["trials"].meaning,
        {
            **Plans.logs["trials"].columns,
            "fast": count("steps that System 1, the learner, took"),
            "emergencies": count("steps that the performer was given since a danger was near"),
        },
    ),
    "routes": Log(
        "one sub-goal of an episode of an evaluation, and who acted towards it",
        {
            "trial": TRIAL,
            "number": NUMBER,
            "index": count("index of the sub-goal in its plan, from 0"),
            "subgoal": Column(str, "name of the sub-goal; empty if the task itself is the goal"),
            "by": Column(str, "learner, System 1, or performer"),
            "why": Column(str, "why it was routed so"),
            "proficiency": share("its proficiency in memory; left out for one without", optional=True),
            "steps": count("steps for which it was the present sub-goal"),
            "emergencies": count("steps of these in which a danger was near, so that the performer was asked"),
            "reached": Column(bool, "whether the next sub-goal followed; the last one's end is the episode's"),
        },
    ),
    "progress": Log(
        "one episode of training",
        {
            "episode": count("index of the episode in the run, from 0"),
            "length": count("environment steps of the episode"),
            "plan": count("sub-goals of its plan"),
            "completed": count("sub-goals that it completed, T left out: the sum of R_sub"),
            "proximity": amount("sum of R_proxi"),
            "reward": amount("sum of the progressive reward R"),
            "succeeded": Column(bool, "whether the task was solved"),
        },
    ),
    "targets": Log(
        "the target that a seed's planner inferred, once",
        {
            "steps": count("sampled steps that the planner was told"),
            "told": Column(str, "these steps, at most 10,000 characters"),
            "target": Column(str, "the target; empty where the task's instruction stays the goal"),
            "fault": Column(str, "why there is none: failed, empty, long, unreadable; or empty"),
            "retries": count("unusable replies before it"),
        },
    ),
    "memory": Log(
        "a sub-goal in memory, as the scorer rated it",
        {
            "verb": Column(str, "verb of the sub-goal: its subspace"),
            "noun": Column(str, "its noun"),
            "goal": Column(str, "the goal under which it is kept, where the goal changes by episode", optional=True),
            "attempts": count("attempts at it so far"),
            "completed": count("attempts of these that reached it"),
            "told": Column(str, "what the scorer was told of them"),
            "proficiency": share("its proficiency from now on; left out for one without a score", optional=True),
            "failed": Column(bool, "whether there was no usable answer, so that a former proficiency stands"),
        },
    ),
}


@register.agent("dual_system")
@dataclass(frozen=True)
class DualSystem(Plans, Standard):
    """A learner that trains by the sub-goals of a model's plans, and in evaluations leaves those to a chat that it is
    not proficient at (DSADF).

    The learner sees the task's observation without its sentences, and the part `goal`, float32 [width], the vector of
    the present sub-goal's name.
    """

    threshold: Annotated[float, Bounds(0, 1)] = 0.7
    """Proficiency T from which System 1 acts towards a sub-goal (DSADF, eq. 5; its value: choice)."""
    beta: Annotated[float, Bounds(-1, 1)] = 0.99
    """Cosine β of caption and sub-goal above which a step is rewarded (DSADF, eq. 9; its value: ELLM's)."""
    gamma_task: Annotated[float, Bounds(0)] = 1.0
    """Weight γ1 of the reward of the task (DSADF, eq. 10; §5.3)."""
    gamma_subgoals: Annotated[float, Bounds(0)] = 0.5
    """Weight γ2 of the reward of completed sub-goals (DSADF, eq. 10; §5.3)."""
    gamma_proximity: Annotated[float, Bounds(0)] = 0.2
    """Weight γ3 of the proximity reward (DSADF, eq. 10; §5.3)."""
    router: Router = "both"
    """Who acts in evaluations: both systems, by the memory's proficiencies; `rl`, System 1 alone (DSADF, variation II);
    or `model`, the performer alone (DSADF, variation III)."""
    trains: bool = True
    """Whether the run trains; if not it is evaluations alone, of the policy and the memory of a pre-training stage
    (choice: for tasks that were not trained on)."""
    dangers: tuple[str, ...] = ("zombie", "skeleton", "arrow", "lava")
    """Things that are an emergency when near, unless they are in memory as nouns (DSADF, §4.2.2; which: choice)."""
    near: Annotated[int, Bounds(1), Unit("cells")] = 2
    """Manhattan distance within which a danger is near (DSADF, §4.2.2: near the agent; its value: choice)."""
    infer: bool = False
    """Whether the planner infers the target T from what System 1 tried, rather than being told the task's instruction
    (DSADF, §5.4: on Housekeep)."""
    history: Annotated[int, Bounds(1), Unit("environment steps")] = 5_000
    """Steps at the beginning of training that are sampled for it, in which there is no plan (DSADF, §5.4; their number:
    choice)."""
    sampled: Annotated[int, Bounds(1, 1_000), Unit("environment steps")] = 40
    """Steps of these that the planner is told: first those that were rewarded, then those that did something (DSADF,
    §5.4: a sampled history; how: choice)."""
    memory: Annotated[int, Bounds(1_024, 1_048_576), Unit("bytes")] = 32_768
    """Room for the memory in the policy's file (choice: some hundred sub-goals)."""
    width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 384
    """Numbers in a vector of the text embedder (DSADF, §4.3: Sentence-BERT; ELLM's paraphrase-MiniLM-L3)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = MappingProxyType({
        "memory/pursued": "Share of steps in which a sub-goal of a plan is pursued",
        "memory/subgoals": "Sub-goals of plans whose attempts were rewarded so far",
    })  # fmt: skip
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({
        **AgentPart.needs, PLANNER: "chat", REFLECTOR: "chat", PERFORMER: "chat", SCORER: "chat", TEXTS: "embedder",
    })  # fmt: skip
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **Plans.model_sets, "scripted": {**Plans.model_sets["scripted"], SCORER: "scripted", TEXTS: "scripted"},
    }  # fmt: skip
    widths: ClassVar[Mapping[str, str]] = {"width": TEXTS}
    max_tokens: ClassVar[Mapping[str, Any]] = MappingProxyType({
        **Plans.max_tokens, SCORER: cite(16, "choice: a JSON object with one number"),
    })  # fmt: skip
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({
        **Plans.answer_forms, SCORER: (SCHEMA, CHOICE),
    })  # fmt: skip
    essential: ClassVar[Mapping[str, str]] = MappingProxyType({SCORER: "routed without scores"})
    shares: ClassVar[Mapping[str, type]] = {TEXTS: TextVector}
    consults: ClassVar[tuple[str, ...]] = (PLANNER, REFLECTOR, PERFORMER, SCORER, TEXTS)
    logs: ClassVar[Mapping[str, Log]] = LOGS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, "agent")
        if self.router == "model" and self.trains:
            raise UserError("agent.router=model never uses what the run would train; set agent.trains=false too")

    @property
    def gammas(self) -> tuple[float, float, float]:
        """Return the weights γ1, γ2 and γ3 of the progressive reward."""
        return self.gamma_task, self.gamma_subgoals, self.gamma_proximity

    def observes(self, observations: Observations, actions: Actions) -> Observations:
        """Return the task's observations without sentences and with the sub-goal's vector; unchanged where `fits`
        refuses them."""
        if not tells(observations):
            return observations
        others = {name: part for name, part in observations.parts.items() if name != TEXT}
        return Observations(parts={**others, GOAL: Observations((self.width,), "float32")})

    @property
    def learns(self) -> bool:
        return self.trains

    @property
    def inherits(self) -> bool:
        return not self.trains and self.router != "model"

    @property
    def unasked(self) -> tuple[str, ...]:
        """Return the roles that are never asked: those of `Plans`, those of the system that `router` leaves out, and
        the scorer in a run that does not train."""
        others = {"both": (), "rl": (PERFORMER,), "model": (TEXTS,)}[self.router]
        return (*super().unasked, *others, *(() if self.trains else (SCORER,)))

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of a run's calls in a role (`expected`), as if the performer named each action of
        evaluations."""
        if role == TEXTS:
            from guidebench.harness.models.calls import Usage

            return Usage(expected.TEXTS)
        if role == SCORER:
            return expected.calls(score=expected.SUBGOALS * lengths.evaluations(view))
        return super().expected_usage(view, role)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls in a role: those of `Plans` and, for each seed, one question for the target;
        a score of every sub-goal for which the memory has room before each evaluation; and one vector of each text."""
        from guidebench.methods.dsadf.bounds import SKILL

        longest, steps = self.prompts(view), int(view["training"].steps) if self.trains else 0
        if role == TEXTS:
            goals = self.plans(view) if view.task in view.suite.by_turns else 2
            captions_and_goals = steps + goals + self.plans(view) * self.longest
            return [longest.embedding(captions_and_goals)]
        if role == SCORER:
            by_goals = view.task in view.suite.by_turns
            subgoals = self.memory // SKILL if by_goals or longest.vocabulary is None else longest.vocabulary
            return [longest.scoring(subgoals * lengths.evaluations(view), 1 + self.retries)]
        bounds = super().at_most(view, role)
        if role == PLANNER and self.infer and self.trains:
            assert bounds is not None
            return [*bounds, longest.inferring(1, 1 + self.plan_retries, self.sampled)]
        return bounds

    def plans(self, view: CellView) -> int:
        """Return the maximum number of plans of a run, in evaluations and in training; a training episode has several
        only if plans are partial."""
        if not self.trains:
            return super().plans(view)
        steps = int(view["training"].steps)
        episodes = 1 + lengths.ended(view, steps)
        return super().plans(view) + episodes + self.partial * min(self.replans * episodes, steps)

    def episodes(self, view: CellView) -> int:
        return super().episodes(view) + (expected.trained(view) if self.trains else 0)

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.dsadf.agent import DualAgent

        learner_build = dataclasses.replace(build, observations=self.observes(build.observations, build.actions))
        return DualAgent(self, learner_build, *self.built(learner_build))

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot work in this cell, or ""."""
        if reason := super().fits(view):
            return reason
        observations = view.suite.spaces(view.task)[0]
        if not shows(view.suite, view.task):
            return (
                "it sees that something was found by what becomes possible, and the observations do not show what is; "
                "set suite.impossible=masked on crafter_ood, or choose method=model_with_planner"
            )
        if self.trains and view["training"].demonstrations:
            return (
                "its System 1 learns by the sub-goals of plans, which demonstrations do not have; set "
                "training.demonstrations=0"
            )
        if GOAL in observations.parts:
            return f"the task's observations have a part {GOAL!r} of their own; choose agent=standard"
        return Standard.fits(self, view)

    def ready(self, view: CellView) -> None:
        """Raise UserError if the run trains and the task's steps have no captions, and as `Plans` does."""
        super().ready(view)
        if self.trains and not isinstance(view.suite.make(view.task), Telling):
            raise UserError(
                f"agent dual_system rewards what a step's caption says, and task {view.task!r} has none; choose "
                f"another task, such as those of crafter_ood"
            )

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue of a role."""
        if role == TEXTS:
            return TextVector()
        if role == SCORER:
            from guidebench.methods.dsadf.scoring import ScorerDialogue

            return ScorerDialogue(suite.make(task).instruction, self.retries)
        return super().dialogue(suite, task, role)

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the array specification of a text's vector; None for the chats, which answer in JSON."""
        return spec(self.width) if role == TEXTS else None
