"""The teacher `vlm`: a vision-language model compares a frame of each segment and labels which is nearer to the
goal, in words or by a choice.

The chat `scripted_vlm`, a hand-written substitute for such a model, lives beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.interfaces import Build, Dialogue, Suite
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.parts import CHOICE, CellView, Most, TeacherPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Transport, Unit

if TYPE_CHECKING:
    from guidebench.baselines.preference.teaching import Teacher
    from guidebench.harness.models.calls import Message, Usage

TOKENS = (1_100, 300)
"""Tokens read and written per pair in one order: two images of 256 pixels at 255 tokens each, our two prompts, and an
analysis of 290 tokens that is read once more (choice: counted by hand, since no paper prints it)."""
CHOICE_TOKENS = 620
"""Tokens read per choice in one order: two such images, and our prompt (choice: counted by hand)."""


@register.teacher("vlm")
@dataclass(frozen=True)
class Vlm(TeacherPart):
    """Asks a chat about two images, the last frame of each segment: first for an analysis, then for a label of that
    analysis (RL-VLM-F: analysis and labeling). With `chat.answer=choice` it asks for the label at once."""

    double_check: bool = False
    """Whether a preference counts only if it holds with the order of the images swapped (RL-SaLLM-F, equation 4;
    RL-VLM-F does not check)."""
    retries: Annotated[int, Bounds(0, 10)] = 1
    """Times that the model is told what is wrong with an unreadable label and asked again (choice: the paper
    discards)."""
    prompt: Annotated[str, Text] = ""
    """Prompt that asks for the analysis, shown below the two images; it contains {goal}; empty uses the built-in prompt
    (choice: RL-VLM-F's code, prompt.py, in our words)."""
    label_prompt: Annotated[str, Text] = ""
    """Prompt that asks for the label; it contains {analysis} and may contain {goal}; empty uses the built-in prompt
    (choice: RL-VLM-F's code, prompt.py, in our words)."""

    version: ClassVar[int] = 2
    needs: ClassVar[Mapping[str, str]] = {"chat": "chat"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"chat": "scripted_vlm"}}
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {"chat": (CHOICE,)}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("vlm.bib")

    def fits(self, view: CellView) -> str:
        """Return why it cannot teach in this cell, or ""."""
        from guidebench.baselines.conversing import misfit
        from guidebench.baselines.teachers.vlm import prompts

        if view["drawing"] is None:
            return "it shows frames, and the suite draws none"
        for name, text, needs, may in (
            ("prompt", self.prompt, prompts.PROMPT_NEEDS, ()),
            ("label_prompt", self.label_prompt, prompts.LABEL_NEEDS, prompts.LABEL_MAY),
        ):
            if text and (problem := misfit(text, needs, may)):
                return f"teacher.{name} {problem}"
        if (self.prompt or self.label_prompt) and _chooses(view, "chat"):
            return (
                "teacher.prompt and teacher.label_prompt are for answers in text; leave them out where "
                "chat.answer=choice"
            )
        return ""

    def expected_usage(self, view: CellView, role: str) -> Usage:
        """Return the approximate usage of a run, if every label is readable at once and every pair has a preference."""
        from guidebench.harness.models.calls import Usage

        comparisons = view["guide"].planned(view.parts) * (1 + self.double_check)
        if _chooses(view, role):
            return Usage(comparisons, CHOICE_TOKENS * comparisons, images=2 * comparisons)
        return Usage(2 * comparisons, TOKENS[0] * comparisons, TOKENS[1] * comparisons, images=2 * comparisons)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return bounds of an analysis of each pair in each order, and of the label that it leads to, or of a
        choice."""
        from guidebench.baselines.conversing import FAULT, NOTHING, Misread, filled, longest_instruction
        from guidebench.baselines.teachers.vlm import prompts

        comparisons = view["guide"].planned(view.parts) * (1 + self.double_check)
        goal = longest_instruction(view.suite, view.task)
        if _chooses(view, role):
            texts = filled(prompts.CHOICE_PROMPT, {"goal": goal}), *prompts.CHOICE_CAPTIONS, prompts.PREFIX, NOTHING
            listed = [*texts, NOTHING, *prompts.VERDICTS]
            return [Most(comparisons, prompt=sum(len(text.encode()) + 1 for text in listed), images=2)]
        analysis = "x" * int(getattr(view[role], "max_tokens", 0))
        compared, label = prompts.comparison(self, goal), prompts.label(self, goal, analysis)
        reminder = len(prompts.reminder(Misread("", "")).encode()) + FAULT
        return [
            Most(comparisons, prompt=sum(len(text.encode()) for text in (*prompts.CAPTIONS, compared)), images=2),
            Most(comparisons, 1 + self.retries, len(label.encode()), reminder),
        ]

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.vlm.teacher import VlmTeacher

        return VlmTeacher(self.double_check)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue about pairs of this task; the task is made once, to read its instruction."""
        from guidebench.baselines.teachers.vlm.dialogue import ImageDialogue

        return ImageDialogue(self, suite.make(task).instruction)


def _chooses(view: CellView, role: str) -> bool:
    """Return whether the chat in a role answers by choices."""
    return getattr(view[role], "answer_form", "") == CHOICE


@register.chat("scripted_vlm")
@dataclass(frozen=True)
class ScriptedVlm(Choosing):
    """Hand-written: of two frames, prefers the one whose coloured things lie closer together, and errs at the
    configured rate. It knows neither task nor goal and serves to check that everything runs."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.1
    """Probability that it takes the worse frame of a pair for the better one, in both orders (choice: as the chat
    `scripted`)."""
    equal: Annotated[float, Bounds(0, 1), Unit("of the frame's side")] = 0.002
    """Difference of the two distances below which it sees no difference (choice: a fifth of a pixel of 100)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: as the other chats)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes
    milliseconds)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written: it compares how far apart the coloured pixels of two frames lie"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("chat", "choice")
    title: ClassVar[str] = "hand-written: how far apart coloured things lie in two frames"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return "" if isinstance(view["teacher"], Vlm) else "it reads the prompts of teacher 'vlm' alone"

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.baselines.teachers.vlm.scripted import FrameComparer

        return FrameComparer(self.error, self.equal)
