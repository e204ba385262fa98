"""Prompts for a vision-language model: a comparison of two images, then a label for that comparison, or a choice.

The two stages and their content are RL-VLM-F's (its code, prompt.py), in our words. Both prompts are settings; names in
braces are placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guidebench.baselines.conversing import NOTHING, Misread, filled
from guidebench.harness.models.calls import Message

if TYPE_CHECKING:
    from guidebench.baselines.teachers.vlm import Vlm
    from guidebench.harness.interfaces import Array

CAPTIONS = ("Image 1:", "Image 2:")
"""Captions of the images, before the prompt."""
PROMPT = """\
These are two moments of different attempts at a task, each as the camera sees it.

The task: {goal}

Answer three questions, one after the other.
1. What can be seen in Image 1 of everything that matters for the task?
2. What can be seen in Image 2 of it?
3. In which of the two has more of the task been achieved, or do they not differ in that? Say what tells you.
"""
LABEL_PROMPT = """\
Two images of attempts at a task, Image 1 and Image 2, have been compared in writing.

The task: {goal}

The comparison:
{analysis}

By this comparison, which of the two images shows more of the task achieved? Reply with one line that holds a single \
digit: 1 for Image 1, 2 for Image 2, or 0 where the comparison sees no difference or is not sure.
"""
CHOICE_PROMPT = """\
You see one moment of each of two attempts at a task, as the camera sees it. Say in which of the two images more of \
the task has been achieved: the first, the second, or equal where they do not differ in that.

The task: {goal}

"""
"""The prompt after which, and the images, one of `VERDICTS` is chosen."""
CHOICE_CAPTIONS = ("First image: ", "\nSecond image: ")
"""Captions of the images after that prompt."""
PREFIX, VERDICTS = "More achieved:", ("equal", "first", "second")
"""Beginning of an answer that is chosen, and the answers that mean 0, 1 and 2."""
REMINDER = (
    "I cannot read a label in this reply: {fault}. Reply with one line that holds a single digit: 1 if Image 1 shows "
    "more of the task achieved, 2 if Image 2 does, 0 if there is no difference or you cannot tell."
)
PROMPT_NEEDS = ("goal",)
LABEL_NEEDS, LABEL_MAY = ("analysis",), ("goal",)


def comparison(settings: Vlm, goal: str) -> str:
    """Return the text below two images that asks for an analysis."""
    return filled(settings.prompt or PROMPT, {"goal": goal})


def label(settings: Vlm, goal: str, analysis: str) -> str:
    """Return the text that asks for the label of an analysis."""
    return filled(settings.label_prompt or LABEL_PROMPT, {"goal": goal, "analysis": analysis})


def choosing(goal: str, first: Array, second: Array) -> tuple[Message, Message]:
    """Return the message after which one of `VERDICTS` is chosen about two images uint8 [height, width, 3], and the
    same without content, which has `NOTHING` in place of the images."""
    text = filled(CHOICE_PROMPT, {"goal": goal})

    def message(one: Array | str, other: Array | str) -> Message:
        return Message("user", (text, CHOICE_CAPTIONS[0], one, CHOICE_CAPTIONS[1], other))

    return message(first, second), message(NOTHING, NOTHING)


def reminder(fault: Misread) -> str:
    return filled(REMINDER, {"fault": fault})
