"""The teacher `llm`: a language model reads pairs of segments as text, labels the better one and writes an improved
one.

The chat `scripted`, a hand-written substitute for a language model, lives beside the prompts that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.baselines.conversing import longest_instruction
from guidebench.harness.capabilities import HasSurroundings, coordinates, demonstrates
from guidebench.harness.interfaces import Build, Dialogue, Suite
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.parts import CHOICE, SCHEMA, CellView, Most, TeacherPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Transport, Unit

if TYPE_CHECKING:
    from guidebench.baselines.preference.teaching import Teacher
    from guidebench.harness.models.calls import Message, Usage

TOKENS = {"label": (1_660, 570), "check": (380, 275), "imagine": (995, 225)}
"""Tokens read and written per query, as differences between table 7's variants for 2,000 queries, of which not all are
checked or followed by an imagined segment (RL-SaLLM-F)."""


@register.teacher("llm")
@dataclass(frozen=True)
class Llm(TeacherPart):
    """Asks a chat which of two segments, written as coordinates, is better, in both orders, and for a segment that
    improves on the preferred one (RL-SaLLM-F, §5.2 and 5.3)."""

    double_check: bool = True
    """Whether a preference counts only if it holds with the order of the segments swapped (RL-SaLLM-F, equation 4)."""
    augment: Literal["llm", "decision_transformer", "none"] = "llm"
    """What imagines a segment better than the preferred one: `llm`, the same model, or `decision_transformer`, trained
    on the suite's solver (RL-SaLLM-F, equation 5 and app. B.7)."""
    expert_episodes: Annotated[int, Bounds(1), Unit("episodes")] = 30
    """Episodes of the solver, each up to its first success, that train the Decision Transformer (RL-SaLLM-F, app.
    B.7)."""
    expert_updates: Annotated[int, Bounds(1), Unit("gradient steps")] = 5_000
    """Gradient steps of the Decision Transformer before the first label is used (choice: half a minute)."""
    keep_sampled: bool = True
    """Whether the reward is trained on labels of sampled pairs; false leaves only the imagined pairs (RL-SaLLM-F, §6.3:
    "w/o LLM feedback")."""
    undecided: Literal["discard", "soft"] = "discard"
    """Treatment of a pair without a preference (equal or inconsistent): discarded, or trained with label 0.5
    (RL-SaLLM-F, remark 1)."""
    shots: Literal[0, 1] = 0
    """Number of example answers in the prompt (RL-SaLLM-F, app. C.3)."""
    retries: Annotated[int, Bounds(0, 10)] = 1
    """Maximum number of times that the model is told why its reply is unusable and asked again (choice: the paper
    discards such replies)."""
    tolerance: Annotated[float, Bounds(0), Unit("of a coordinate")] = 0.001
    """Largest deviation of an imagined segment's start from the start given in the prompt (choice: three decimals
    copied correctly)."""
    decimals: Annotated[int, Bounds(0, 9)] = 4
    """Decimals of coordinates written as text (RL-SaLLM-F, app. C.2)."""
    prompt: Annotated[str, Text] = ""
    """Prompt that asks which trajectory is better. It contains {trajectory_1} and {trajectory_2}, and may contain
    {goal}, {steps}, {meanings}, {surroundings} and {example}; empty uses the built-in prompt (choice: RL-SaLLM-F, app.
    C.1, in our words)."""
    imagine_prompt: Annotated[str, Text] = ""
    """Prompt that asks for a better trajectory. It contains {start} and {steps}, and may contain {preferred}, {goal}
    and {way}; empty uses the built-in prompt (choice: RL-SaLLM-F, app. C.1, in our words)."""

    version: ClassVar[int] = 2
    needs: ClassVar[Mapping[str, str]] = {"chat": "chat"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"chat": "scripted"}}
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {"chat": (SCHEMA, CHOICE)}
    citation: ClassVar[str | Path] = Path(__file__).with_name("llm.bib")

    def fits(self, view: CellView) -> str:
        """Return why it cannot teach in this cell, or ""."""
        from guidebench.baselines.conversing import misfit
        from guidebench.baselines.teachers.llm import prompts

        things = coordinates(view.suite, view.task)
        if not any(not thing.constant for thing in things):
            return "its observations cannot be told in words: the suite names no coordinates of anything that moves"
        checked = (
            ("prompt", self.prompt, prompts.PROMPT_NEEDS, prompts.PROMPT_MAY),
            ("imagine_prompt", self.imagine_prompt, prompts.IMAGINE_NEEDS, prompts.IMAGINE_MAY),
        )
        for name, text, needs, may in checked:
            if text and (problem := misfit(text, needs, may)):
                return f"teacher.{name} {problem}"
        if not self.keep_sampled and self.augment == "none":
            return "teacher.keep_sampled=false and teacher.augment=none leave nothing to learn from"
        if self.augment == "decision_transformer" and view["guide"].segment >= view.suite.horizon(view.task):
            return "teacher.augment=decision_transformer learns from stretches of an episode longer than guide.segment"
        if self.augment == "decision_transformer" and not demonstrates(view.suite, view.task):
            return "teacher.augment=decision_transformer learns from a solver, and the suite has none that demonstrates"
        if getattr(view["chat"], "answer_form", "") == SCHEMA and self.augment != "llm":
            return (
                "chat.answer=schema is for the trajectories of teacher.augment=llm, and a verdict is a digit after an "
                "analysis in prose; leave it out"
            )
        chooses = getattr(view["chat"], "answer_form", "") == CHOICE
        if chooses and (self.prompt or self.shots):
            return "teacher.prompt and teacher.shots are for answers in text; leave them out with chat.answer=choice"
        if chooses and self.augment == "llm":
            return (
                "teacher.augment=llm has the chat write a trajectory, which is no choice among candidates; set "
                "teacher.augment=none, or choose a chat that answers in text"
            )
        if self.shots and self.prompt and "{example}" not in self.prompt:
            return "teacher.shots=1 needs {example} in teacher.prompt"
        return ""

    @property
    def imagines(self) -> bool:
        """Whether a model or a Decision Transformer imagines better segments."""
        return self.augment != "none"

    def ready(self, view: CellView) -> None:
        """Raise UserError if the Decision Transformer would have too few solver episodes; on MetaWorld this check takes
        a minute."""
        if self.augment == "decision_transformer":
            from guidebench.baselines.teachers.llm.teacher import demonstrated

            demonstrated(view.suite, view.task, self.expert_episodes, view["guide"].segment)

    def expected_usage(self, view: CellView, role: str) -> Usage:
        """Return the approximate usage of a run, by the token counts of the paper; calls are counted as if every pair
        had a preference."""
        from guidebench.harness.models.calls import Usage

        queries = view["guide"].planned(view.parts)
        steps = ["label", *["check"] * self.double_check, *["imagine"] * (self.augment == "llm")]
        into, out = (queries * sum(TOKENS[step][side] for step in steps) for side in (0, 1))
        return Usage(len(steps) * queries, tokens_in=into, tokens_out=out)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return bounds of the conversations about a pair: a label, the same in the other order, and, in the first
        conversation, an imagined segment."""
        from guidebench.baselines.teachers.llm import bounds

        queries, suite, length = view["guide"].planned(view.parts), view.suite, int(view["guide"].segment)
        around = suite.surroundings(view.task) if isinstance(suite, HasSurroundings) else None
        task = coordinates(suite, view.task), longest_instruction(suite, view.task), around
        label = bounds.label(self, queries, *task, length)
        imagined = [bounds.imagined(self, label, *task, length, view[role])] if self.augment == "llm" else []
        return [label, *[label] * self.double_check, *imagined]

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.llm.teacher import LlmTeacher

        return LlmTeacher(self, build)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue about pairs of this task; the task is made once, to read its instruction."""
        from guidebench.baselines.teachers.llm.dialogue import PairDialogue

        around = suite.surroundings(task) if isinstance(suite, HasSurroundings) else None
        return PairDialogue(self, coordinates(suite, task), suite.make(task).instruction, around)


@register.chat("scripted")
@dataclass(frozen=True)
class Scripted(Choosing):
    """Reads the coordinates in a prompt of teacher `llm` and compares distances; it errs at configured rates."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.1
    """Probability that it misjudges a pair: it takes the worse trajectory for the better one in both orders, so that
    swapping the order cannot reveal it (choice)."""
    first_bias: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.2
    """Probability that it prefers the trajectory shown first, whatever its judgement, drawn anew for each order
    (choice: a tenth of its answers are wrong for this reason)."""
    noise: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that it answers the opposite of its judgement, drawn anew for each order: independent noise without
    bias, against which asking twice helps by definition (choice: none)."""
    equal: Annotated[float, Bounds(0), Unit("of a coordinate")] = 0.005
    """Difference of summed mean distances below which it answers 0, for equal (choice: half a centimetre)."""
    malformed: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that a reply lacks the requested format, drawn anew for each reply (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: as the other chats)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes a
    millisecond)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written for this task"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "hand-written for this task"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        if isinstance(view["teacher"], Llm):
            return ""
        return "it reads the prompts of teacher 'llm' alone; for teacher 'vlm' choose chat=scripted_vlm"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.baselines.teachers.llm.scripted import ScriptedReader

        return ScriptedReader(self)
