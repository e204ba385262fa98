"""The teacher `llm`: a language model reads pairs of segments as text, says which is better and writes a better one.

The chat `scripted`, which stands in for one, lives beside the prompts that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.capabilities import Demonstrates, HasSurroundings, coordinates
from guidebench.harness.interfaces import Build, Dialogue, Suite
from guidebench.harness.parts import ModelPart, TeacherPart, There
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Transport, Unit

if TYPE_CHECKING:
    from guidebench.baselines.preference.teaching import Teacher
    from guidebench.harness.models.calls import Message, Usage

TOKENS = {"label": (1_660, 570), "check": (380, 275), "imagine": (995, 225)}
"""Read and written for a query: differences of table 7's variants, for 2,000 queries, of which not all are checked or
imagined upon (RL-SaLLM-F)."""


@register.teacher("llm")
@dataclass(frozen=True)
class Llm(TeacherPart):
    """Asks a chat about pairs of segments told as coordinates, in both orders, and for a segment that betters the
    preferred one (RL-SaLLM-F, §5.2 and 5.3)."""

    double_check: bool = True
    """Whether a preference has to hold with the order swapped (RL-SaLLM-F, equation 4)."""
    augment: Literal["llm", "decision_transformer", "none"] = "llm"
    """Who imagines a segment that is better than the preferred one: the model that is asked, or a Decision Transformer
    that learnt from the suite's solver (RL-SaLLM-F, equation 5 and app. B.7)."""
    expert_episodes: Annotated[int, Bounds(1), Unit("episodes")] = 30
    """Of the solver, each up to its first success, for the Decision Transformer (RL-SaLLM-F, app. B.7)."""
    expert_updates: Annotated[int, Bounds(1), Unit("gradient steps")] = 5_000
    """Of the Decision Transformer, before the first label is used (choice: half a minute)."""
    keep_sampled: bool = True
    """Whether labels of sampled pairs are learnt from; false leaves the imagined pairs alone (RL-SaLLM-F, §6.3: "w/o
    LLM feedback")."""
    undecided: Literal["discard", "soft"] = "discard"
    """What becomes of a pair without a preference, equal or inconsistent: discarded, or learnt with label 0.5
    (RL-SaLLM-F, remark 1)."""
    shots: Literal[0, 1] = 0
    """Answers that the prompt gives as an example (RL-SaLLM-F, app. C.3)."""
    retries: Annotated[int, Bounds(0, 10)] = 1
    """Times that the model is told what is wrong with a reply that cannot be used (choice: the paper discards)."""
    tolerance: Annotated[float, Bounds(0), Unit("of a coordinate")] = 0.001
    """How far an imagined segment may begin from where it was told to (choice: three decimals copied right)."""
    decimals: Annotated[int, Bounds(0, 9)] = 4
    """Of coordinates as text (RL-SaLLM-F, app. C.2)."""
    prompt: Annotated[str, Text] = ""
    """Asks which trajectory is better, with {trajectory_1} and {trajectory_2}, and {goal}, {steps}, {meanings},
    {surroundings}, {example} if wanted; empty is our own (choice: RL-SaLLM-F, app. C.1, in our words)."""
    imagine_prompt: Annotated[str, Text] = ""
    """Asks for a better trajectory, with {start} and {steps}, and {preferred}, {goal}, {way} if wanted; empty is our
    own (choice: RL-SaLLM-F, app. C.1, in our words)."""

    version: ClassVar[int] = 2
    needs: ClassVar[Mapping[str, str]] = {"chat": "chat"}
    citation: ClassVar[str | Path] = Path(__file__).with_name("llm.bib")

    def fits(self, there: There) -> str:
        """Why it cannot teach there, or ""."""
        from guidebench.baselines.preference.conversing import misfit
        from guidebench.baselines.teachers.llm import prompts

        things = coordinates(there.suite, there.task)
        if not any(not thing.constant for thing in things):
            return "its observations cannot be told in words: the suite names no coordinates of anything that moves"
        checked = (
            ("prompt", self.prompt, prompts.PROMPT_NEEDS, prompts.PROMPT_MAY),
            ("imagine_prompt", self.imagine_prompt, prompts.IMAGINE_NEEDS, prompts.IMAGINE_MAY),
        )
        for name, text, needs, may in checked:
            if text and (told := misfit(text, needs, may)):
                return f"teacher.{name} {told}"
        if not self.keep_sampled and self.augment == "none":
            return "teacher.keep_sampled=false and teacher.augment=none leave nothing to learn from"
        if self.augment == "decision_transformer" and there["guide"].segment >= there.suite.horizon(there.task):
            return "teacher.augment=decision_transformer learns from stretches of an episode longer than guide.segment"
        if self.augment == "decision_transformer" and not isinstance(there.suite, Demonstrates):
            return "teacher.augment=decision_transformer learns from a solver, and the suite has none that demonstrates"
        if self.shots and self.prompt and "{example}" not in self.prompt:
            return "teacher.shots=1 needs {example} in teacher.prompt"
        return ""

    @property
    def imagines(self) -> bool:
        """Whether a model or a Decision Transformer makes up better segments."""
        return self.augment != "none"

    def ready(self, there: There) -> None:
        """UserError where the Decision Transformer would have too few episodes of the solver to learn from, which
        takes a minute to find out on MetaWorld."""
        if self.augment == "decision_transformer":
            from guidebench.baselines.teachers.llm.teacher import demonstrated

            demonstrated(there.suite, there.task, self.expert_episodes, there["guide"].segment)

    def asked(self, parts: Mapping[str, Any], role: str) -> Usage:
        """About what a run asks, by what it took the paper's own; calls if every pair has a preference."""
        from guidebench.harness.models.calls import Usage

        queries = parts["guide"].planned(parts)
        said = ["label", *["check"] * self.double_check, *["imagine"] * (self.augment == "llm")]
        into, out = (queries * sum(TOKENS[each][side] for each in said) for side in (0, 1))
        return Usage(len(said) * queries, tokens_in=into, tokens_out=out)

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.llm.teacher import LlmTeacher

        return LlmTeacher(self, build)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """About pairs of this task; it is made once, to learn its instruction."""
        from guidebench.baselines.teachers.llm.dialogue import PairDialogue

        around = suite.surroundings(task) if isinstance(suite, HasSurroundings) else None
        return PairDialogue(self, coordinates(suite, task), suite.make(task).instruction, around)


@register.chat("scripted")
@dataclass(frozen=True)
class Scripted(ModelPart):
    """Reads the coordinates in a prompt of teacher `llm` and reasons about distances; errs at stated rates."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.1
    """How often it misjudges a pair: it takes the worse trajectory for the better one, in whichever order the two are
    shown, so that asking again with the order swapped cannot tell (choice)."""
    first_bias: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.2
    """How often the order decides: it prefers the trajectory shown first, whatever it thinks of them, drawn anew for
    each order (choice: a tenth of its answers wrong on that account)."""
    noise: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """How often it says the opposite of what it thinks, drawn anew for each order: noise that is independent and
    favours none, against which asking twice helps by definition (choice: none of it)."""
    equal: Annotated[float, Bounds(0), Unit("of a coordinate")] = 0.005
    """Difference of summed mean distances below which it sees none, and says 0 (choice: half a centimetre)."""
    malformed: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """How often a reply lacks the form that was asked for, drawn anew for each reply (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the other chats)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """How long one answer may take before its process is restarted (choice: ample; it takes a millisecond)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written for this task"
    backend: ClassVar[str] = "scripted"
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "hand-written for this task"

    def fits(self, there: There) -> str:
        """Why this chat cannot answer there, or ""."""
        return "" if isinstance(there["teacher"], Llm) else "it reads the prompts of teacher 'llm' alone"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """What answers: it is told neither suite nor task, and sees the words of the conversation alone."""
        from guidebench.baselines.teachers.llm.scripted import ScriptedReader

        return ScriptedReader(self)
