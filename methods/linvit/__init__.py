"""LINVIT (Zhang et al. 2024): a language model's probabilities of actions regularise the value of a state.

A part of an observation holds the probabilities, the prior: the agent `prior_guided` asks for them, and the learner
`prior_dqn` learns and acts by them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.conversing import FAULT, Misread, longest_instruction, size
from guidebench.baselines.encoders import Reading
from guidebench.baselines.instructions import unshown
from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.baselines.text_acting import TEXT, readings, room, tells, untold
from guidebench.harness.capabilities import NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Agent, Build, Dialogue, Learner, Observations, Suite
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.parts import CHOICE, SCHEMA, AgentPart, CellView, ModelPart, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit, cite

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Message
    from guidebench.harness.models.oracle import Oracle

PRIOR = "prior"
"""The role of the chat, and the name of the part of an observation that holds its probabilities of the actions."""
MOVED = "prior/moved"
"""Metric of the learner: the share of its policy's probability that the prior moves."""
CITATION = Path(__file__).with_name("linvit.bib")


@register.agent("prior_guided")
@dataclass(frozen=True)
class PriorGuided(Standard):
    """The standard agent, whose learner gets a chat's probabilities of the actions in place of an observation's
    sentences: the part `text` is left out, and the part `prior`, float32 [actions] of sum 1, is added."""

    smoothing: Annotated[float, Bounds(0.0001, 1)] = 0.1
    """Share of the probability that is spread evenly over the actions that may be taken, so that none of them has the
    probability 0, which no value could outweigh; 1 ignores the chat (choice: the paper's bound needs a prior above 0
    wherever the best policy acts)."""
    retries: Annotated[int, Bounds(0), Unit("calls")] = 1
    """Further attempts after an answer that cannot be read; then the prior is uniform (choice)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = CITATION
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({**AgentPart.needs, PRIOR: "chat"})
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "scripted": {PRIOR: "scripted"},
        "oracle": {PRIOR: "oracle"},
    }
    consults: ClassVar[tuple[str, ...]] = (PRIOR,)
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {PRIOR: (SCHEMA, CHOICE)}
    each_goal: ClassVar[bool] = True
    uses_probabilities: ClassVar[tuple[str, ...]] = (PRIOR,)

    def observes(self, observations: Observations, actions: Actions) -> Observations:
        """Return the task's observations without sentences and with the prior; unchanged where `fits` refuses them."""
        if not tells(observations) or actions.count is None:
            return observations
        others = {name: part for name, part in observations.parts.items() if name != TEXT}
        return Observations(parts={**others, PRIOR: Observations((actions.count,), "float32")})

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.linvit.agent import PriorAgent

        learner_build = dataclasses.replace(build, observations=self.observes(build.observations, build.actions))
        return PriorAgent(self, learner_build, *self.built(learner_build))

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot work in this cell, or ""."""
        observations, actions = view.suite.spaces(view.task)
        if not actions.discrete:
            return f"it needs discrete actions, and these are vectors of shape {actions.shape}; choose agent=standard"
        if not isinstance(view.suite, NamesActions):
            return "it lists the actions in its prompt, and the suite names none in words (`action_names`)"
        if reason := untold(observations):
            return reason
        if PRIOR in observations.parts:
            return f"the task's observations have a part {PRIOR!r} of their own; choose agent=standard"
        if [*observations.parts] == [TEXT]:
            return "the observations hold sentences alone, which its learner does not read; choose others"
        return unshown(view) or super().fits(view)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return an upper bound of the calls to the chat: one question about each distinct text that a run can read."""
        from guidebench.methods.linvit import dialogue

        suite, task = view.suite, view.task
        content = {"instruction": longest_instruction(suite, task), "state": "x" * room(suite.spaces(task)[0])}
        message, reminder = dialogue.message(content, suite.action_names(task)), dialogue.reminder(Misread("", ""))
        return [Most(readings(view), 1 + self.retries, size(message.content), len(reminder.encode()) + FAULT)]

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that asks for the weights of the actions in a state."""
        from guidebench.methods.linvit.dialogue import PriorDialogue

        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        return PriorDialogue(suite.action_names(task), self.retries)


@register.learner("prior_dqn")
@dataclass(frozen=True)
class PriorDqn(DuelingDqn):
    """Dueling DQN with n-step returns, regularised by the Kullback-Leibler divergence from a prior policy that the
    observations hold. Settings of suites and profiles for `dueling_dqn` hold for it too."""

    temperature: Annotated[float, Bounds(0.0001), Unit("of reward")] = 0.01
    """Weight λ of the divergence of the policy from the prior: near 0 the best action counts alone, and a large λ keeps
    to the prior (LINVIT's λ; choice of the value: tasks here pay at most 1 in hundreds of steps)."""
    epsilon_start: Annotated[float, Bounds(0, 1)] = 1.0
    """Probability ε at step 0 of an action that is drawn from the prior rather than from the policy (choice: as
    ε-greedy acting in ELLM's released code)."""
    epsilon_end: Annotated[float, Bounds(0, 1)] = 0.01
    """Probability ε after annealing (choice: as ε-greedy acting in ELLM's released code)."""
    double: bool = False
    """No other value than false: the soft value takes no maximum whose action another network could choose (LINVIT's
    value)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = CITATION
    guidance: ClassVar[Mapping[str, str]] = {MOVED: "Share of the policy's probability that the prior moves"}
    tuned_as: ClassVar[str] = "dueling_dqn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.double:
            raise UserError(
                "learner.double=true does not apply to prior_dqn, whose value takes no maximum over actions; leave it "
                "out, or choose learner=dueling_dqn"
            )

    def fits(self, view: CellView) -> str:
        """Return why this learner cannot learn in this cell, or ""."""
        if reason := super().fits(view):
            return reason
        prior = view.observations.parts.get(PRIOR)
        if prior is None or (prior.shape, prior.dtype) != ((view.actions.count,), "float32"):
            if isinstance(view["agent"], PriorGuided):
                return ""  # the agent's own `fits` says why it cannot add one
            return (
                f"it needs the part {PRIOR!r} of the observations, one probability for each of the "
                f"{view.actions.count} actions, which agent=prior_guided adds"
            )
        return ""

    def reading(self, observations: Observations) -> Reading:
        """Return how the network reads observations: all parts but the prior."""
        return super().reading(
            Observations(parts={name: part for name, part in observations.parts.items() if name != PRIOR})
        )

    def spawn(self, build: Build) -> Learner:
        from guidebench.methods.linvit.learner import PriorDqnLearner

        return PriorDqnLearner(self, build)


@register.chat("scripted_prior")
@dataclass(frozen=True)
class ScriptedPrior(Choosing):
    """Hand-written: weighs actions by a few rules for the sentences of Crafter and of Housekeep in a prompt."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that all weight is on one action drawn at random, by a hash of the question (choice: never)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes a
    millisecond)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written: rules for the sentences of Crafter and of Housekeep"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "hand-written: rules for the sentences of Crafter and of Housekeep"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return _elsewhere(view, self)

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.methods.linvit.scripted import Weigher

        return Weigher(self.error)


@register.chat("oracle_prior")
@dataclass(frozen=True)
class OraclePrior(Choosing):
    """Privileged: all weight on the action of the suite's own solver in the state whose sentences are asked about
    first."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that all weight is on one action drawn uniformly instead, independently per question (choice:
    never)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told the action of the suite's solver"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    follows_solver: ClassVar[bool] = True
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "privileged: it is told the action of the suite's solver"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return _elsewhere(view, self)

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that answers with the weights of the actions."""
        from guidebench.methods.linvit.oracle import KnownPrior

        actions = suite.spaces(task)[1].count
        assert actions is not None, "the agent refuses other actions"
        return KnownPrior(actions, self.error)


def _elsewhere(view: CellView, chat: ModelPart) -> str:
    """Return why this chat cannot be used, if the cell does not have it in the role `prior`; else ""."""
    is_needed = any(PRIOR in getattr(part, "needs", ()) for part in view.parts.values())
    return "" if is_needed and view[PRIOR] == chat else "it weighs actions, for agent=prior_guided alone"


SENTENCES = cite("text", "choice: the sentences are what the chat is told")
PICTURES = cite("grey_text", "ELLM, released code: pictures in grey, here with the sentences that the chat is told")
register.method("linvit")(
    Method(
        summary="a language model's probabilities of the actions regularise action values and lead exploration",
        agent="prior_guided",
        learner="prior_dqn",
        suite="crafter_ood",
        chat="transformers",
        on_suite={name: {"suite.observation": SENTENCES} for name in ("crafter", "crafter_ood", "housekeep")},
        on_profile={name: {"paper": {"suite.observation": PICTURES}} for name in ("crafter", "crafter_ood")},
        ablations={
            "lambda=0.1": {"learner.temperature": 0.1},
            "lambda=0.001": {"learner.temperature": 0.001},
            "smoothing=0.01": {"agent.smoothing": 0.01},
            "smoothing=0.5": {"agent.smoothing": 0.5},
            "prior=uniform": {"agent.smoothing": 1.0},
        },
        citation=CITATION,
    )
)
