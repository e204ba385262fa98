"""ELLM's exploration reward: a language model suggests goals for a state, and achieving one is rewarded (Du et al.).

The method `ellm_exploration` learns from this reward alone. The method `ellm` begins from its policies and learns from
the task's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.text_vectors import ROLE as TEXTS
from guidebench.baselines.text_vectors import TextVector, spec
from guidebench.harness.capabilities import HasMeasures, NamesDeeds, Telling
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.logs import Column, Log, amount, count
from guidebench.harness.parts import SCHEMA, AskingPart, CellView, ModelPart, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit, check_settings, cite

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Message, Usage
    from guidebench.harness.models.oracle import Oracle

ROLE = "goals"
"""Role of the chat that suggests goals."""
CODE = "ELLM, released code"
STATES: Mapping[bool, tuple[float, float]] = {False: (1_952, 0.91), True: (5_560, 0.88)}
"""Setting `every_state` -> number of distinct states that 50,000 steps of random play ask about on Crafter, and the
exponent of its growth with the steps (`benchmarks/ellm_questions.py`)."""
LONGEST_STATE = 2_048
"""Bytes of the longest state in words (choice: Housekeep's, the longest of the suites)."""
TOKENS_IN, TOKENS_OUT = 400, 40
"""Tokens of a question for goals and of its answer, at four characters each."""
VOCABULARY = 50
"""Captions and goals that a run embeds on Crafter: its 23 deeds and some senseless goals."""
LOGS: Mapping[str, Log] = {
    "goals": Log(
        "the goals that were suggested for a state, asked about for the first time",
        {
            "state": Column(str, "the state in words, as the model was told it"),
            "goals": Column(str, "goals that are kept, separated by commas; at most 10,000 characters"),
            "kept": count("number of these goals"),
            "proposed": count("distinct goals of the answer"),
            "unknown": count("goals that are kept out because they are no verb and noun of the task"),
            "senseless": count("goals of the task's words that no step can achieve"),
            "cut": count("goals beyond the number that is kept"),
            "failed": Column(bool, "whether there was no valid answer, so that the state has no goals"),
        },
    ),
    "achieved": Log(
        "the goals that one episode of training achieved",
        {
            "episode": count("index of the episode in the run, from 0"),
            "goals": Column(
                str,
                "distinct goals in the order in which they were first achieved, separated by commas; "
                "at most 10,000 characters",
            ),
            "count": count("number of these goals"),
            "reward": amount("sum of the exploration reward, before its weight"),
            "length": count("environment steps of the episode"),
        },
    ),
}


@register.guide("ellm")
@dataclass(frozen=True)
class Ellm(AskingPart):
    """Rewards a step that achieves a goal which a language model suggested for the state before it (ELLM)."""

    weight: Annotated[float, Bounds(0)] = 1.0
    """Weight of the exploration reward, which lies in [0, 1] (ELLM, released code)."""
    task_weight: Annotated[float, Bounds(0)] = 0.0
    """Weight of the task's reward (ELLM, §4: none in pre-training)."""
    threshold: Annotated[float, Bounds(0, 0.9999)] = 0.99
    """Cosine T of caption and goal above which the goal is achieved; none exceeds 1, and a text without a vector has 0
    (ELLM, released code)."""
    once: bool = True
    """Whether a goal is rewarded only the first time that an episode achieves it: the novelty bonus (ELLM, released
    code)."""
    most: Annotated[int, Bounds(1, 256), Unit("goals")] = 10
    """Goals of an answer that are kept (choice: ELLM bounds the answer at 200 tokens alone)."""
    formed: bool = True
    """Whether goals that are no verb and noun of the task are kept out (choice: ELLM's code does so only where its
    threshold is 1; with another, such goals are compared too)."""
    every_state: bool = False
    """Whether goals are asked for in every state, as in ELLM, where the policy reads them; if false, only in states in
    which the step did something, since no other step can be rewarded (choice: the reward is the same)."""
    omit: tuple[str, ...] = ()
    """Beginnings of sentences of the state, such as `you feel`, that are left out of a question, so that more states
    share it (choice: none)."""
    brief: bool = False
    """Whether what stands in brackets in the state's sentences, such as distances, is left out of a question (choice:
    Crafter's sentences have no brackets)."""
    width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 384
    """Numbers in a vector of the text embedder (ELLM, released code: Sentence-BERT paraphrase-MiniLM-L3)."""

    version: ClassVar[int] = 2
    guidance: ClassVar[Mapping[str, str]] = {"guide/reward": "Reward for suggested goals in the last batch"}
    needs: ClassVar[Mapping[str, str]] = {ROLE: "chat", TEXTS: "embedder"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "scripted": {ROLE: "scripted", TEXTS: "scripted"}, "oracle": {ROLE: "oracle"},
    }  # fmt: skip
    widths: ClassVar[Mapping[str, str]] = {"width": TEXTS}
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {ROLE: (SCHEMA,)}
    max_tokens: ClassVar[Mapping[str, Any]] = {ROLE: cite(200, CODE)}
    reads_words: ClassVar[bool] = True
    each_goal: ClassVar[bool] = True
    shares: ClassVar[Mapping[str, type]] = {TEXTS: TextVector}
    consults: ClassVar[tuple[str, ...]] = (ROLE, TEXTS)
    logs: ClassVar[Mapping[str, Log]] = LOGS
    citation: ClassVar[str | Path] = Path(__file__).with_name("ellm.bib")

    def __post_init__(self) -> None:
        check_settings(self, "guide")
        if "" in self.omit:
            raise UserError("guide.omit has an empty beginning, which every sentence has; leave it out")

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if not isinstance(view.suite, NamesDeeds):
            return (
                "it rewards what the task's captions say, and the suite does not name the captions that can be goals "
                "(`deeds`); choose a suite that does, such as crafter_ood"
            )
        return ""

    def ready(self, view: CellView) -> None:
        """Raise UserError if the task does not describe its state in sentences and its steps by captions."""
        if not isinstance(view.suite.make(view.task), Telling):
            raise UserError(
                f"guide 'ellm' reads a state in sentences and a step's caption, and task {view.task!r} does not tell "
                f"both (`text` and `caption`); choose another task"
            )

    def expected_usage(self, view: CellView, role: str) -> Usage:
        """Return a rough estimate of a run's calls in a role, from the number of distinct states that random play
        encounters on Crafter."""
        from guidebench.harness.models.calls import Usage

        if role == TEXTS:
            return Usage(VOCABULARY)
        count, power = STATES[self.every_state]
        steps = view["training"].steps
        calls = min(steps, round(count * (steps / 50_000) ** power))
        return Usage(calls, tokens_in=TOKENS_IN * calls, tokens_out=TOKENS_OUT * calls)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return upper bounds of the calls in a role: a question for goals in each step, and one vector of each deed
        and each goal."""
        from guidebench.methods.ellm.dialogue import SCHEMA, prompt
        from guidebench.methods.ellm.goals import LONGEST, Words

        suite, steps = view.suite, int(view["training"].steps)
        assert isinstance(suite, NamesDeeds), "`fits` refuses other suites"
        deeds = suite.deeds(view.task)
        words = Words.of(deeds)
        if role == TEXTS:
            goals, formed = steps * self.most, len(words.verbs) * len(words.nouns) + len(words.alone)
            count = len(deeds) + (min(goals, formed) if self.formed else goals)
            return [Most(count, prompt=max(4 * LONGEST, *(len(deed.encode()) for deed in deeds)))]
        longest_prompt = prompt("x" * LONGEST_STATE, deeds, words, self.most)
        return [Most(steps, prompt=len(longest_prompt.encode()) + len(json.dumps(SCHEMA)), schema=True)]

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.ellm.guide import EllmGuide

        return EllmGuide(self, build)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that asks for the goals of a state, or the one that embeds a text."""
        if role == TEXTS:
            return TextVector()
        from guidebench.methods.ellm.dialogue import GoalsDialogue

        assert isinstance(suite, NamesDeeds), "`fits` refuses other suites"
        return GoalsDialogue(suite.deeds(task), self.most, self.formed)

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the array specification of a text's vector; None for the chat, which answers in JSON."""
        return spec(self.width) if role == TEXTS else None


@register.chat("scripted_goals")
@dataclass(frozen=True)
class ScriptedGoals(ModelPart):
    """Hand-written: suggests the goals that Crafter's rules allow with the things in sight and in hand that a prompt
    lists."""

    senseless: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.1
    """Probability that a goal is replaced by a verb with a noun to which it does not apply, by a hash of state and goal
    (choice)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; a part that waits for each answer ignores it (choice)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes a
    millisecond)."""

    version: ClassVar[int] = 3
    citation: ClassVar[str] = "% hand-written: Crafter's rules over the words of a prompt"
    backend: ClassVar[str] = "scripted"
    title: ClassVar[str] = "hand-written: Crafter's rules over the words of a prompt"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return _elsewhere(view, self)

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], dict[str, Any]]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.methods.ellm.scripted import PromptReader

        return PromptReader(self.senseless)


@register.chat("oracle_goals")
@dataclass(frozen=True)
class OracleGoals(ModelPart):
    """Privileged: suggests what the player could do next by the rules of the game and what it holds."""

    senseless: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that a goal is replaced by a verb with a noun to which it does not apply (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; a part that waits for each answer ignores it (choice)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told what the task measures"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told what can be achieved next"

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether the suite measures which of its deeds are possible next."""
        return not _unmeasured(suite, task)

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        if elsewhere := _elsewhere(view, self):
            return elsewhere
        if missing := _unmeasured(view.suite, view.task):
            return f"the suite does not measure whether {missing[0]!r} is possible next; choose another goals=…"
        return ""

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that answers a question of ELLM's guide, with the measures of the state."""
        from guidebench.methods.ellm.oracle import KnownGoals

        assert isinstance(suite, HasMeasures) and isinstance(suite, NamesDeeds), "`fits` refuses other suites"
        return KnownGoals(tuple(suite.measures(task)), suite.deeds(task), self.senseless)


def _unmeasured(suite: Any, task: str) -> list[str]:
    """Return the deeds of a task without a measure of whether they are possible next."""
    measures = suite.measures(task) if isinstance(suite, HasMeasures) else {}
    deeds = suite.deeds(task) if isinstance(suite, NamesDeeds) else ()
    return [deed for deed in deeds if deed not in measures]


def _elsewhere(view: CellView, chat: ModelPart) -> str:
    """Return why this chat cannot be used, if the cell does not have it in the role `goals`; else ""."""
    is_needed = any(ROLE in getattr(part, "needs", ()) for part in view.parts.values())
    return "" if is_needed and view[ROLE] == chat else "it suggests goals in words, for ELLM's guide alone"


SERVED = "choice: ELLM's code-davinci-002 is served no more; small, free and open"
register.method("ellm_exploration")(
    Method(
        summary="without the task's reward: a language model suggests goals, and achieving one is rewarded (ELLM); "
        "meant as a pre-training stage",
        guide="ellm",
        suite="crafter_ood",
        defaults={
            "goals.openai.model": cite("qwen2_5_vl_7b", SERVED),
            "goals.transformers.model": cite("qwen2_5_vl_7b", SERVED),
        },
        ablations={
            "novelty=off": {"guide.once": False},
            "threshold=0.9": {"guide.threshold": 0.9},
            "goals=any": {"guide.formed": False},
        },
        citation=Ellm.citation,
    )
)
register.method("ellm")(
    Method(
        summary="a stage of ellm_exploration, then the task's own reward (ELLM)",
        pretraining="ellm_exploration",
        suite="crafter_ood",
        defaults={"learner.dueling_dqn.lr": cite(2e-5, f"{CODE}: fine-tuning")},
        ablations={
            "pretraining=none": {"pretraining": "none"},
            "novelty=off": {"pretraining.guide.once": False},
            "threshold=0.9": {"pretraining.guide.threshold": 0.9},
        },
        citation=Ellm.citation,
    )
)
