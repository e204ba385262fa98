"""Prompts for a vision-language model: a comparison of two images, then a label for that comparison.

The two stages and their content are RL-VLM-F's (its code, prompt.py), in our words. Both prompts are settings; names in
braces are placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guidebench.baselines.conversing import Misread, filled

if TYPE_CHECKING:
    from guidebench.baselines.teachers.vlm import Vlm

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


def reminder(fault: Misread) -> str:
    return filled(REMINDER, {"fault": fault})
